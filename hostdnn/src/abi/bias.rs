//! The bias: its gradient, and the last steps of `cudnnConvolutionBiasActivationForward`.

use super::boundary::{context, refer, scale};
use super::entries::*;
use super::pointwise::{Fit, data, same_type, walk, with_type};
use crate::descriptor::{ActivationDescriptor, TensorDescriptor};
use crate::elementwise::{Data, Walk, activate, combine, sum};
use crate::error::{Error, Result, require, support};
use cudnn_abi::*;
use half::{bf16, f16};
use hostdnn_arithmetic::tasks;
use std::ffi::c_void;

/// `db = alpha·(sum of dy over all but the channels) + beta·db`.
impl Answer for cudnnConvolutionBackwardBias {
    unsafe fn answer(self) -> Result {
        let Self { handle, alpha, dy_descriptor, dy, beta, db_descriptor, db } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let (from, to) = (refer::<TensorDescriptor>(dy_descriptor)?, refer::<TensorDescriptor>(db_descriptor)?);
            same_type(&[from, to])?;
            check_bias(to, from)?;
            support(!from.is_reversed() && to.is_injective(), "strides are not negative")?;
            let (alpha, beta) = (scale(alpha, to.data_type())?, scale(beta, to.data_type())?);
            let extents = from.dims().iter().enumerate().filter(|&(axis, _)| axis != 1);
            let (dims, strides): (Vec<usize>, Vec<[isize; 1]>) =
                extents.map(|(axis, &dim)| (dim as usize, [from.strides()[axis] as isize])).unzip();
            let image = Walk::new(&dims, &strides);
            let channel_step = |tensor: &TensorDescriptor| tensor.strides()[1] as isize;
            let (from_step, to_step) = (channel_step(from), channel_step(to));
            with_type!(to.data_type(), T => {
                let (dy, db) = (data::<T>(dy)?, data::<T>(db)?);
                tasks::spread(from.dims()[1] as usize, 1, &|channel| {
                    let channel = channel as isize;
                    let (dy, db) = (dy.skip(channel * from_step), db.skip(channel * to_step));
                    let total = sum(&image, dy);
                    combine(&Walk::<1>::new(&[1], &[[0]]), [] as [Data<T>; 0], db, beta, |[]: [f64; 0]| alpha * total);
                });
                Ok(())
            })
        }
    }
}

/// A bias has one value a channel.
pub(super) fn check_bias(bias: &TensorDescriptor, of: &TensorDescriptor) -> Result {
    require(!of.dims().is_empty() && bias.dims().len() == of.dims().len(), "tensors have as many dimensions")?;
    let fits = bias.dims().iter().enumerate().all(|(i, &dim)| dim == if i == 1 { of.dims()[1] } else { 1 });
    require(fits, "a bias has one value a channel")
}

/// `y = z`, for equal types and dimensions.
///
/// # Safety
/// `z` and `y` are null or as long as their descriptors say.
pub(super) unsafe fn copy(
    (from, z): (&TensorDescriptor, *const c_void),
    (to, y): (&TensorDescriptor, *mut c_void),
) -> Result {
    let walk = walk::<2>(&[(from, Fit::Equal)], to)?;
    // SAFETY: the caller's promise.
    with_type!(to.data_type(), T => unsafe {
        combine(&walk, [data::<T>(z)?], data::<T>(y)?, 0.0, |[z]| z);
        Ok(())
    })
}

/// `y = f(y + bias)`.
///
/// # Safety
/// `bias` and `y` are null or as long as their descriptors say.
pub(super) unsafe fn add_bias_and_activate(
    activation: &ActivationDescriptor,
    (bias, bias_data): (&TensorDescriptor, *const c_void),
    (to, y): (&TensorDescriptor, *mut c_void),
) -> Result {
    let walk = walk::<3>(&[(to, Fit::Equal), (bias, Fit::Broadcast)], to)?;
    // SAFETY: the caller's promise.
    with_type!(to.data_type(), T => unsafe {
        combine(&walk, [data::<T>(y)?, data::<T>(bias_data)?], data::<T>(y)?, 0.0, |[y, b]| activate(activation, y + b));
        Ok(())
    })
}
