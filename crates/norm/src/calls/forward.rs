//! Forward in training: `cudnnBatchNormalizationForwardTraining` and its `Ex`.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_abi::*;

use super::{Call, CudnnCall, Pass};
use crate::data::{Data, EPSILON, ONE, Place, ZERO};
use crate::eligible;
use crate::fitted::Fitted;
use crate::shape::{Planes, Shape};
use cudnn::arguments::{BatchNormForward, BatchNormForwardEx, Promised};
use gpu::{Stream, jit};

/// A call of `cudnnBatchNormalizationForwardTraining`, or of its `Ex`.
#[derive(Clone, Copy)]
pub struct ForwardCall {
    /// The arguments that both functions take.
    common: Promised<BatchNormForward>,
    ex: Option<Promised<BatchNormForwardEx>>,
}

/// Twin of `Forward` in `kernels/norm/forward.cu`. Arrays of parameters have a number for each channel, of the type that
/// the kernels are compiled for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Forward {
    pub shape: Shape,
    /// Aligned to 16 bytes, as y, which may be x.
    pub x: *const c_void,
    pub y: *mut c_void,
    /// Null for 1.
    pub scale: *const c_void,
    /// Null for 0.
    pub bias: *const c_void,
    /// Null, or old statistics, which become old · (1 − factor) + new · factor. The variance is the unbiased one.
    pub running_mean: *mut c_void,
    pub running_variance: *mut c_void,
    /// Null, or where the mean and 1 / √(variance + epsilon) go.
    pub saved_mean: *mut f32,
    pub saved_inverse: *mut f32,
    pub epsilon: f64,
    pub factor: f64,
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

impl Call for ForwardCall {
    unsafe fn launch(&self, ours: &Fitted, stream: Stream) -> Result<(), jit::Error> {
        let (call, shape) = (&self.common, ours.clusters());
        let parameters = Forward {
            shape,
            x: call.x,
            y: call.y,
            scale: call.scale,
            bias: call.bias,
            running_mean: call.running_mean,
            running_variance: call.running_variance,
            saved_mean: call.saved_mean.cast(),
            saved_inverse: call.saved_inverse.cast(),
            epsilon: call.epsilon,
            factor: call.factor,
        };
        // SAFETY: `planes` has checked the call's tensors and numbers, and their memory keeps cuDNN's rules.
        unsafe { ours.engine.launch(stream, &ours.subject, &ours.cut, parameters) }
    }
}

impl CudnnCall for ForwardCall {
    const PASS: Pass = Pass::Forward;

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
            eligible::is_replaced(call.alpha, call.beta)?;
            eligible::planes(&[call.x_descriptor, call.y_descriptor], call.parameters)?
        };
        eligible::is_reduced(&planes)?;
        if call.saved_mean.is_null() != call.saved_inverse.is_null() {
            return Err("only one of the saved statistics is asked for");
        }
        let [tensors, numbers] = eligible::sizes(&planes);
        let read = [(call.x, tensors), (call.scale, numbers), (call.bias, numbers)];
        let statistics = [call.running_mean, call.running_variance, call.saved_mean, call.saved_inverse];
        let statistics = statistics.map(|place| (place.cast_const(), numbers));
        let written: Vec<_> = [(call.y.cast_const(), tensors)].into_iter().chain(statistics).collect();
        eligible::is_sound(&read, &written, &[call.y.cast_const()], &[call.x, call.y])?;
        Ok(planes)
    }

    fn by_cudnn(&self) -> cudnnStatus_t {
        self.ex.as_ref().map_or_else(|| self.common.by_cudnn(), |ex| ex.by_cudnn())
    }

    fn on(data: &Data) -> Self {
        let call = BatchNormForward {
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
            factor: 0.0,
            running_mean: null_mut(),
            running_variance: null_mut(),
            epsilon: EPSILON,
            saved_mean: data.at(Place::Results),
            saved_inverse: data.at(Place::MoreResults),
        };
        // SAFETY: `data` owns the handle, the descriptors, and the memory that they describe.
        unsafe { Promised::new(call) }.into()
    }
}
