//! Data of our own for a pass, on which it is timed ahead of time.

use std::ffi::c_void;

use cudnn_abi::*;

use super::shape::Planes;
use super::subject::{Normalization, Plain};
use cudnn::owned::{OwnedHandle, OwnedTensor};
use cudnn::tensor::Tensor;
use gpu::{Buffer, Device, OwnStream, Stream};
use tuning::waiting::fill;

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
    pub fn new(device: Device, subject: &Normalization, most: usize) -> Result<Self, String> {
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
        let mode = match subject.plain {
            Plain::Spatial => CUDNN_BATCHNORM_SPATIAL,
            Plain::Persistent => CUDNN_BATCHNORM_SPATIAL_PERSISTENT,
            Plain::Native => return Err("only a program of PyTorch's can time PyTorch's own kernels".into()),
        };
        let tensors = (0..count).map(|_| allocate(sizes[0], element.cudnn_type())).collect::<Result<_, _>>()?;
        let numbers = allocate(sizes[1], CUDNN_DATA_FLOAT)?;
        Ok(Self { mode, of_tensors, of_parameters, tensors, numbers, channels, handle, stream })
    }

    pub fn stream(&self) -> Stream {
        self.stream.raw()
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
