//! `UCUDNN_CHECK=1`: runs the requested algorithm too, and compares the two results.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::problem::graph::Tensor;
use gpu::{Buffer, Device, Stream};

/// A result, and a copy of its contents before the call; the requested algorithm works on the copy.
pub struct Check {
    device: Device,
    stream: Stream,
    tensor: Tensor,
    result: *mut c_void,
    copy: Buffer,
}

impl Check {
    /// Copies a result before the call writes it. `None` without memory for the copy, or under stream capture.
    ///
    /// # Safety
    /// `result` is device memory that holds the tensor.
    pub unsafe fn prepare(device: Device, stream: Stream, tensor: Tensor, result: *mut c_void) -> Option<Self> {
        if device.is_capturing(stream) {
            return None;
        }
        let copy = device.allocate(tensor.bytes()?)?;
        // SAFETY: the caller promises that `result` holds the tensor, and the new buffer is as long as the tensor.
        let copied = unsafe { device.copy(copy.data(), result, copy.bytes(), stream) };
        copied.then_some(Self { device, stream, tensor, result, copy })
    }

    /// The memory of the result itself.
    pub fn result(&self) -> *mut c_void {
        self.result
    }

    /// The copy, which the requested algorithm writes in place of the result.
    pub fn copy(&self) -> *mut c_void {
        self.copy.data()
    }

    /// Waits for the stream's work and returns ‖result − copy‖ / ‖copy‖, computed in double precision. `Err` says why
    /// the results cannot be read.
    ///
    /// # Safety
    /// The promise of [`Self::prepare`] still holds.
    pub unsafe fn error(&self) -> Result<f64, String> {
        let host = || {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(self.copy.bytes()).map_err(|_| "there is no memory for the results".to_owned())?;
            bytes.resize(self.copy.bytes(), 0);
            Ok::<_, String>(bytes)
        };
        let (mut ours, mut theirs) = (host()?, host()?);
        // SAFETY: the caller promises a live result, which is as long as the copy and both vectors.
        let read = unsafe {
            self.device.read(&mut ours, self.result, self.stream)
                && self.device.read(&mut theirs, self.copy.data(), self.stream)
        };
        if !read {
            return Err("the results cannot be read".into());
        }
        let Tensor { data_type, dims, strides, .. } = &self.tensor;
        let error = loops::relative_error(*data_type, dims, strides, &ours, &theirs);
        error.ok_or_else(|| format!("results of cuDNN's type {data_type} are not compared"))
    }
}

/// The largest relative error expected between two algorithms of one numerical class for data of this type. It allows
/// for rounding in another order of summation, and for the 10 bits of TF32 where TF32 computes float.
pub fn tolerance(data_type: cudnnDataType_t, is_tf32: bool) -> f64 {
    match data_type {
        CUDNN_DATA_DOUBLE => 1e-12,
        CUDNN_DATA_FLOAT if cudnn::device() == Device::Host || !is_tf32 => 1e-5,
        CUDNN_DATA_BFLOAT16 => 1.6e-2,
        _ => 2e-3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error between results of two elements. The first is 2 where the type has fractions, and then 0.
    fn error(data_type: cudnnDataType_t, bytes: usize) -> Result<f64, String> {
        let (mut result, stream) = (vec![0_u8; 2 * bytes], std::ptr::null_mut());
        let (dims, strides) = (vec![2], vec![1]);
        let (alignment, is_virtual, is_by_value, is_batched) = (1, false, false, true);
        let tensor = Tensor { data_type, dims, strides, alignment, is_virtual, is_by_value, is_batched };
        result[bytes - 1] = 0x40;
        // SAFETY: the result is as large as the tensor, in the host's memory.
        unsafe {
            let check = Check::prepare(Device::Host, stream, tensor, result.as_mut_ptr().cast()).unwrap();
            result.fill(0);
            check.error()
        }
    }

    #[test]
    fn integers_are_not_read_as_numbers_with_fractions() {
        let types = [(CUDNN_DATA_DOUBLE, 8), (CUDNN_DATA_FLOAT, 4), (CUDNN_DATA_HALF, 2), (CUDNN_DATA_BFLOAT16, 2)];
        for (data_type, bytes) in types {
            assert_eq!(error(data_type, bytes), Ok(1.0), "{data_type}");
        }
        for (data_type, bytes) in [(CUDNN_DATA_INT8, 1), (CUDNN_DATA_INT32, 4)] {
            assert!(error(data_type, bytes).is_err_and(|why| why.contains("are not compared")), "{data_type}");
        }
    }
}
