//! The arguments of cuDNN's functions, and cuDNN's own answer to them.

use std::ffi::c_void;

use cudnn::calls::norm as calls;
use cudnn_abi::*;

/// The arguments that only the functions with names in `Ex` take.
#[derive(Clone, Copy)]
pub struct Extra {
    pub ops: cudnnBatchNormOps_t,
    pub z_descriptor: cudnnTensorDescriptor_t,
    pub activation: cudnnActivationDescriptor_t,
    pub workspace: *mut c_void,
    pub workspace_size: usize,
    pub reserve: *mut c_void,
    pub reserve_size: usize,
}

/// The arguments of `cudnnBatchNormalizationForwardTraining`, and of its `Ex`.
#[derive(Clone, Copy)]
pub struct ForwardCall {
    pub handle: cudnnHandle_t,
    pub mode: cudnnBatchNormMode_t,
    pub alpha: *const c_void,
    pub beta: *const c_void,
    pub x_descriptor: cudnnTensorDescriptor_t,
    pub x: *const c_void,
    pub y_descriptor: cudnnTensorDescriptor_t,
    pub y: *mut c_void,
    pub parameters: cudnnTensorDescriptor_t,
    pub scale: *const c_void,
    pub bias: *const c_void,
    pub factor: f64,
    pub running_mean: *mut c_void,
    pub running_variance: *mut c_void,
    pub epsilon: f64,
    pub saved_mean: *mut c_void,
    pub saved_inverse: *mut c_void,
    /// The arguments of `Ex` alone, and z's data.
    pub extra: Option<(Extra, *const c_void)>,
}

/// The arguments of `cudnnBatchNormalizationBackward`, and of its `Ex`.
#[derive(Clone, Copy)]
pub struct BackwardCall {
    pub handle: cudnnHandle_t,
    pub mode: cudnnBatchNormMode_t,
    pub alpha_data: *const c_void,
    pub beta_data: *const c_void,
    pub alpha_parameters: *const c_void,
    pub beta_parameters: *const c_void,
    pub x_descriptor: cudnnTensorDescriptor_t,
    pub x: *const c_void,
    pub dy_descriptor: cudnnTensorDescriptor_t,
    pub dy: *const c_void,
    pub dx_descriptor: cudnnTensorDescriptor_t,
    pub dx: *mut c_void,
    pub parameters: cudnnTensorDescriptor_t,
    pub scale: *const c_void,
    pub dscale: *mut c_void,
    pub dbias: *mut c_void,
    pub epsilon: f64,
    pub saved_mean: *const c_void,
    pub saved_inverse: *const c_void,
    pub extra: Option<BackwardExtra>,
}

/// The arguments that only `cudnnBatchNormalizationBackwardEx` takes.
#[derive(Clone, Copy)]
pub struct BackwardExtra {
    pub extra: Extra,
    pub y_descriptor: cudnnTensorDescriptor_t,
    pub y: *const c_void,
    /// The gradient of z, whose descriptor is in `extra`.
    pub dz: *mut c_void,
    pub bias: *const c_void,
}

impl ForwardCall {
    /// Lets cuDNN answer the call.
    ///
    /// # Safety
    /// The fields are the arguments of a call, whose caller keeps cuDNN's rules.
    pub unsafe fn by_cudnn(&self) -> cudnnStatus_t {
        let Self { handle, mode, alpha, beta, x, y, parameters, scale, bias, factor, epsilon, .. } = *self;
        let (x_of, y_of) = (self.x_descriptor, self.y_descriptor);
        let (mean, variance) = (self.running_mean, self.running_variance);
        let saved = (self.saved_mean, self.saved_inverse);
        // SAFETY: the caller promises the arguments of this very function.
        unsafe {
            match self.extra {
                None => calls::cudnnBatchNormalizationForwardTraining(
                    handle, mode, alpha, beta, x_of, x, y_of, y, parameters, scale, bias, factor, mean, variance,
                    epsilon, saved.0, saved.1,
                ),
                Some((extra, z)) => {
                    let Extra { ops, z_descriptor, activation, workspace, workspace_size, reserve, reserve_size } =
                        extra;
                    calls::cudnnBatchNormalizationForwardTrainingEx(
                        handle,
                        mode,
                        ops,
                        alpha,
                        beta,
                        x_of,
                        x,
                        z_descriptor,
                        z,
                        y_of,
                        y,
                        parameters,
                        scale,
                        bias,
                        factor,
                        mean,
                        variance,
                        epsilon,
                        saved.0,
                        saved.1,
                        activation,
                        workspace,
                        workspace_size,
                        reserve,
                        reserve_size,
                    )
                }
            }
        }
    }
}

impl BackwardCall {
    /// Lets cuDNN answer the call.
    ///
    /// # Safety
    /// As for [`ForwardCall::by_cudnn`].
    pub unsafe fn by_cudnn(&self) -> cudnnStatus_t {
        let Self { handle, mode, x, dy, dx, parameters, scale, dscale, dbias, epsilon, .. } = *self;
        let data = (self.alpha_data, self.beta_data);
        let of_parameters = (self.alpha_parameters, self.beta_parameters);
        let (x_of, dy_of, dx_of) = (self.x_descriptor, self.dy_descriptor, self.dx_descriptor);
        let saved = (self.saved_mean, self.saved_inverse);
        // SAFETY: the caller promises the arguments of this very function.
        unsafe {
            match self.extra {
                None => calls::cudnnBatchNormalizationBackward(
                    handle,
                    mode,
                    data.0,
                    data.1,
                    of_parameters.0,
                    of_parameters.1,
                    x_of,
                    x,
                    dy_of,
                    dy,
                    dx_of,
                    dx,
                    parameters,
                    scale,
                    dscale,
                    dbias,
                    epsilon,
                    saved.0,
                    saved.1,
                ),
                Some(BackwardExtra { extra, y_descriptor, y, dz, bias }) => {
                    let Extra { ops, z_descriptor, activation, workspace, workspace_size, reserve, reserve_size } =
                        extra;
                    calls::cudnnBatchNormalizationBackwardEx(
                        handle,
                        mode,
                        ops,
                        data.0,
                        data.1,
                        of_parameters.0,
                        of_parameters.1,
                        x_of,
                        x,
                        y_descriptor,
                        y,
                        dy_of,
                        dy,
                        z_descriptor,
                        dz,
                        dx_of,
                        dx,
                        parameters,
                        scale,
                        bias,
                        dscale,
                        dbias,
                        epsilon,
                        saved.0,
                        saved.1,
                        activation,
                        workspace,
                        workspace_size,
                        reserve,
                        reserve_size,
                    )
                }
            }
        }
    }
}
