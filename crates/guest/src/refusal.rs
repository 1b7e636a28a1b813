//! The refusals of a C API's functions, with their reasons.

use std::ffi::c_int;
use std::fmt::Display;

/// A refusal. Nothing was run or written.
#[derive(Debug)]
pub struct Refusal {
    /// The function's status, a `cudnnStatus_t`.
    pub status: c_int,
    /// The mistake, and the accepted values.
    pub why: String,
}

impl Refusal {
    /// A refusal with this status and reason.
    pub fn new(status: c_int, why: impl Display) -> Self {
        Self { status, why: why.to_string() }
    }
}
