//! `UCUDNN_CHECK=1`: what the program asked for runs too, and the results are compared.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::problem::graph::Tensor;
use gpu::{Buffer, Device, Stream};

/// A result, and a copy of what it held before the call, for what the program asked for to work on.
pub struct Check {
    device: Device,
    stream: Stream,
    tensor: Tensor,
    result: *mut c_void,
    copy: Buffer,
}

impl Check {
    /// Copies a result that is about to be written. `None` where there is no memory for it, or under stream capture.
    ///
    /// # Safety
    /// The result is memory of the device for the tensor.
    pub unsafe fn prepare(device: Device, stream: Stream, tensor: Tensor, result: *mut c_void) -> Option<Self> {
        if device.is_capturing(stream) {
            return None;
        }
        let copy = device.allocate(tensor.bytes()?)?;
        // SAFETY: as ours.
        let copied = unsafe { device.copy(copy.data(), result, copy.bytes(), stream) };
        copied.then_some(Self { device, stream, tensor, result, copy })
    }

    /// The result's own memory.
    pub fn result(&self) -> *mut c_void {
        self.result
    }

    /// What to run on in place of that.
    pub fn copy(&self) -> *mut c_void {
        self.copy.data()
    }

    /// How far the result is from what was computed in the copy, once the stream's work is done:
    /// ‖result − copy‖ / ‖copy‖, in double precision. `Err` says why it could not be told.
    ///
    /// # Safety
    /// As for [`Self::prepare`].
    pub unsafe fn error(&self) -> Result<f64, String> {
        let (mut ours, mut theirs) = (vec![0; self.copy.bytes()], vec![0; self.copy.bytes()]);
        // SAFETY: the result is as long as the copy.
        let read = unsafe {
            self.device.read(&mut ours, self.result, self.stream)
                && self.device.read(&mut theirs, self.copy.data(), self.stream)
        };
        read.then(|| relative_error(&self.tensor, &ours, &theirs)).ok_or("the results cannot be read".into())
    }
}

/// The most that two algorithms of one class may differ by for operands of a type: rounding in the order of summation,
/// and for float that is computed in TF32 that type's 10 bits.
pub fn tolerance(data_type: cudnnDataType_t, is_tf32: bool) -> f64 {
    match data_type {
        CUDNN_DATA_DOUBLE => 1e-12,
        CUDNN_DATA_FLOAT if cudnn::device() == Device::Host || !is_tf32 => 1e-5,
        CUDNN_DATA_BFLOAT16 => 1.6e-2,
        _ => 2e-3,
    }
}

fn relative_error(tensor: &Tensor, ours: &[u8], theirs: &[u8]) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    for_each_value(tensor, |offset| {
        let (a, b) = (value(tensor.data_type, ours, offset), value(tensor.data_type, theirs, offset));
        // What the program's own NaN or infinity made is the same in both.
        if a != b && !(a.is_nan() && b.is_nan()) {
            difference += (a - b) * (a - b);
        }
        norm += if b.is_finite() { b * b } else { 0.0 };
    });
    if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }
}

/// Calls with the byte offset of each value: not of the gaps between them.
fn for_each_value(tensor: &Tensor, mut visit: impl FnMut(usize)) {
    for mut index in 0..tensor.values() {
        let mut offset = 0;
        for (&dim, &stride) in tensor.dims.iter().zip(&tensor.strides).rev() {
            offset += index % dim as usize * stride as usize;
            index /= dim as usize;
        }
        visit(offset * tensor.element());
    }
}

fn value(data_type: cudnnDataType_t, bytes: &[u8], offset: usize) -> f64 {
    fn at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
        std::array::from_fn(|i| bytes[offset + i])
    }
    match data_type {
        CUDNN_DATA_DOUBLE => f64::from_ne_bytes(at(bytes, offset)),
        CUDNN_DATA_FLOAT => f64::from(f32::from_ne_bytes(at(bytes, offset))),
        CUDNN_DATA_HALF => half::f16::from_ne_bytes(at(bytes, offset)).to_f64(),
        _ => half::bf16::from_ne_bytes(at(bytes, offset)).to_f64(),
    }
}
