//! Sums BackwardFilter's parts in float, where the filter's own type would round every partial sum: each part writes a
//! partial result, which is added into a sum, and the sum is rounded once.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::exec::operands::{Constant, Scaling};
use cudnn::calls;
use cudnn::owned::{OwnedOpTensor, OwnedTensor};
use cudnn::tensor::element_size;

/// Where things start within a workspace, in bytes: as far apart as device allocations are.
const ALIGNMENT: usize = 256;

/// A packed filter whose type is too small for partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummedFilter {
    /// Half or bfloat16.
    pub data_type: cudnnDataType_t,
    /// How many it has.
    pub values: usize,
}

impl SummedFilter {
    /// Bytes of workspace that a part takes whose algorithm needs `workspace` bytes: more by two buffers.
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

/// The two buffers, at the end of a workspace.
pub struct Sums {
    add: OwnedOpTensor,
    /// The filter as a row of its own type.
    row: OwnedTensor,
    /// The filter as a row of floats.
    float_row: OwnedTensor,
    /// Where in the workspace the two buffers start, in bytes.
    partial: usize,
    sum: usize,
}

impl Sums {
    /// In the last bytes of a workspace of that size, as [`SummedFilter::workspace`] counts them.
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

    /// Bytes in front of the buffers, which are the algorithm's.
    pub fn own_bytes(&self) -> usize {
        self.partial
    }

    /// Where in `workspace` each part's result goes.
    pub fn partial(&self, workspace: *mut c_void) -> *mut c_void {
        workspace.wrapping_byte_add(self.partial)
    }

    /// Where in `workspace` the sum is: floats, in the filter's order.
    pub fn sum(&self, workspace: *mut c_void) -> *mut c_void {
        workspace.wrapping_byte_add(self.sum)
    }

    /// Adds the partial result to the sum, or begins the sum with it.
    ///
    /// # Safety
    /// The workspace is as long as was said; the handle is the caller's.
    pub unsafe fn add(&self, handle: cudnnHandle_t, workspace: *mut c_void, is_first: bool) -> cudnnStatus_t {
        let beta = Scaling::Float.constant(if is_first { Constant::Zero } else { Constant::One });
        let (partial, sum) = (self.partial(workspace), self.sum(workspace));
        // SAFETY: rows of as many values as the buffers hold.
        unsafe { self.blend(handle, (&self.row, partial), beta, (&self.float_row, sum)) }
    }

    /// filter = sum + beta · filter, rounded once; beta is a float.
    ///
    /// # Safety
    /// As for [`Self::add`]; the filter has as many values as was said.
    pub unsafe fn round(
        &self,
        handle: cudnnHandle_t,
        workspace: *mut c_void,
        beta: *const c_void,
        filter: *mut c_void,
    ) -> cudnnStatus_t {
        // SAFETY: rows of as many values as the buffers hold.
        unsafe { self.blend(handle, (&self.float_row, self.sum(workspace)), beta, (&self.row, filter)) }
    }

    /// to = from + beta · to. cuDNN's element-wise sum takes two summands: it gets `from` twice, half each, which is
    /// exact and keeps infinities, as 1 · from + 0 · from does not.
    ///
    /// # Safety
    /// Both rows have as many values as their memory.
    unsafe fn blend(
        &self,
        handle: cudnnHandle_t,
        (from_row, from): (&OwnedTensor, *mut c_void),
        beta: *const c_void,
        (to_row, to): (&OwnedTensor, *mut c_void),
    ) -> cudnnStatus_t {
        let (from_row, half) = (from_row.raw(), Scaling::Float.constant(Constant::Half));
        // SAFETY: as ours.
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
