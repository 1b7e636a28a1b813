//! Times a pass ahead of time, on our own handle and data (`ucudnn tune --norm`). Programs recall the result.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudnn_abi::*;

use super::calls::Call;
use super::contestant::NormContestant;
use super::eligible;
use super::fitted::Fitted;
use super::run::launch;
use super::shape::{Cut, Planes};
use super::subject::Normalization;
use cudnn::owned::{OwnedHandle, OwnedTensor};
use cudnn::tensor::Tensor;
use gpu::{Buffer, Device, OwnStream, Stream};
use tuning::contest::ahead::Candidates;
use tuning::contest::recall::{self, Recalled};
use tuning::contest::trial::Candidate;
use tuning::contest::turns::{Started, Trial};
use tuning::contest::{Contestant, Times};
use tuning::family::Time;
use tuning::waiting::fill;

/// A pass to time.
pub struct Job<'a> {
    pub subject: &'a Normalization,
    /// The device's number.
    pub device: i32,
    /// The most bytes of the device's memory that timing may take.
    pub bytes: usize,
    /// Setting this stops the timing soon after; nothing is stored then.
    pub stop: &'a AtomicBool,
    /// Called after each execution, with an upper bound of those that remain.
    pub progress: &'a dyn Fn(usize),
}

/// The result of a timing.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The faster one: our kernels' name, or `cuDNN`.
    pub chosen: String,
    /// The time of each.
    pub times: Vec<Time>,
}

/// Times cuDNN and our kernels, and stores the times. A pass that the database knows is not timed again. `Err` gives
/// the reason why there is nothing to time.
pub fn tune(job: &Job) -> Result<Found, String> {
    let device = cudnn::device();
    let _entered = device.enter(job.device).ok_or_else(|| format!("device {} is not there", job.device))?;
    let subject = job.subject;
    if subject.pass.row().kept > 0 {
        eligible::is_reduced(&subject.planes)?;
    }
    let contestant = NormContestant::new(job.device, subject);
    let candidates = Candidates::load(&contestant, 0)?;
    let found = |recalled: Recalled<Cut>| {
        let chosen = recalled.names(&contestant).swap_remove(0);
        Found { chosen, times: recalled.times.into_iter().next().unwrap_or_default() }
    };
    if let Some(recalled) = recall::of_database(&contestant) {
        return Ok(found(recalled));
    }
    let data = Data::new(device, subject, job.bytes)?;
    let Job { stop, progress, .. } = *job;
    let trial = Trial { device, stream: data.stream.raw(), stop, progress };
    let times = trial.times(candidates.all.len(), |index, turns| {
        candidates
            .all
            .iter()
            .filter_map(Candidate::kernel)
            .for_each(|ours| contestant.before_timed(ours, trial.stream));
        let started = Started::start(device, trial.stream);
        // SAFETY: `data` and the kernels are made for the subject, and the stream is the handle's.
        let status = unsafe { (subject.pass.row().run)(&data, candidates.all[index].kernel(), trial.stream) }?;
        if status != CUDNN_STATUS_SUCCESS {
            return Err(format!("cuDNN refuses it with status {status}"));
        }
        turns.ran(index, 1, started.and_then(|started| started.end(device, trial.stream)));
        Ok(())
    })?;
    let mut all = Times::default();
    all[0] = candidates.times(&contestant, &times);
    recall::keep(&contestant, &all);
    recall::of_times(&contestant, all).map(found).ok_or_else(|| "cuDNN's time is not known".into())
}

/// Runs a call on data of our own by our kernels, or else by cuDNN.
///
/// # Safety
/// The data are made for a subject of the call's pass, our kernels for this subject, and the stream is the data's.
pub unsafe fn run<C: Call>(data: &Data, ours: Option<&Arc<Fitted>>, stream: Stream) -> Result<cudnnStatus_t, String> {
    let call = C::on(data);
    match ours {
        // SAFETY: the kernels are the call's (see `# Safety`).
        Some(ours) => unsafe { launch(&call, ours, stream) }.map(|()| CUDNN_STATUS_SUCCESS),
        None => Ok(call.by_cudnn()),
    }
}

pub const EPSILON: f64 = 1e-5;
/// The factors alpha and beta of a result that replaces the old values.
pub static ONE: f32 = 1.0;
pub static ZERO: f32 = 0.0;

/// Places of the numbers for each channel in their buffer.
#[derive(Clone, Copy)]
pub enum Place {
    Scale,
    Bias,
    Mean,
    /// Its inverse in training, and the variance in inference.
    Deviation,
    Results,
    MoreResults,
}

/// The tensors of a pass, which this struct owns.
pub struct Data {
    pub mode: cudnnBatchNormMode_t,
    of_tensors: OwnedTensor,
    of_parameters: OwnedTensor,
    /// Those that the pass reads, and the result.
    tensors: Vec<Buffer>,
    /// Each place's number for each channel.
    numbers: Buffer,
    channels: usize,
    handle: OwnedHandle,
    stream: OwnStream,
}

impl Data {
    fn new(device: Device, subject: &Normalization, most: usize) -> Result<Self, String> {
        let refused = |status| format!("cuDNN refuses it with status {status}");
        let stream = device.stream().ok_or("the device gives no stream")?;
        let handle = OwnedHandle::new(stream.raw()).map_err(refused)?;
        let Planes { element, images, channels, plane } = subject.planes;
        let describe = |data_type, dims: [usize; 3]| {
            let [images, channels, plane] = dims;
            let tensor = Tensor {
                data_type,
                dims: [images as i32, channels as i32, plane as i32, 1, 0],
                strides: [(channels * plane) as i32, plane as i32, 1, 1, 0],
            };
            OwnedTensor::new(4, &tensor).map_err(refused)
        };
        let of_tensors = describe(element.cudnn_type(), [images, channels, plane])?;
        let of_parameters = describe(CUDNN_DATA_FLOAT, [1, channels, 1])?;
        let places = Place::MoreResults as usize + 1;
        let sizes = [images * channels * plane * element.bytes(), places * channels * size_of::<f32>()];
        let count = subject.pass.row().tensors;
        if count * sizes[0] + sizes[1] > most {
            return Err(format!("its data take more than {most} bytes"));
        }
        let allocate = |bytes: usize, data_type| {
            let buffer = device.allocate(bytes).ok_or_else(|| format!("{bytes} bytes of its data cannot be had"))?;
            let is_filled = fill(device, stream.raw(), &buffer, data_type);
            if is_filled { Ok(buffer) } else { Err("its data cannot be written".to_owned()) }
        };
        let mode = if subject.is_persistent { CUDNN_BATCHNORM_SPATIAL_PERSISTENT } else { CUDNN_BATCHNORM_SPATIAL };
        let tensors = (0..count).map(|_| allocate(sizes[0], element.cudnn_type())).collect::<Result<_, _>>()?;
        let numbers = allocate(sizes[1], CUDNN_DATA_FLOAT)?;
        Ok(Self { mode, of_tensors, of_parameters, tensors, numbers, channels, handle, stream })
    }

    pub fn handle(&self) -> cudnnHandle_t {
        self.handle.raw()
    }

    /// The descriptor of all tensors.
    pub fn of_tensors(&self) -> cudnnTensorDescriptor_t {
        self.of_tensors.raw()
    }

    pub fn of_parameters(&self) -> cudnnTensorDescriptor_t {
        self.of_parameters.raw()
    }

    pub fn tensor(&self, place: usize) -> *mut c_void {
        self.tensors[place].data()
    }

    pub fn at(&self, place: Place) -> *mut c_void {
        self.numbers.data().wrapping_byte_add(place as usize * self.channels * size_of::<f32>())
    }
}
