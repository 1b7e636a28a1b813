//! Backward in training: `cudnnBatchNormalizationBackward` and its `Ex`.

use std::ffi::c_void;

use cudnn_abi::*;

use super::{Call, CudnnCall, Pass};
use crate::data::{Data, EPSILON, ONE, Place, ZERO};
use crate::eligible;
use crate::fitted::Fitted;
use crate::shape::{Planes, Shape};
use cudnn::arguments::{BatchNormBackward, BatchNormBackwardEx, Promised};
use gpu::{Stream, jit};

/// A call of `cudnnBatchNormalizationBackward`, or of its `Ex`.
#[derive(Clone, Copy)]
pub struct BackwardCall {
    /// The arguments that both functions take.
    common: Promised<BatchNormBackward>,
    ex: Option<Promised<BatchNormBackwardEx>>,
}

/// Twin of `Backward` in `kernels/norm/backward.cu`. Arrays of parameters have a number for each channel, of the type
/// that the kernels are compiled for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Backward {
    pub shape: Shape,
    /// Aligned to 16 bytes, as dy and dx, which may be x or dy.
    pub x: *const c_void,
    pub dy: *const c_void,
    pub dx: *mut c_void,
    /// Null for 1.
    pub scale: *const c_void,
    pub saved_mean: *const f32,
    pub saved_inverse: *const f32,
    /// Null where nobody asks for it, as dbias.
    pub dscale: *mut c_void,
    pub dbias: *mut c_void,
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

impl Call for BackwardCall {
    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error> {
        let (call, shape) = (&self.common, ours.clusters());
        let parameters = Backward {
            shape,
            x: call.x,
            dy: call.dy,
            dx: call.dx,
            scale: call.scale,
            saved_mean: call.saved_mean.cast(),
            saved_inverse: call.saved_inverse.cast(),
            dscale: call.dscale,
            dbias: call.dbias,
        };
        // SAFETY: `planes` has checked the call's tensors and numbers, and their memory keeps cuDNN's rules.
        unsafe { ours.engine.launch(stream, &ours.subject, &ours.cut, parameters) }
    }
}

impl CudnnCall for BackwardCall {
    const PASS: Pass = Pass::Backward;

    fn handle(&self) -> cudnnHandle_t {
        self.common.handle
    }

    fn mode(&self) -> cudnnBatchNormMode_t {
        self.common.mode
    }

    fn planes(&self) -> Result<Planes, &'static str> {
        let call = &self.common;
        eligible::is_plain(call.mode, self.ex.map(|ex| ex.ops), call.epsilon)?;
        // SAFETY: the descriptors and the factors are a call's.
        let planes = unsafe {
            eligible::is_replaced(call.alpha_data, call.beta_data)?;
            eligible::is_replaced(call.alpha_parameters, call.beta_parameters)?;
            eligible::planes(&[call.x_descriptor, call.dy_descriptor, call.dx_descriptor], call.parameters)?
        };
        eligible::is_reduced(&planes)?;
        let [tensors, numbers] = eligible::sizes(&planes);
        let parameters = [call.scale, call.saved_mean, call.saved_inverse].map(|place| (place, numbers));
        let read: Vec<_> = [(call.x, tensors), (call.dy, tensors)].into_iter().chain(parameters).collect();
        let gradients = [call.dscale, call.dbias].map(|place| (place.cast_const(), numbers));
        let written = [(call.dx.cast_const(), tensors), gradients[0], gradients[1]];
        let needed = [call.dx.cast_const(), gradients[0].0, gradients[1].0];
        eligible::is_sound(&read, &written, &needed, &[call.x, call.dy, call.dx])?;
        Ok(planes)
    }

    fn by_cudnn(&self) -> cudnnStatus_t {
        self.ex.as_ref().map_or_else(|| self.common.by_cudnn(), |ex| ex.by_cudnn())
    }

    fn on(data: &Data) -> Self {
        let call = BatchNormBackward {
            handle: data.handle(),
            mode: data.mode,
            alpha_data: (&raw const ONE).cast(),
            beta_data: (&raw const ZERO).cast(),
            alpha_parameters: (&raw const ONE).cast(),
            beta_parameters: (&raw const ZERO).cast(),
            x_descriptor: data.of_tensors(),
            x: data.tensor(0),
            dy_descriptor: data.of_tensors(),
            dy: data.tensor(1),
            dx_descriptor: data.of_tensors(),
            dx: data.tensor(2),
            parameters: data.of_parameters(),
            scale: data.at(Place::Scale),
            dscale: data.at(Place::Results),
            dbias: data.at(Place::MoreResults),
            epsilon: EPSILON,
            saved_mean: data.at(Place::Mean),
            saved_inverse: data.at(Place::Deviation),
        };
        // SAFETY: `data` owns the handle, the descriptors, and the memory that they describe.
        unsafe { Promised::new(call) }.into()
    }
}
