//! PyTorch's own operators.

use ::torch::registration;
use cudnn_abi::*;

/// Puts the library's kernels in the place of PyTorch's own, as the first cudnnCreate does, if the process has loaded
/// libtorch and UCUDNN_TORCH is not off. For programs that do not preload the library: they load it, and call this once
/// libtorch is there. A second call changes nothing.
///
/// Returns CUDNN_STATUS_SUCCESS if the kernels are in place, and CUDNN_STATUS_NOT_SUPPORTED if not; the log says why
/// (UCUDNN_LOG=info).
#[unsafe(no_mangle)]
pub extern "C" fn ucudnnReplaceTorchOperators() -> cudnnStatus_t {
    registration::register();
    if registration::is_done() { CUDNN_STATUS_SUCCESS } else { CUDNN_STATUS_NOT_SUPPORTED }
}
