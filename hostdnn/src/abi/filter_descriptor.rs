//! Filter descriptors.

use super::boundary::{read_array, refer, refer_mut, write, write_all, write_array};
use super::entries::*;
use crate::descriptor::{DIM_MAX, FilterDescriptor, checked_rank};
use crate::error::Result;
use std::ffi::c_int;

impl Answer for cudnnSetFilter4dDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, format, k, c, h, w } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<FilterDescriptor>(descriptor) }?.set(data_type, format, &[k, c, h, w])
    }
}

impl Answer for cudnnGetFilter4dDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, format, k, c, h, w } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let filter = refer::<FilterDescriptor>(descriptor)?;
            let dims = filter.all_dims();
            write_all(
                [data_type, format, k, c, h, w],
                [filter.data_type(), filter.format(), dims[0], dims[1], dims[2], dims[3]],
            )
        }
    }
}

impl Answer for cudnnSetFilterNdDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, format, rank, dims } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array holds `rank` values.
        unsafe {
            let filter = refer_mut::<FilterDescriptor>(descriptor)?;
            FilterDescriptor::check_enumerators(format, data_type)?;
            let rank = checked_rank(rank, 3, DIM_MAX)?;
            filter.set(data_type, format, read_array(dims, rank)?)
        }
    }
}

/// Writes `requested` dimensions, 1 to 8; 0 where there are fewer.
impl Answer for cudnnGetFilterNdDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, requested, data_type, format, rank, dims } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array takes as many values as are asked for.
        unsafe {
            let filter = refer::<FilterDescriptor>(descriptor)?;
            let count = checked_rank(requested, 1, DIM_MAX)?;
            write_all([data_type, format, rank], [filter.data_type(), filter.format(), filter.dims().len() as c_int])?;
            write_array(dims, &filter.all_dims()[..count])
        }
    }
}

impl Answer for cudnnGetFilterSizeInBytes {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(size, refer::<FilterDescriptor>(descriptor)?.size_in_bytes()) }
    }
}
