//! Activation functions and their derivatives.

use crate::descriptor::ActivationDescriptor;
use cudnn_abi::*;

/// The activation of `x`. Modes that cuDNN does not have are the identity.
pub fn activate(by: &ActivationDescriptor, x: f64) -> f64 {
    match by.mode {
        CUDNN_ACTIVATION_SIGMOID => sigmoid(x),
        CUDNN_ACTIVATION_RELU => floor(by, x),
        CUDNN_ACTIVATION_TANH => x.tanh(),
        CUDNN_ACTIVATION_CLIPPED_RELU => {
            let y = floor(by, x);
            if y > by.coef { by.coef } else { y }
        }
        CUDNN_ACTIVATION_ELU if x <= 0.0 => by.coef * x.exp_m1(),
        CUDNN_ACTIVATION_SWISH => x * sigmoid(by.swish_beta * x),
        _ => x,
    }
}

/// The derivative at input `x` with output `y`, times `dy`. All modes except swish need only `y`.
pub fn activate_backward(by: &ActivationDescriptor, y: f64, dy: f64, x: f64) -> f64 {
    match by.mode {
        CUDNN_ACTIVATION_SIGMOID => dy * y * (1.0 - y),
        CUDNN_ACTIVATION_RELU => gate(by, y, dy, y > 0.0),
        CUDNN_ACTIVATION_TANH => dy * (1.0 - y * y),
        CUDNN_ACTIVATION_CLIPPED_RELU => gate(by, y, dy, y > 0.0 && y < by.coef),
        CUDNN_ACTIVATION_ELU if y < 0.0 => dy * (y + by.coef),
        CUDNN_ACTIVATION_SWISH => {
            let s = sigmoid(by.swish_beta * x);
            dy * (s + by.swish_beta * x * s * (1.0 - s))
        }
        _ => dy,
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn floor(by: &ActivationDescriptor, x: f64) -> f64 {
    if x > 0.0 || (x.is_nan() && by.nan_propagation == CUDNN_PROPAGATE_NAN) { x } else { 0.0 }
}

fn gate(by: &ActivationDescriptor, y: f64, dy: f64, open: bool) -> f64 {
    if open {
        dy
    } else if y.is_nan() && by.nan_propagation == CUDNN_PROPAGATE_NAN {
        y
    } else {
        0.0
    }
}
