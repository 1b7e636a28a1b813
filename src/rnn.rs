//! The answers to calls of the RNN API, which run inference and training on our own kernels.

use cudnn_abi::*;

use super::boundary::guarded;
use super::overrides::Answer;
use cudnn::arguments::{GetRnnTempSpaceSizes, Promised, RnnBackwardData, RnnBackwardWeights, RnnForward};
use recurrent::inference::forward::workspace_size;
use recurrent::network::call::Call;
use recurrent::training::calls::{after_a_panic, concerns_us, raise_sizes, run_backward_data, run_backward_weights};

/// A workspace and a reserve are also large enough for our kernels. The answer depends on the arguments alone.
impl Answer for Promised<GetRnnTempSpaceSizes> {
    fn answer(&self) -> cudnnStatus_t {
        let GetRnnTempSpaceSizes { handle, descriptor, mode, x_descriptor, workspace_size: to, reserve_size } = **self;
        let status = self.by_cudnn();
        if status != CUDNN_STATUS_SUCCESS {
            return status;
        }
        let ours = || {
            // SAFETY: cuDNN has accepted the arguments and written each size that is not null.
            unsafe {
                let (workspace, reserve) = (to.as_mut(), reserve_size.as_mut());
                match mode {
                    CUDNN_FWD_MODE_TRAINING => raise_sizes(handle, descriptor, x_descriptor, workspace, reserve),
                    CUDNN_FWD_MODE_INFERENCE => {
                        let needed = workspace_size(descriptor, x_descriptor);
                        workspace.into_iter().for_each(|workspace| *workspace = needed.max(*workspace));
                    }
                    _ => {}
                }
            }
            status
        };
        guarded(ours, || status)
    }
}

/// Inference runs on our own kernels where they are faster, and training where we own the reserve.
impl Answer for Promised<RnnForward> {
    fn answer(&self) -> cudnnStatus_t {
        // After a panic the second run computes every result again.
        let by_cudnn = || self.by_cudnn();
        let trains = self.mode == CUDNN_FWD_MODE_TRAINING;
        guarded(|| Call(*self).run(), || if trains { after_a_panic(by_cudnn) } else { by_cudnn() })
    }
}

/// It runs on our own kernels where we own the reserve.
impl Answer for Promised<RnnBackwardData> {
    fn answer(&self) -> cudnnStatus_t {
        if !concerns_us() {
            return self.by_cudnn();
        }
        guarded(|| run_backward_data(self), || after_a_panic(|| self.by_cudnn()))
    }
}

/// It runs on our own kernels where we own the reserve.
impl Answer for Promised<RnnBackwardWeights> {
    fn answer(&self) -> cudnnStatus_t {
        if !concerns_us() {
            return self.by_cudnn();
        }
        guarded(|| run_backward_weights(self), || after_a_panic(|| self.by_cudnn()))
    }
}
