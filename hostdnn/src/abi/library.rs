//! The library itself: versions, errors, handles.

use super::boundary::{Context, refer, refer_mut, take_last_error, write};
use super::entries::*;
use crate::error::{Error, Result, require};
use crate::fault;
use cudnn_abi::*;
use std::ffi::{CStr, c_char, c_int};

/// The version of cuDNN that hostdnn implements: 10000·major + 100·minor + patch level.
pub const CUDNN_VERSION: usize = 91900;
const CUDNN_PARTS: [c_int; 3] = [9, 19, 0];
const _: () = assert!(CUDNN_VERSION as c_int == 10000 * CUDNN_PARTS[0] + 100 * CUDNN_PARTS[1] + CUDNN_PARTS[2]);

/// hostdnn's own version, as text that lives as long as the library. The real cuDNN does not have this function.
#[unsafe(no_mangle)]
pub extern "C" fn hostdnnGetVersion() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Replaces the armed faults (grammar: hostdnn/src/fault.rs) and restarts counting. Null or "" disarms.
/// CUDNN_STATUS_BAD_PARAM, and no change, if the text is not understood.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnFail(faults: *const c_char) -> cudnnStatus_t {
    export!(hostdnnFail, {
        let spec = if faults.is_null() {
            ""
        } else {
            // SAFETY: not null, and a C string by this function's contract.
            unsafe { CStr::from_ptr(faults) }.to_str().unwrap_or("not UTF-8")
        };
        let refused = |clause| Error::new(CUDNN_STATUS_BAD_PARAM, format!("not understood: {clause}"));
        fault::arm(spec).map_err(refused)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    CUDNN_VERSION
}

/// 0: no CUDA runtime is linked.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCudartVersion() -> usize {
    0
}

/// 0: no GPU architecture is supported.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetMaxDeviceVersion() -> usize {
    0
}

/// `property` is a `libraryPropertyType`: 0 major, 1 minor, 2 patch level.
impl Answer for cudnnGetProperty {
    unsafe fn answer(self) -> Result {
        let Self { property, value } = self;
        let part = usize::try_from(property).ok().and_then(|i| CUDNN_PARTS.get(i));
        require(part.is_some(), "a libraryPropertyType")?;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(value, part.copied().unwrap_or(0)) }
    }
}

/// The enumerator's name; text that lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetErrorString(status: cudnnStatus_t) -> *const c_char {
    status_name(status).as_ptr()
}

/// The function that last failed on this thread and the failed check, at most `max_size` bytes with the final 0. Empty
/// if nothing has failed since the last call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetLastErrorString(message: *mut c_char, max_size: usize) {
    if message.is_null() || max_size == 0 {
        return;
    }
    let text = take_last_error().unwrap_or_default();
    let length = text.len().min(max_size - 1);
    // SAFETY: valid for `max_size` bytes by cuDNN's contract.
    unsafe {
        message.copy_from_nonoverlapping(text.as_ptr().cast(), length);
        message.add(length).write(0);
    }
}

impl Answer for cudnnSetStream {
    unsafe fn answer(self) -> Result {
        let Self { handle, stream } = self;
        // SAFETY: null or a live handle by cuDNN's contract.
        unsafe { refer_mut::<Context>(handle) }?.stream = stream;
        Ok(())
    }
}

impl Answer for cudnnGetStream {
    unsafe fn answer(self) -> Result {
        let Self { handle, stream } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { write(stream, refer::<Context>(handle)?.stream) }
    }
}

macro_rules! names {
    ($($name:ident)*) => {
        /// The name of a status, as cuDNN gives it.
        fn status_name(status: cudnnStatus_t) -> &'static CStr {
            $(const $name: &CStr = {
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name holds no 0"),
                }
            };)*
            match status {
                $(cudnn_abi::$name => $name,)*
                _ => c"CUDNN_UNKNOWN_STATUS",
            }
        }
    };
}
names! {
    CUDNN_STATUS_SUCCESS
    CUDNN_STATUS_NOT_INITIALIZED
    CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH
    CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH
    CUDNN_STATUS_DEPRECATED
    CUDNN_STATUS_LICENSE_ERROR
    CUDNN_STATUS_RUNTIME_IN_PROGRESS
    CUDNN_STATUS_RUNTIME_FP_OVERFLOW
    CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
    CUDNN_STATUS_BAD_PARAM
    CUDNN_STATUS_INVALID_VALUE
    CUDNN_STATUS_BAD_PARAM_NULL_POINTER
    CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER
    CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED
    CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND
    CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT
    CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH
    CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH
    CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES
    CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE
    CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH
    CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE
    CUDNN_STATUS_NOT_SUPPORTED
    CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN
    CUDNN_STATUS_NOT_SUPPORTED_SHAPE
    CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE
    CUDNN_STATUS_NOT_SUPPORTED_LAYOUT
    CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER
    CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART
    CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH
    CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING
    CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE
    CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT
    CUDNN_STATUS_NOT_SUPPORTED_PADDING
    CUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM
    CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API
    CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE
    CUDNN_STATUS_INTERNAL_ERROR
    CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED
    CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE
    CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
    CUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM
    CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED
    CUDNN_STATUS_EXECUTION_FAILED
    CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER
    CUDNN_STATUS_EXECUTION_FAILED_CUBLAS
    CUDNN_STATUS_EXECUTION_FAILED_CUDART
    CUDNN_STATUS_EXECUTION_FAILED_CURAND
}
