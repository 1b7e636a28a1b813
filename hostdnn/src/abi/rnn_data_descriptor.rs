//! RNN data descriptors.

use super::boundary::{create, destroy, read_array, refer, refer_mut, write_all, write_array};
use crate::descriptor::RnnDataDescriptor;
use crate::error::require;
use cudnn_abi::*;
use std::ffi::{c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateRNNDataDescriptor(rnnDataDesc: *mut cudnnRNNDataDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateRNNDataDescriptor, { unsafe { create::<RnnDataDescriptor>(rnnDataDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyRNNDataDescriptor(rnnDataDesc: cudnnRNNDataDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyRNNDataDescriptor, { unsafe { destroy::<RnnDataDescriptor>(rnnDataDesc) } })
}

/// `paddingFill` points to an element of the type; null is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetRNNDataDescriptor(
    rnnDataDesc: cudnnRNNDataDescriptor_t,
    dataType: cudnnDataType_t,
    layout: cudnnRNNDataLayout_t,
    maxSeqLength: c_int,
    batchSize: c_int,
    vectorSize: c_int,
    seqLengthArray: *const c_int,
    paddingFill: *mut c_void,
) -> cudnnStatus_t {
    export!(cudnnSetRNNDataDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array holds `batchSize` values.
        unsafe {
            let descriptor = refer_mut::<RnnDataDescriptor>(rnnDataDesc)?;
            require(!seqLengthArray.is_null(), "arrays are not null")?;
            let extents = [maxSeqLength, batchSize, vectorSize];
            RnnDataDescriptor::check(dataType, layout, extents)?;
            let lengths = read_array(seqLengthArray, batchSize as usize)?;
            let mut fill = [0; 8];
            if !paddingFill.is_null() {
                let size = RnnDataDescriptor::element_size(dataType).unwrap_or(0);
                fill.as_mut_ptr().copy_from_nonoverlapping(paddingFill.cast(), size);
            }
            descriptor.set(dataType, layout, extents, lengths, fill)
        }
    })
}

/// Writes the first `arrayLengthRequested` lengths, or all if there are fewer, and the padding fill, an element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDataDescriptor(
    rnnDataDesc: cudnnRNNDataDescriptor_t,
    dataType: *mut cudnnDataType_t,
    layout: *mut cudnnRNNDataLayout_t,
    maxSeqLength: *mut c_int,
    batchSize: *mut c_int,
    vectorSize: *mut c_int,
    arrayLengthRequested: c_int,
    seqLengthArray: *mut c_int,
    paddingFill: *mut c_void,
) -> cudnnStatus_t {
    export!(cudnnGetRNNDataDescriptor, {
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array takes as many values as are asked for.
        unsafe {
            let descriptor = refer::<RnnDataDescriptor>(rnnDataDesc)?;
            require(!paddingFill.is_null(), "pointers to results are not null")?;
            require(arrayLengthRequested >= 0, "arrayLengthRequested is not negative")?;
            let requested = arrayLengthRequested as usize;
            require(!seqLengthArray.is_null() || requested == 0, "arrays are not null")?;
            let [steps, batch, vector] = descriptor.extents();
            write_all(
                [dataType, layout, maxSeqLength, batchSize, vectorSize],
                [descriptor.data_type(), descriptor.layout(), steps, batch, vector],
            )?;
            write_array(seqLengthArray, &descriptor.lengths()[..requested.min(descriptor.lengths().len())])?;
            let size = RnnDataDescriptor::element_size(descriptor.data_type()).unwrap_or(0);
            write_array(paddingFill.cast(), &descriptor.padding_fill()[..size])
        }
    })
}
