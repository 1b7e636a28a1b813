//! PyTorch's own operators. A program's first handle shows that it computes on a device: then libtorch, if the process has
//! it, gets our kernels.

use cudnn_abi::*;

use super::overrides::Answer;
use cudnn::arguments::{CreateHandle, Promised};

impl Answer for Promised<CreateHandle> {
    fn answer(&self) -> cudnnStatus_t {
        let status = self.by_cudnn();
        ::torch::registration::register();
        status
    }
}
