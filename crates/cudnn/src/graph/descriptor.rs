//! A backend descriptor that we own, and reading the attributes of any descriptor.

use std::ffi::{c_int, c_void};
use std::ptr;

use cudnn_abi::*;

use crate::calls;
use crate::owned::checked;

/// An element of an attribute.
pub trait Element: Copy {
    /// The value that fills an array before cuDNN writes to it.
    const BLANK: Self;
}

impl Element for bool {
    const BLANK: Self = false;
}
impl Element for u8 {
    const BLANK: Self = 0;
}
/// Also the element of enumerators.
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
/// Also the element of descriptors.
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

/// Checks the element's width: with another width cuDNN would read or write past the array's end.
fn fitting<T: Element>(element: cudnnBackendAttributeType_t) -> Result<(), cudnnStatus_t> {
    if size_of::<T>() == width(element) { Ok(()) } else { Err(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE) }
}

/// A backend descriptor that we made, destroyed with its owner. The owner keeps every descriptor set on it
/// (`set_descriptors`) alive as long.
pub struct Owned(cudnnBackendDescriptor_t);

// SAFETY: cuDNN does not tie a descriptor to a thread.
unsafe impl Send for Owned {}
// SAFETY: a shared descriptor is only read; every method that changes it takes `&mut self`.
unsafe impl Sync for Owned {}

impl Owned {
    /// A descriptor with no attribute set.
    pub fn create(kind: cudnnBackendDescriptorType_t) -> Result<Self, cudnnStatus_t> {
        let mut raw = ptr::null_mut();
        // SAFETY: cuDNN writes one pointer to `raw`.
        checked(unsafe { calls::cudnnBackendCreateDescriptor(kind, &mut raw) })?;
        Ok(Self(raw))
    }

    /// Sets an attribute. Fails if `T` does not have the width of `element`.
    pub fn set<T: Element>(
        &mut self,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
        values: &[T],
    ) -> Result<(), cudnnStatus_t> {
        fitting::<T>(element)?;
        let (count, values) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: the descriptor is live, and `values` has `count` elements of the checked width.
        checked(unsafe { calls::cudnnBackendSetAttribute(self.0, name, element, count, values) })
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

    /// Has cuDNN check the attributes. A finalized descriptor can be used, but no longer changed.
    pub fn finalize(&mut self) -> Result<(), cudnnStatus_t> {
        // SAFETY: the descriptor is live until `self` is dropped.
        checked(unsafe { calls::cudnnBackendFinalize(self.0) })
    }

    /// All elements of an attribute.
    pub fn get<T: Element>(
        &self,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
    ) -> Result<Vec<T>, cudnnStatus_t> {
        // SAFETY: the descriptor is live until `self` is dropped.
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
        // SAFETY: `create` made the descriptor, and `drop` runs once.
        unsafe { calls::cudnnBackendDestroyDescriptor(self.0) };
    }
}

/// All elements of an attribute of any descriptor.
///
/// # Safety
/// `descriptor` is a live cuDNN descriptor.
pub unsafe fn read<T: Element>(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
) -> Result<Vec<T>, cudnnStatus_t> {
    fitting::<T>(element)?;
    // SAFETY: the caller promises a live descriptor.
    let count = unsafe { count(descriptor, name, element) }?;
    let mut values = vec![T::BLANK; count];
    // SAFETY: the caller promises a live descriptor, and `fitting` has checked the width of `T`.
    let filled = unsafe { fill(descriptor, name, element, &mut values) }?;
    values.truncate(filled);
    Ok(values)
}

/// The number of elements in an attribute of any descriptor.
///
/// # Safety
/// `descriptor` is a live cuDNN descriptor.
pub unsafe fn count(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
) -> Result<usize, cudnnStatus_t> {
    // SAFETY: the caller promises a live descriptor; with an empty array cuDNN writes no element.
    unsafe { fill::<*mut c_void>(descriptor, name, element, &mut []) }
}

/// The descriptors in an attribute of any descriptor, at most `room` of them. cuDNN copies into descriptors that its
/// caller made.
///
/// # Safety
/// `descriptor` is a live cuDNN descriptor, and `kind` is the kind of descriptor that the attribute holds.
pub unsafe fn read_descriptors(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    kind: cudnnBackendDescriptorType_t,
    room: usize,
) -> Result<Vec<Owned>, cudnnStatus_t> {
    let mut owned = (0..room).map(|_| Owned::create(kind)).collect::<Result<Vec<_>, _>>()?;
    let mut raw: Vec<_> = owned.iter().map(Owned::raw).collect();
    // SAFETY: the caller promises a live descriptor; each element is a live descriptor of the attribute's kind.
    let filled = unsafe { fill(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut raw) }?;
    owned.truncate(filled);
    Ok(owned)
}

/// Has cuDNN write an attribute's elements to `values`, at most as many as fit. Returns the attribute's element count.
///
/// # Safety
/// `descriptor` is a live cuDNN descriptor, and `T` has the width of `element`.
unsafe fn fill<T>(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    values: &mut [T],
) -> Result<usize, cudnnStatus_t> {
    let mut count = 0;
    let room = values.len() as i64;
    let start = if values.is_empty() { ptr::null_mut() } else { values.as_mut_ptr().cast() };
    // SAFETY: the caller promises the descriptor and the width; `values` holds `room` elements.
    checked(unsafe { calls::cudnnBackendGetAttribute(descriptor, name, element, room, &mut count, start) })?;
    usize::try_from(count).map_err(|_| CUDNN_STATUS_INTERNAL_ERROR)
}
