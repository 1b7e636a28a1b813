//! Descriptors of activations and of operations on two tensors.

use super::boundary::{create, destroy, refer, refer_mut, write, write_all};
use crate::descriptor::{ActivationDescriptor, OpTensorDescriptor};
use crate::error::require;
use cudnn_abi::*;
use std::ffi::c_double;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateActivationDescriptor(
    activationDesc: *mut cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateActivationDescriptor, { unsafe { create::<ActivationDescriptor>(activationDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyActivationDescriptor, { unsafe { destroy::<ActivationDescriptor>(activationDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
    mode: cudnnActivationMode_t,
    reluNanOpt: cudnnNanPropagation_t,
    coef: c_double,
) -> cudnnStatus_t {
    export!(cudnnSetActivationDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ActivationDescriptor>(activationDesc) }?.set(mode, reluNanOpt, coef)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetActivationDescriptor(
    activationDesc: cudnnActivationDescriptor_t,
    mode: *mut cudnnActivationMode_t,
    reluNanOpt: *mut cudnnNanPropagation_t,
    coef: *mut c_double,
) -> cudnnStatus_t {
    export!(cudnnGetActivationDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let activation = refer::<ActivationDescriptor>(activationDesc)?;
            require(!coef.is_null(), "pointers to results are not null")?;
            write_all([mode, reluNanOpt], [activation.mode, activation.nan_propagation])?;
            write(coef, activation.coef)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t,
    swish_beta: c_double,
) -> cudnnStatus_t {
    export!(cudnnSetActivationDescriptorSwishBeta, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ActivationDescriptor>(activationDesc) }?.swish_beta = swish_beta;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetActivationDescriptorSwishBeta(
    activationDesc: cudnnActivationDescriptor_t,
    swish_beta: *mut c_double,
) -> cudnnStatus_t {
    export!(cudnnGetActivationDescriptorSwishBeta, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(swish_beta, refer::<ActivationDescriptor>(activationDesc)?.swish_beta) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateOpTensorDescriptor(opTensorDesc: *mut cudnnOpTensorDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateOpTensorDescriptor, { unsafe { create::<OpTensorDescriptor>(opTensorDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyOpTensorDescriptor(opTensorDesc: cudnnOpTensorDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyOpTensorDescriptor, { unsafe { destroy::<OpTensorDescriptor>(opTensorDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetOpTensorDescriptor(
    opTensorDesc: cudnnOpTensorDescriptor_t,
    opTensorOp: cudnnOpTensorOp_t,
    opTensorCompType: cudnnDataType_t,
    opTensorNanOpt: cudnnNanPropagation_t,
) -> cudnnStatus_t {
    export!(cudnnSetOpTensorDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let operation = unsafe { refer_mut::<OpTensorDescriptor>(opTensorDesc) }?;
        operation.set(opTensorOp, opTensorCompType, opTensorNanOpt)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetOpTensorDescriptor(
    opTensorDesc: cudnnOpTensorDescriptor_t,
    opTensorOp: *mut cudnnOpTensorOp_t,
    opTensorCompType: *mut cudnnDataType_t,
    opTensorNanOpt: *mut cudnnNanPropagation_t,
) -> cudnnStatus_t {
    export!(cudnnGetOpTensorDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let &OpTensorDescriptor { op, compute_type, nan_propagation } = refer(opTensorDesc)?;
            write_all([opTensorOp, opTensorCompType, opTensorNanOpt], [op, compute_type, nan_propagation])
        }
    })
}
