//! Sums BackwardFilter's parts in float where the filter's own type would round every partial sum. Each part writes a
//! partial result, which is added to a float sum; the sum is rounded once at the end.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::exec::operands::{Constant, Scaling};
use cudnn::calls;
use cudnn::owned::{OwnedOpTensor, OwnedTensor};
use cudnn::tensor::element_size;

/// The alignment of buffers within a workspace, in bytes, the same as for device allocations.
const ALIGNMENT: usize = 256;

/// A packed filter whose type is too small for partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummedFilter {
    /// Half or bfloat16.
    pub data_type: cudnnDataType_t,
    /// The number of values in the filter.
    pub values: usize,
}

impl SummedFilter {
    /// The workspace in bytes of a part whose algorithm needs `workspace` bytes, with both buffers.
    pub fn workspace(self, workspace: usize) -> usize {
        workspace.next_multiple_of(ALIGNMENT) + self.partial_bytes() + self.sum_bytes()
    }

    fn partial_bytes(self) -> usize {
        (self.values * element_size(self.data_type).unwrap_or(1)).next_multiple_of(ALIGNMENT)
    }

    fn sum_bytes(self) -> usize {
        self.values * size_of::<f32>()
    }
}

/// The buffers of the partial result and the float sum, at the end of a workspace.
pub struct Sums {
    add: OwnedOpTensor,
    /// The filter as a row of its own type.
    row: OwnedTensor,
    /// The filter as a row of floats.
    float_row: OwnedTensor,
    /// The offsets of the two buffers in the workspace, in bytes.
    partial: usize,
    sum: usize,
}

impl Sums {
    /// Places the buffers at the end of a workspace whose length is [`SummedFilter::workspace`].
    pub fn at_end_of(filter: SummedFilter, workspace: usize) -> Result<Self, cudnnStatus_t> {
        let sum = workspace - filter.sum_bytes();
        Ok(Self {
            add: OwnedOpTensor::add()?,
            row: OwnedTensor::row(filter.data_type, filter.values)?,
            float_row: OwnedTensor::row(CUDNN_DATA_FLOAT, filter.values)?,
            partial: sum - filter.partial_bytes(),
            sum,
        })
    }

    /// The bytes in front of the buffers: the algorithm's own workspace.
    pub fn own_bytes(&self) -> usize {
        self.partial
    }

    /// Where in `workspace` each part writes its result.
    pub fn partial(&self, workspace: *mut c_void) -> *mut c_void {
        workspace.wrapping_byte_add(self.partial)
    }

    /// Where in `workspace` the sum is: floats, in the filter's order.
    pub fn sum(&self, workspace: *mut c_void) -> *mut c_void {
        workspace.wrapping_byte_add(self.sum)
    }

    /// Adds the partial result to the sum, or starts the sum with it.
    ///
    /// # Safety
    /// The workspace has the length given to [`Self::at_end_of`], and the handle is a live cuDNN handle.
    pub unsafe fn add(&self, handle: cudnnHandle_t, workspace: *mut c_void, is_first: bool) -> cudnnStatus_t {
        let beta = Scaling::Float.constant(if is_first { Constant::Zero } else { Constant::One });
        let (partial, sum) = (self.partial(workspace), self.sum(workspace));
        // SAFETY: the caller promises a live handle and the workspace; both rows have as many values as its buffers.
        unsafe { self.blend(handle, (&self.row, partial), beta, (&self.float_row, sum)) }
    }

    /// Computes filter = sum + beta · filter, rounded once. `beta` points to a float.
    ///
    /// # Safety
    /// As for [`Self::add`]; `filter` has as many values as the [`SummedFilter`].
    pub unsafe fn round(
        &self,
        handle: cudnnHandle_t,
        workspace: *mut c_void,
        beta: *const c_void,
        filter: *mut c_void,
    ) -> cudnnStatus_t {
        // SAFETY: the caller promises a live handle, the workspace, and as many filter values as both rows have.
        unsafe { self.blend(handle, (&self.float_row, self.sum(workspace)), beta, (&self.row, filter)) }
    }

    /// Computes to = from + beta · to. cuDNN's element-wise sum takes two summands, and gets `from` twice, half each.
    /// The halves are exact and keep infinities; 1 · from + 0 · from would not.
    ///
    /// # Safety
    /// Each row has as many values as its memory, and the handle is live.
    unsafe fn blend(
        &self,
        handle: cudnnHandle_t,
        (from_row, from): (&OwnedTensor, *mut c_void),
        beta: *const c_void,
        (to_row, to): (&OwnedTensor, *mut c_void),
    ) -> cudnnStatus_t {
        let (from_row, half) = (from_row.raw(), Scaling::Float.constant(Constant::Half));
        // SAFETY: the caller promises a live handle and memory as long as the rows; `self` keeps the descriptors alive.
        unsafe {
            calls::cudnnOpTensor(
                handle,
                self.add.raw(),
                half,
                from_row,
                from,
                half,
                from_row,
                from,
                beta,
                to_row.raw(),
                to,
            )
        }
    }
}
