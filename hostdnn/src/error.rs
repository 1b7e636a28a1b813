//! Why a call fails: cuDNN's status, and a sentence for `cudnnGetLastErrorString`.

use cudnn_abi::*;
use std::borrow::Cow;

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The status that the function returns.
    pub status: cudnnStatus_t,
    /// The check that failed.
    pub reason: Cow<'static, str>,
}

/// The outcome of a call.
pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// An error of any status.
    pub fn new(status: cudnnStatus_t, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { status, reason: reason.into() }
    }
}

/// CUDNN_STATUS_BAD_PARAM unless `holds`; `rule` says what must hold.
pub fn require(holds: bool, rule: &'static str) -> Result {
    check(holds, CUDNN_STATUS_BAD_PARAM, rule)
}

/// CUDNN_STATUS_NOT_SUPPORTED unless `holds`; `rule` names the supported cases.
pub fn support(holds: bool, rule: &'static str) -> Result {
    check(holds, CUDNN_STATUS_NOT_SUPPORTED, rule)
}

fn check(holds: bool, status: cudnnStatus_t, rule: &'static str) -> Result {
    if holds { Ok(()) } else { Err(Error::new(status, format!("violated: {rule}"))) }
}
