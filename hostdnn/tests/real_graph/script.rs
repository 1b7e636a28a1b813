//! Calls of the graph API as data, so that both libraries get the same calls, and so that a script on which they differ
//! can be shortened.

use super::attributes::{OPERATION, attribute, attributes, fits};
use super::backend::Backend;
use cudnn_abi::*;
use std::ffi::c_void;
use std::fmt;
use std::ptr::{null, null_mut};

/// A place for a descriptor. An empty place passes null.
pub type Slot = usize;

/// The elements of an array. The bytes after them are zero, so that counts that are too high read no further.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    Null,
    Bytes(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Slots(Vec<Slot>),
}

/// One call.
#[derive(Clone, Debug)]
pub enum Step {
    Create(Slot, cudnnBackendDescriptorType_t),
    Set {
        slot: Slot,
        name: cudnnBackendAttributeName_t,
        of: cudnnBackendAttributeType_t,
        count: i64,
        elements: Elements,
    },
    Finalize(Slot),
    Get {
        slot: Slot,
        name: cudnnBackendAttributeName_t,
        of: cudnnBackendAttributeType_t,
        requested: i64,
        wants: Wants,
    },
    /// Reads descriptors.
    GetDescriptors {
        slot: Slot,
        name: cudnnBackendAttributeName_t,
        into: Vec<Slot>,
    },
    /// Makes an execution plan from another plan's text, and finalizes it.
    Deserialize {
        from: Slot,
        into: Slot,
    },
    /// Executes without a handle, which no library accepts.
    Execute {
        plan: Slot,
        pack: Slot,
    },
    Destroy(Slot),
}

impl Step {
    /// The descriptor that the step uses.
    fn slot(&self) -> Slot {
        match *self {
            Self::Create(slot, _) | Self::Finalize(slot) | Self::Destroy(slot) => slot,
            Self::Set { slot, .. } | Self::Get { slot, .. } | Self::GetDescriptors { slot, .. } => slot,
            Self::Deserialize { into, .. } => into,
            Self::Execute { plan, .. } => plan,
        }
    }
}

/// The pointers that a get passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wants {
    pub count: bool,
    pub array: bool,
}

impl Wants {
    pub const BOTH: Self = Self { count: true, array: true };
}

/// A call and all its results.
#[derive(PartialEq)]
pub struct Line {
    pub step: String,
    /// The kind of the descriptor that the step uses.
    pub kind: cudnnBackendDescriptorType_t,
    pub status: cudnnStatus_t,
    pub count: i64,
    pub array: Vec<u8>,
}

impl Line {
    /// The line without anything that depends on engines: for these and descriptors made of them, only the status.
    pub fn without_engines(mut self) -> Self {
        use CUDNN_BACKEND_ENGINE_DESCRIPTOR as ENGINE;
        use CUDNN_BACKEND_ENGINECFG_DESCRIPTOR as ENGINECFG;
        use CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR as ENGINEHEUR;
        use CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR as EXECUTION_PLAN;
        if matches!(self.kind, ENGINE | ENGINECFG | ENGINEHEUR | EXECUTION_PLAN) {
            (self.count, self.array) = (UNWRITTEN, Vec::new());
        }
        self
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.step, self.status)?;
        if self.step.starts_with("Get") {
            let words: Vec<i64> = self.array.chunks(8).map(|b| i64::from_ne_bytes(b.try_into().unwrap())).collect();
            let written = words.iter().rposition(|&word| word != UNWRITTEN).map_or(0, |last| last + 1);
            write!(f, ", count {}, as 8 bytes each {:?}", self.count, &words[..written])?;
        }
        Ok(())
    }
}

/// The results' contents before a call.
const UNWRITTEN: i64 = i64::from_ne_bytes([0xab; 8]);
/// Replaces the status of a call that is not made.
const LEFT_OUT: cudnnStatus_t = -1;
/// The last version that is known to refuse plans without a configuration. 9.28 crashes.
const REFUSES_EMPTY_PLANS: usize = 91900;
/// Elements of the longest array, in 8 bytes each.
const ROOM: usize = 64;

/// The descriptors of one run of a script.
struct Session<'a> {
    backend: &'a Backend,
    slots: Vec<(cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t)>,
    /// For operation graphs and devices: whether they are finalized. For engines, their configurations, heuristics and
    /// plans: whether they have a finalized graph.
    has_graph: Vec<bool>,
    /// For heuristics and plans: whether they have a finalized device.
    has_device: Vec<bool>,
}

/// Runs a script on one library, then reads every attribute of the remaining descriptors.
pub fn run(backend: &Backend, script: &[Step]) -> Vec<Line> {
    let mut session = Session { backend, slots: Vec::new(), has_graph: Vec::new(), has_device: Vec::new() };
    let mut lines: Vec<Line> = script.iter().map(|step| session.take(step)).collect();
    for slot in 0..session.slots.len() {
        for attribute in attributes(session.slots[slot].1).iter().filter(|attribute| attribute.inner.is_none()) {
            for requested in [1, 12] {
                let (name, of) = (attribute.name, attribute.get);
                lines.push(session.take(&Step::Get { slot, name, of, requested, wants: Wants::BOTH }));
            }
        }
    }
    lines
}

// SAFETY of all unsafe blocks below: descriptors are live or null, and the arrays are longer than anything read or
// written, because scripts are tamed before they run.
impl Session<'_> {
    fn at(&self, slot: Slot) -> cudnnBackendDescriptor_t {
        self.slots.get(slot).map_or(null_mut(), |slot| slot.0)
    }

    fn take(&mut self, step: &Step) -> Line {
        let (mut count, mut array) = (UNWRITTEN, Vec::new());
        let kind = self.slots.get(step.slot()).map_or(OPERATION, |slot| slot.1);
        let status = match step {
            &Step::Create(slot, kind) => self.create(slot, kind),
            Step::Set { slot, name, of, count, elements } => {
                let bytes = self.bytes(elements);
                let array = if *elements == Elements::Null { null() } else { bytes.as_ptr().cast::<c_void>() };
                // SAFETY: see above.
                let status =
                    unsafe { (self.backend.cudnnBackendSetAttribute)(self.at(*slot), *name, *of, *count, array) };
                if let Elements::Slots(inner) = elements
                    && status == 0
                    && matches!(*name, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP | CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)
                {
                    self.has_device[*slot] = self.has_graph.get(inner[0]) == Some(&true);
                }
                if let Elements::Slots(inner) = elements
                    && status == 0
                    && matches!(
                        *name,
                        CUDNN_ATTR_ENGINE_OPERATION_GRAPH
                            | CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH
                            | CUDNN_ATTR_ENGINECFG_ENGINE
                            | CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG
                    )
                {
                    self.has_graph[*slot] = self.has_graph.get(inner[0]) == Some(&true);
                }
                status
            }
            // Otherwise cuDNN crashes.
            &Step::Finalize(slot) if self.lacks_graph(slot) => LEFT_OUT,
            &Step::Finalize(slot) => {
                // SAFETY: see above.
                let status = unsafe { (self.backend.cudnnBackendFinalize)(self.at(slot)) };
                let known = [CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR];
                if status == 0 && known.contains(&self.slots[slot].1) {
                    self.has_graph[slot] = true;
                }
                status
            }
            &Step::Get { slot, name, of, requested, wants } => {
                array = UNWRITTEN.to_ne_bytes().repeat(ROOM.max(usize::try_from(requested).unwrap_or(0)));
                let (count, array) = (&raw mut count, array.as_mut_ptr().cast::<c_void>());
                let (count, array) =
                    (if wants.count { count } else { null_mut() }, if wants.array { array } else { null_mut() });
                // SAFETY: see above.
                unsafe { (self.backend.cudnnBackendGetAttribute)(self.at(slot), name, of, requested, count, array) }
            }
            Step::GetDescriptors { slot, name, into } => {
                let mut filled: Vec<_> = into.iter().map(|&slot| self.at(slot)).collect();
                let of_nothing = *name == CUDNN_ATTR_ENGINEHEUR_RESULTS && self.has_device.get(*slot) == Some(&false);
                if of_nothing || filled.iter().any(|descriptor| descriptor.is_null()) {
                    LEFT_OUT // cuDNN has no device for the engines, or crashes
                } else {
                    let requested = filled.len() as i64;
                    let (counted, array) = (&raw mut count, filled.as_mut_ptr().cast());
                    let of = CUDNN_TYPE_BACKEND_DESCRIPTOR;
                    // SAFETY: see above.
                    let status = unsafe {
                        (self.backend.cudnnBackendGetAttribute)(self.at(*slot), *name, of, requested, counted, array)
                    };
                    let filled = if status == 0 { count.clamp(0, requested) as usize } else { 0 };
                    for &into in &into[..filled] {
                        self.has_graph[into] = true;
                    }
                    status
                }
            }
            // cuDNN crashes without a device.
            Step::Deserialize { from, into } if [from, into].iter().any(|&&plan| !self.is_for_device(plan)) => LEFT_OUT,
            &Step::Deserialize { from, into } => {
                let (name, of, requested) = (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 1 << 16);
                let got = self.take(&Step::Get { slot: from, name, of, requested, wants: Wants::BOTH });
                let text = got.array[..got.count.clamp(0, requested) as usize].to_vec();
                count = got.count;
                let elements = if got.status == 0 { Elements::Bytes(text) } else { Elements::Null };
                let set = self.take(&Step::Set { slot: into, name, of, count, elements });
                self.has_graph[into] |= set.status == 0;
                if set.status == 0 { self.take(&Step::Finalize(into)).status } else { set.status }
            }
            &Step::Execute { plan, pack } => {
                // SAFETY: see above.
                unsafe { (self.backend.cudnnBackendExecute)(null_mut(), self.at(plan), self.at(pack)) }
            }
            &Step::Destroy(slot) => {
                let descriptor = self.at(slot);
                if let Some(slot) = self.slots.get_mut(slot) {
                    *slot = (null_mut(), slot.1);
                }
                // SAFETY: the descriptor is live or null, and the slot has forgotten it.
                unsafe { (self.backend.cudnnBackendDestroyDescriptor)(descriptor) }
            }
        };
        Line { step: format!("{step:?}"), kind, status, count, array }
    }

    fn create(&mut self, slot: Slot, kind: cudnnBackendDescriptorType_t) -> cudnnStatus_t {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, (null_mut(), OPERATION));
            self.has_graph.resize(slot + 1, false);
            self.has_device.resize(slot + 1, false);
        }
        let mut descriptor = null_mut();
        // SAFETY: the call writes one descriptor.
        let status = unsafe { (self.backend.cudnnBackendCreateDescriptor)(kind, &mut descriptor) };
        let before = std::mem::replace(&mut self.slots[slot], (descriptor, kind)).0;
        (self.has_graph[slot], self.has_device[slot]) = (false, false);
        if !before.is_null() {
            // SAFETY: nothing uses the old descriptor any more.
            unsafe { (self.backend.cudnnBackendDestroyDescriptor)(before) };
        }
        if kind == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR {
            // cuDNN leaves knob choices uninitialized.
            let (name, of) = (CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE);
            self.take(&Step::Set { slot, name, of, count: 1, elements: Elements::Ints(vec![1]) });
            let (name, of) = (CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64);
            self.take(&Step::Set { slot, name, of, count: 1, elements: Elements::Longs(vec![2]) });
        }
        status
    }

    fn is_for_device(&self, plan: Slot) -> bool {
        self.has_device.get(plan) == Some(&true)
    }

    /// Returns whether the descriptor is an engine configuration whose engine has no graph, or a plan without a
    /// configuration, which only older libraries refuse.
    fn lacks_graph(&self, slot: Slot) -> bool {
        let Some(&(descriptor, kind)) = self.slots.get(slot) else { return false };
        // SAFETY: see above.
        let is_refused = || unsafe { (self.backend.cudnnGetVersion)() } <= REFUSES_EMPTY_PLANS;
        let needs_graph = match kind {
            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => true,
            CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => !is_refused(),
            _ => false,
        };
        !descriptor.is_null() && needs_graph && !self.has_graph[slot]
    }

    fn bytes(&self, elements: &Elements) -> Vec<u8> {
        let mut bytes = match elements {
            Elements::Null => Vec::new(),
            Elements::Bytes(values) => values.clone(),
            Elements::Ints(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Elements::Longs(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Elements::Floats(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Elements::Doubles(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Elements::Slots(slots) => slots.iter().flat_map(|&slot| (self.at(slot) as usize).to_ne_bytes()).collect(),
        };
        bytes.resize(bytes.len().max(ROOM * 8), 0);
        bytes
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for (descriptor, _) in self.slots.iter().filter(|slot| !slot.0.is_null()) {
            // SAFETY: the descriptor is live and used no more.
            unsafe { (self.backend.cudnnBackendDestroyDescriptor)(*descriptor) };
        }
    }
}

/// Removes from a script everything that crashes cuDNN: invalid pointers, descriptors of a wrong kind, counts beyond
/// the arrays, tensors of unknown types. Handles are null.
pub fn tame(script: &mut Vec<Step>) {
    let mut kinds = Vec::new();
    for step in script.iter_mut() {
        match step {
            Step::Create(slot, kind) => {
                kinds.resize(kinds.len().max(*slot + 1), OPERATION);
                kinds[*slot] = *kind;
            }
            Step::Set { slot, name, of, count, elements } => {
                let length = if let Elements::Bytes(values) = elements { values.len() } else { 0 };
                *count = (*count).min(ROOM.max(length) as i64);
                let kind = kinds.get(*slot).copied().unwrap_or(OPERATION);
                if kind != OPERATION && attributes(kind).is_empty() {
                    continue; // an unknown kind: no mutation has changed it
                }
                let wanted = attribute(kind, *name).and_then(|attribute| attribute.inner);
                match elements {
                    Elements::Null => {}
                    Elements::Slots(slots) if *of == CUDNN_TYPE_BACKEND_DESCRIPTOR => {
                        for inner in slots {
                            let kind = kinds.get(*inner).copied().unwrap_or(OPERATION);
                            if !wanted.is_some_and(|wanted| fits(kind, wanted)) {
                                *inner = NONE;
                            }
                        }
                    }
                    _ if *of == CUDNN_TYPE_BACKEND_DESCRIPTOR => *elements = Elements::Slots(vec![NONE]),
                    Elements::Slots(_) => *elements = Elements::Longs(vec![0]),
                    _ if *of == CUDNN_TYPE_HANDLE => *elements = Elements::Longs(vec![0]),
                    Elements::Ints(values) if *name == CUDNN_ATTR_TENSOR_DATA_TYPE => {
                        values.iter_mut().for_each(|value| *value = value.rem_euclid(14));
                    }
                    _ if *name == CUDNN_ATTR_TENSOR_DATA_TYPE => *elements = Elements::Ints(vec![0]),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    script.retain(|step| match step {
        Step::Set { name, .. } => !matches!(
            *name,
            CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC
                | CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION
                | CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE
                | CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS
                | CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES
                | CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES
        ),
        // Reading descriptors writes into existing ones: that is `GetDescriptors`.
        Step::Get { of, .. } => *of != CUDNN_TYPE_BACKEND_DESCRIPTOR,
        Step::GetDescriptors { slot, name, into } => {
            let kind = |slot: &Slot| kinds.get(*slot).copied().unwrap_or(OPERATION);
            let wanted = attribute(kind(slot), *name).and_then(|attribute| attribute.inner);
            into.iter().all(|into| wanted.is_some_and(|wanted| fits(kind(into), wanted)))
        }
        _ => true,
    });
}

/// A place that never holds a descriptor.
pub const NONE: Slot = usize::MAX;

/// The script without the steps that `differ` does not need.
pub fn shortest(mut script: Vec<Step>, differ: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut length = script.len().div_ceil(2).max(1);
    loop {
        let mut start = 0;
        while start < script.len() {
            let mut without = script.clone();
            without.drain(start..(start + length).min(script.len()));
            if differ(&without) { script = without } else { start += length }
        }
        if length == 1 {
            return script;
        }
        length = length.div_ceil(2);
    }
}
