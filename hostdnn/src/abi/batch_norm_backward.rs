//! Batch normalization: gradients.

use super::batch_norm::*;
use super::boundary::{context, refer};
use super::entries::*;
use super::pointwise::with_type;
use crate::descriptor::TensorDescriptor;
use crate::error::{Error, Result, require};
use crate::norm::{Backward, Centre, Gate, Gradient, Mask, backward, moments};
use cudnn_abi::*;
use half::{bf16, f16};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// The gradient of `cudnnBatchNormalizationForwardTraining`. `cudnnBatchNormalizationBackwardEx` with
/// CUDNN_BATCHNORM_OPS_BN has all rules.
impl Answer for cudnnBatchNormalizationBackward {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            Differentiation {
                mode: self.mode,
                ops: CUDNN_BATCHNORM_OPS_BN,
                data_factors: [self.alpha_data, self.beta_data],
                parameter_factors: [self.alpha_parameters, self.beta_parameters],
                x: (self.x_descriptor, self.x),
                dy: (self.dy_descriptor, self.dy),
                dz: (null_mut(), null_mut()),
                dx: (self.dx_descriptor, self.dx),
                parameters: self.parameters,
                affine: [self.scale, null()],
                gradients: [self.dscale, self.dbias],
                epsilon: self.epsilon,
                saved: [self.saved_mean, self.saved_inverse],
                activation: null_mut(),
                spaces: Spaces { workspace: (null_mut(), 0), reserve: (null_mut(), 0) },
            }
            .run()
        }
    }
}

/// The gradients of `cudnnBatchNormalizationForwardTrainingEx`, whose rules for types, dimensions, parameters and
/// operations hold here.
///
/// Let g be dy where the ReLU let its input through, and 0 elsewhere; without a ReLU g is dy. Then
///
/// - `dx = alpha_data·scale·inverse·(g - (Σg + x̂·Σ(g·x̂))/m) + beta_data·dx`, over the m elements of a group;
/// - `dscale = alpha_parameters·Σ(g·x̂) + beta_parameters·dscale`, and `dbias` likewise by Σg;
/// - `dz = g`, without factors, for CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION alone.
///
/// The sum's ReLU is known from the reserve of the forward call. Without a sum, the ReLU's input is computed again, and
/// `bias` is needed. y is not read. Without saved statistics, CUDNN_BATCHNORM_OPS_BN finds x's statistics again.
/// dx or dz may be dy itself, and dx may be x.
impl Answer for cudnnBatchNormalizationBackwardEx {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            Differentiation {
                mode: self.mode,
                ops: self.ops,
                data_factors: [self.alpha_data, self.beta_data],
                parameter_factors: [self.alpha_parameters, self.beta_parameters],
                x: (self.x_descriptor, self.x),
                dy: (self.dy_descriptor, self.dy),
                dz: (self.dz_descriptor, self.dz),
                dx: (self.dx_descriptor, self.dx),
                parameters: self.parameters,
                affine: [self.scale, self.bias],
                gradients: [self.dscale, self.dbias],
                epsilon: self.epsilon,
                saved: [self.saved_mean, self.saved_inverse],
                activation: self.activation,
                spaces: Spaces {
                    workspace: (self.workspace, self.workspace_size),
                    reserve: (self.reserve, self.reserve_size),
                },
            }
            .run()
        }
    }
}

/// The arguments of a call.
struct Differentiation {
    mode: cudnnBatchNormMode_t,
    ops: cudnnBatchNormOps_t,
    data_factors: [*const c_void; 2],
    parameter_factors: [*const c_void; 2],
    x: (cudnnTensorDescriptor_t, *const c_void),
    dy: (cudnnTensorDescriptor_t, *const c_void),
    dz: (cudnnTensorDescriptor_t, *mut c_void),
    dx: (cudnnTensorDescriptor_t, *mut c_void),
    parameters: cudnnTensorDescriptor_t,
    affine: [*const c_void; 2],
    gradients: [*mut c_void; 2],
    epsilon: f64,
    saved: [*const c_void; 2],
    activation: cudnnActivationDescriptor_t,
    spaces: Spaces,
}

impl Differentiation {
    /// # Safety
    /// Every pointer is null or what cuDNN's contract says.
    unsafe fn run(&self) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            let x = refer::<TensorDescriptor>(self.x.0)?;
            let (dy, dx) = (refer::<TensorDescriptor>(self.dy.0)?, refer::<TensorDescriptor>(self.dx.0)?);
            let parameters = refer(self.parameters)?;
            let fused = Fused::new(self.ops, self.activation, self.dz.0)?;
            let sum = fused.as_ref().and_then(|fused| fused.sum);
            require(!self.x.1.is_null() && !self.dy.1.is_null() && !self.dx.1.is_null(), "tensors are not null")?;
            require(sum.is_none() || !self.dz.1.is_null(), "tensors are not null")?;
            require(self.gradients.iter().all(|to| !to.is_null()), "gradients are not null")?;
            let saved = check_statistics(self.epsilon, self.saved)?;
            if let Some(fused) = &fused {
                fused.check_layouts(self.mode, &[x, dy, dx])?;
            }
            let shape = shape(self.mode, &[x, dy, dx], parameters)?;
            if let Some(fused) = &fused {
                fused.check_operations(x)?;
                fused.check_channels(x)?;
                fused.check_spaces(x, &shape, self.spaces, saved)?;
            }
            let inputs = [(x, self.x.1), (dy, self.dy.1)];
            check_result((dx, self.dx.1), &inputs)?;
            if let Some(sum) = sum {
                check_result((sum, self.dz.1), &inputs)?;
                require(self.dz.1 != self.dx.1, "dz and dx are two tensors")?;
            }
            let (data_type, count) = (x.data_type(), shape.groups());
            let blend_data = blend(self.data_factors[0], self.data_factors[1], data_type)?;
            let blend_parameters = blend(self.parameter_factors[0], self.parameter_factors[1], data_type)?;
            let scale = read_parameter(self.affine[0], count, data_type)?;
            let bias = match (&fused, sum) {
                (Some(_), None) => read_parameter(self.affine[1], count, data_type)?,
                _ => Vec::new(),
            };
            let gate = match (&fused, sum) {
                (None, _) => Gate::Open,
                (Some(fused), None) => Gate::Recomputed(fused.relu(), &bias),
                (Some(_), Some(_)) => Gate::Kept(Mask(self.spaces.reserve.0.cast())),
            };
            let found = with_type!(data_type, T => {
                let input = tensor::<T>(x, self.x.1);
                let centres: Vec<Centre> = match saved {
                    true => {
                        let [means, deviations] = self.saved.map(|from| read_parameter(from, count, data_type));
                        let pairs = means?.into_iter().zip(deviations?);
                        pairs.map(|(mean, inverse_deviation)| Centre { mean, inverse_deviation }).collect()
                    }
                    false => moments(&shape, input).iter().map(|moments| moments.centre(self.epsilon)).collect(),
                };
                Ok(backward(&shape, &Backward {
                    x: input,
                    dy: tensor(dy, self.dy.1),
                    dx: tensor(dx, self.dx.1),
                    blend: blend_data,
                    dz: sum.map(|descriptor| tensor(descriptor, self.dz.1)),
                    centres: &centres,
                    scale: &scale,
                    gate,
                }))
            })?;
            let parts: [fn(&Gradient) -> f64; 2] = [|gradient| gradient.scale, |gradient| gradient.bias];
            for (to, part) in self.gradients.into_iter().zip(parts) {
                let old = read_parameter(to, count, data_type)?;
                let pairs = found.iter().zip(old);
                let new: Vec<f64> = pairs.map(|(gradient, old)| blend_parameters.of(part(gradient), || old)).collect();
                write_parameter(to, &new, data_type);
            }
            Ok(())
        }
    }
}
