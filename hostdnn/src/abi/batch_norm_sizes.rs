//! Batch normalization: the descriptor of parameters, and the sizes of temporary memory.

use super::batch_norm::{Fused, derived, groups, is_channels_last, reserve_bytes, shape, workspace_bytes};
use super::boundary::{context, refer, refer_mut, write};
use crate::descriptor::TensorDescriptor;
use crate::error::{Result, require, support};
use cudnn_abi::*;

/// Sets the descriptor of scale, bias, means and variances for `xDesc` of any rank: packed, [1, c, 1, 1] in spatial
/// modes and [1, c, h, w] per activation; of float for half and bfloat16, otherwise of x's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDeriveBNTensorDescriptor(
    derivedBnDesc: cudnnTensorDescriptor_t,
    xDesc: cudnnTensorDescriptor_t,
    mode: cudnnBatchNormMode_t,
) -> cudnnStatus_t {
    export!(cudnnDeriveBNTensorDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the two may be one.
        unsafe {
            let parameters = derived(refer::<TensorDescriptor>(xDesc)?, mode)?;
            let descriptor = refer_mut::<TensorDescriptor>(derivedBnDesc)?;
            descriptor.set_packed(CUDNN_TENSOR_NCHW, parameters.data_type(), parameters.dims())
        }
    })
}

/// Bytes of workspace for training. `zDesc` is read for CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, `activationDesc` for
/// that and CUDNN_BATCHNORM_OPS_BN_ACTIVATION. As in cuDNN, other modes than CUDNN_BATCHNORM_SPATIAL_PERSISTENT get a
/// size of 0 for operations that they then refuse.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    bnOps: cudnnBatchNormOps_t,
    xDesc: cudnnTensorDescriptor_t,
    zDesc: cudnnTensorDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    activationDesc: cudnnActivationDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let (x, y) = (refer::<TensorDescriptor>(xDesc)?, refer::<TensorDescriptor>(yDesc)?);
            let fused = Fused::new(bnOps, activationDesc, zDesc)?;
            let size = workspace(mode, &[x, y], refer(bnScaleBiasMeanVarDesc)?, fused.as_ref(), true)?;
            write(sizeInBytes, size)
        }
    })
}

/// Bytes of workspace for the gradient. `yDesc` is not read. `dzDesc` and `activationDesc` are read as `zDesc` and
/// `activationDesc` are by `cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    bnOps: cudnnBatchNormOps_t,
    xDesc: cudnnTensorDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    dzDesc: cudnnTensorDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    dBnScaleBiasDesc: cudnnTensorDescriptor_t,
    activationDesc: cudnnActivationDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let _ = yDesc;
    export!(cudnnGetBatchNormalizationBackwardExWorkspaceSize, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let tensors = [refer::<TensorDescriptor>(xDesc)?, refer(dyDesc)?, refer(dxDesc)?];
            let fused = Fused::new(bnOps, activationDesc, dzDesc)?;
            write(sizeInBytes, workspace(mode, &tensors, refer(dBnScaleBiasDesc)?, fused.as_ref(), false)?)
        }
    })
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    bnOps: cudnnBatchNormOps_t,
    activationDesc: cudnnActivationDescriptor_t,
    xDesc: cudnnTensorDescriptor_t,
    sizeInBytes: *mut usize,
) -> cudnnStatus_t {
    export!(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let x = refer::<TensorDescriptor>(xDesc)?;
            groups(mode)?;
            require(matches!(x.dims().len(), 4 | 5), "tensors have four or five dimensions")?;
            let adds = Fused::new(bnOps, activationDesc, xDesc)?.is_some_and(|fused| fused.sum.is_some());
            let size = match adds && mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT {
                true => {
                    support(is_channels_last(x), "operations are fused on packed NHWC")?;
                    reserve_bytes(&shape(mode, &[x], &derived(x, mode)?)?)
                }
                false => 0,
            };
            write(sizeInBytes, size)
        }
    })
}
