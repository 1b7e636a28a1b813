//! A backend descriptor of our own, and reading the attributes of any.

use std::ffi::{c_int, c_void};
use std::ptr;

use cudnn_abi::*;

use crate::calls::backend;

/// A value that an attribute is made of.
pub trait Element: Copy {
    /// What an array is filled with before cuDNN writes to it.
    const BLANK: Self;
}

impl Element for bool {
    const BLANK: Self = false;
}
impl Element for u8 {
    const BLANK: Self = 0;
}
/// Enumerators too.
impl Element for c_int {
    const BLANK: Self = 0;
}
impl Element for i64 {
    const BLANK: Self = 0;
}
impl Element for f32 {
    const BLANK: Self = 0.0;
}
impl Element for f64 {
    const BLANK: Self = 0.0;
}
/// Descriptors too.
impl Element for *mut c_void {
    const BLANK: Self = ptr::null_mut();
}
impl Element for cudnnHandle_t {
    const BLANK: Self = ptr::null_mut();
}

/// Bytes that cuDNN reads or writes for one element.
fn width(element: cudnnBackendAttributeType_t) -> usize {
    match element {
        CUDNN_TYPE_BOOLEAN | CUDNN_TYPE_CHAR => 1,
        CUDNN_TYPE_HANDLE | CUDNN_TYPE_VOID_PTR | CUDNN_TYPE_BACKEND_DESCRIPTOR => size_of::<*mut c_void>(),
        CUDNN_TYPE_INT64 | CUDNN_TYPE_DOUBLE | CUDNN_TYPE_FRACTION => 8,
        _ => 4, // float, and enumerators
    }
}

/// An array of another width than the attribute's would be read or written past its end.
fn fitting<T: Element>(element: cudnnBackendAttributeType_t) -> Result<(), cudnnStatus_t> {
    if size_of::<T>() == width(element) { Ok(()) } else { Err(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE) }
}

fn checked(status: cudnnStatus_t) -> Result<(), cudnnStatus_t> {
    if status == CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

/// A backend descriptor that we made, destroyed with its owner. What it was given (`set_descriptors`) must live as long
/// as it does: its owner sees to that.
pub struct Owned(cudnnBackendDescriptor_t);

// SAFETY: cuDNN ties a descriptor to no thread.
unsafe impl Send for Owned {}
// SAFETY: a shared one is only read; whatever changes it takes it mutably.
unsafe impl Sync for Owned {}

impl Owned {
    /// A descriptor of which nothing is set.
    pub fn create(kind: cudnnBackendDescriptorType_t) -> Result<Self, cudnnStatus_t> {
        let mut raw = ptr::null_mut();
        // SAFETY: writes one pointer.
        checked(unsafe { backend::cudnnBackendCreateDescriptor(kind, &mut raw) })?;
        Ok(Self(raw))
    }

    /// Sets an attribute. Elements as wide as `element` says.
    pub fn set<T: Element>(
        &mut self,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
        values: &[T],
    ) -> Result<(), cudnnStatus_t> {
        fitting::<T>(element)?;
        let (count, values) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: a live descriptor, and as many elements as are told, of the right width.
        checked(unsafe { backend::cudnnBackendSetAttribute(self.0, name, element, count, values) })
    }

    /// Sets an attribute made of descriptors.
    pub fn set_descriptors(
        &mut self,
        name: cudnnBackendAttributeName_t,
        descriptors: &[&Self],
    ) -> Result<(), cudnnStatus_t> {
        let raw: Vec<_> = descriptors.iter().map(|descriptor| descriptor.0).collect();
        self.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw)
    }

    /// Has cuDNN check what was set; from here on it can be used, and not be set.
    pub fn finalize(&mut self) -> Result<(), cudnnStatus_t> {
        // SAFETY: a live descriptor.
        checked(unsafe { backend::cudnnBackendFinalize(self.0) })
    }

    /// All elements of an attribute.
    pub fn get<T: Element>(
        &self,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
    ) -> Result<Vec<T>, cudnnStatus_t> {
        // SAFETY: a live descriptor.
        unsafe { read(self.0, name, element) }
    }

    /// The one element of an attribute.
    pub fn get_one<T: Element>(
        &self,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
    ) -> Result<T, cudnnStatus_t> {
        self.get(name, element)?.first().copied().ok_or(CUDNN_STATUS_INTERNAL_ERROR)
    }

    /// The descriptor, valid as long as `self`.
    pub fn raw(&self) -> cudnnBackendDescriptor_t {
        self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by `create` and destroyed once.
        unsafe { backend::cudnnBackendDestroyDescriptor(self.0) };
    }
}

/// All elements of an attribute of any descriptor.
///
/// # Safety
/// `descriptor` is a live one of cuDNN's.
pub unsafe fn read<T: Element>(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
) -> Result<Vec<T>, cudnnStatus_t> {
    fitting::<T>(element)?;
    // SAFETY: as ours.
    let count = unsafe { count(descriptor, name, element) }?;
    let mut values = vec![T::BLANK; count];
    // SAFETY: as ours.
    let filled = unsafe { fill(descriptor, name, element, &mut values) }?;
    values.truncate(filled);
    Ok(values)
}

/// How many elements an attribute of any descriptor has.
///
/// # Safety
/// `descriptor` is a live one of cuDNN's.
pub unsafe fn count(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
) -> Result<usize, cudnnStatus_t> {
    // SAFETY: as ours; nothing is written for no element.
    unsafe { fill::<*mut c_void>(descriptor, name, element, &mut []) }
}

/// The descriptors that an attribute of any descriptor is made of, at most `room`. cuDNN makes none: it copies into such
/// as the caller made.
///
/// # Safety
/// `descriptor` is a live one of cuDNN's, and `kind` what the attribute is made of.
pub unsafe fn read_descriptors(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    kind: cudnnBackendDescriptorType_t,
    room: usize,
) -> Result<Vec<Owned>, cudnnStatus_t> {
    let mut owned = (0..room).map(|_| Owned::create(kind)).collect::<Result<Vec<_>, _>>()?;
    let mut raw: Vec<_> = owned.iter().map(Owned::raw).collect();
    // SAFETY: as ours; each element is a descriptor of the kind that the attribute holds.
    let filled = unsafe { fill(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut raw) }?;
    owned.truncate(filled);
    Ok(owned)
}

/// Has cuDNN write at most as many elements as there is room for; how many the attribute has.
///
/// # Safety
/// `descriptor` is a live one of cuDNN's, and `T` as wide as `element` says.
unsafe fn fill<T>(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    values: &mut [T],
) -> Result<usize, cudnnStatus_t> {
    let mut count = 0;
    let room = values.len() as i64;
    let start = if values.is_empty() { ptr::null_mut() } else { values.as_mut_ptr().cast() };
    // SAFETY: as ours; the array has the room that is told.
    checked(unsafe { backend::cudnnBackendGetAttribute(descriptor, name, element, room, &mut count, start) })?;
    usize::try_from(count).map_err(|_| CUDNN_STATUS_INTERNAL_ERROR)
}
