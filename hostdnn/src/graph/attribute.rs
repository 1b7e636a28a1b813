//! The attributes of a kind of descriptor: their values, and the answers to calls that do not match them. The answers
//! are those of cuDNN 9.19, which differ from attribute to attribute; `tests/real_graph` compares the two libraries.

use super::Descriptor;
use crate::error::{Error, Result};
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
    /// `CUDNN_TYPE_BACKEND_DESCRIPTOR`: as they were when the attribute was set.
    Descriptors(Vec<Arc<Descriptor>>),
}

impl Value {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(all) => all.len(),
            Self::Reals(all) => all.len(),
            Self::Pointers(all) => all.len(),
            Self::Descriptors(all) => all.len(),
        }
    }
}

/// An attribute's value before it is set.
#[derive(Clone, Copy)]
enum Initial {
    Nothing,
    Integer(i64),
    Real(f64),
    Null,
}

/// The treatment of a null descriptor or handle among an attribute's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// Refused with this status.
    Refused(cudnnStatus_t),
    /// The attribute becomes unset.
    Unset,
}

/// The numbers of reported and written elements, when the caller requests fewer than there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Exactly one element: an array has room for one.
    Single,
    /// One element. Requests for one to this many are allowed; others get this status.
    Asked(i64, cudnnStatus_t),
    /// As many as there is room for; without an array, the number of all is reported.
    Room,
    /// The same, but only descriptors that are not finalized are filled.
    Fresh,
    /// As many as requested, with or without an array; a request for none reports the number of all.
    RequestedOrAll,
    /// As many as requested, with or without an array.
    Requested,
    /// All of them or none.
    Whole,
}

type Types = &'static [cudnnBackendAttributeType_t];

/// One attribute of a kind of descriptor.
#[derive(Clone, Copy)]
pub struct Attribute {
    /// Its name.
    pub name: cudnnBackendAttributeName_t,
    /// The treatment of null among its elements.
    pub null: Null,
    /// The numbers of elements that reading gives.
    pub listing: Listing,
    /// The attribute whose type this one is read as, if it has several: itself, except for an error in cuDNN.
    pub typed_by: cudnnBackendAttributeName_t,
    /// The allowed types of its elements; the first is the type of its initial value.
    types: Types,
    /// The types that its elements can be read as.
    read_as: Types,
    /// The fewest elements that may be set.
    least: i64,
    /// The most elements that may be set.
    most: i64,
    /// The most elements that are kept. More are too many for any use, and are not read.
    kept: usize,
    /// Whether the number of elements is checked for too few before their type.
    counted_first: bool,
    /// Whether elements add to those that were set before.
    appends: bool,
    /// Statuses; the first two are 0 if the attribute can be set, and read.
    set_refused: cudnnStatus_t,
    get_refused: cudnnStatus_t,
    set_type: cudnnStatus_t,
    set_few: cudnnStatus_t,
    set_many: cudnnStatus_t,
    get_type: cudnnStatus_t,
    /// The type that elements are written as, if it differs from the type that they are read as.
    written_as: Option<cudnnBackendAttributeType_t>,
    /// The check of each descriptor among its elements when it is set.
    admit: fn(&Descriptor) -> Result,
    /// The check of all its elements together when they are set.
    vet: fn(&Value) -> Result,
    initial: Initial,
}

impl Attribute {
    /// One element.
    pub const fn one(name: cudnnBackendAttributeName_t, types: Types) -> Self {
        Self {
            name,
            null: Null::Refused(CUDNN_STATUS_BAD_PARAM),
            listing: Listing::Single,
            typed_by: name,
            types,
            read_as: types,
            least: 1,
            most: 1,
            kept: 1,
            counted_first: false,
            appends: false,
            set_refused: CUDNN_STATUS_SUCCESS,
            get_refused: CUDNN_STATUS_SUCCESS,
            set_type: CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
            set_few: CUDNN_STATUS_BAD_PARAM,
            set_many: CUDNN_STATUS_BAD_PARAM,
            get_type: CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
            written_as: None,
            admit: |_| Ok(()),
            vet: |_| Ok(()),
            initial: Initial::Nothing,
        }
    }

    /// One or more elements, at most `kept` of them with a meaning.
    pub const fn many(name: cudnnBackendAttributeName_t, types: Types, kept: usize) -> Self {
        Self { listing: Listing::Room, most: i64::MAX, kept, ..Self::one(name, types) }
    }

    /// Any number of elements that only finalizing sets.
    pub const fn made(name: cudnnBackendAttributeName_t, types: Types, set_refused: cudnnStatus_t) -> Self {
        Self { set_refused, ..Self::many(name, types, usize::MAX) }
    }

    /// The same, which only finalizing sets.
    pub const fn unsettable(self, set_refused: cudnnStatus_t) -> Self {
        Self { set_refused, ..self }
    }

    /// The same, which cannot be read as any type.
    pub const fn unreadable(self, status: cudnnStatus_t) -> Self {
        Self { read_as: &[], get_type: status, ..self }
    }

    /// The same, but reading it as its own type is refused.
    pub const fn unfilled(self, get_refused: cudnnStatus_t) -> Self {
        Self { get_refused, ..self }
    }

    /// The same, with other answers to elements of a wrong type and to a wrong count.
    pub const fn answering(self, set_type: cudnnStatus_t, set_count: cudnnStatus_t) -> Self {
        Self { set_type, set_few: set_count, set_many: set_count, ..self }
    }

    /// The same, with another answer to too few elements.
    pub const fn answering_few(self, set_few: cudnnStatus_t) -> Self {
        Self { set_few, ..self }
    }

    /// The same, read as elements of these types, with another answer to other types.
    pub const fn read_as(self, read_as: Types, get_type: cudnnStatus_t) -> Self {
        Self { read_as, get_type, ..self }
    }

    /// The same, read as the type that another attribute was set with.
    pub const fn typed_by(self, typed_by: cudnnBackendAttributeName_t) -> Self {
        Self { typed_by, ..self }
    }

    /// The same, but elements are written as if of another type.
    pub const fn written_as(self, element: cudnnBackendAttributeType_t) -> Self {
        Self { written_as: Some(element), ..self }
    }

    /// The same, with `least` to `most` elements.
    pub const fn counting(self, least: i64, most: i64) -> Self {
        Self { least, most, ..self }
    }

    /// The same, but each element is checked when it is set, and adds to those that were set before, even if a later
    /// one is refused.
    pub const fn appending(self, admit: fn(&Descriptor) -> Result) -> Self {
        Self { appends: true, admit, ..self }
    }

    /// The same, with a check of each descriptor when it is set.
    pub const fn admitting(self, admit: fn(&Descriptor) -> Result) -> Self {
        Self { admit, ..self }
    }

    /// The same, but too few elements are refused as such, even if their type is wrong too.
    pub const fn counted_first(self) -> Self {
        Self { counted_first: true, ..self }
    }

    /// The same, with another treatment of null.
    pub const fn null(self, null: Null) -> Self {
        Self { null, ..self }
    }

    /// The same, with another listing.
    pub const fn listing(self, listing: Listing) -> Self {
        Self { listing, ..self }
    }

    /// The same, with a check of all elements together when they are set.
    pub const fn vetted(self, vet: fn(&Value) -> Result) -> Self {
        Self { vet, ..self }
    }

    /// The same, with an integer as its initial value.
    pub const fn or(self, value: i64) -> Self {
        Self { initial: Initial::Integer(value), ..self }
    }

    /// The same, with a number as its initial value.
    pub const fn or_real(self, value: f64) -> Self {
        Self { initial: Initial::Real(value), ..self }
    }

    /// The same, with a null pointer as its initial value.
    pub const fn or_null(self) -> Self {
        Self { initial: Initial::Null, ..self }
    }

    /// Its initial value and that value's type.
    pub fn initial(&self) -> Option<(cudnnBackendAttributeType_t, Value)> {
        let value = match self.initial {
            Initial::Nothing => return None,
            Initial::Integer(value) => Value::Integers(vec![value]),
            Initial::Real(value) => Value::Reals(vec![value]),
            Initial::Null => Value::Pointers(vec![0]),
        };
        Some((self.types[0], value))
    }

    /// Returns whether elements add to those that were set before.
    pub fn appends(&self) -> bool {
        self.appends
    }

    /// The type that elements are written as, if they are requested as `element`.
    pub fn written(&self, element: cudnnBackendAttributeType_t) -> cudnnBackendAttributeType_t {
        self.written_as.unwrap_or(element)
    }

    /// The type that elements are kept as, if they are set as `element`.
    pub fn taken_as(&self, element: cudnnBackendAttributeType_t) -> cudnnBackendAttributeType_t {
        let is_bits = element == CUDNN_TYPE_INT32 && self.types.contains(&CUDNN_TYPE_FLOAT);
        if is_bits { CUDNN_TYPE_FLOAT } else { element }
    }

    /// Stands for `count` elements that are too many to be read; `None` if they are not too many.
    pub fn unread(&self, element: cudnnBackendAttributeType_t, count: usize) -> Option<Value> {
        (count > self.kept).then(|| match element {
            CUDNN_TYPE_VOID_PTR => Value::Pointers(vec![0; self.kept + 1]),
            _ => Value::Integers(vec![0; self.kept + 1]),
        })
    }

    /// Checks whether `count` elements of a type may be set, and returns their number.
    pub fn check_set(&self, element: cudnnBackendAttributeType_t, count: i64) -> Result<usize> {
        if self.set_refused != CUDNN_STATUS_SUCCESS {
            return Err(Error::new(self.set_refused, format!("attribute {} cannot be set", self.name)));
        }
        if !(self.counted_first && count < self.least) {
            self.check_type(element, self.types, self.set_type)?;
        }
        if (self.least..=self.most).contains(&count) {
            return Ok(usize::try_from(count).unwrap_or(0));
        }
        let reason = format!("attribute {} takes {} to {} elements, not {count}", self.name, self.least, self.most);
        Err(Error::new(if count < self.least { self.set_few } else { self.set_many }, reason))
    }

    /// Checks whether a descriptor may be among the elements.
    pub fn check_descriptor(&self, descriptor: &Descriptor) -> Result {
        (self.admit)(descriptor)
    }

    /// Checks whether a value may be set.
    pub fn check_value(&self, value: &Value) -> Result {
        (self.vet)(value)
    }

    /// Checks whether `requested` elements of a type may be read, with or without an array for them.
    pub fn check_get(&self, element: cudnnBackendAttributeType_t, requested: i64, has_array: bool) -> Result {
        let refuse = |status, why| Err(Error::new(status, format!("attribute {} {why}", self.name)));
        self.check_type(element, self.read_as, self.get_type)?;
        if self.get_refused != CUDNN_STATUS_SUCCESS {
            return refuse(self.get_refused, "cannot be read");
        }
        match self.listing {
            Listing::Single if has_array && requested != 1 => refuse(CUDNN_STATUS_BAD_PARAM, "has one element"),
            Listing::Asked(most, status) if !(1..=most).contains(&requested) => refuse(status, "has one element"),
            _ => Ok(()),
        }
    }

    fn check_type(&self, element: cudnnBackendAttributeType_t, types: Types, status: cudnnStatus_t) -> Result {
        if types.contains(&element) {
            return Ok(());
        }
        let reason = match types {
            [] => format!("attribute {} cannot be read", self.name),
            _ => format!("attribute {} has elements of type {types:?}, not {element}", self.name),
        };
        Err(Error::new(status, reason))
    }

    /// The numbers of reported and of written elements, if `requested` of the `held` elements are requested, with or
    /// without an array.
    pub fn count(&self, held: usize, requested: i64, has_array: bool) -> Result<(usize, usize)> {
        let room = usize::try_from(requested).unwrap_or(0);
        let written = if has_array { held.min(room) } else { 0 };
        let told = match self.listing {
            Listing::Single | Listing::Asked(..) => held,
            Listing::Room | Listing::Fresh if has_array => written,
            Listing::Room | Listing::Fresh => held,
            Listing::RequestedOrAll if room == 0 => held,
            Listing::RequestedOrAll | Listing::Requested => held.min(room),
            Listing::Whole if has_array && room < held => {
                let reason = format!("room for all {held} elements of attribute {}", self.name);
                return Err(Error::new(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, reason));
            }
            Listing::Whole => held,
        };
        Ok((told, written))
    }
}
