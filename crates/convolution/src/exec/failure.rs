//! How running a plan ends early.

use cudnn_abi::*;

/// A plan that stopped before its end.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The status that cuDNN returned.
    pub status: cudnnStatus_t,
    /// Earlier micro-batches have modified a result that the call adds to, so rerunning the whole convolution would be
    /// wrong.
    pub result_modified: bool,
}

/// The plan stopped before its first micro-batch.
impl From<cudnnStatus_t> for Failure {
    fn from(status: cudnnStatus_t) -> Self {
        Self { status, result_modified: false }
    }
}
