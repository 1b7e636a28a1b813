//! The values on an operator's stack, as libtorch's stable C ABI has them.
//!
//! A value is 8 bytes: a number, a bool in the lowest byte, or a pointer. A tensor is a pointer to an `at::Tensor`, which
//! the kernel owns. An optional tensor is null, or a pointer to a value that the kernel owns, in which the tensor is.

use std::ffi::c_void;

use super::libtorch::{Libtorch, OptionalTensor, RawTensor, Three, Value};
use gpu::Element;
use norm::shape::VECTOR_BYTES;

/// A tensor that we own.
pub struct Tensor<'a> {
    raw: RawTensor,
    torch: &'a Libtorch,
}

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout<'a> {
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
}

impl Layout<'_> {
    /// Returns whether the elements follow each other, the last axis the fastest.
    pub fn is_packed(&self) -> bool {
        let mut expected = 1_i64;
        self.sizes.iter().zip(self.strides).rev().all(|(&size, &stride)| {
            let is_right = size == 1 || stride == expected;
            expected = expected.saturating_mul(size);
            is_right
        })
    }
}

impl<'a> Tensor<'a> {
    /// # Safety
    /// The value is a tensor, whose owner is the caller.
    pub unsafe fn taken(value: Value, torch: &'a Libtorch) -> Self {
        Self { raw: value as RawTensor, torch }
    }

    /// A tensor that is none counts as no tensor: libtorch's functions print a stack trace for it.
    ///
    /// # Safety
    /// The value is an optional tensor, whose owner is the caller.
    pub unsafe fn taken_if_any(value: Value, torch: &'a Libtorch) -> Option<Self> {
        let cell = value as *mut Value;
        if cell.is_null() {
            return None;
        }
        // SAFETY: the cell holds a tensor, and C++'s operator new made it.
        unsafe {
            let tensor = Self::taken(cell.read(), torch);
            (torch.delete)(cell.cast());
            let mut is_defined = false;
            ((torch.is_defined)(tensor.raw, &mut is_defined) == 0 && is_defined).then_some(tensor)
        }
    }

    /// A new packed tensor, on the same device. `None` if there is no memory for it.
    pub fn another(&self, sizes: &[i64], data_type: i32) -> Option<Self> {
        let mut strides = vec![1_i64; sizes.len()];
        for axis in (1..sizes.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(sizes[axis].max(1));
        }
        self.with(sizes, &strides, data_type)
    }

    /// A packed copy of a tensor that is not packed. `None` if it is packed or none, or if there is no memory for a copy.
    pub fn repacked(&self) -> Option<Self> {
        let layout = self.layout().filter(|layout| !layout.is_packed())?;
        let copy = self.another(layout.sizes, self.data_type()?)?;
        // SAFETY: both are tensors of these sizes.
        let status = unsafe { (self.torch.copy)(copy.raw, self.raw, 1) };
        (status == 0).then_some(copy)
    }

    /// A new tensor with the sizes and strides of this one: strides of axes with one element tell PyTorch the layout.
    pub fn like(&self) -> Option<Self> {
        let Layout { sizes, strides } = self.layout()?;
        self.with(sizes, strides, self.data_type()?)
    }

    fn with(&self, sizes: &[i64], strides: &[i64], data_type: i32) -> Option<Self> {
        let torch = self.torch;
        let [kind, number] = [self.read(torch.device_type)?, self.read(torch.device_index)?];
        let mut raw = std::ptr::null_mut();
        let (rank, places) = (sizes.len() as i64, (sizes.as_ptr(), strides.as_ptr()));
        // SAFETY: as many sizes and strides as the rank says are there.
        let status = unsafe { (torch.empty)(rank, places.0, places.1, data_type, kind, number, &mut raw) };
        (status == 0 && !raw.is_null()).then_some(Self { raw, torch })
    }

    /// A tensor that is none.
    pub fn undefined(torch: &'a Libtorch) -> Option<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: one pointer is written.
        let status = unsafe { (torch.undefined)(&mut raw) };
        (status == 0 && !raw.is_null()).then_some(Self { raw, torch })
    }

    /// An `at::Tensor` that a C++ function returned.
    ///
    /// # Safety
    /// The caller owns it.
    pub unsafe fn of_cpp(tensor: *mut c_void, torch: &'a Libtorch) -> Self {
        // SAFETY: `at::Tensor` is one pointer. It moves to where libtorch will delete it.
        unsafe {
            let raw: RawTensor = (torch.new)(size_of::<*mut c_void>()).cast();
            raw.write(tensor);
            Self { raw, torch }
        }
    }

    /// The tensor as an `at::Tensor`, whose owner is the caller.
    pub fn into_cpp(self) -> *mut c_void {
        // SAFETY: as in `of_cpp`, the other way.
        unsafe {
            let tensor = *self.raw;
            (self.torch.delete)(self.raw.cast());
            std::mem::forget(self);
            tensor
        }
    }

    /// The tensors of a C++ function's result.
    pub fn three(three: Three, torch: &'a Libtorch) -> [Self; 3] {
        // SAFETY: the caller owns the tuple.
        [2, 1, 0].map(|place| unsafe { Self::of_cpp(three.0[place], torch) })
    }

    /// Hands the tensor over to the stack.
    pub fn into_value(self) -> Value {
        let raw = self.raw;
        std::mem::forget(self);
        raw as Value
    }

    pub fn torch(&self) -> &'a Libtorch {
        self.torch
    }

    pub fn raw(&self) -> RawTensor {
        self.raw
    }

    /// The tensor as an optional argument of a C++ function, which only borrows it.
    pub fn optional(tensor: Option<&Self>) -> OptionalTensor {
        // SAFETY: `at::Tensor` is one pointer.
        let its = tensor.map(|tensor| unsafe { *tensor.raw });
        OptionalTensor { tensor: its.unwrap_or(std::ptr::null_mut()), is_there: its.is_some() }
    }

    fn read<T: Default>(&self, read: unsafe extern "C" fn(RawTensor, &mut T) -> i32) -> Option<T> {
        let mut value = T::default();
        // SAFETY: the tensor lives. One that is none gives an error.
        (unsafe { read(self.raw, &mut value) } == 0).then_some(value)
    }

    /// `None` if the tensor is none.
    pub fn layout(&self) -> Option<Layout<'_>> {
        let rank = usize::try_from(self.read(self.torch.rank)?).ok()?;
        let of = |read: unsafe extern "C" fn(RawTensor, &mut *const i64) -> i32| {
            let mut numbers = std::ptr::null();
            // SAFETY: the tensor lives, and its numbers with it: as many as its rank.
            unsafe {
                let status = read(self.raw, &mut numbers);
                (status == 0 && (rank == 0 || !numbers.is_null()))
                    .then(|| if rank == 0 { &[][..] } else { std::slice::from_raw_parts(numbers, rank) })
            }
        };
        Some(Layout { sizes: of(self.torch.sizes)?, strides: of(self.torch.strides)? })
    }

    /// The memory of a tensor that is written.
    pub fn data(&self) -> Option<*mut c_void> {
        let mut data = std::ptr::null_mut();
        // SAFETY: the tensor lives.
        (unsafe { (self.torch.data)(self.raw, &mut data) } == 0).then_some(data)
    }

    /// The memory of a tensor that is only read. A lazy copy stays one.
    pub fn read_only(&self) -> Option<*const c_void> {
        let mut data = std::ptr::null();
        // SAFETY: the tensor lives.
        (unsafe { (self.torch.const_data)(self.raw, &mut data) } == 0).then_some(data)
    }

    /// Returns whether another tensor is on the same device.
    pub fn is_beside(&self, other: &Self) -> bool {
        let device = |tensor: &Self| Some((tensor.read(self.torch.device_type)?, tensor.device_index()?));
        device(self).is_some_and(|its| device(other) == Some(its))
    }

    pub fn device_index(&self) -> Option<i32> {
        self.read(self.torch.device_index)
    }

    pub fn data_type(&self) -> Option<i32> {
        self.read(self.torch.data_type)
    }

    /// The type of its elements, if our kernels have it.
    pub fn element(&self) -> Option<Element> {
        let its = self.data_type()?;
        Element::ALL.into_iter().find(|&element| self.torch.type_of(element) == its)
    }
}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        // SAFETY: `self` owns the tensor.
        unsafe { (self.torch.delete_tensor)(self.raw) };
    }
}

impl Libtorch {
    /// PyTorch's number for a type.
    pub fn type_of(&self, element: Element) -> i32 {
        // SAFETY: the functions take nothing.
        unsafe {
            match element {
                Element::Float => (self.float)(),
                Element::Half => (self.half)(),
                Element::Bfloat16 => (self.bfloat16)(),
            }
        }
    }

    /// The number of bytes.
    pub fn byte(&self) -> i32 {
        // SAFETY: the function takes nothing.
        unsafe { (self.byte)() }
    }

    /// The values of a list, up to the first one that cannot be read.
    ///
    /// # Safety
    /// The value is a list, whose owner is the caller.
    unsafe fn list(&self, value: Value) -> Vec<Value> {
        let list = value as *mut c_void;
        let mut size = 0;
        // SAFETY: the list lives until it is deleted here.
        unsafe {
            let count = if (self.list_size)(list, &mut size) == 0 { size } else { 0 };
            let item = |place| {
                let mut item = 0;
                ((self.list_item)(list, place, &mut item) == 0).then_some(item)
            };
            let items = (0..count).map_while(item).collect();
            (self.delete_list)(list);
            items
        }
    }

    /// The sizes of a list.
    ///
    /// # Safety
    /// The value is a list of sizes, whose owner is the caller.
    pub unsafe fn sizes(&self, value: Value) -> Vec<i64> {
        // SAFETY: the caller's promise.
        unsafe { self.list(value) }.into_iter().map(|item| item as i64).collect()
    }

    /// Three bools of a list. `None` if they are not three.
    ///
    /// # Safety
    /// The value is a list of bools, whose owner is the caller.
    pub unsafe fn three_bools(&self, value: Value) -> Option<[bool; 3]> {
        // SAFETY: the caller's promise.
        let items: [Value; 3] = unsafe { self.list(value) }.try_into().ok()?;
        Some(items.map(as_bool))
    }
}

/// Checks that our kernels can read a tensor in vectors.
pub fn is_aligned(tensor: &Tensor) -> Result<(), &'static str> {
    let data = tensor.read_only().ok_or("its tensor has no memory")?;
    if data.addr().is_multiple_of(VECTOR_BYTES) { Ok(()) } else { Err("its memory is not aligned") }
}

/// A bool lies in the value's lowest byte.
pub fn as_bool(value: Value) -> bool {
    value as u8 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_layouts() {
        let is_packed = |sizes: &[i64], strides: &[i64]| Layout { sizes, strides }.is_packed();
        assert!(is_packed(&[2, 3, 4], &[12, 4, 1]));
        assert!(is_packed(&[1, 3, 1], &[7, 1, 9]), "an axis of one element has any stride");
        assert!(is_packed(&[], &[]));
        assert!(!is_packed(&[2, 3, 4, 4], &[48, 1, 12, 3]), "the channels are last");
        assert!(!is_packed(&[2, 3], &[0, 0]), "it repeats one element");
        assert!(!is_packed(&[i64::MAX, i64::MAX, 2], &[2, 2, 1]));
    }
}
