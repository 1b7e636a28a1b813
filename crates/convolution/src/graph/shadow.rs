//! What a program sets of its backend descriptors, kept beside them: cuDNN does not give an operation graph's
//! operations back, and programs destroy inner descriptors as soon as cuDNN lets them.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::RwLock;

use super::planned::Planned;
use super::reading::Graph;

/// One descriptor's shadow. It lives as long as the descriptor, or a shadow that holds it.
pub struct Shadow {
    /// What it describes.
    pub kind: cudnnBackendDescriptorType_t,
    content: RwLock<Content>,
    /// Of an operation graph: what it says, once somebody asked. `None` if it is not one that we plan.
    pub graph: OnceCell<Option<Arc<Graph>>>,
    /// Of an execution plan: what runs in its place. `None` if it runs itself.
    pub planned: OnceCell<Option<Arc<Planned>>>,
}

/// What a descriptor was given.
#[derive(Default)]
pub struct Content {
    /// In any order, each name once.
    attributes: Vec<(cudnnBackendAttributeName_t, Value)>,
    /// It was given something that we cannot follow.
    pub is_opaque: bool,
    /// cuDNN has found it complete.
    pub is_finalized: bool,
    /// Of an engine or an engine's configuration that cuDNN filled in: the operation graph that it is for.
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

/// By address. Several tables, since every execution looks two descriptors up.
static TABLES: Lazy<[RwLock<Table>; 16]> = Lazy::new(Default::default);

fn table(descriptor: cudnnBackendDescriptor_t) -> &'static RwLock<Table> {
    // What malloc returns is a multiple of 16.
    &TABLES[descriptor.addr() >> 4 & 15]
}

/// Whether descriptors of a kind are part of what we plan.
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
            | CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
            | CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
            | CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
            | CUDNN_BACKEND_ENGINE_DESCRIPTOR
            | CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
            | CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
            | CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
    )
}

/// Bytes of an attribute's element; `None` for types that no descriptor that we follow is given.
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
        | CUDNN_TYPE_INT32 => 4,
        CUDNN_TYPE_HANDLE | CUDNN_TYPE_INT64 | CUDNN_TYPE_DOUBLE | CUDNN_TYPE_VOID_PTR => 8,
        _ => return None,
    })
}

/// A descriptor was created.
pub fn created(kind: cudnnBackendDescriptorType_t, descriptor: cudnnBackendDescriptor_t) {
    follow(kind, descriptor, Content::default());
}

/// A descriptor holds this from now on, whatever it held.
fn follow(kind: cudnnBackendDescriptorType_t, descriptor: cudnnBackendDescriptor_t, content: Content) {
    if is_followed(kind) {
        let (graph, planned) = Default::default();
        let shadow = Shadow { kind, content: RwLock::new(content), graph, planned };
        let before = table(descriptor).write().insert(descriptor.addr(), Arc::new(shadow));
        drop(before); // with the lock released: it may hold much
    }
}

/// A descriptor is about to be destroyed: its address may be another's next.
pub fn destroyed(descriptor: cudnnBackendDescriptor_t) {
    let forgotten = table(descriptor).write().remove(&descriptor.addr());
    drop(forgotten); // with the lock released: it may hold much
}

/// The shadow of a descriptor that we follow.
pub fn of(descriptor: cudnnBackendDescriptor_t) -> Option<Arc<Shadow>> {
    table(descriptor).read().get(&descriptor.addr()).cloned()
}

/// A descriptor is as if it had just been created.
pub fn renewed(descriptor: cudnnBackendDescriptor_t) {
    if let Some(shadow) = of(descriptor) {
        created(shadow.kind, descriptor);
    }
}

/// cuDNN has filled in descriptors of the program's with what it read of another one. Which of several it passed over is
/// not told: what was complete before may still be what it was.
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

/// cuDNN has taken an attribute.
///
/// # Safety
/// `elements` are `count` elements of the type `element`.
pub unsafe fn was_set(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    count: i64,
    elements: *const c_void,
) {
    let Some(shadow) = of(descriptor) else { return };
    // SAFETY: as ours.
    let value = unsafe { value(element, count, elements) };
    let mut content = shadow.content.write();
    // Operations are added to those that were set before; all else takes the place of what was.
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

/// What is added to when it is set again.
const ADDS_UP: cudnnBackendAttributeName_t = CUDNN_ATTR_OPERATIONGRAPH_OPS;

/// cuDNN has refused an attribute. Of operations it has kept those before the one that it did not take.
pub fn was_refused(descriptor: cudnnBackendDescriptor_t, name: cudnnBackendAttributeName_t) {
    if name == ADDS_UP
        && let Some(shadow) = of(descriptor)
    {
        let mut content = shadow.content.write();
        content.is_opaque |= !content.is_finalized;
    }
}

/// cuDNN takes any count of some attributes' elements, and reads no more of them than it has use for: beyond this many
/// they need not be there. The text of a device's properties is the longest.
const MOST_ELEMENTS: usize = 1 << 16;

/// `None` for what we cannot follow.
///
/// # Safety
/// As for [`was_set`].
unsafe fn value(element: cudnnBackendAttributeType_t, count: i64, elements: *const c_void) -> Option<Value> {
    let count = usize::try_from(count).ok()?;
    if elements.is_null() || count > MOST_ELEMENTS {
        return None;
    }
    if element == CUDNN_TYPE_BACKEND_DESCRIPTOR {
        // SAFETY: as ours.
        let inner = unsafe { std::slice::from_raw_parts(elements.cast::<cudnnBackendDescriptor_t>(), count) };
        // cuDNN copies some that are not finalized yet, and may be set on afterwards.
        let finalized = |&inner: &cudnnBackendDescriptor_t| of(inner).filter(|inner| inner.content().is_finalized);
        return inner.iter().map(finalized).collect::<Option<_>>().map(Value::Descriptors);
    }
    let bytes = element_bytes(element)? * count;
    // SAFETY: as ours.
    let bytes = unsafe { std::slice::from_raw_parts(elements.cast::<u8>(), bytes) };
    Some(Value::Plain(element, bytes.into()))
}

impl Shadow {
    /// cuDNN has found it complete.
    pub fn was_finalized(&self) {
        self.content.write().is_finalized = true;
    }

    /// What the descriptor was given.
    pub fn content(&self) -> parking_lot::RwLockReadGuard<'_, Content> {
        self.content.read()
    }

    /// What an execution plan, a configuration, an engine or heuristics are for, one step nearer to the operation graph.
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

    /// The operation graph that it is for.
    pub fn operation_graph(&self) -> Option<Arc<Shadow>> {
        let next = self.next()?;
        if next.kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR { Some(next) } else { next.operation_graph() }
    }

    /// Whether more was asked for than to compute the operation graph, as engines for a part of the device.
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
    /// An attribute as it was set.
    pub fn attribute(&self, name: cudnnBackendAttributeName_t) -> Option<&Value> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names of all attributes that were set.
    pub fn names(&self) -> impl Iterator<Item = cudnnBackendAttributeName_t> {
        self.attributes.iter().map(|(name, _)| *name)
    }

    /// An attribute of descriptors.
    pub fn descriptors(&self, name: cudnnBackendAttributeName_t) -> Option<&[Arc<Shadow>]> {
        match self.attribute(name)? {
            Value::Descriptors(descriptors) => Some(descriptors),
            Value::Plain(..) => None,
        }
    }

    /// An attribute of one descriptor.
    pub fn descriptor(&self, name: cudnnBackendAttributeName_t) -> Option<&Arc<Shadow>> {
        let [descriptor] = self.descriptors(name)? else { return None };
        Some(descriptor)
    }

    /// The elements of an attribute of plain values of a size.
    pub fn elements<const N: usize>(&self, name: cudnnBackendAttributeName_t) -> Option<&[[u8; N]]> {
        match self.attribute(name)? {
            Value::Plain(element, bytes) if element_bytes(*element) == Some(N) => Some(bytes.as_chunks().0),
            _ => None,
        }
    }

    /// An attribute's 64-bit integers.
    pub fn integers(&self, name: cudnnBackendAttributeName_t) -> Option<Vec<i64>> {
        self.elements(name).map(|elements| elements.iter().map(|&bytes| i64::from_ne_bytes(bytes)).collect())
    }

    /// An attribute's one 64-bit integer.
    pub fn integer(&self, name: cudnnBackendAttributeName_t) -> Option<i64> {
        let [bytes] = self.elements(name)? else { return None };
        Some(i64::from_ne_bytes(*bytes))
    }

    /// An attribute's one enumerator.
    pub fn enumerator(&self, name: cudnnBackendAttributeName_t) -> Option<i32> {
        let [bytes] = self.elements(name)? else { return None };
        Some(i32::from_ne_bytes(*bytes))
    }

    /// Whether an attribute was set to true.
    pub fn is_set(&self, name: cudnnBackendAttributeName_t) -> bool {
        self.elements::<1>(name).is_some_and(|elements| elements.iter().any(|[byte]| *byte != 0))
    }

    /// An attribute's one number, of whatever type of them.
    pub fn number(&self, name: cudnnBackendAttributeName_t) -> Option<f64> {
        match self.attribute(name)? {
            Value::Plain(CUDNN_TYPE_FLOAT, bytes) => Some(f32::from_ne_bytes((**bytes).try_into().ok()?).into()),
            Value::Plain(CUDNN_TYPE_DOUBLE, bytes) => Some(f64::from_ne_bytes((**bytes).try_into().ok()?)),
            _ => None,
        }
    }
}
