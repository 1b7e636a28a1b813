//! Plans and divisions as text.

use std::ffi::{c_char, c_int};

use cudnn_abi::*;

use crate::boundary::guarded;
use convolution::division::network::Network;
use convolution::legacy::{answer, description};
use cudnn::convolution::{Descriptors, Direction};

/// A caller's buffer for text: its address, its size in bytes, and the place for the size needed.
pub(super) type Place = (*mut c_char, usize, *mut usize);

/// Writes to the caller's buffer, as `snprintf` would. Returns false if the pointers rule that out.
///
/// # Safety
/// Each pointer is null or the caller's to write, and the buffer has `size` bytes.
pub(super) unsafe fn write_text((text, size, needed): Place, written: &str) -> bool {
    if needed.is_null() || (text.is_null() && size > 0) {
        return false;
    }
    // SAFETY: neither pointer is null where it is used, and at most `size` bytes are written.
    unsafe {
        needed.write(written.len() + 1);
        if size > 0 {
            // A character is not cut.
            let length =
                (0..=written.len().min(size - 1)).rev().find(|end| written.is_char_boundary(*end)).unwrap_or(0);
            text.copy_from_nonoverlapping(written.as_ptr().cast(), length);
            text.add(length).write(0);
        }
    }
    true
}

/// Writes a description to the caller's buffer.
unsafe fn describe(handle: cudnnHandle_t, place: Place, description: impl FnOnce() -> Option<String>) -> cudnnStatus_t {
    guarded(
        || {
            let (text, size, needed) = place;
            if handle.is_null() || needed.is_null() || (text.is_null() && size > 0) {
                return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
            }
            let Some(description) = description() else { return CUDNN_STATUS_NOT_SUPPORTED };
            // SAFETY: the caller promises the buffer and the place for its size.
            unsafe { write_text(place, &description) };
            CUDNN_STATUS_SUCCESS
        },
        || CUDNN_STATUS_INTERNAL_ERROR,
    )
}

/// Describes the plan behind an algorithm.
unsafe fn describe_plan(
    handle: cudnnHandle_t,
    descriptors: Descriptors,
    algorithm: c_int,
    place: Place,
) -> cudnnStatus_t {
    let description = || {
        let promise = answer::reported_promise(&descriptors, algorithm)?;
        Some(description::describe(&*promise.plan?, promise.entry.memory))
    };
    // SAFETY: the caller promises the buffer and the place for its size.
    unsafe { describe(handle, place, description) }
}

/// Describes, as lines of text, how Workspace Division has divided the total of the calling thread's device: a summary,
/// then for each layer its convolution problem, its division, its bytes of the arena and its predicted time in
/// milliseconds.
///
/// Writes at most textSizeInBytes bytes to text, the last of them 0; text may be null if textSizeInBytes is 0. Writes
/// the size of the whole text, in bytes, to neededSizeInBytes. CUDNN_STATUS_NOT_SUPPORTED: nothing has been divided
/// yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetDivisionDescription(
    handle: cudnnHandle_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let description = || Some(Network::of(cudnn::device()).describe()).filter(|text| !text.is_empty());
    // SAFETY: the program promises the buffer and the place for its size.
    unsafe { describe(handle, (text, textSizeInBytes, neededSizeInBytes), description) }
}

/// Describes, as lines of text, the plan behind an algorithm that a query returned: the division, its workspace in
/// bytes and its predicted time in milliseconds.
///
/// Writes at most textSizeInBytes bytes to text, the last of them 0; text may be null if textSizeInBytes is 0. Writes
/// the size of the whole text, in bytes, to neededSizeInBytes. CUDNN_STATUS_NOT_SUPPORTED: the algorithm has no plan;
/// cuDNN runs it unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetConvolutionForwardPlanDescription(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    wDesc: cudnnFilterDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    yDesc: cudnnTensorDescriptor_t,
    algo: cudnnConvolutionFwdAlgo_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let direction = Direction::Forward;
    // SAFETY: the program's descriptors are null or live.
    let descriptors = unsafe { Descriptors::new(direction, xDesc, wDesc, convDesc, yDesc) };
    // SAFETY: the program promises the buffer and the place for its size.
    unsafe { describe_plan(handle, descriptors, algo, (text, textSizeInBytes, neededSizeInBytes)) }
}

/// Like ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardData.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetConvolutionBackwardDataPlanDescription(
    handle: cudnnHandle_t,
    wDesc: cudnnFilterDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dxDesc: cudnnTensorDescriptor_t,
    algo: cudnnConvolutionBwdDataAlgo_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let direction = Direction::BackwardData;
    // SAFETY: the program's descriptors are null or live.
    let descriptors = unsafe { Descriptors::new(direction, dxDesc, wDesc, convDesc, dyDesc) };
    // SAFETY: the program promises the buffer and the place for its size.
    unsafe { describe_plan(handle, descriptors, algo, (text, textSizeInBytes, neededSizeInBytes)) }
}

/// Like ucudnnGetConvolutionForwardPlanDescription, for cudnnConvolutionBackwardFilter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetConvolutionBackwardFilterPlanDescription(
    handle: cudnnHandle_t,
    xDesc: cudnnTensorDescriptor_t,
    dyDesc: cudnnTensorDescriptor_t,
    convDesc: cudnnConvolutionDescriptor_t,
    dwDesc: cudnnFilterDescriptor_t,
    algo: cudnnConvolutionBwdFilterAlgo_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    let direction = Direction::BackwardFilter;
    // SAFETY: the program's descriptors are null or live.
    let descriptors = unsafe { Descriptors::new(direction, xDesc, dwDesc, convDesc, dyDesc) };
    // SAFETY: the program promises the buffer and the place for its size.
    unsafe { describe_plan(handle, descriptors, algo, (text, textSizeInBytes, neededSizeInBytes)) }
}
