//! Batch normalization: the descriptor of parameters, and the sizes of temporary memory.

use super::batch_norm::{Fused, derived, groups, is_channels_last, reserve_bytes, shape, workspace_bytes};
use super::boundary::{context, refer, refer_mut, write};
use super::entries::*;
use crate::descriptor::TensorDescriptor;
use crate::error::{Result, require, support};
use cudnn_abi::*;

/// Sets the descriptor of scale, bias, means and variances for `x_descriptor` of any rank: packed, [1, c, 1, 1] in
/// spatial modes and [1, c, h, w] per activation; of float for half and bfloat16, otherwise of x's type.
impl Answer for cudnnDeriveBNTensorDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, x_descriptor, mode } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the two may be one.
        unsafe {
            let parameters = derived(refer::<TensorDescriptor>(x_descriptor)?, mode)?;
            let descriptor = refer_mut::<TensorDescriptor>(descriptor)?;
            descriptor.set_packed(CUDNN_TENSOR_NCHW, parameters.data_type(), parameters.dims())
        }
    }
}

/// Bytes of workspace for training. `z_descriptor` is read for CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, `activation` for
/// that and CUDNN_BATCHNORM_OPS_BN_ACTIVATION. As in cuDNN, other modes than CUDNN_BATCHNORM_SPATIAL_PERSISTENT get a
/// size of 0 for operations that they then refuse.
impl Answer for cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize {
    unsafe fn answer(self) -> Result {
        let Self { handle, mode, ops, x_descriptor, z_descriptor, y_descriptor, parameters, activation, size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let (x, y) = (refer::<TensorDescriptor>(x_descriptor)?, refer::<TensorDescriptor>(y_descriptor)?);
            let fused = Fused::new(ops, activation, z_descriptor)?;
            write(size, workspace(mode, &[x, y], refer(parameters)?, fused.as_ref(), true)?)
        }
    }
}

/// Bytes of workspace for the gradient. `y_descriptor` is not read. `dz_descriptor` and `activation` are read as
/// `z_descriptor` and `activation` are by `cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize`.
impl Answer for cudnnGetBatchNormalizationBackwardExWorkspaceSize {
    unsafe fn answer(self) -> Result {
        let Self { mode, ops, x_descriptor, dy_descriptor, dz_descriptor, dx_descriptor, activation, .. } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            let tensors = [refer::<TensorDescriptor>(x_descriptor)?, refer(dy_descriptor)?, refer(dx_descriptor)?];
            let fused = Fused::new(ops, activation, dz_descriptor)?;
            write(self.size, workspace(mode, &tensors, refer(self.parameters)?, fused.as_ref(), false)?)
        }
    }
}

fn workspace(
    mode: cudnnBatchNormMode_t,
    tensors: &[&TensorDescriptor],
    parameters: &TensorDescriptor,
    fused: Option<&Fused>,
    forward: bool,
) -> Result<usize> {
    let fused = fused.filter(|_| mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT);
    if let Some(fused) = fused {
        fused.check_layouts(mode, tensors)?;
    }
    shape(mode, tensors, parameters)?;
    if let Some(fused) = fused {
        fused.check_operations(tensors[0])?;
        if forward {
            fused.check_channels(tensors[0])?;
        }
    }
    Ok(workspace_bytes(mode, tensors[0]))
}

/// Bytes that keep the ReLU's choices, one bit for each element of x, from the forward to the backward function: 0
/// except for CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION in CUDNN_BATCHNORM_SPATIAL_PERSISTENT mode, which takes packed NHWC
/// alone.
impl Answer for cudnnGetBatchNormalizationTrainingExReserveSpaceSize {
    unsafe fn answer(self) -> Result {
        let Self { handle, mode, ops, activation, x_descriptor, size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let x = refer::<TensorDescriptor>(x_descriptor)?;
            groups(mode)?;
            require(matches!(x.dims().len(), 4 | 5), "tensors have four or five dimensions")?;
            let adds = Fused::new(ops, activation, x_descriptor)?.is_some_and(|fused| fused.sum.is_some());
            let bytes = match adds && mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT {
                true => {
                    support(is_channels_last(x), "operations are fused on packed NHWC")?;
                    reserve_bytes(&shape(mode, &[x], &derived(x, mode)?)?)
                }
                false => 0,
            };
            write(size, bytes)
        }
    }
}
