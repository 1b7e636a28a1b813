//! What a kind of descriptor has: its attributes, and what they hold.

use super::Descriptor;
use crate::error::{Error, Result, require};
use cudnn_abi::*;
use std::sync::Arc;

/// The elements of an attribute.
#[derive(Clone, Debug)]
pub enum Value {
    /// `CUDNN_TYPE_INT64`, `INT32`, `BOOLEAN`, `CHAR` and all enumerations.
    Integers(Vec<i64>),
    /// `CUDNN_TYPE_FLOAT` and `CUDNN_TYPE_DOUBLE`.
    Reals(Vec<f64>),
    /// `CUDNN_TYPE_VOID_PTR` and `CUDNN_TYPE_HANDLE`, as addresses.
    Pointers(Vec<usize>),
    /// `CUDNN_TYPE_BACKEND_DESCRIPTOR`: as they were when they were set.
    Descriptors(Vec<Arc<Descriptor>>),
}

impl Value {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(all) => all.len(),
            Self::Reals(all) => all.len(),
            Self::Pointers(all) => all.len(),
            Self::Descriptors(all) => all.len(),
        }
    }
}

/// Which calls an attribute takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    SetAndGet,
    SetAlone,
    GetAlone,
}

/// What an attribute holds before it is set.
#[derive(Clone, Copy)]
enum Initial {
    Nothing,
    Integer(i64),
    Real(f64),
}

/// One attribute of a kind of descriptor.
#[derive(Clone, Copy)]
pub struct Attribute {
    /// Which.
    pub name: cudnnBackendAttributeName_t,
    /// The types that its elements may have; the first is that of its initial value.
    types: &'static [cudnnBackendAttributeType_t],
    /// `None`: exactly one element; otherwise at most so many.
    most: Option<usize>,
    access: Access,
    initial: Initial,
}

impl Attribute {
    /// One element.
    pub const fn one(name: cudnnBackendAttributeName_t, types: &'static [cudnnBackendAttributeType_t]) -> Self {
        Self { name, types, most: None, access: Access::SetAndGet, initial: Initial::Nothing }
    }

    /// Up to `most` elements.
    pub const fn many(
        name: cudnnBackendAttributeName_t,
        types: &'static [cudnnBackendAttributeType_t],
        most: usize,
    ) -> Self {
        Self { name, types, most: Some(most), access: Access::SetAndGet, initial: Initial::Nothing }
    }

    /// The same, which holds an integer before it is set.
    pub const fn or(self, value: i64) -> Self {
        Self { initial: Initial::Integer(value), ..self }
    }

    /// The same, which holds a number before it is set.
    pub const fn or_real(self, value: f64) -> Self {
        Self { initial: Initial::Real(value), ..self }
    }

    /// The same, which can only be set.
    pub const fn set_alone(self) -> Self {
        Self { access: Access::SetAlone, ..self }
    }

    /// The same, which can only be read.
    pub const fn get_alone(self) -> Self {
        Self { access: Access::GetAlone, ..self }
    }

    /// What it holds at first, and as which type.
    pub fn initial(&self) -> Option<(cudnnBackendAttributeType_t, Value)> {
        let value = match self.initial {
            Initial::Nothing => return None,
            Initial::Integer(value) => Value::Integers(vec![value]),
            Initial::Real(value) => Value::Reals(vec![value]),
        };
        Some((self.types[0], value))
    }

    /// Whether it has exactly one element.
    pub fn is_single(&self) -> bool {
        self.most.is_none()
    }

    /// Whether `count` elements of a type may be set. Gives the count.
    pub fn check_set(&self, element: cudnnBackendAttributeType_t, count: i64) -> Result<usize> {
        require(self.access != Access::GetAlone, "an attribute that can be set")?;
        self.check_type(element)?;
        let count = usize::try_from(count).unwrap_or(0);
        match self.most {
            None => require(count == 1, "one element")?,
            Some(most) => require((1..=most).contains(&count), "as many elements as the attribute takes")?,
        }
        Ok(count)
    }

    /// Whether elements of a type may be read, with room for `room` of them if there is any.
    pub fn check_get(&self, element: cudnnBackendAttributeType_t, room: Option<usize>) -> Result {
        if self.access == Access::SetAlone {
            return Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED, "this attribute cannot be read"));
        }
        self.check_type(element)?;
        require(!self.is_single() || room.is_none_or(|room| room == 1), "room for one element")
    }

    fn check_type(&self, element: cudnnBackendAttributeType_t) -> Result {
        if self.types.contains(&element) {
            return Ok(());
        }
        let reason = format!("attribute {} has elements of type {:?}, not {element}", self.name, self.types);
        Err(Error::new(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, reason))
    }
}
