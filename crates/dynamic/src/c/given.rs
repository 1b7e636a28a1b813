//! Reads pointers and numbers that a program gives.

use std::ffi::c_int;
use std::fmt::Display;
use std::slice;

use cudnn_abi::*;
use guest::refusal::Refusal;

/// The refusal of a bad argument.
pub fn bad(why: impl Display) -> Refusal {
    Refusal::new(CUDNN_STATUS_BAD_PARAM, why)
}

/// The refusal of a null pointer.
pub fn null(name: &str) -> Refusal {
    Refusal::new(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, format!("{name} is null"))
}

/// The refusal of a pointer that is not aligned to its type.
pub fn misaligned(name: &str, bytes: usize) -> Refusal {
    Refusal::new(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, format!("{name} is not aligned to {bytes} bytes"))
}

/// Refuses a pointer that is null or misaligned.
pub fn check<T>(pointer: *const T, name: &str) -> Result<(), Refusal> {
    match pointer {
        pointer if pointer.is_null() => Err(null(name)),
        pointer if !pointer.is_aligned() => Err(misaligned(name, align_of::<T>())),
        _ => Ok(()),
    }
}

/// The numbers at an address that the caller gave.
///
/// # Safety
/// `first` is null, or `count` numbers lie there.
pub unsafe fn numbers<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Refusal> {
    if count == 0 {
        return Ok(&[]);
    }
    check(first, name)?;
    // SAFETY: neither null nor misaligned, and the caller promises the numbers.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// A count from 0 to `most`.
pub fn count(number: c_int, name: &str, most: usize) -> Result<usize, Refusal> {
    let count = usize::try_from(number).ok().filter(|count| *count <= most);
    count.ok_or_else(|| bad(format!("{name} is {number}; 0 to {most} are accepted")))
}
