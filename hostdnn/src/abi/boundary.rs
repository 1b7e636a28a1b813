//! The boundary between C and Rust: panics and errors become statuses, pointers become references or statuses.

use crate::descriptor::*;
use crate::device;
use crate::emulator::Module;
use crate::error::{Error, Result, require};
use crate::fault;
use cudnn_abi::*;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The body of an exported function that is hostdnn's own and so not in the table of prototypes: `export!(name, { … })`,
/// where the block is a [`Result`].
macro_rules! export {
    ($name:ident, $body:block) => {
        $crate::abi::boundary::call(stringify!($name), || -> $crate::error::Result { $body })
    };
}

thread_local! {
    static LAST_ERROR: RefCell<Option<(&'static str, Cow<'static, str>)>> = const { RefCell::new(None) };
}

/// Runs the body of the exported function `name`. Nothing unwinds out of here.
pub fn call(name: &'static str, body: impl FnOnce() -> Result) -> cudnnStatus_t {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        fault::check(name, None)?;
        body()
    }));
    let error = match outcome {
        Ok(Ok(())) => return CUDNN_STATUS_SUCCESS,
        Ok(Err(error)) => error,
        Err(payload) => {
            // The payload's destructor could panic in turn.
            std::mem::forget(payload);
            Error::new(CUDNN_STATUS_INTERNAL_ERROR, "a panic")
        }
    };
    // An ending thread has no place to keep the reason; the status is enough then.
    let _ = LAST_ERROR.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some((name, error.reason));
        }
    });
    error.status
}

/// Takes the last error of this thread: the function that failed, and why.
pub fn take_last_error() -> Option<String> {
    let take = |last: &RefCell<Option<_>>| last.try_borrow_mut().ok().and_then(|mut last| last.take());
    let (name, reason) = LAST_ERROR.try_with(take).ok()??;
    Some(format!("{name}: {reason}"))
}

/// The state behind a handle.
#[derive(Debug)]
pub struct Context {
    /// The program's stream: kept and returned, never used.
    pub stream: cudaStream_t,
    /// The thread's device when the handle was made.
    device: c_int,
}

impl Default for Context {
    fn default() -> Self {
        Self { stream: std::ptr::null_mut(), device: device::current() }
    }
}

/// A handle that computes: one of the calling thread's device.
///
/// # Safety
/// As for [`refer`].
pub unsafe fn context<'a>(handle: cudnnHandle_t) -> Result<&'a Context> {
    // SAFETY: the caller's promise.
    let context = unsafe { refer::<Context>(handle) }?;
    require(context.device == device::current(), "a handle is used on the device that it was made on")?;
    Ok(context)
}

/// A type that lives behind one of cuDNN's opaque pointers.
pub trait Opaque {
    /// cuDNN's name for the type behind the pointer.
    type Handle;
    /// Marks memory as this type, so that a pointer of another kind is refused.
    const KIND: u32;
}

macro_rules! opaque {
    ($($type:ty: $handle:ty = $kind:literal,)*) => {
        $(impl Opaque for $type {
            type Handle = $handle;
            const KIND: u32 = u32::from_ne_bytes(*$kind);
        })*
    };
}
opaque! {
    Context: cudnnContext = b"hctx",
    TensorDescriptor: cudnnTensorStruct = b"hten",
    FilterDescriptor: cudnnFilterStruct = b"hfil",
    ConvolutionDescriptor: cudnnConvolutionStruct = b"hcnv",
    ActivationDescriptor: cudnnActivationStruct = b"hact",
    OpTensorDescriptor: cudnnOpTensorStruct = b"hopt",
    DropoutDescriptor: cudnnDropoutStruct = b"hdrp",
    RnnDescriptor: cudnnRNNStruct = b"hrnn",
    RnnDataDescriptor: cudnnRNNDataStruct = b"hrnd",
    Module: c_void = b"hmod",
}

#[repr(C)]
struct Object<T> {
    kind: u32,
    value: T,
}

/// Makes an unset object and writes a pointer to it to `out`.
///
/// # Safety
/// `out` is null or valid for a write.
pub unsafe fn create<T: Opaque + Default>(out: *mut *mut T::Handle) -> Result {
    // SAFETY: the caller's promise.
    unsafe { create_of(T::default(), out) }
}

/// Makes an object from a value and writes a pointer to it to `out`.
///
/// # Safety
/// `out` is null or valid for a write.
pub unsafe fn create_of<T: Opaque>(value: T, out: *mut *mut T::Handle) -> Result {
    let object = Box::new(Object { kind: T::KIND, value });
    let pointer = Box::into_raw(object);
    // SAFETY: the caller promises that `out` is null or valid for a write.
    unsafe { write(out, pointer.cast()) }.inspect_err(|_| {
        // SAFETY: the pointer was made above, and nobody else has it.
        drop(unsafe { Box::from_raw(pointer) });
    })
}

/// Frees an object. Null is not an error.
///
/// # Safety
/// `pointer` is null or points to a live object of this library, which nobody uses any more.
pub unsafe fn destroy<T: Opaque>(pointer: *mut T::Handle) -> Result {
    if pointer.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises a live object that nobody uses; every object begins with its kind.
    unsafe {
        refer::<T>(pointer)?;
        let object = pointer.cast::<Object<T>>();
        // A dangling pointer is refused as long as the memory stays unchanged.
        (&raw mut (*object).kind).write_volatile(0);
        drop(Box::from_raw(object));
    }
    Ok(())
}

/// The object behind a pointer.
///
/// # Safety
/// `pointer` is null or points to a live object of this library, which nobody changes meanwhile.
pub unsafe fn refer<'a, T: Opaque>(pointer: *mut T::Handle) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { refer_mut::<T>(pointer) }.map(|object| &*object)
}

/// The object behind a pointer, for changes.
///
/// # Safety
/// `pointer` is null or points to a live object of this library, which nobody else uses meanwhile.
pub unsafe fn refer_mut<'a, T: Opaque>(pointer: *mut T::Handle) -> Result<&'a mut T> {
    require(!pointer.is_null(), "handles and descriptors are not null")?;
    let object = pointer.cast::<Object<T>>();
    // SAFETY: every object begins with its kind, and the rest is read only if the kind is right.
    unsafe {
        require((&raw const (*object).kind).read() == T::KIND, "a handle or descriptor of the kind asked for")?;
        Ok(&mut (*object).value)
    }
}

/// Writes to an output pointer of the caller in C.
///
/// # Safety
/// `out` is null or valid for a write.
pub unsafe fn write<T>(out: *mut T, value: T) -> Result {
    require(!out.is_null(), "pointers to results are not null")?;
    // SAFETY: the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes to several such pointers, or to none if one of them is null.
///
/// # Safety
/// Each pointer is null or valid for a write.
pub unsafe fn write_all<T: Copy, const N: usize>(outs: [*mut T; N], values: [T; N]) -> Result {
    require(outs.iter().all(|out| !out.is_null()), "pointers to results are not null")?;
    for (out, value) in outs.into_iter().zip(values) {
        // SAFETY: the caller's promise.
        unsafe { out.write(value) };
    }
    Ok(())
}

/// An array from C.
///
/// # Safety
/// `array` is null or valid for `length` reads, and nobody changes it meanwhile.
pub unsafe fn read_array<'a, T>(array: *const T, length: usize) -> Result<&'a [T]> {
    require(!array.is_null(), "arrays are not null")?;
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(array, length) })
}

/// Copies values to an array of the caller in C, which may be null if there are no values.
///
/// # Safety
/// `array` is null or valid for as many writes as there are values.
pub unsafe fn write_array<T: Copy>(array: *mut T, values: &[T]) -> Result {
    require(!array.is_null() || values.is_empty(), "arrays are not null")?;
    for (i, &value) in values.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { array.add(i).write(value) };
    }
    Ok(())
}

/// A scaling factor: a double for tensors of doubles, a float for all others.
///
/// # Safety
/// `pointer` is null or points to such a number.
pub unsafe fn scale(pointer: *const c_void, data_type: cudnnDataType_t) -> Result<f64> {
    require(!pointer.is_null(), "scaling factors are not null")?;
    // SAFETY: the caller's promise.
    Ok(unsafe {
        match data_type {
            CUDNN_DATA_DOUBLE => pointer.cast::<f64>().read_unaligned(),
            _ => pointer.cast::<f32>().read_unaligned().into(),
        }
    })
}
