//! Descriptors of activations and of operations on two tensors.

use super::boundary::{refer, refer_mut, write, write_all};
use super::entries::*;
use crate::descriptor::{ActivationDescriptor, OpTensorDescriptor};
use crate::error::{Result, require};

impl Answer for cudnnSetActivationDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, mode, propagate_nan, coefficient } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ActivationDescriptor>(descriptor) }?.set(mode, propagate_nan, coefficient)
    }
}

impl Answer for cudnnGetActivationDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, mode, propagate_nan, coefficient } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let activation = refer::<ActivationDescriptor>(descriptor)?;
            require(!coefficient.is_null(), "pointers to results are not null")?;
            write_all([mode, propagate_nan], [activation.mode, activation.nan_propagation])?;
            write(coefficient, activation.coef)
        }
    }
}

impl Answer for cudnnSetActivationDescriptorSwishBeta {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, swish_beta } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<ActivationDescriptor>(descriptor) }?.swish_beta = swish_beta;
        Ok(())
    }
}

impl Answer for cudnnGetActivationDescriptorSwishBeta {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, swish_beta } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(swish_beta, refer::<ActivationDescriptor>(descriptor)?.swish_beta) }
    }
}

impl Answer for cudnnSetOpTensorDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, operation, compute_type, propagate_nan } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let descriptor = unsafe { refer_mut::<OpTensorDescriptor>(descriptor) }?;
        descriptor.set(operation, compute_type, propagate_nan)
    }
}

impl Answer for cudnnGetOpTensorDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, operation, compute_type, propagate_nan } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let set = refer::<OpTensorDescriptor>(descriptor)?;
            write_all([operation, compute_type, propagate_nan], [set.op, set.compute_type, set.nan_propagation])
        }
    }
}
