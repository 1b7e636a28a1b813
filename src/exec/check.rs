//! `UCUDNN_CHECK=1`: the undivided convolution runs too, and the results are compared.

use cudnn_abi::*;

use crate::cudnn::convolution::{Descriptors, Direction, Operands, Workspace};
use crate::cudnn::kernel::{Kernel, MAX_RANK, Tensor, element_size};
use crate::device::{Buffer, Device, Stream};

/// A copy of what a call's result held before it, for the undivided convolution to work on.
pub struct Check {
    device: Device,
    stream: Stream,
    copy: Buffer,
}

impl Check {
    /// Copies the result. `None` where there is no memory for it, or under stream capture.
    ///
    /// # Safety
    /// The operands are those of a call of the kernel.
    pub unsafe fn prepare(device: Device, stream: Stream, kernel: &Kernel, operands: &Operands) -> Option<Self> {
        if device.is_capturing(stream) {
            return None;
        }
        let bytes = result_bytes(kernel);
        let copy = device.allocate(bytes)?;
        // SAFETY: the result is as long as the kernel's descriptor says.
        let copied = unsafe { device.copy(copy.data(), operands.result(kernel.direction), bytes, stream) };
        copied.then_some(Self { device, stream, copy })
    }

    /// Runs the undivided convolution by the program's own `algorithm` and tells how far the result
    /// is from it: ‖result − undivided‖ / ‖undivided‖, in double precision. `Err` says why it could
    /// not be told.
    ///
    /// # Safety
    /// As for [`Self::prepare`]; the descriptors are the call's.
    pub unsafe fn compare(
        self,
        handle: cudnnHandle_t,
        descriptors: &Descriptors,
        algorithm: i32,
        kernel: &Kernel,
        operands: &Operands,
    ) -> Result<f64, String> {
        // SAFETY: the call's own handle and descriptors.
        let bytes = unsafe { descriptors.workspace_size(handle, algorithm) }
            .map_err(|status| format!("cuDNN gives no workspace size (status {status})"))?;
        let workspace = self.device.allocate(bytes).ok_or(format!("no memory for its workspace of {bytes} bytes"))?;
        let workspace = Workspace { data: workspace.data(), size: workspace.bytes() };
        let direction = kernel.direction;
        let mut undivided = operands.with_result(direction, self.copy.data());
        if let Some(epilogue) = undivided.epilogue.as_mut().filter(|e| e.z == operands.y.cast_const()) {
            epilogue.z = self.copy.data(); // z was the result itself, which has been overwritten
        }
        // SAFETY: the call's own operands, but for the result, which is a copy.
        let status = unsafe { descriptors.convolve(handle, algorithm, &undivided, workspace) };
        if status != CUDNN_STATUS_SUCCESS {
            return Err(format!("the undivided convolution failed with status {status}"));
        }
        let (mut ours, mut theirs) = (vec![0; self.copy.bytes()], vec![0; self.copy.bytes()]);
        // SAFETY: both results are as long as the copy.
        let read = unsafe {
            self.device.read(&mut ours, operands.result(direction), self.stream)
                && self.device.read(&mut theirs, self.copy.data(), self.stream)
        };
        read.then(|| relative_error(kernel, &ours, &theirs)).ok_or("the results cannot be read".into())
    }
}

/// The most that two algorithms of one class may differ by: rounding in the order of summation, and
/// for float under a math type that allows TF32 that type's 10 bits.
pub fn tolerance(kernel: &Kernel) -> f64 {
    match kernel.x.data_type {
        CUDNN_DATA_DOUBLE => 1e-12,
        CUDNN_DATA_FLOAT if Device::current() == Device::Host || kernel.math_type == CUDNN_FMA_MATH => 1e-5,
        CUDNN_DATA_BFLOAT16 => 1.6e-2,
        _ => 2e-3,
    }
}

fn result_bytes(kernel: &Kernel) -> usize {
    match kernel.direction {
        Direction::Forward => kernel.y.bytes(),
        Direction::BackwardData => kernel.x.bytes(),
        Direction::BackwardFilter => kernel.filter_bytes(),
    }
}

fn relative_error(kernel: &Kernel, ours: &[u8], theirs: &[u8]) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    for_each_value(kernel, |data_type, offset| {
        let (a, b) = (value(data_type, ours, offset), value(data_type, theirs, offset));
        // What the program's own NaN or infinity made is the same in both.
        if a != b && !(a.is_nan() && b.is_nan()) {
            difference += (a - b) * (a - b);
        }
        norm += if b.is_finite() { b * b } else { 0.0 };
    });
    if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }
}

/// Calls with the type and the byte offset of each value of the result: not of the gaps between them.
fn for_each_value(kernel: &Kernel, mut visit: impl FnMut(cudnnDataType_t, usize)) {
    let tensor = match kernel.direction {
        Direction::Forward => &kernel.y,
        Direction::BackwardData => &kernel.x,
        Direction::BackwardFilter => {
            let size = element_size(kernel.w_type).unwrap_or(1);
            return (0..kernel.filter_values()).for_each(|i| visit(kernel.w_type, i * size));
        }
    };
    let size = element_size(tensor.data_type).unwrap_or(1);
    let Tensor { dims, strides, .. } = tensor;
    let count: usize = dims.iter().map(|&d| d.max(1) as usize).product();
    for mut index in 0..count {
        let mut offset = 0;
        for axis in (0..MAX_RANK).rev() {
            let dim = dims[axis].max(1) as usize;
            offset += index % dim * strides[axis] as usize;
            index /= dim;
        }
        visit(tensor.data_type, offset * size);
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
