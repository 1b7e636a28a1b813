//! What a kind of descriptor has: its attributes, what they hold, and what is answered where a call does not suit them.
//! The answers are those of cuDNN 9.19, which differ from attribute to attribute; `tests/real_graph` holds the two
//! libraries against each other.

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

/// What an attribute holds before it is set.
#[derive(Clone, Copy)]
enum Initial {
    Nothing,
    Integer(i64),
    Real(f64),
    Null,
}

/// How a null descriptor or handle is taken among an attribute's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// With this status.
    Refused(cudnnStatus_t),
    /// The attribute is then as if it had not been set.
    Unset,
}

/// How many elements are told and written where there is room for fewer than there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Exactly one element: an array has room for one.
    Single,
    /// One element, of which from one to so many must be asked for; with the answer to other numbers.
    Asked(i64, cudnnStatus_t),
    /// As many as there is room for; with no array all are counted.
    Room,
    /// The same, and descriptors that are filled are not finalized before.
    Fresh,
    /// As many as were asked for, with or without an array; if none was, all are counted.
    RequestedOrAll,
    /// As many as were asked for, with or without an array.
    Requested,
    /// All of them or none.
    Whole,
}

type Types = &'static [cudnnBackendAttributeType_t];

/// One attribute of a kind of descriptor.
#[derive(Clone, Copy)]
pub struct Attribute {
    /// Which.
    pub name: cudnnBackendAttributeName_t,
    /// How it takes null among its elements.
    pub null: Null,
    /// How many elements it gives.
    pub listing: Listing,
    /// The attribute whose type it is read as, where it may be set as several: itself but for a slip of cuDNN's.
    pub typed_by: cudnnBackendAttributeName_t,
    /// The types that its elements may have; the first is that of its initial value.
    types: Types,
    /// The types that they are read as.
    read_as: Types,
    /// The fewest elements that may be set.
    least: i64,
    /// The most that may be set.
    most: i64,
    /// The most that are read. More are too many for anything: nobody looks at them.
    kept: usize,
    /// Whether too few elements are found before their type is looked at.
    counted_first: bool,
    /// Whether elements that are set add to those that were set before.
    appends: bool,
    /// Statuses; the first two are 0 where the attribute can be set, and read.
    set_refused: cudnnStatus_t,
    get_refused: cudnnStatus_t,
    set_type: cudnnStatus_t,
    set_few: cudnnStatus_t,
    set_many: cudnnStatus_t,
    get_type: cudnnStatus_t,
    /// The type that elements are written as, if not as the one that they are read as.
    written_as: Option<cudnnBackendAttributeType_t>,
    /// What a descriptor among its elements must be when it is set.
    admit: fn(&Descriptor) -> Result,
    /// What else its elements must be when they are set.
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

    /// One or more elements, of which at most `kept` mean something.
    pub const fn many(name: cudnnBackendAttributeName_t, types: Types, kept: usize) -> Self {
        Self { listing: Listing::Room, most: i64::MAX, kept, ..Self::one(name, types) }
    }

    /// None or more elements that only finalizing sets.
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

    /// The same, which is refused when it is read as its own type.
    pub const fn unfilled(self, get_refused: cudnnStatus_t) -> Self {
        Self { get_refused, ..self }
    }

    /// The same, with other answers to elements of a wrong type, and to a count that does not suit.
    pub const fn answering(self, set_type: cudnnStatus_t, set_count: cudnnStatus_t) -> Self {
        Self { set_type, set_few: set_count, set_many: set_count, ..self }
    }

    /// The same, with another answer to too few elements.
    pub const fn answering_few(self, set_few: cudnnStatus_t) -> Self {
        Self { set_few, ..self }
    }

    /// The same, read as elements of these types, and with another answer to others.
    pub const fn read_as(self, read_as: Types, get_type: cudnnStatus_t) -> Self {
        Self { read_as, get_type, ..self }
    }

    /// The same, read as the type that another attribute was set with.
    pub const fn typed_by(self, typed_by: cudnnBackendAttributeName_t) -> Self {
        Self { typed_by, ..self }
    }

    /// The same, whose elements are written as if of another type than they are read as.
    pub const fn written_as(self, element: cudnnBackendAttributeType_t) -> Self {
        Self { written_as: Some(element), ..self }
    }

    /// The same, of which so many elements may be set.
    pub const fn counting(self, least: i64, most: i64) -> Self {
        Self { least, most, ..self }
    }

    /// The same, where each element is looked at when it is set, and adds to those that were set before, also where a
    /// later one is refused.
    pub const fn appending(self, admit: fn(&Descriptor) -> Result) -> Self {
        Self { appends: true, admit, ..self }
    }

    /// The same, where each descriptor is looked at when it is set.
    pub const fn admitting(self, admit: fn(&Descriptor) -> Result) -> Self {
        Self { admit, ..self }
    }

    /// The same, where too few elements are refused as that, also if they are of a wrong type.
    pub const fn counted_first(self) -> Self {
        Self { counted_first: true, ..self }
    }

    /// The same, which takes null otherwise.
    pub const fn null(self, null: Null) -> Self {
        Self { null, ..self }
    }

    /// The same, which lists its elements otherwise.
    pub const fn listing(self, listing: Listing) -> Self {
        Self { listing, ..self }
    }

    /// The same, whose elements are looked at all together when they are set.
    pub const fn vetted(self, vet: fn(&Value) -> Result) -> Self {
        Self { vet, ..self }
    }

    /// The same, which holds an integer before it is set.
    pub const fn or(self, value: i64) -> Self {
        Self { initial: Initial::Integer(value), ..self }
    }

    /// The same, which holds a number before it is set.
    pub const fn or_real(self, value: f64) -> Self {
        Self { initial: Initial::Real(value), ..self }
    }

    /// The same, which holds a null pointer before it is set.
    pub const fn or_null(self) -> Self {
        Self { initial: Initial::Null, ..self }
    }

    /// What it holds at first, and as which type.
    pub fn initial(&self) -> Option<(cudnnBackendAttributeType_t, Value)> {
        let value = match self.initial {
            Initial::Nothing => return None,
            Initial::Integer(value) => Value::Integers(vec![value]),
            Initial::Real(value) => Value::Reals(vec![value]),
            Initial::Null => Value::Pointers(vec![0]),
        };
        Some((self.types[0], value))
    }

    /// Whether elements add to those that were set before.
    pub fn appends(&self) -> bool {
        self.appends
    }

    /// The type that elements are written as where they are asked for as `element`.
    pub fn written(&self, element: cudnnBackendAttributeType_t) -> cudnnBackendAttributeType_t {
        self.written_as.unwrap_or(element)
    }

    /// The type that elements are kept as where they are set as `element`.
    pub fn taken_as(&self, element: cudnnBackendAttributeType_t) -> cudnnBackendAttributeType_t {
        let is_bits = element == CUDNN_TYPE_INT32 && self.types.contains(&CUDNN_TYPE_FLOAT);
        if is_bits { CUDNN_TYPE_FLOAT } else { element }
    }

    /// What stands for `count` elements that are too many to be read; `None` if they are not.
    pub fn unread(&self, element: cudnnBackendAttributeType_t, count: usize) -> Option<Value> {
        (count > self.kept).then(|| match element {
            CUDNN_TYPE_VOID_PTR => Value::Pointers(vec![0; self.kept + 1]),
            _ => Value::Integers(vec![0; self.kept + 1]),
        })
    }

    /// Whether `count` elements of a type may be set. Gives how many those are.
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

    /// Whether a descriptor may be among the elements.
    pub fn check_descriptor(&self, descriptor: &Descriptor) -> Result {
        (self.admit)(descriptor)
    }

    /// Whether a value may be set.
    pub fn check_value(&self, value: &Value) -> Result {
        (self.vet)(value)
    }

    /// Whether `requested` elements of a type may be read, with or without an array for them.
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

    /// How many of `held` elements are told, and how many written, where `requested` are asked for with or without an
    /// array for them.
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
