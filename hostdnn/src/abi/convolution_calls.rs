//! Convolution in its three directions. The functions of a direction differ in the names of its tensors alone.

use super::bias::{add_bias_and_activate, check_bias, copy};
use super::boundary::{refer, scale};
use super::convolution::{Call, Results, tensors};
use super::entries::*;
use crate::convolution::Direction;
use crate::descriptor::{ActivationDescriptor, TensorDescriptor};
use crate::error::{Result, require, support};
use cudnn_abi::*;

macro_rules! calls {
    ($direction:ident, ($x:ident, $w:ident, $y:ident): $($function:ident)*) => {$(
        impl $function {
            fn call(&self) -> Call {
                Call {
                    function: stringify!($function),
                    direction: Direction::$direction,
                    handle: self.handle,
                    x: self.$x,
                    w: self.$w,
                    conv: self.convolution,
                    y: self.$y,
                }
            }
        }
    )*};
}

macro_rules! answers {
    (
        $direction:ident, $descriptors:tt, ($x:ident, $w:ident, $y:ident):
        $max_count:ident, $rank:ident, $find:ident, $find_on:ident, $size:ident, $run:ident
    ) => {
        calls! { $direction, $descriptors: $rank $find $find_on $size $run }

        impl Answer for $max_count {
            unsafe fn answer(self) -> Result {
                // SAFETY: each pointer is null or valid by cuDNN's contract.
                unsafe { Call::max_count(self.handle, Direction::$direction, self.count) }
            }
        }

        impl Answer for $rank {
            unsafe fn answer(self) -> Result {
                let results = Results { requested: self.requested, returned: self.returned, entries: self.results };
                // SAFETY: each pointer is null or valid by cuDNN's contract.
                unsafe { self.call().rank(results) }
            }
        }

        impl Answer for $find {
            unsafe fn answer(self) -> Result {
                let results = Results { requested: self.requested, returned: self.returned, entries: self.results };
                // SAFETY: each pointer is null or valid by cuDNN's contract.
                unsafe { self.call().find(results) }
            }
        }

        impl Answer for $find_on {
            unsafe fn answer(self) -> Result {
                let results = Results { requested: self.requested, returned: self.returned, entries: self.results };
                let tensors = tensors(self.$x, self.$w, self.$y);
                // SAFETY: each pointer is null or valid by cuDNN's contract.
                unsafe { self.call().find_on(tensors, results, self.workspace, self.workspace_size) }
            }
        }

        impl Answer for $size {
            unsafe fn answer(self) -> Result {
                // SAFETY: each pointer is null or valid by cuDNN's contract.
                unsafe { self.call().workspace_size(self.algorithm, self.size) }
            }
        }

        impl Answer for $run {
            unsafe fn answer(self) -> Result {
                let Self { algorithm, alpha, beta, workspace, workspace_size, .. } = self;
                let tensors = tensors(self.$x, self.$w, self.$y);
                // SAFETY: each pointer is null or valid by cuDNN's contract.
                unsafe { self.call().run(algorithm, alpha, beta, tensors, workspace, workspace_size) }
            }
        }
    };
}

answers! {
    Forward, (x_descriptor, w_descriptor, y_descriptor), (x, w, y):
    cudnnGetConvolutionForwardAlgorithmMaxCount,
    cudnnGetConvolutionForwardAlgorithm_v7,
    cudnnFindConvolutionForwardAlgorithm,
    cudnnFindConvolutionForwardAlgorithmEx,
    cudnnGetConvolutionForwardWorkspaceSize,
    cudnnConvolutionForward
}

answers! {
    BackwardData, (dx_descriptor, w_descriptor, dy_descriptor), (dx, w, dy):
    cudnnGetConvolutionBackwardDataAlgorithmMaxCount,
    cudnnGetConvolutionBackwardDataAlgorithm_v7,
    cudnnFindConvolutionBackwardDataAlgorithm,
    cudnnFindConvolutionBackwardDataAlgorithmEx,
    cudnnGetConvolutionBackwardDataWorkspaceSize,
    cudnnConvolutionBackwardData
}

answers! {
    BackwardFilter, (x_descriptor, dw_descriptor, dy_descriptor), (x, dw, dy):
    cudnnGetConvolutionBackwardFilterAlgorithmMaxCount,
    cudnnGetConvolutionBackwardFilterAlgorithm_v7,
    cudnnFindConvolutionBackwardFilterAlgorithm,
    cudnnFindConvolutionBackwardFilterAlgorithmEx,
    cudnnGetConvolutionBackwardFilterWorkspaceSize,
    cudnnConvolutionBackwardFilter
}

calls! { Forward, (x_descriptor, w_descriptor, y_descriptor): cudnnConvolutionBiasActivationForward }

/// `y = f(alpha1·conv(x) + alpha2·z + bias)`, where `f` is ReLU or, with IMPLICIT_PRECOMP_GEMM only, the identity. `z`
/// may be `y` itself. In two-byte types the sum before the bias is rounded once more.
impl Answer for cudnnConvolutionBiasActivationForward {
    unsafe fn answer(self) -> Result {
        let Self { algorithm, z, bias, y, .. } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let to = refer::<TensorDescriptor>(self.y_descriptor)?;
            let residual = refer::<TensorDescriptor>(self.z_descriptor)?;
            let offset = refer::<TensorDescriptor>(self.bias_descriptor)?;
            let activation = *refer::<ActivationDescriptor>(self.activation)?;
            require(!z.is_null() && !bias.is_null(), "tensors are not null")?;
            let data_type = to.data_type();
            require(residual.data_type() == data_type && offset.data_type() == data_type, "one data type")?;
            require(residual.dims() == to.dims(), "z has y's dimensions")?;
            require(z != y.cast_const() || residual.strides() == to.strides(), "strides are equal in place")?;
            check_bias(offset, to)?;
            match activation.mode {
                CUDNN_ACTIVATION_RELU => {}
                CUDNN_ACTIVATION_IDENTITY => support(
                    algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                    "the identity goes with IMPLICIT_PRECOMP_GEMM alone",
                )?,
                _ => support(false, "the activation is ReLU or the identity")?,
            }
            let alpha = (scale(self.alpha1, data_type)?, scale(self.alpha2, data_type)?);
            // All checks come before the first write.
            let tensors = tensors(self.x, self.w, y);
            let ready = self.call().prepare(algorithm, tensors, self.workspace, self.workspace_size)?;
            if alpha.1 != 0.0 && z != y.cast_const() {
                copy((residual, z), (to, y))?;
            }
            ready.run(alpha.0, alpha.1)?;
            add_bias_and_activate(&activation, (offset, bias), (to, y))
        }
    }
}
