//! Batch normalization: training and inference.

use super::batch_norm::*;
use super::boundary::{context, refer};
use super::pointwise::with_type;
use crate::descriptor::TensorDescriptor;
use crate::error::{Error, Result, require};
use crate::norm::{Forward, Mask, Moments, average, forward, moments};
use cudnn_abi::*;
use half::{bf16, f16};
use std::ffi::{c_double, c_void};
use std::ptr::null_mut;

/// `y = alpha·(scale·x̂ + bias) + beta·y` by the statistics of x itself. `cudnnBatchNormalizationForwardTrainingEx`
/// with CUDNN_BATCHNORM_OPS_BN has all rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTraining(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    exponentialAverageFactor: c_double,
    resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void,
    epsilon: c_double,
    resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
) -> cudnnStatus_t {
    export!(cudnnBatchNormalizationForwardTraining, {
        let training = Training {
            ops: CUDNN_BATCHNORM_OPS_BN,
            z: (null_mut(), null_mut()),
            average_factor: exponentialAverageFactor,
            running: [resultRunningMean, resultRunningVariance],
            saved: [resultSaveMean, resultSaveInvVariance],
            activation: null_mut(),
            spaces: Spaces { workspace: (null_mut(), 0), reserve: (null_mut(), 0) },
        };
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            Normalization {
                mode,
                factors: [alpha, beta],
                x: (xDesc, x),
                y: (yDesc, y),
                parameters: bnScaleBiasMeanVarDesc,
                affine: [bnScale, bnBias],
                epsilon,
            }
            .train(training)
        }
    })
}

/// `y = alpha·f(scale·x̂ + bias [+ z]) + beta·y`, where f is the identity or a ReLU, by `bnOps`.
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardTrainingEx(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    bnOps: cudnnBatchNormOps_t,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    xData: *const c_void,
    zDesc: cudnnTensorDescriptor_t,
    zData: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    yData: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    exponentialAverageFactor: c_double,
    resultRunningMean: *mut c_void,
    resultRunningVariance: *mut c_void,
    epsilon: c_double,
    resultSaveMean: *mut c_void,
    resultSaveInvVariance: *mut c_void,
    activationDesc: cudnnActivationDescriptor_t,
    workspace: *mut c_void,
    workSpaceSizeInBytes: usize,
    reserveSpace: *mut c_void,
    reserveSpaceSizeInBytes: usize,
) -> cudnnStatus_t {
    export!(cudnnBatchNormalizationForwardTrainingEx, {
        let training = Training {
            ops: bnOps,
            z: (zDesc, zData),
            average_factor: exponentialAverageFactor,
            running: [resultRunningMean, resultRunningVariance],
            saved: [resultSaveMean, resultSaveInvVariance],
            activation: activationDesc,
            spaces: Spaces {
                workspace: (workspace, workSpaceSizeInBytes),
                reserve: (reserveSpace, reserveSpaceSizeInBytes),
            },
        };
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            Normalization {
                mode,
                factors: [alpha, beta],
                x: (xDesc, xData),
                y: (yDesc, yData),
                parameters: bnScaleBiasMeanVarDesc,
                affine: [bnScale, bnBias],
                epsilon,
            }
            .train(training)
        }
    })
}

/// `y = alpha·(scale·(x - estimatedMean)/√(estimatedVariance + epsilon) + bias) + beta·y`. Types, dimensions and
/// parameters are those of `cudnnBatchNormalizationForwardTrainingEx`. y may be x itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnBatchNormalizationForwardInference(
    handle: cudnnHandle_t,
    mode: cudnnBatchNormMode_t,
    alpha: *const c_void,
    beta: *const c_void,
    xDesc: cudnnTensorDescriptor_t,
    x: *const c_void,
    yDesc: cudnnTensorDescriptor_t,
    y: *mut c_void,
    bnScaleBiasMeanVarDesc: cudnnTensorDescriptor_t,
    bnScale: *const c_void,
    bnBias: *const c_void,
    estimatedMean: *const c_void,
    estimatedVariance: *const c_void,
    epsilon: c_double,
) -> cudnnStatus_t {
    export!(cudnnBatchNormalizationForwardInference, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            Normalization {
                mode,
                factors: [alpha, beta],
                x: (xDesc, x),
                y: (yDesc, y),
                parameters: bnScaleBiasMeanVarDesc,
                affine: [bnScale, bnBias],
                epsilon,
            }
            .infer([estimatedMean, estimatedVariance])
        }
    })
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
