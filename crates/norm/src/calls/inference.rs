//! Inference: `cudnnBatchNormalizationForwardInference`.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_abi::*;

use super::{Call, CudnnCall, Pass};
use crate::data::{Data, EPSILON, ONE, Place, ZERO};
use crate::eligible;
use crate::fitted::Fitted;
use crate::shape::{Flat, Planes};
use cudnn::arguments::{BatchNormInference, Promised};
use gpu::{Stream, jit};

/// A call of `cudnnBatchNormalizationForwardInference`.
#[derive(Clone, Copy)]
pub struct InferenceCall(Promised<BatchNormInference>);

/// Twin of `Inference` in `kernels/norm/inference.cu`. Arrays of parameters have a number for each channel, of the type that
/// the kernels are compiled for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Inference {
    pub flat: Flat,
    /// Aligned to 16 bytes, as y, which may be x.
    pub x: *const c_void,
    pub y: *mut c_void,
    /// Null for 1.
    pub scale: *const c_void,
    /// Null for 0.
    pub bias: *const c_void,
    pub mean: *const c_void,
    pub variance: *const c_void,
    /// Null, or where the mean and 1 / √(variance + epsilon) go.
    pub saved_mean: *mut f32,
    pub saved_inverse: *mut f32,
    pub epsilon: f32,
}

impl From<Promised<BatchNormInference>> for InferenceCall {
    fn from(call: Promised<BatchNormInference>) -> Self {
        Self(call)
    }
}

impl Call for InferenceCall {
    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error> {
        let (call, flat) = (&self.0, ours.flat());
        let parameters = Inference {
            flat,
            x: call.x,
            y: call.y,
            scale: call.scale,
            bias: call.bias,
            mean: call.estimated_mean,
            variance: call.estimated_variance,
            saved_mean: null_mut(),
            saved_inverse: null_mut(),
            epsilon: call.epsilon as f32,
        };
        // SAFETY: `planes` has checked the call's tensors and numbers, and their memory keeps cuDNN's rules.
        unsafe { ours.engine.launch(stream, &ours.subject, &ours.cut, parameters) }
    }
}

impl CudnnCall for InferenceCall {
    const PASS: Pass = Pass::Inference;

    fn handle(&self) -> cudnnHandle_t {
        self.0.handle
    }

    fn mode(&self) -> cudnnBatchNormMode_t {
        self.0.mode
    }

    fn planes(&self) -> Result<Planes, &'static str> {
        let call = &self.0;
        eligible::is_plain(call.mode, None, call.epsilon)?;
        // SAFETY: the descriptors and the factors are a call's.
        let planes = unsafe {
            eligible::is_replaced(call.alpha, call.beta)?;
            eligible::planes(&[call.x_descriptor, call.y_descriptor], call.parameters)?
        };
        Flat::new(&planes).ok_or("it has no elements, or too many")?;
        let [tensors, numbers] = eligible::sizes(&planes);
        let parameters = [call.scale, call.bias, call.estimated_mean, call.estimated_variance];
        let read: Vec<_> = [(call.x, tensors)].into_iter().chain(parameters.map(|place| (place, numbers))).collect();
        let y = call.y.cast_const();
        eligible::is_sound(&read, &[(y, tensors)], &[y], &[call.x, y])?;
        Ok(planes)
    }

    fn by_cudnn(&self) -> cudnnStatus_t {
        self.0.by_cudnn()
    }

    fn on(data: &Data) -> Self {
        let call = BatchNormInference {
            handle: data.handle(),
            mode: data.mode,
            alpha: (&raw const ONE).cast(),
            beta: (&raw const ZERO).cast(),
            x_descriptor: data.of_tensors(),
            x: data.tensor(0),
            y_descriptor: data.of_tensors(),
            y: data.tensor(1),
            parameters: data.of_parameters(),
            scale: data.at(Place::Scale),
            bias: data.at(Place::Bias),
            estimated_mean: data.at(Place::Mean),
            estimated_variance: data.at(Place::Deviation),
            epsilon: EPSILON,
        };
        // SAFETY: `data` owns the handle, the descriptors, and the memory that they describe.
        Self(unsafe { Promised::new(call) })
    }
}
