//! The arguments of `cudnnRNNForward`, as one value.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::network::memory::Memory;
use cudnn::calls;

/// The arguments of `cudnnRNNForward`.
#[derive(Clone, Copy)]
pub struct Call {
    pub handle: cudnnHandle_t,
    pub descriptor: cudnnRNNDescriptor_t,
    pub mode: cudnnForwardMode_t,
    /// The copy of x's sequence lengths that cuDNN's kernels read; our kernels take those in x's descriptor.
    pub device_lengths: *const i32,
    pub x_descriptor: cudnnRNNDataDescriptor_t,
    pub y_descriptor: cudnnRNNDataDescriptor_t,
    pub h_descriptor: cudnnTensorDescriptor_t,
    pub c_descriptor: cudnnTensorDescriptor_t,
    pub memory: Memory,
    pub reserve_size: usize,
    pub reserve: *mut c_void,
}

impl Call {
    /// Calls cuDNN with the arguments unchanged.
    ///
    /// # Safety
    /// The arguments are those of a call of `cudnnRNNForward`, or cuDNN refuses them.
    pub unsafe fn by_cudnn(&self) -> cudnnStatus_t {
        let memory = &self.memory;
        // SAFETY: the caller promises the arguments of a `cudnnRNNForward` call, or ones that cuDNN refuses.
        unsafe {
            calls::rnn::cudnnRNNForward(
                self.handle,
                self.descriptor,
                self.mode,
                self.device_lengths,
                self.x_descriptor,
                memory.x,
                self.y_descriptor,
                memory.y,
                self.h_descriptor,
                memory.hx,
                memory.hy,
                self.c_descriptor,
                memory.cx,
                memory.cy,
                memory.weight_space_size,
                memory.weight_space,
                memory.workspace_size,
                memory.workspace,
                self.reserve_size,
                self.reserve,
            )
        }
    }
}
