//! The attributes that a program sets on its backend descriptors, kept beside them: cuDNN does not give an operation
//! graph's operations back, and programs destroy inner descriptors as soon as cuDNN lets them.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::RwLock;

use super::operation_graph::Graph;
use super::planned::Planned;

/// One descriptor's shadow. It lives as long as the descriptor, or as long as another shadow holds it.
#[derive(Default)]
pub struct Shadow {
    /// The descriptor's type.
    pub kind: cudnnBackendDescriptorType_t,
    content: RwLock<Content>,
    /// For an operation graph: its content, once it was read. `None` if we do not plan the graph.
    pub graph: OnceCell<Option<Arc<Graph>>>,
    /// For an execution plan: its replacement. `None` if it runs itself.
    pub planned: OnceCell<Option<Arc<Planned>>>,
}

/// A descriptor's attributes and state.
#[derive(Default)]
pub struct Content {
    /// In any order; each name occurs once.
    attributes: Vec<(cudnnBackendAttributeName_t, Value)>,
    /// Set once the descriptor got something that we cannot follow.
    pub is_opaque: bool,
    /// Set once cuDNN has finalized the descriptor.
    pub is_finalized: bool,
    /// For an engine or an engine configuration that cuDNN filled in: its operation graph.
    pub derived_from: Option<Arc<Shadow>>,
}

/// An attribute's elements.
pub enum Value {
    /// Plain values, of this type.
    Plain(cudnnBackendAttributeType_t, Box<[u8]>),
    /// Descriptors.
    Descriptors(Vec<Arc<Shadow>>),
}

type Table = HashMap<usize, Arc<Shadow>, foldhash::fast::RandomState>;

/// The shadows by address. There are several tables because every execution looks up two descriptors.
static TABLES: Lazy<[RwLock<Table>; 16]> = Lazy::new(Default::default);

fn table(descriptor: cudnnBackendDescriptor_t) -> &'static RwLock<Table> {
    // malloc's addresses are multiples of 16.
    &TABLES[descriptor.addr() >> 4 & 15]
}

/// Returns whether we keep shadows of descriptors of this kind.
fn is_followed(kind: cudnnBackendDescriptorType_t) -> bool {
    matches!(
        kind,
        CUDNN_BACKEND_TENSOR_DESCRIPTOR
            | CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
            | CUDNN_BACKEND_POINTWISE_DESCRIPTOR
            | CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
            | CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
            | CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
            | CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
            | CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
            | CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR
            | CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
            | CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
            | CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
            | CUDNN_BACKEND_ENGINE_DESCRIPTOR
            | CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
            | CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
            | CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
    )
}

/// The bytes of an attribute's element. `None` for types that no descriptor with a shadow takes.
fn element_bytes(element: cudnnBackendAttributeType_t) -> Option<usize> {
    Some(match element {
        CUDNN_TYPE_BOOLEAN | CUDNN_TYPE_CHAR => 1,
        CUDNN_TYPE_DATA_TYPE
        | CUDNN_TYPE_FLOAT
        | CUDNN_TYPE_CONVOLUTION_MODE
        | CUDNN_TYPE_HEUR_MODE
        | CUDNN_TYPE_NAN_PROPOGATION
        | CUDNN_TYPE_POINTWISE_MODE
        | CUDNN_TYPE_TENSOR_REORDERING_MODE
        | CUDNN_TYPE_NORM_MODE
        | CUDNN_TYPE_NORM_FWD_PHASE
        | CUDNN_TYPE_INT32 => 4,
        CUDNN_TYPE_HANDLE | CUDNN_TYPE_INT64 | CUDNN_TYPE_DOUBLE | CUDNN_TYPE_VOID_PTR => 8,
        _ => return None,
    })
}

/// Records a new descriptor.
pub fn created(kind: cudnnBackendDescriptorType_t, descriptor: cudnnBackendDescriptor_t) {
    follow(kind, descriptor, Content::default());
}

/// Gives a descriptor a new shadow with this content.
fn follow(kind: cudnnBackendDescriptorType_t, descriptor: cudnnBackendDescriptor_t, content: Content) {
    if is_followed(kind) {
        let (graph, planned) = Default::default();
        let shadow = Shadow { kind, content: RwLock::new(content), graph, planned };
        let before = table(descriptor).write().insert(descriptor.addr(), Arc::new(shadow));
        drop(before); // after the lock is released: it may hold much
    }
}

/// Forgets a descriptor before it is destroyed: another may get its address.
pub fn destroyed(descriptor: cudnnBackendDescriptor_t) {
    let forgotten = table(descriptor).write().remove(&descriptor.addr());
    drop(forgotten); // after the lock is released: it may hold much
}

/// Returns a descriptor's shadow, if there is one.
pub fn of(descriptor: cudnnBackendDescriptor_t) -> Option<Arc<Shadow>> {
    table(descriptor).read().get(&descriptor.addr()).cloned()
}

/// Resets a descriptor to its state after creation.
pub fn renewed(descriptor: cudnnBackendDescriptor_t) {
    if let Some(shadow) = of(descriptor) {
        created(shadow.kind, descriptor);
    }
}

/// Records that cuDNN filled in descriptors with values of another one. cuDNN does not say which it filled; one already
/// finalized may be unchanged.
pub fn were_filled(
    from: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    filled: &[cudnnBackendDescriptor_t],
) {
    let kind = match name {
        CUDNN_ATTR_ENGINEHEUR_RESULTS | CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG => {
            Some(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        }
        CUDNN_ATTR_ENGINECFG_ENGINE => Some(CUDNN_BACKEND_ENGINE_DESCRIPTOR),
        _ => None,
    };
    let from = of(from).filter(|from| kind.is_some() && !from.is_special());
    let graph = from.and_then(|from| from.operation_graph());
    let can_hold = |before: &Arc<Shadow>| kind.is_none_or(|kind| kind == before.kind);
    for &descriptor in filled {
        let Some(before) = of(descriptor).filter(can_hold) else { continue };
        let derived_from = graph.clone().filter(|_| !before.content().is_finalized);
        let (is_opaque, is_finalized) = (derived_from.is_none(), true);
        follow(before.kind, descriptor, Content { is_opaque, is_finalized, derived_from, ..Content::default() });
    }
}

/// Records an attribute that cuDNN has accepted.
///
/// # Safety
/// The caller promises that `elements` points at `count` elements of the type `element`.
pub unsafe fn was_set(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    count: i64,
    elements: *const c_void,
) {
    let Some(shadow) = of(descriptor) else { return };
    // SAFETY: our caller promised `count` elements of this type.
    let value = unsafe { value(element, count, elements) };
    let mut content = shadow.content.write();
    // Operations are added to the earlier ones; any other attribute replaces its earlier value.
    let before = content.attributes.extract_if(.., |(known, _)| *known == name).next();
    match (value, before) {
        (Some(Value::Descriptors(new)), Some((ADDS_UP, Value::Descriptors(mut all)))) => {
            all.extend(new);
            content.attributes.push((name, Value::Descriptors(all)));
        }
        (Some(value), _) => content.attributes.push((name, value)),
        (None, _) => content.is_opaque = true,
    }
}

/// The attribute that accumulates when it is set again.
const ADDS_UP: cudnnBackendAttributeName_t = CUDNN_ATTR_OPERATIONGRAPH_OPS;

/// Records an attribute that cuDNN has refused. Of operations, cuDNN has kept those before the refused one.
pub fn was_refused(descriptor: cudnnBackendDescriptor_t, name: cudnnBackendAttributeName_t) {
    if name == ADDS_UP
        && let Some(shadow) = of(descriptor)
    {
        let mut content = shadow.content.write();
        content.is_opaque |= !content.is_finalized;
    }
}

/// cuDNN accepts any count for some attributes, and reads only as many elements as it uses: beyond this many, they may
/// not exist. The longest attribute is the text of a device's properties.
const MOST_ELEMENTS: usize = 1 << 16;

/// Copies an attribute's elements. `None` if we cannot follow them.
///
/// # Safety
/// The caller promises the same as for [`was_set`].
unsafe fn value(element: cudnnBackendAttributeType_t, count: i64, elements: *const c_void) -> Option<Value> {
    let count = usize::try_from(count).ok()?;
    if elements.is_null() || count > MOST_ELEMENTS {
        return None;
    }
    if element == CUDNN_TYPE_BACKEND_DESCRIPTOR {
        // SAFETY: our caller promised `count` elements, which are descriptors.
        let inner = unsafe { std::slice::from_raw_parts(elements.cast::<cudnnBackendDescriptor_t>(), count) };
        // cuDNN copies inner descriptors that are not finalized yet, so the program may change them afterwards.
        let finalized = |&inner: &cudnnBackendDescriptor_t| of(inner).filter(|inner| inner.content().is_finalized);
        return inner.iter().map(finalized).collect::<Option<_>>().map(Value::Descriptors);
    }
    let bytes = element_bytes(element)? * count;
    // SAFETY: our caller promised `count` elements, which are `bytes` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(elements.cast::<u8>(), bytes) };
    Some(Value::Plain(element, bytes.into()))
}

impl Shadow {
    /// Records that cuDNN has finalized the descriptor.
    pub fn was_finalized(&self) {
        self.content.write().is_finalized = true;
    }

    /// Returns the descriptor's content.
    pub fn content(&self) -> parking_lot::RwLockReadGuard<'_, Content> {
        self.content.read()
    }

    /// Returns the next shadow on the way from an execution plan or heuristics to the operation graph.
    fn next(&self) -> Option<Arc<Shadow>> {
        let name = match self.kind {
            CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => return None,
            CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
            CUDNN_BACKEND_ENGINE_DESCRIPTOR => CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => CUDNN_ATTR_ENGINECFG_ENGINE,
            _ => CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
        };
        let content = self.content.read();
        content.derived_from.as_ref().or_else(|| content.descriptor(name)).cloned()
    }

    /// Returns the operation graph that the descriptor is for.
    pub fn operation_graph(&self) -> Option<Arc<Shadow>> {
        let next = self.next()?;
        if next.kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR { Some(next) } else { next.operation_graph() }
    }

    /// Returns whether the program asked for more than the operation graph, such as an engine for a part of the device.
    pub fn is_special(&self) -> bool {
        let known: &[cudnnBackendAttributeName_t] = match self.kind {
            CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => {
                &[CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP]
            }
            CUDNN_BACKEND_ENGINE_DESCRIPTOR => {
                &[CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_ATTR_ENGINE_DEVICEPROP]
            }
            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => &[CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES],
            CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => &[
                CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
            ],
            _ => return false, // an operation graph
        };
        let is_known = self.content.read().names().all(|name| known.contains(&name));
        !is_known || self.next().is_some_and(|next| next.is_special())
    }
}

impl Content {
    /// Returns an attribute's value.
    pub fn attribute(&self, name: cudnnBackendAttributeName_t) -> Option<&Value> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns the names of all attributes that were set.
    pub fn names(&self) -> impl Iterator<Item = cudnnBackendAttributeName_t> {
        self.attributes.iter().map(|(name, _)| *name)
    }

    /// Returns an attribute's descriptors.
    pub fn descriptors(&self, name: cudnnBackendAttributeName_t) -> Option<&[Arc<Shadow>]> {
        match self.attribute(name)? {
            Value::Descriptors(descriptors) => Some(descriptors),
            Value::Plain(..) => None,
        }
    }

    /// Returns an attribute's one descriptor.
    pub fn descriptor(&self, name: cudnnBackendAttributeName_t) -> Option<&Arc<Shadow>> {
        let [descriptor] = self.descriptors(name)? else { return None };
        Some(descriptor)
    }

    /// Returns an attribute's plain values of `N` bytes each.
    pub fn elements<const N: usize>(&self, name: cudnnBackendAttributeName_t) -> Option<&[[u8; N]]> {
        match self.attribute(name)? {
            Value::Plain(element, bytes) if element_bytes(*element) == Some(N) => Some(bytes.as_chunks().0),
            _ => None,
        }
    }

    /// Returns an attribute's 64-bit integers.
    pub fn integers(&self, name: cudnnBackendAttributeName_t) -> Option<Vec<i64>> {
        self.elements(name).map(|elements| elements.iter().map(|&bytes| i64::from_ne_bytes(bytes)).collect())
    }

    /// Returns an attribute's one 64-bit integer.
    pub fn integer(&self, name: cudnnBackendAttributeName_t) -> Option<i64> {
        let [bytes] = self.elements(name)? else { return None };
        Some(i64::from_ne_bytes(*bytes))
    }

    /// Returns an attribute's one enumerator.
    pub fn enumerator(&self, name: cudnnBackendAttributeName_t) -> Option<i32> {
        let [bytes] = self.elements(name)? else { return None };
        Some(i32::from_ne_bytes(*bytes))
    }

    /// Returns whether an attribute was set to true.
    pub fn is_set(&self, name: cudnnBackendAttributeName_t) -> bool {
        self.elements::<1>(name).is_some_and(|elements| elements.iter().any(|[byte]| *byte != 0))
    }

    /// Returns an attribute's one number, a float or a double.
    pub fn number(&self, name: cudnnBackendAttributeName_t) -> Option<f64> {
        match self.attribute(name)? {
            Value::Plain(CUDNN_TYPE_FLOAT, bytes) => Some(f32::from_ne_bytes((**bytes).try_into().ok()?).into()),
            Value::Plain(CUDNN_TYPE_DOUBLE, bytes) => Some(f64::from_ne_bytes((**bytes).try_into().ok()?)),
            _ => None,
        }
    }
}
