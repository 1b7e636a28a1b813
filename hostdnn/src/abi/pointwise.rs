//! Element-wise functions on tensors, and the bias gradient.

use super::boundary::{context, refer, scale};
use super::entries::*;
use crate::descriptor::{ActivationDescriptor, OpTensorDescriptor, TensorDescriptor};
use crate::elementwise::{Data, Element, Walk, activate, activate_backward, combine};
use crate::error::{Error, Result, require, support};
use cudnn_abi::*;
use half::{bf16, f16};
use std::ffi::c_void;

/// Runs `$body` with `$T` as the Rust type of a cuDNN data type; CUDNN_STATUS_NOT_SUPPORTED for types not computed here.
macro_rules! with_type {
    ($data_type:expr, $T:ident => $body:expr) => {
        match $data_type {
            CUDNN_DATA_FLOAT => {
                type $T = f32;
                $body
            }
            CUDNN_DATA_DOUBLE => {
                type $T = f64;
                $body
            }
            CUDNN_DATA_HALF => {
                type $T = f16;
                $body
            }
            CUDNN_DATA_BFLOAT16 => {
                type $T = bf16;
                $body
            }
            other => Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED, format!("data type {other} is not computed here"))),
        }
    };
}

pub(super) use with_type;

/// How the dimensions of an input match those of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Each equal.
    Equal,
    /// Each equal, or 1 and repeated.
    Broadcast,
}

/// The walk over an output and its inputs. The output comes last.
pub(super) fn walk<const M: usize>(inputs: &[(&TensorDescriptor, Fit)], out: &TensorDescriptor) -> Result<Walk<M>> {
    let rank = out.dims().len();
    require(rank > 0, "descriptors are set")?;
    support(rank <= 5, "tensors of up to five dimensions")?;
    for (tensor, fit) in inputs {
        require(tensor.dims().len() == rank, "tensors have as many dimensions")?;
        let fits = tensor
            .dims()
            .iter()
            .zip(out.dims())
            .all(|(&dim, &of_out)| dim == of_out || (*fit == Fit::Broadcast && dim == 1));
        require(fits, "dimensions go together")?;
        support(!tensor.is_reversed(), "strides are not negative")?;
    }
    support(out.is_injective(), "the output's elements do not overlap")?;
    let dims: Vec<usize> = out.dims().iter().map(|&dim| dim as usize).collect();
    let step = |tensor: &TensorDescriptor, i: usize| match tensor.dims()[i] {
        1 => 0,
        _ => tensor.strides()[i] as isize,
    };
    let strides: Vec<[isize; M]> =
        (0..rank).map(|i| std::array::from_fn(|m| step(inputs.get(m).map_or(out, |input| input.0), i))).collect();
    Ok(Walk::new(&dims, &strides))
}

pub(super) fn data<T>(pointer: *const c_void) -> Result<Data<T>> {
    require(!pointer.is_null(), "tensors are not null")?;
    Ok(Data(pointer.cast_mut().cast()))
}

pub(super) fn same_type(tensors: &[&TensorDescriptor]) -> Result {
    require(tensors.windows(2).all(|pair| pair[0].data_type() == pair[1].data_type()), "tensors have one data type")
}

/// `C = alpha·A + beta·C`, where A's dimensions are C's or 1.
impl Answer for cudnnAddTensor {
    unsafe fn answer(self) -> Result {
        let Self { handle, alpha, a_descriptor, a, beta, c_descriptor, c } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { add(handle, alpha, (a_descriptor, a), Fit::Broadcast, beta, (c_descriptor, c)) }
    }
}

/// `y = alpha·x + beta·y`, from one layout to another of the same type and dimensions.
impl Answer for cudnnTransformTensor {
    unsafe fn answer(self) -> Result {
        let Self { handle, alpha, x_descriptor, x, beta, y_descriptor, y } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { add(handle, alpha, (x_descriptor, x), Fit::Equal, beta, (y_descriptor, y)) }
    }
}

/// `out = alpha·input + beta·out`.
///
/// # Safety
/// Every pointer is null or what cuDNN's contract says.
unsafe fn add(
    handle: cudnnHandle_t,
    alpha: *const c_void,
    (in_desc, input): (cudnnTensorDescriptor_t, *const c_void),
    fit: Fit,
    beta: *const c_void,
    (out_desc, out): (cudnnTensorDescriptor_t, *mut c_void),
) -> Result {
    // SAFETY: the caller's promise.
    unsafe {
        context(handle)?;
        let (a, c) = (refer::<TensorDescriptor>(in_desc)?, refer::<TensorDescriptor>(out_desc)?);
        same_type(&[a, c])?;
        let (alpha, beta) = (scale(alpha, c.data_type())?, scale(beta, c.data_type())?);
        let walk = walk::<2>(&[(a, fit)], c)?;
        with_type!(c.data_type(), T => {
            combine(&walk, [data::<T>(input)?], data::<T>(out)?, beta, |[a]| alpha * a);
            Ok(())
        })
    }
}

/// Sets all elements to the one at `value`, which is of the tensor's type.
impl Answer for cudnnSetTensor {
    unsafe fn answer(self) -> Result {
        let Self { handle, y_descriptor, y, value } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let tensor = refer::<TensorDescriptor>(y_descriptor)?;
            require(!value.is_null(), "valuePtr is not null")?;
            let walk = walk::<1>(&[], tensor)?;
            with_type!(tensor.data_type(), T => {
                let value = value.cast::<T>().read_unaligned().to_f64();
                combine(&walk, [] as [Data<T>; 0], data::<T>(y)?, 0.0, |[]: [f64; 0]| value);
                Ok(())
            })
        }
    }
}

/// Multiplies all elements.
impl Answer for cudnnScaleTensor {
    unsafe fn answer(self) -> Result {
        let Self { handle, y_descriptor, y, alpha } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let tensor = refer::<TensorDescriptor>(y_descriptor)?;
            let alpha = scale(alpha, tensor.data_type())?;
            let walk = walk::<2>(&[(tensor, Fit::Equal)], tensor)?;
            with_type!(tensor.data_type(), T => {
                combine(&walk, [data::<T>(y)?], data::<T>(y)?, 0.0, |[y]| alpha * y);
                Ok(())
            })
        }
    }
}

/// `C = op(alpha1·A, alpha2·B) + beta·C`, where B's dimensions are C's or 1. A and B have one type. It and C's type are
/// equal, or one is float and the other a two-byte type, computed in float; all double, computed in double; all half,
/// in float or half; all bfloat16, in float. SQRT and NOT use only A.
impl Answer for cudnnOpTensor {
    unsafe fn answer(self) -> Result {
        let Self { alpha1, alpha2, beta, .. } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            let operation = refer::<OpTensorDescriptor>(self.descriptor)?;
            let a = refer::<TensorDescriptor>(self.a_descriptor)?;
            let c = refer::<TensorDescriptor>(self.c_descriptor)?;
            let unary = matches!(operation.op, CUDNN_OP_TENSOR_SQRT | CUDNN_OP_TENSOR_NOT);
            let (b, b_data, alpha2) = match unary {
                true => (a, self.a, alpha1),
                false => (refer::<TensorDescriptor>(self.b_descriptor)?, self.b, alpha2),
            };
            let compute_type = operation.compute_type;
            let (alpha1, alpha2) = (scale(alpha1, compute_type)?, scale(alpha2, compute_type)?);
            let beta = scale(beta, compute_type)?;
            support(a.data_type() == b.data_type(), "A and B have one data type")?;
            let walk = walk::<3>(&[(a, Fit::Equal), (b, Fit::Broadcast)], c)?;
            let op = operation.op;
            let keeps_nan = operation.nan_propagation == CUDNN_PROPAGATE_NAN;
            let f = move |[a, b]: [f64; 2]| {
                let (a, b) = (alpha1 * a, alpha2 * b);
                let nan = keeps_nan && (a.is_nan() || b.is_nan());
                match op {
                    CUDNN_OP_TENSOR_ADD => a + b,
                    CUDNN_OP_TENSOR_MUL => a * b,
                    CUDNN_OP_TENSOR_MIN | CUDNN_OP_TENSOR_MAX if nan => f64::NAN,
                    CUDNN_OP_TENSOR_MIN => a.min(b),
                    CUDNN_OP_TENSOR_MAX => a.max(b),
                    CUDNN_OP_TENSOR_SQRT => a.sqrt(),
                    _ => 1.0 - a,
                }
            };
            macro_rules! run {
                ($In:ty, $Out:ty) => {{
                    combine(&walk, [data::<$In>(self.a)?, data::<$In>(b_data)?], data::<$Out>(self.c)?, beta, f);
                    Ok(())
                }};
            }
            const FLOAT: cudnnDataType_t = CUDNN_DATA_FLOAT;
            const HALF: cudnnDataType_t = CUDNN_DATA_HALF;
            const BFLOAT16: cudnnDataType_t = CUDNN_DATA_BFLOAT16;
            match (a.data_type(), c.data_type(), compute_type) {
                (FLOAT, FLOAT, FLOAT) => run!(f32, f32),
                (HALF, HALF, FLOAT | HALF) => run!(f16, f16),
                (HALF, FLOAT, FLOAT) => run!(f16, f32),
                (FLOAT, HALF, FLOAT) => run!(f32, f16),
                (BFLOAT16, BFLOAT16, FLOAT) => run!(bf16, bf16),
                (BFLOAT16, FLOAT, FLOAT) => run!(bf16, f32),
                (FLOAT, BFLOAT16, FLOAT) => run!(f32, bf16),
                (CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE) => run!(f64, f64),
                _ => support(false, "data types that go together"),
            }
        }
    }
}

/// `y = alpha·f(x) + beta·y`. `y` may be `x` itself.
impl Answer for cudnnActivationForward {
    unsafe fn answer(self) -> Result {
        let Self { handle, activation, alpha, x_descriptor, x, beta, y_descriptor, y } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let activation = *refer::<ActivationDescriptor>(activation)?;
            let (from, to) = (refer::<TensorDescriptor>(x_descriptor)?, refer::<TensorDescriptor>(y_descriptor)?);
            same_type(&[from, to])?;
            in_place(from, x, to, y)?;
            support(activation.mode != CUDNN_ACTIVATION_IDENTITY, "the identity is for convolutions alone")?;
            let (alpha, beta) = (scale(alpha, to.data_type())?, scale(beta, to.data_type())?);
            let walk = walk::<2>(&[(from, Fit::Equal)], to)?;
            with_type!(to.data_type(), T => {
                combine(&walk, [data::<T>(x)?], data::<T>(y)?, beta, |[x]| alpha * activate(&activation, x));
                Ok(())
            })
        }
    }
}

/// `dx = alpha·f'(x)·dy + beta·dx`. `dx` may be `dy` itself.
impl Answer for cudnnActivationBackward {
    unsafe fn answer(self) -> Result {
        let Self { x, y, dy, dx, .. } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            let mut activation = *refer::<ActivationDescriptor>(self.activation)?;
            let output = refer::<TensorDescriptor>(self.y_descriptor)?;
            let slope = refer::<TensorDescriptor>(self.dy_descriptor)?;
            let input = refer::<TensorDescriptor>(self.x_descriptor)?;
            let to = refer::<TensorDescriptor>(self.dx_descriptor)?;
            same_type(&[output, slope, input, to])?;
            in_place(slope, dy, to, dx)?;
            support(activation.mode != CUDNN_ACTIVATION_IDENTITY, "the identity is for convolutions alone")?;
            let (alpha, beta) = (scale(self.alpha, to.data_type())?, scale(self.beta, to.data_type())?);
            let walk = walk::<4>(&[(output, Fit::Equal), (slope, Fit::Equal), (input, Fit::Equal)], to)?;
            with_type!(to.data_type(), T => {
                if activation.mode == CUDNN_ACTIVATION_CLIPPED_RELU {
                    // A clipped y has the ceiling rounded to its type.
                    activation.coef = T::from_f64(activation.coef).to_f64();
                }
                let inputs = [data::<T>(y)?, data::<T>(dy)?, data::<T>(x)?];
                combine(&walk, inputs, data::<T>(dx)?, beta, |[y, dy, x]| {
                    alpha * activate_backward(&activation, y, dy, x)
                });
                Ok(())
            })
        }
    }
}

/// An operation in place reads and writes each element once: its two descriptors must be equal.
fn in_place(from: &TensorDescriptor, x: *const c_void, to: &TensorDescriptor, y: *mut c_void) -> Result {
    require(x != y.cast_const() || from.strides() == to.strides(), "strides are equal in place")
}
