//! Batch normalization: training and inference.

use super::batch_norm::*;
use super::boundary::{context, refer};
use super::entries::*;
use super::pointwise::with_type;
use crate::descriptor::TensorDescriptor;
use crate::error::{Error, Result, require};
use crate::norm::{Forward, Mask, Moments, average, forward, moments};
use cudnn_abi::*;
use half::{bf16, f16};
use std::ffi::c_void;
use std::ptr::null_mut;

/// `y = alpha·(scale·x̂ + bias) + beta·y` by the statistics of x itself. `cudnnBatchNormalizationForwardTrainingEx`
/// with CUDNN_BATCHNORM_OPS_BN has all rules.
impl Answer for cudnnBatchNormalizationForwardTraining {
    unsafe fn answer(self) -> Result {
        let training = Training {
            ops: CUDNN_BATCHNORM_OPS_BN,
            z: (null_mut(), null_mut()),
            average_factor: self.factor,
            running: [self.running_mean, self.running_variance],
            saved: [self.saved_mean, self.saved_inverse],
            activation: null_mut(),
            spaces: Spaces { workspace: (null_mut(), 0), reserve: (null_mut(), 0) },
        };
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            Normalization {
                mode: self.mode,
                factors: [self.alpha, self.beta],
                x: (self.x_descriptor, self.x),
                y: (self.y_descriptor, self.y),
                parameters: self.parameters,
                affine: [self.scale, self.bias],
                epsilon: self.epsilon,
            }
            .train(training)
        }
    }
}

/// `y = alpha·f(scale·x̂ + bias [+ z]) + beta·y`, where f is the identity or a ReLU, by `ops`.
///
/// x, y and z have one type and the same four or five dimensions: n, c, h, w, with d before h. Types are half, bfloat16
/// and float, with alpha, beta and parameters in float, and double with all in double. Parameters are as
/// `cudnnDeriveBNTensorDescriptor` says. y may be x or z itself.
///
/// The running mean becomes `(1 - factor)·old + factor·mean`, and the running variance likewise by the unbiased
/// variance, which is NaN for a single element. Either may be null. The saved values are the mean and 1/√(variance +
/// epsilon) by the biased variance; both or neither are null.
///
/// Operations other than CUDNN_BATCHNORM_OPS_BN need CUDNN_BATCHNORM_SPATIAL_PERSISTENT, packed NHWC, no doubles,
/// CUDNN_ACTIVATION_RELU, a workspace and saved statistics; a sum also needs channels in fours, and the reserve. What
/// is missing is CUDNN_STATUS_NOT_SUPPORTED. Two things that cuDNN computes are not supported here: results whose
/// elements overlap, and CUDNN_ACTIVATION_SWISH. Other bad arguments are CUDNN_STATUS_BAD_PARAM.
impl Answer for cudnnBatchNormalizationForwardTrainingEx {
    unsafe fn answer(self) -> Result {
        let training = Training {
            ops: self.ops,
            z: (self.z_descriptor, self.z),
            average_factor: self.factor,
            running: [self.running_mean, self.running_variance],
            saved: [self.saved_mean, self.saved_inverse],
            activation: self.activation,
            spaces: Spaces {
                workspace: (self.workspace, self.workspace_size),
                reserve: (self.reserve, self.reserve_size),
            },
        };
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            Normalization {
                mode: self.mode,
                factors: [self.alpha, self.beta],
                x: (self.x_descriptor, self.x),
                y: (self.y_descriptor, self.y),
                parameters: self.parameters,
                affine: [self.scale, self.bias],
                epsilon: self.epsilon,
            }
            .train(training)
        }
    }
}

/// `y = alpha·(scale·(x - estimated_mean)/√(estimated_variance + epsilon) + bias) + beta·y`. Types, dimensions and
/// parameters are those of `cudnnBatchNormalizationForwardTrainingEx`. y may be x itself.
impl Answer for cudnnBatchNormalizationForwardInference {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            Normalization {
                mode: self.mode,
                factors: [self.alpha, self.beta],
                x: (self.x_descriptor, self.x),
                y: (self.y_descriptor, self.y),
                parameters: self.parameters,
                affine: [self.scale, self.bias],
                epsilon: self.epsilon,
            }
            .infer([self.estimated_mean, self.estimated_variance])
        }
    }
}

/// The arguments that training and inference share.
struct Normalization {
    mode: cudnnBatchNormMode_t,
    factors: [*const c_void; 2],
    x: (cudnnTensorDescriptor_t, *const c_void),
    y: (cudnnTensorDescriptor_t, *mut c_void),
    parameters: cudnnTensorDescriptor_t,
    affine: [*const c_void; 2],
    epsilon: f64,
}

/// Those of training alone.
struct Training {
    ops: cudnnBatchNormOps_t,
    z: (cudnnTensorDescriptor_t, *const c_void),
    average_factor: f64,
    running: [*mut c_void; 2],
    saved: [*mut c_void; 2],
    activation: cudnnActivationDescriptor_t,
    spaces: Spaces,
}

impl Normalization {
    /// # Safety
    /// Every pointer is null or what cuDNN's contract says.
    unsafe fn train(&self, training: Training) -> Result {
        let Training { ops, z, average_factor, running, saved, activation, spaces } = training;
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = (refer::<TensorDescriptor>(self.x.0)?, refer::<TensorDescriptor>(self.y.0)?);
            let parameters = refer(self.parameters)?;
            let fused = Fused::new(ops, activation, z.0)?;
            let sum = fused.as_ref().and_then(|fused| fused.sum);
            require(!self.x.1.is_null() && !self.y.1.is_null(), "tensors are not null")?;
            require(sum.is_none() || !z.1.is_null(), "tensors are not null")?;
            let saves = check_statistics(self.epsilon, saved.map(|pointer| pointer.cast_const()))?;
            if let Some(fused) = &fused {
                fused.check_layouts(self.mode, &[x, y])?;
            }
            let shape = shape(self.mode, &[x, y], parameters)?;
            if let Some(fused) = &fused {
                fused.check_operations(x)?;
                fused.check_channels(x)?;
                fused.check_spaces(x, &shape, spaces, saves)?;
            }
            check_result((y, self.y.1), &[(x, self.x.1), (sum.unwrap_or(x), z.1)])?;
            let (data_type, count) = (x.data_type(), shape.groups());
            let blend = blend(self.factors[0], self.factors[1], data_type)?;
            let scale = read_parameter(self.affine[0], count, data_type)?;
            let bias = read_parameter(self.affine[1], count, data_type)?;
            with_type!(data_type, T => {
                let input = tensor::<T>(x, self.x.1);
                let found = moments(&shape, input);
                let centres: Vec<_> = found.iter().map(|moments| moments.centre(self.epsilon)).collect();
                forward(&shape, &Forward {
                    x: input,
                    z: sum.map(|descriptor| tensor(descriptor, z.1)),
                    y: tensor(y, self.y.1),
                    blend,
                    centres: &centres,
                    scale: &scale,
                    bias: &bias,
                    relu: fused.as_ref().map(Fused::relu),
                    mask: sum.map(|_| Mask(spaces.reserve.0.cast())),
                });
                let members = shape.members();
                let new: [Vec<f64>; 2] = [
                    found.iter().map(|moments| moments.mean).collect(),
                    found.iter().map(|moments| moments.unbiased_variance(members)).collect(),
                ];
                for (to, new) in running.into_iter().zip(new).filter(|(to, _)| !to.is_null()) {
                    let old = read_parameter(to, count, data_type)?;
                    let next: Vec<f64> =
                        old.iter().zip(new).map(|(&old, new)| average(old, new, average_factor)).collect();
                    write_parameter(to, &next, data_type);
                }
                if saves {
                    let means: Vec<f64> = centres.iter().map(|centre| centre.mean).collect();
                    let deviations: Vec<f64> = centres.iter().map(|centre| centre.inverse_deviation).collect();
                    write_parameter(saved[0], &means, data_type);
                    write_parameter(saved[1], &deviations, data_type);
                }
                Ok(())
            })
        }
    }

    /// # Safety
    /// Every pointer is null or what cuDNN's contract says.
    unsafe fn infer(&self, estimated: [*const c_void; 2]) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, y) = (refer::<TensorDescriptor>(self.x.0)?, refer::<TensorDescriptor>(self.y.0)?);
            let parameters = refer(self.parameters)?;
            require(!self.x.1.is_null() && !self.y.1.is_null(), "tensors are not null")?;
            check_statistics(self.epsilon, estimated)?;
            let shape = shape(self.mode, &[x, y], parameters)?;
            check_result((y, self.y.1), &[(x, self.x.1)])?;
            let (data_type, count) = (x.data_type(), shape.groups());
            let blend = blend(self.factors[0], self.factors[1], data_type)?;
            let [scale, bias] = self.affine.map(|from| read_parameter(from, count, data_type));
            let (scale, bias) = (scale?, bias?);
            let [means, variances] = estimated.map(|from| read_parameter(from, count, data_type));
            let moments = means?.into_iter().zip(variances?).map(|(mean, variance)| Moments { mean, variance });
            let centres: Vec<_> = moments.map(|moments| moments.centre(self.epsilon)).collect();
            with_type!(data_type, T => {
                forward(&shape, &Forward::<T> {
                    x: tensor(x, self.x.1),
                    z: None,
                    y: tensor(y, self.y.1),
                    blend,
                    centres: &centres,
                    scale: &scale,
                    bias: &bias,
                    relu: None,
                    mask: None,
                });
                Ok(())
            })
        }
    }
}
