//! The graph (backend) API without its C boundary: descriptors as tables of attributes, and what follows from them.
//!
//! A [`Descriptor`] of any kind holds values by attribute; one file for each kind lists the attributes and the checks
//! of finalizing. Setting an attribute to a descriptor copies its current value: later changes do not affect it.
//! `program` turns an operation graph into something that runs, `engines` lists the convolution's algorithms for it,
//! and `execution_plan` runs it on a variant pack's memory. Uses `convolution`, `elementwise` and `select`.

mod attribute;
mod convolution;
mod device_properties;
mod engine;
mod engine_configuration;
mod engines;
mod execution_plan;
mod heuristics;
mod operation;
mod operation_graph;
mod pointwise;
mod program;
mod tensor;
mod tensor_cores;
mod variant_pack;

pub use attribute::{Attribute, Listing, Null, Value};

use crate::error::{Error, Result, require};
use cudnn_abi::*;
use std::sync::Arc;

/// The attributes and the behaviour of a kind of descriptor.
pub struct Kind {
    /// Its attributes.
    attributes: &'static [Attribute],
    /// Checks the settings and derives the rest. The descriptor counts as finalized if this succeeds.
    finalize: fn(&mut Descriptor) -> Result,
    /// The status of setting an attribute that it does not have.
    unknown_set: cudnnStatus_t,
    /// The status of reading such an attribute.
    unknown_get: cudnnStatus_t,
}

impl Kind {
    /// No attributes, and the usual statuses for those.
    const USUAL: Self = Self { attributes: &[], finalize: |_| Ok(()), unknown_set: BAD_PARAM, unknown_get: BAD_PARAM };
}

/// Values that finalizing derived, if deriving them again at each use would take long.
#[derive(Clone, Debug)]
enum Made {
    Graph(Arc<operation_graph::Graph>),
    Plan(Arc<execution_plan::Plan>),
    Pack(Arc<variant_pack::Pack>),
}

/// A descriptor of any kind.
#[derive(Clone)]
pub struct Descriptor {
    kind: cudnnBackendDescriptorType_t,
    of: &'static Kind,
    finalized: bool,
    values: Vec<(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, Value)>,
    made: Option<Made>,
}

impl std::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Descriptor");
        text.field("kind", &self.kind).field("finalized", &self.finalized).field("values", &self.values).finish()
    }
}

fn kind(of: cudnnBackendDescriptorType_t) -> Option<&'static Kind> {
    Some(match of {
        CUDNN_BACKEND_TENSOR_DESCRIPTOR => &tensor::KIND,
        CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR => &convolution::KIND,
        CUDNN_BACKEND_POINTWISE_DESCRIPTOR => &pointwise::KIND,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => &operation::FORWARD,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => &operation::BACKWARD_DATA,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => &operation::BACKWARD_FILTER,
        CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => &operation::POINTWISE,
        CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => &operation_graph::KIND,
        CUDNN_BACKEND_ENGINE_DESCRIPTOR => &engine::KIND,
        CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR => &engine::KNOB_INFO,
        CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR => &engine::LAYOUT_INFO,
        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => &engine_configuration::KIND,
        CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR => &engine_configuration::KNOB_CHOICE,
        CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => &heuristics::KIND,
        CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => &execution_plan::KIND,
        CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR => &variant_pack::KIND,
        CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR => &device_properties::KIND,
        _ => return None,
    })
}

impl Descriptor {
    /// An unset descriptor. CUDNN_STATUS_NOT_SUPPORTED for kinds that hostdnn does not have.
    pub fn new(kind: cudnnBackendDescriptorType_t) -> Result<Self> {
        let of = self::kind(kind).ok_or_else(|| {
            let known = (CUDNN_BACKEND_POINTWISE_DESCRIPTOR..=CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR)
                .contains(&kind)
                && kind != CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR;
            let status =
                if known { CUDNN_STATUS_NOT_SUPPORTED } else { CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED };
            Error::new(status, format!("descriptors of type {kind} are not made here"))
        })?;
        let initial = |attribute: &Attribute| attribute.initial().map(|(ty, value)| (attribute.name, ty, value));
        let values = of.attributes.iter().filter_map(initial).collect();
        Ok(Self { kind, of, finalized: false, values, made: None })
    }

    /// A finalized descriptor with these values.
    fn made_of<const N: usize>(
        kind: cudnnBackendDescriptorType_t,
        values: [(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, Value); N],
    ) -> Result<Arc<Self>> {
        let mut new = Self::new(kind)?;
        for (name, element, value) in values {
            new.put(name, element, value);
        }
        new.finalize()?;
        Ok(Arc::new(new))
    }

    /// The kind of the descriptor.
    pub fn kind(&self) -> cudnnBackendDescriptorType_t {
        self.kind
    }

    /// CUDNN_STATUS_NOT_INITIALIZED unless it is finalized.
    pub fn check_readable(&self) -> Result {
        let early = || Error::new(CUDNN_STATUS_NOT_INITIALIZED, "only a finalized descriptor is read");
        if self.finalized { Ok(()) } else { Err(early()) }
    }

    /// Returns whether it is finalized.
    pub fn is_finalized(&self) -> bool {
        self.finalized
    }

    fn attribute(&self, name: cudnnBackendAttributeName_t) -> Result<&'static Attribute> {
        let unknown = || Error::new(CUDNN_STATUS_BAD_PARAM, format!("no attribute {name} of such a descriptor"));
        self.of.attributes.iter().find(|attribute| attribute.name == name).ok_or_else(unknown)
    }

    /// The attribute, if `count` elements of a type may be set now, and the number of elements to read.
    pub fn settable(
        &self,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
        count: i64,
    ) -> Result<(&'static Attribute, usize)> {
        require(!self.finalized, "a finalized descriptor does not change")?;
        let attribute = self.attribute(name).map_err(|error| Error { status: self.of.unknown_set, ..error })?;
        Ok((attribute, attribute.check_set(element, count)?))
    }

    /// Sets an attribute to a value that [`Self::settable`] allowed. Without elements it is unset.
    pub fn set(&mut self, attribute: &Attribute, element: cudnnBackendAttributeType_t, value: Value) -> Result {
        attribute.check_value(&value)?;
        match (self.values.iter_mut().find(|(name, ..)| *name == attribute.name), value) {
            (Some((.., Value::Descriptors(before))), Value::Descriptors(more)) if attribute.appends() => {
                before.extend(more);
            }
            (_, value) => self.put(attribute.name, element, value),
        }
        Ok(())
    }

    fn put(&mut self, name: cudnnBackendAttributeName_t, element: cudnnBackendAttributeType_t, value: Value) {
        self.values.retain(|(other, ..)| *other != name);
        self.values.push((name, element, value));
    }

    /// The attribute and its value (`None` if it has none), if `requested` elements may be read now.
    pub fn get(
        &self,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
        requested: i64,
        has_array: bool,
    ) -> Result<(&'static Attribute, Option<&Value>)> {
        let known = self.attribute(name).map_err(|error| Error { status: self.of.unknown_get, ..error })?;
        known.check_get(element, requested, has_array)?;
        if let Some((_, ty, Value::Reals(_))) = self.values.iter().find(|(other, ..)| *other == known.typed_by) {
            require(*ty == element, "the type that the attribute was set with")?;
        }
        Ok((known, self.value(name)))
    }

    /// Checks the settings and derives the rest.
    pub fn finalize(&mut self) -> Result {
        require(!self.finalized, "a descriptor is finalized once")?;
        (self.of.finalize)(self)?;
        self.finalized = true;
        Ok(())
    }

    fn value(&self, name: cudnnBackendAttributeName_t) -> Option<&Value> {
        self.values.iter().find(|(other, ..)| *other == name).map(|(.., value)| value)
    }

    fn integers(&self, name: cudnnBackendAttributeName_t) -> &[i64] {
        match self.value(name) {
            Some(Value::Integers(all)) => all,
            _ => &[],
        }
    }

    /// An attribute of one integer; 0 if it is unset.
    fn integer(&self, name: cudnnBackendAttributeName_t) -> i64 {
        self.integers(name).first().copied().unwrap_or(0)
    }

    /// An attribute of one enumerator; 0 if it is unset.
    fn enumerator(&self, name: cudnnBackendAttributeName_t) -> i32 {
        self.integer(name) as i32
    }

    /// An attribute of one number; 0 if it is unset.
    fn real(&self, name: cudnnBackendAttributeName_t) -> f64 {
        match self.value(name) {
            Some(Value::Reals(all)) => all.first().copied().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    fn pointers(&self, name: cudnnBackendAttributeName_t) -> &[usize] {
        match self.value(name) {
            Some(Value::Pointers(all)) => all,
            _ => &[],
        }
    }

    fn descriptors(&self, name: cudnnBackendAttributeName_t) -> &[Arc<Self>] {
        match self.value(name) {
            Some(Value::Descriptors(all)) => all,
            _ => &[],
        }
    }

    /// The finalized descriptor of a kind that an attribute is set to; `what` names it in errors. `missing` and `early`
    /// are the statuses if there is none, and if it is not finalized.
    fn finalized(
        &self,
        name: cudnnBackendAttributeName_t,
        kind: cudnnBackendDescriptorType_t,
        what: &'static str,
        (missing, early): (cudnnStatus_t, cudnnStatus_t),
    ) -> Result<&Arc<Self>> {
        let found = self.descriptors(name).first();
        let refused = |status, why| Error::new(status, format!("{what} {why}"));
        let found = found.ok_or_else(|| refused(missing, "is missing"))?;
        if found.kind != kind {
            return Err(refused(CUDNN_STATUS_BAD_PARAM, "is a descriptor of another kind"));
        }
        if found.finalized { Ok(found) } else { Err(refused(early, "is not finalized")) }
    }
}

/// Executes a plan on a variant pack's memory. `function` is the caller's name, for faults.
///
/// # Safety
/// The pack's addresses are null, or those of memory that holds the tensors of its ids and of a workspace of the plan's
/// size, and nobody else uses this memory meanwhile.
pub unsafe fn execute(function: &str, plan: &Descriptor, pack: &Descriptor) -> Result {
    let (plan, pack) = (execution_plan::Plan::of(plan)?, variant_pack::Pack::of(pack)?);
    // SAFETY: the caller's promise.
    unsafe { plan.execute(function, pack) }
}

/// The bytes of workspace that an execution of a finalized plan with a finalized variant pack needs.
pub fn workspace(plan: &Descriptor, pack: &Descriptor) -> Result<usize> {
    variant_pack::Pack::of(pack)?;
    Ok(execution_plan::Plan::of(plan)?.workspace())
}

const BAD_PARAM: cudnnStatus_t = CUDNN_STATUS_BAD_PARAM;
const ATTRIBUTE_TYPE: cudnnStatus_t = CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
const NOT_SUPPORTED: cudnnStatus_t = CUDNN_STATUS_NOT_SUPPORTED;

const INTEGER: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_INT64];
const INTEGER_32: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_INT32];
const BOOLEAN: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_BOOLEAN];
const DATA_TYPE: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_DATA_TYPE];
const SCALE: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_DOUBLE, CUDNN_TYPE_FLOAT];
const POINTER: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_VOID_PTR];
const HANDLE: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_HANDLE];
const TEXT: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_CHAR];
const DESCRIPTOR: &[cudnnBackendAttributeType_t] = &[CUDNN_TYPE_BACKEND_DESCRIPTOR];
