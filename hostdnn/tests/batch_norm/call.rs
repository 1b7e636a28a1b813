//! One problem with all its memory, and the calls on it.

use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::Rng;
use rand::rngs::StdRng;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

pub const EPSILON: f64 = 1e-3;

/// An activation descriptor: a ReLU that hands NaN on.
pub struct Activation(pub cudnnActivationDescriptor_t);

impl Activation {
    pub fn new(mode: cudnnActivationMode_t) -> Self {
        let mut descriptor = null_mut();
        // SAFETY: the place is valid for a write.
        unsafe {
            assert_eq!(cudnnCreateActivationDescriptor(&mut descriptor), CUDNN_STATUS_SUCCESS);
            assert_eq!(cudnnSetActivationDescriptor(descriptor, mode, CUDNN_PROPAGATE_NAN, 1.0), CUDNN_STATUS_SUCCESS);
        }
        Self(descriptor)
    }
}

impl Drop for Activation {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and used no more.
        unsafe { cudnnDestroyActivationDescriptor(self.0) };
    }
}

/// Tensors, parameters and arguments. Refusals change a field.
pub struct Problem {
    pub handle: Handle,
    pub mode: cudnnBatchNormMode_t,
    pub ops: cudnnBatchNormOps_t,
    /// The factors alpha for data, then for parameters.
    pub alphas: [f64; 2],
    pub betas: [f64; 2],
    pub factor: f64,
    pub epsilon: f64,
    pub x: Operand,
    pub z: Operand,
    pub y: Operand,
    pub dy: Operand,
    pub dz: Operand,
    pub dx: Operand,
    pub scale: Operand,
    pub bias: Operand,
    pub running: [Operand; 2],
    pub saved: [Operand; 2],
    /// The gradients of scale and bias.
    pub gradients: [Operand; 2],
    pub activation: Activation,
    pub workspace: Vec<u8>,
    pub reserve: Vec<u8>,
    /// True if calls pass the running mean, and the running variance.
    pub runs: [bool; 2],
    /// True if calls pass the saved mean, and the saved inverse deviation.
    pub saves: [bool; 2],
    /// True if dz and dx are one tensor.
    pub dz_is_dx: bool,
}

pub fn parameter_type(data_type: cudnnDataType_t) -> cudnnDataType_t {
    if data_type == CUDNN_DATA_DOUBLE { CUDNN_DATA_DOUBLE } else { CUDNN_DATA_FLOAT }
}

pub fn parameter_dims(mode: cudnnBatchNormMode_t, dims: &[usize]) -> Vec<usize> {
    let mut dims = dims.to_vec();
    dims[0] = 1;
    if mode != CUDNN_BATCHNORM_PER_ACTIVATION {
        dims[2..].fill(1);
    }
    dims
}

impl Problem {
    /// Random contents. `layout` gives the strides of each tensor. Results are NaN until they are computed.
    pub fn new(
        data_type: cudnnDataType_t,
        mode: cudnnBatchNormMode_t,
        ops: cudnnBatchNormOps_t,
        dims: &[usize],
        mut layout: impl FnMut(&[usize], &mut StdRng) -> Vec<usize>,
        dice: &mut StdRng,
    ) -> Self {
        let mut random = |dice: &mut StdRng| Operand::random(data_type, dims, layout(dims, dice), dice);
        let [x, z, dy] = [random(dice), random(dice), random(dice)];
        let of_parameters = parameter_dims(mode, dims);
        let ty = parameter_type(data_type);
        let parameter = |dice: &mut StdRng| Operand::random(ty, &of_parameters, packed(&of_parameters), dice);
        let affine = [parameter(dice), parameter(dice)];
        let running = [parameter(dice), parameter(dice)];
        let poisoned = |ty, dims: &[usize], strides| Operand::poisoned(ty, dims, strides);
        let unset = || poisoned(ty, &of_parameters, packed(&of_parameters));
        let mut result = |dice: &mut StdRng| poisoned(data_type, dims, layout(dims, dice));
        let [scale, bias] = affine;
        Self {
            handle: Handle::new(),
            mode,
            ops,
            alphas: [1.0; 2],
            betas: [0.0; 2],
            factor: 0.25,
            epsilon: EPSILON,
            x,
            z,
            y: result(dice),
            dy,
            dz: result(dice),
            dx: result(dice),
            scale,
            bias,
            running,
            saved: [unset(), unset()],
            gradients: [unset(), unset()],
            activation: Activation::new(CUDNN_ACTIVATION_RELU),
            workspace: vec![0xa5; 1 << 16],
            reserve: vec![0xa5; 1 << 16],
            runs: [true; 2],
            saves: [true; 2],
            dz_is_dx: false,
        }
    }

    /// The problem of the fused operations: half, packed NHWC.
    pub fn fused(ops: cudnnBatchNormOps_t, dims: &[usize], dice: &mut StdRng) -> Self {
        let last = |dims: &[usize], _: &mut StdRng| channels_last(dims);
        Self::new(CUDNN_DATA_HALF, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, ops, dims, last, dice)
    }

    /// Random factors, with old results to blend with.
    pub fn blended(mut self, dice: &mut StdRng) -> Self {
        self.alphas = [dice.random_range(0.5..2.0), dice.random_range(-2.0..-0.5)];
        self.betas = [dice.random_range(0.5..2.0), dice.random_range(0.5..2.0)];
        let [scale, bias] = &mut self.gradients;
        for result in [&mut self.y, &mut self.dx, scale, bias] {
            let values: Vec<f64> = (0..result.count()).map(|_| dice.random_range(-1.0..1.0)).collect();
            result.fill(&values);
        }
        self
    }

    fn factors(&self) -> [Scale; 4] {
        [self.alphas[0], self.betas[0], self.alphas[1], self.betas[1]].map(|v| Scale::new(v, self.x.data_type))
    }

    // SAFETY of all unsafe blocks below: memory is as long as its descriptors say, or the call refuses.

    pub fn train(&mut self) -> cudnnStatus_t {
        let [alpha, beta, ..] = self.factors();
        let [mean, variance] = pointers(&mut self.running, self.runs);
        let [saved_mean, saved_deviation] = pointers(&mut self.saved, self.saves);
        // SAFETY: see above.
        unsafe {
            cudnnBatchNormalizationForwardTraining(
                self.handle.0,
                self.mode,
                alpha.pointer(),
                beta.pointer(),
                self.x.desc,
                self.x.pointer(),
                self.y.desc,
                self.y.pointer_mut(),
                self.scale.desc,
                self.scale.pointer(),
                self.bias.pointer(),
                self.factor,
                mean,
                variance,
                self.epsilon,
                saved_mean,
                saved_deviation,
            )
        }
    }

    pub fn train_ex(&mut self) -> cudnnStatus_t {
        let [alpha, beta, ..] = self.factors();
        let [mean, variance] = pointers(&mut self.running, self.runs);
        let [saved_mean, saved_deviation] = pointers(&mut self.saved, self.saves);
        // SAFETY: see above.
        unsafe {
            cudnnBatchNormalizationForwardTrainingEx(
                self.handle.0,
                self.mode,
                self.ops,
                alpha.pointer(),
                beta.pointer(),
                self.x.desc,
                self.x.pointer(),
                self.z.desc,
                self.z.pointer(),
                self.y.desc,
                self.y.pointer_mut(),
                self.scale.desc,
                self.scale.pointer(),
                self.bias.pointer(),
                self.factor,
                mean,
                variance,
                self.epsilon,
                saved_mean,
                saved_deviation,
                self.activation.0,
                self.workspace.as_mut_ptr().cast(),
                self.workspace.len(),
                self.reserve.as_mut_ptr().cast(),
                self.reserve.len(),
            )
        }
    }

    pub fn infer(&mut self) -> cudnnStatus_t {
        let [alpha, beta, ..] = self.factors();
        let [mean, variance] = pointers(&mut self.running, self.runs);
        // SAFETY: see above.
        unsafe {
            cudnnBatchNormalizationForwardInference(
                self.handle.0,
                self.mode,
                alpha.pointer(),
                beta.pointer(),
                self.x.desc,
                self.x.pointer(),
                self.y.desc,
                self.y.pointer_mut(),
                self.scale.desc,
                self.scale.pointer(),
                self.bias.pointer(),
                mean,
                variance,
                self.epsilon,
            )
        }
    }

    pub fn differentiate(&mut self) -> cudnnStatus_t {
        let factors = self.factors();
        let [mean, deviation] = pointers(&mut self.saved, self.saves);
        let [to_scale, to_bias] = pointers(&mut self.gradients, [true; 2]);
        // SAFETY: see above.
        unsafe {
            cudnnBatchNormalizationBackward(
                self.handle.0,
                self.mode,
                factors[0].pointer(),
                factors[1].pointer(),
                factors[2].pointer(),
                factors[3].pointer(),
                self.x.desc,
                self.x.pointer(),
                self.dy.desc,
                self.dy.pointer(),
                self.dx.desc,
                self.dx.pointer_mut(),
                self.scale.desc,
                self.scale.pointer(),
                to_scale,
                to_bias,
                self.epsilon,
                mean,
                deviation,
            )
        }
    }

    /// y is null, because nothing reads it.
    pub fn differentiate_ex(&mut self) -> cudnnStatus_t {
        let factors = self.factors();
        let [mean, deviation] = pointers(&mut self.saved, self.saves);
        let [to_scale, to_bias] = pointers(&mut self.gradients, [true; 2]);
        // SAFETY: see above.
        unsafe {
            cudnnBatchNormalizationBackwardEx(
                self.handle.0,
                self.mode,
                self.ops,
                factors[0].pointer(),
                factors[1].pointer(),
                factors[2].pointer(),
                factors[3].pointer(),
                self.x.desc,
                self.x.pointer(),
                null_mut(),
                null(),
                self.dy.desc,
                self.dy.pointer(),
                self.dz.desc,
                if self.dz_is_dx { self.dx.pointer_mut() } else { self.dz.pointer_mut() },
                self.dx.desc,
                self.dx.pointer_mut(),
                self.scale.desc,
                self.scale.pointer(),
                self.bias.pointer(),
                to_scale,
                to_bias,
                self.epsilon,
                mean,
                deviation,
                self.activation.0,
                self.workspace.as_mut_ptr().cast(),
                self.workspace.len(),
                self.reserve.as_mut_ptr().cast(),
                self.reserve.len(),
            )
        }
    }

    /// The gradient into dy's memory, and then y into x's; the results are laid out as `result` says.
    pub fn in_place(&mut self, result: cudnnTensorDescriptor_t) -> [cudnnStatus_t; 2] {
        let [one, zero, ..] = self.factors();
        let (one, zero) = (one.pointer(), zero.pointer());
        let (x, dy) = (self.x.pointer_mut(), self.dy.pointer_mut());
        let (desc, parameters) = (self.x.desc, self.scale.desc);
        let (scale, bias) = (self.scale.pointer(), self.bias.pointer());
        let [to_scale, to_bias] = pointers(&mut self.gradients, [true; 2]);
        let (none, nothing, eps) = (null_mut(), null(), self.epsilon);
        let (handle, mode) = (self.handle.0, self.mode);
        // SAFETY: see above.
        unsafe {
            [
                cudnnBatchNormalizationBackward(
                    handle,
                    mode,
                    one,
                    zero,
                    one,
                    zero,
                    desc,
                    x,
                    self.dy.desc,
                    dy,
                    result,
                    dy,
                    parameters,
                    scale,
                    to_scale,
                    to_bias,
                    eps,
                    nothing,
                    nothing,
                ),
                cudnnBatchNormalizationForwardTraining(
                    handle, mode, one, zero, desc, x, result, x, parameters, scale, bias, 1.0, none, none, eps, none,
                    none,
                ),
            ]
        }
    }

    /// Returns whether no call has written a result. The problem was made with poisoned results.
    pub fn is_untouched(&self) -> bool {
        let results = [&self.y, &self.dx, &self.dz].into_iter().chain(&self.saved).chain(&self.gradients);
        results.flat_map(Operand::values).all(f64::is_nan) && self.reserve.iter().all(|&byte| byte == 0xa5)
    }
}

fn pointers(operands: &mut [Operand; 2], given: [bool; 2]) -> [*mut c_void; 2] {
    let [a, b] = operands;
    [(a, given[0]), (b, given[1])].map(|(operand, given)| if given { operand.pointer_mut() } else { null_mut() })
}
