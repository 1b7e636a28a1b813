//! What a program's choice of an engine tells about determinism. A program that asks for it reads the numerical notes of
//! the engines that cuDNN proposes, and passes over those that are not deterministic.
//!
//! A reading alone tells nothing: cudnn-frontend reads all notes for everybody. An engine that was passed over tells,
//! if nothing but its determinism explains that: cuDNN preferred it, the program saw its notes and made no plan of it,
//! and the engine that the program took has all its other notes.

use std::cell::RefCell;
use std::sync::Arc;

use cudnn_abi::*;

use super::shadow::{self, Shadow};
use crate::problem::graph::{EngineConfiguration, Notes};
use cudnn::graph::descriptor;
use guest::determinism::{self, Choice};

/// An engine whose notes the program has read.
struct Seen {
    graph: Arc<Shadow>,
    index: i64,
    numerics: Notes,
    behavior: Notes,
}

/// What a thread of the program has read since it last made a plan, in the order of reading.
#[derive(Default)]
struct Readings {
    seen: Vec<Seen>,
    /// The thread makes plans of what it has read: the next reading begins anew.
    is_choosing: bool,
    /// cuDNN has refused a plan. It may have been of an engine that was not passed over then.
    was_refused: bool,
}

/// More engines than heuristics propose for one graph.
const MOST: usize = 256;

thread_local! {
    static READINGS: RefCell<Readings> = RefCell::default();
}

/// Runs `act` on the calling thread's readings. Does nothing while the thread ends.
fn with_readings<T>(act: impl FnOnce(&mut Readings) -> T) -> Option<T> {
    READINGS.try_with(|readings| readings.try_borrow_mut().ok().map(|mut readings| act(&mut readings))).ok().flatten()
}

/// Records that the program has read an engine's numerical notes.
///
/// # Safety
/// The caller promises that `engine` is a live descriptor.
pub unsafe fn read(engine: cudnnBackendDescriptor_t, notes: &[i32]) {
    let Some(graph) = shadow::of(engine).and_then(|engine| engine.operation_graph()) else { return };
    // SAFETY: our caller promised a live descriptor.
    let index = unsafe { descriptor::read::<i64>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64) };
    // SAFETY: our caller promised a live descriptor.
    let behavior =
        unsafe { descriptor::read::<i32>(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE) };
    let (Ok(index), Ok(behavior)) = (index, behavior) else { return };
    let Some(&index) = index.first() else { return };
    let [numerics, behavior] = [notes, &behavior].map(|notes| notes.iter().copied().collect());
    let seen = Seen { graph, index, numerics, behavior };
    with_readings(|readings| {
        if readings.is_choosing {
            *readings = Readings::default();
        }
        if readings.seen.len() < MOST {
            readings.seen.push(seen);
        }
    });
}

/// Records that cuDNN has refused a plan of the program's.
pub fn refused() {
    with_readings(|readings| (readings.is_choosing, readings.was_refused) = (true, true));
}

/// Records that the program has made a plan of `own`, for a graph that reads as `what`.
pub fn took(own: &EngineConfiguration, graph: &Arc<Shadow>, what: &dyn std::fmt::Display) {
    let is_shunning = with_readings(|readings| {
        let is_shunning = !readings.was_refused && has_passed_over(&readings.seen, own, graph);
        readings.is_choosing = true;
        // A program that makes a plan of each engine passes none over.
        readings.seen.retain(|seen| seen.index != own.engine || !Arc::ptr_eq(&seen.graph, graph) || !seen.is_random());
        is_shunning
    });
    if own.numerics.contains(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) {
        determinism::chose(Choice::Took, what);
    } else if is_shunning == Some(true) {
        determinism::chose(Choice::Shunned, what);
    }
}

/// Returns whether the program has passed over an engine for nothing but its determinism when it took `own`.
fn has_passed_over(seen: &[Seen], own: &EngineConfiguration, graph: &Arc<Shadow>) -> bool {
    let of_graph = || seen.iter().filter(|seen| Arc::ptr_eq(&seen.graph, graph));
    let Some(place) = of_graph().position(|seen| seen.index == own.engine) else { return false };
    let explains = [CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP];
    of_graph().take(place).any(|seen| {
        seen.is_random()
            && seen.numerics.iter().all(|note| explains.contains(&note) || own.numerics.contains(note))
            && seen.behavior.iter().all(|note| own.behavior.contains(note))
    })
}

impl Seen {
    fn is_random(&self) -> bool {
        self.numerics.contains(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
    }
}
