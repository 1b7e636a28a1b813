//! Answers a call: by our kernels where the settings say so and they can, else by cuDNN.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::call::{BackwardCall, ForwardCall};
use super::eligible;
use super::kernels::{Backward, Engine, Forward, Pass, likely, shapes};
use super::shape::{Planes, Room, Shape};
use cudnn::{calls, policies};
use gpu::Stream;
use gpu::background::compiling;
use guest::settings::{self, Norm, Policy};

/// What a call runs on.
struct Ready {
    stream: Stream,
    planes: Planes,
    shape: Shape,
    engine: Arc<Result<Engine, String>>,
}

impl Ready {
    fn new(handle: cudnnHandle_t, pass: Pass, planes: Planes) -> Result<Self, String> {
        settings::fault_point("norm");
        // SAFETY: the handle is an argument of the program's call, and cuDNN checks it.
        let stream = unsafe { calls::stream_of(handle) }.ok_or("its stream is not told")?;
        let device = cudnn::device();
        let room = Room::of(device, device.ordinal()).ok_or("the device does not tell its properties")?;
        let shapes = shapes(pass, &planes, &room);
        let shape = *shapes.get(likely(&planes, &room, &shapes)).ok_or("the device has no clusters of blocks")?;
        let engine = match device.is_capturing(stream) {
            true => Engine::find(device, pass, planes.element).ok_or("the stream is captured before it was loaded")?,
            false => compiling::now(|| Engine::load(device, pass, planes.element)),
        };
        Ok(Self { stream, planes, shape, engine })
    }

    /// Runs the engine. After a failure the call's inputs are as they were, so that cuDNN can run it.
    fn launch(&self, launch: impl FnOnce(&Engine) -> Result<(), gpu::jit::Error>) -> Result<(), String> {
        settings::fault_point("norm-launch");
        let engine = self.engine.as_ref().as_ref().map_err(Clone::clone)?;
        launch(engine).map_err(|error| error.to_string())
    }
}

fn is_off(handle: cudnnHandle_t) -> bool {
    settings::get().norm == Norm::Off || policies::of(handle).policy == Policy::Off
}

/// Says why a call that our kernels could take is cuDNN's: once aloud.
fn failed(planes: &Planes, why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let level = if SAID.swap(true, Ordering::Relaxed) { log::Level::Debug } else { log::Level::Warn };
    log::log!(level, "batch normalization of {planes}: cuDNN runs it: {why}");
}

impl ForwardCall {
    /// Answers the call.
    ///
    /// # Safety
    /// As for [`Self::run_as_asked`].
    pub unsafe fn run(&self) -> cudnnStatus_t {
        if !is_off(self.handle) {
            // SAFETY: the caller's promise.
            match unsafe { eligible::forward(self) } {
                Err(why) => log::trace!("a batch normalization is cuDNN's: {why}"),
                // SAFETY: the caller's promise, and `eligible` has checked what the kernels require.
                Ok(planes) => match unsafe { self.run_on_ours(planes) } {
                    Ok(()) => return CUDNN_STATUS_SUCCESS,
                    Err(why) => failed(&planes, &why),
                },
            }
        }
        // SAFETY: the caller's promise; our kernels have changed nothing.
        unsafe { self.run_as_asked() }
    }

    /// # Safety
    /// As for [`Self::run_as_asked`], and the planes are the call's.
    unsafe fn run_on_ours(&self, planes: Planes) -> Result<(), String> {
        let ready = Ready::new(self.handle, Pass::Forward, planes)?;
        let parameters = Forward {
            shape: ready.shape,
            x: self.x,
            y: self.y,
            scale: self.scale.cast(),
            bias: self.bias.cast(),
            running_mean: self.running_mean.cast(),
            running_variance: self.running_variance.cast(),
            saved_mean: self.saved_mean.cast(),
            saved_inverse: self.saved_inverse.cast(),
            epsilon: self.epsilon as f32,
            factor: self.factor as f32,
            rest: (1.0 - self.factor) as f32,
        };
        // SAFETY: the tensors and the parameters are those of the planes (see `# Safety`).
        ready.launch(|engine| unsafe { engine.normalize(ready.stream, &ready.planes, &parameters) })?;
        log::debug!("batch normalization of {planes}: on our kernels");
        Ok(())
    }
}

impl BackwardCall {
    /// Answers the call.
    ///
    /// # Safety
    /// As for [`Self::run_as_asked`].
    pub unsafe fn run(&self) -> cudnnStatus_t {
        if !is_off(self.handle) {
            // SAFETY: the caller's promise.
            match unsafe { eligible::backward(self) } {
                Err(why) => log::trace!("a batch normalization's gradient is cuDNN's: {why}"),
                // SAFETY: the caller's promise, and `eligible` has checked what the kernels require.
                Ok(planes) => match unsafe { self.run_on_ours(planes) } {
                    Ok(()) => return CUDNN_STATUS_SUCCESS,
                    Err(why) => failed(&planes, &why),
                },
            }
        }
        // SAFETY: the caller's promise; our kernels have changed nothing.
        unsafe { self.run_as_asked() }
    }

    /// # Safety
    /// As for [`Self::run_as_asked`], and the planes are the call's.
    unsafe fn run_on_ours(&self, planes: Planes) -> Result<(), String> {
        let ready = Ready::new(self.handle, Pass::Backward, planes)?;
        let parameters = Backward {
            shape: ready.shape,
            x: self.x,
            dy: self.dy,
            dx: self.dx,
            scale: self.scale.cast(),
            saved_mean: self.saved_mean.cast(),
            saved_inverse: self.saved_inverse.cast(),
            dscale: self.dscale.cast(),
            dbias: self.dbias.cast(),
        };
        // SAFETY: the tensors and the parameters are those of the planes (see `# Safety`).
        ready.launch(|engine| unsafe { engine.differentiate(ready.stream, &ready.planes, &parameters) })?;
        log::debug!("gradient of a batch normalization of {planes}: on our kernels");
        Ok(())
    }
}
