//! A device's stream, and the time between two marks in it.

use std::ffi::c_void;

/// A stream of the device: a CUDA stream, or an opaque value on the host, where calls finish before they return.
pub type Stream = *mut c_void;

/// The time between two marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Elapsed {
    /// Milliseconds.
    Ready(f64),
    /// The later mark has not been reached yet.
    Pending,
    /// The time is unknown.
    Lost,
}
