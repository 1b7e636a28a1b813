//! Descriptors of element-wise operations: activations, and operations on two tensors.

use crate::error::{Result, require};
use cudnn_abi::*;

fn check_nan(propagation: cudnnNanPropagation_t) -> Result {
    require(matches!(propagation, CUDNN_NOT_PROPAGATE_NAN | CUDNN_PROPAGATE_NAN), "a cudnnNanPropagation_t")
}

/// An activation function and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ActivationDescriptor {
    /// The function.
    pub mode: cudnnActivationMode_t,
    /// Whether ReLU and clipped ReLU pass NaN on.
    pub nan_propagation: cudnnNanPropagation_t,
    /// The ceiling of clipped ReLU, or ELU's alpha.
    pub coef: f64,
    /// Swish's beta.
    pub swish_beta: f64,
}

impl Default for ActivationDescriptor {
    fn default() -> Self {
        Self { mode: CUDNN_ACTIVATION_SIGMOID, nan_propagation: CUDNN_NOT_PROPAGATE_NAN, coef: 0.0, swish_beta: 1.0 }
    }
}

impl ActivationDescriptor {
    /// Sets everything except swish's beta.
    pub fn set(&mut self, mode: cudnnActivationMode_t, nan_propagation: cudnnNanPropagation_t, coef: f64) -> Result {
        require(
            (CUDNN_ACTIVATION_SIGMOID..=CUDNN_ACTIVATION_SWISH).contains(&mode),
            "mode is a cudnnActivationMode_t",
        )?;
        check_nan(nan_propagation)?;
        (self.mode, self.nan_propagation, self.coef) = (mode, nan_propagation, coef);
        Ok(())
    }
}

/// An element-wise operation on two tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpTensorDescriptor {
    /// The operation.
    pub op: cudnnOpTensorOp_t,
    /// The type it computes in.
    pub compute_type: cudnnDataType_t,
    /// Whether minimum and maximum pass NaN on.
    pub nan_propagation: cudnnNanPropagation_t,
}

impl OpTensorDescriptor {
    /// Sets all.
    pub fn set(
        &mut self,
        op: cudnnOpTensorOp_t,
        compute_type: cudnnDataType_t,
        nan_propagation: cudnnNanPropagation_t,
    ) -> Result {
        require((CUDNN_OP_TENSOR_ADD..=CUDNN_OP_TENSOR_NOT).contains(&op), "opTensorOp is a cudnnOpTensorOp_t")?;
        require(
            matches!(compute_type, CUDNN_DATA_FLOAT | CUDNN_DATA_DOUBLE | CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16),
            "opTensorCompType is one that cudnnOpTensor takes",
        )?;
        check_nan(nan_propagation)?;
        *self = Self { op, compute_type, nan_propagation };
        Ok(())
    }
}
