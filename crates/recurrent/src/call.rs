//! The arguments of `cudnnRNNForward`, as one value.

use std::ffi::c_void;

use cudnn_abi::*;

use super::memory::Memory;
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
    pub x: *const c_void,
    pub y_descriptor: cudnnRNNDataDescriptor_t,
    pub y: *mut c_void,
    pub h_descriptor: cudnnTensorDescriptor_t,
    pub hx: *const c_void,
    pub hy: *mut c_void,
    pub c_descriptor: cudnnTensorDescriptor_t,
    pub cx: *const c_void,
    pub cy: *mut c_void,
    pub weight_space_size: usize,
    pub weight_space: *const c_void,
    pub workspace_size: usize,
    pub workspace: *mut c_void,
    pub reserve_size: usize,
    pub reserve: *mut c_void,
}

impl Call {
    /// Calls cuDNN with the arguments unchanged.
    ///
    /// # Safety
    /// The arguments are those of a call of `cudnnRNNForward`, or cuDNN refuses them.
    pub unsafe fn run_as_asked(&self) -> cudnnStatus_t {
        // SAFETY: the caller promises the arguments of a `cudnnRNNForward` call, or ones that cuDNN refuses.
        unsafe {
            calls::rnn::cudnnRNNForward(
                self.handle,
                self.descriptor,
                self.mode,
                self.device_lengths,
                self.x_descriptor,
                self.x,
                self.y_descriptor,
                self.y,
                self.h_descriptor,
                self.hx,
                self.hy,
                self.c_descriptor,
                self.cx,
                self.cy,
                self.weight_space_size,
                self.weight_space,
                self.workspace_size,
                self.workspace,
                self.reserve_size,
                self.reserve,
            )
        }
    }

    pub fn memory(&self) -> Memory {
        let Self { x, y, hx, hy, cx, cy, weight_space, weight_space_size, workspace, workspace_size, .. } = *self;
        Memory { x, y, hx, hy, cx, cy, weight_space, weight_space_size, workspace, workspace_size }
    }
}
