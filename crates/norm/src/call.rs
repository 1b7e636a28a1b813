//! Calls of cuDNN's functions: one type for a function and its `Ex`.

use cudnn::arguments::{BatchNormBackward, BatchNormBackwardEx, BatchNormForward, BatchNormForwardEx, Promised};
use cudnn_abi::*;

/// A call of `cudnnBatchNormalizationForwardTraining`, or of its `Ex`.
#[derive(Clone, Copy)]
pub struct ForwardCall {
    /// The arguments that both functions take.
    common: Promised<BatchNormForward>,
    ex: Option<Promised<BatchNormForwardEx>>,
}

/// A call of `cudnnBatchNormalizationBackward`, or of its `Ex`.
#[derive(Clone, Copy)]
pub struct BackwardCall {
    /// The arguments that both functions take.
    common: Promised<BatchNormBackward>,
    ex: Option<Promised<BatchNormBackwardEx>>,
}

impl From<Promised<BatchNormForward>> for ForwardCall {
    fn from(common: Promised<BatchNormForward>) -> Self {
        Self { common, ex: None }
    }
}

impl From<Promised<BatchNormForwardEx>> for ForwardCall {
    fn from(ex: Promised<BatchNormForwardEx>) -> Self {
        let common = BatchNormForward {
            handle: ex.handle,
            mode: ex.mode,
            alpha: ex.alpha,
            beta: ex.beta,
            x_descriptor: ex.x_descriptor,
            x: ex.x,
            y_descriptor: ex.y_descriptor,
            y: ex.y,
            parameters: ex.parameters,
            scale: ex.scale,
            bias: ex.bias,
            factor: ex.factor,
            running_mean: ex.running_mean,
            running_variance: ex.running_variance,
            epsilon: ex.epsilon,
            saved_mean: ex.saved_mean,
            saved_inverse: ex.saved_inverse,
        };
        // SAFETY: the same arguments have the same rules in both functions.
        Self { common: unsafe { Promised::new(common) }, ex: Some(ex) }
    }
}

impl From<Promised<BatchNormBackward>> for BackwardCall {
    fn from(common: Promised<BatchNormBackward>) -> Self {
        Self { common, ex: None }
    }
}

impl From<Promised<BatchNormBackwardEx>> for BackwardCall {
    fn from(ex: Promised<BatchNormBackwardEx>) -> Self {
        let common = BatchNormBackward {
            handle: ex.handle,
            mode: ex.mode,
            alpha_data: ex.alpha_data,
            beta_data: ex.beta_data,
            alpha_parameters: ex.alpha_parameters,
            beta_parameters: ex.beta_parameters,
            x_descriptor: ex.x_descriptor,
            x: ex.x,
            dy_descriptor: ex.dy_descriptor,
            dy: ex.dy,
            dx_descriptor: ex.dx_descriptor,
            dx: ex.dx,
            parameters: ex.parameters,
            scale: ex.scale,
            dscale: ex.dscale,
            dbias: ex.dbias,
            epsilon: ex.epsilon,
            saved_mean: ex.saved_mean,
            saved_inverse: ex.saved_inverse,
        };
        // SAFETY: the same arguments have the same rules in both functions.
        Self { common: unsafe { Promised::new(common) }, ex: Some(ex) }
    }
}

impl ForwardCall {
    /// The operations that the call fuses; `None`: it cannot fuse any.
    pub fn ops(&self) -> Option<cudnnBatchNormOps_t> {
        self.ex.map(|ex| ex.ops)
    }

    /// The arguments that both functions take.
    pub fn common(&self) -> &BatchNormForward {
        &self.common
    }

    /// Lets cuDNN answer the call.
    pub fn answer_by_cudnn(&self) -> cudnnStatus_t {
        self.ex.as_ref().map_or_else(|| self.common.by_cudnn(), |ex| ex.by_cudnn())
    }
}

impl BackwardCall {
    /// The operations that the call fuses; `None`: it cannot fuse any.
    pub fn ops(&self) -> Option<cudnnBatchNormOps_t> {
        self.ex.map(|ex| ex.ops)
    }

    /// The arguments that both functions take.
    pub fn common(&self) -> &BatchNormBackward {
        &self.common
    }

    /// Lets cuDNN answer the call.
    pub fn answer_by_cudnn(&self) -> cudnnStatus_t {
        self.ex.as_ref().map_or_else(|| self.common.by_cudnn(), |ex| ex.by_cudnn())
    }
}
