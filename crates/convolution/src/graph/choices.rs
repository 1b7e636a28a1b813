//! What a program's choice of an engine tells about determinism, and about NaN. A program that asks for either reads the
//! numerical notes of the engines that cuDNN proposes, and passes over those that are not deterministic, or that do not
//! spread NaN as IEEE 754 requires.
//!
//! A reading alone tells nothing: cudnn-frontend reads all notes for everybody. An engine that was passed over tells,
//! if nothing but that explains it: cuDNN preferred it, the program saw its notes and made no plan of it, and the engine
//! that the program took has all its other notes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Set once the program has passed over an engine for nothing but NaN.
static KEEPS_NAN: AtomicBool = AtomicBool::new(false);

/// Records that the program has made a plan of `own`, for a graph that reads as `what`. Returns whether the program keeps to
/// engines that spread NaN as IEEE 754 requires, as far as its choices tell. It does for good once it has chosen one.
pub fn took(own: &EngineConfiguration, graph: &Arc<Shadow>, what: &dyn std::fmt::Display) -> bool {
    let found = with_readings(|readings| {
        let shuns_randomness = !readings.was_refused && has_passed_over(&readings.seen, own, graph, Seen::is_random);
        let keeps_nan = readings.keep_nan(own, graph);
        readings.is_choosing = true;
        // A program that makes a plan of each engine passes none over.
        let is_own = |seen: &Seen| seen.index == own.engine && Arc::ptr_eq(&seen.graph, graph);
        readings.seen.retain(|seen| !is_own(seen) || !seen.is_random() && !seen.is_lenient());
        (shuns_randomness, keeps_nan)
    });
    let (shuns_randomness, keeps_nan) = found.unwrap_or((false, Some(true)));
    if own.numerics.contains(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) {
        determinism::chose(Choice::Took, what);
    } else if shuns_randomness {
        determinism::chose(Choice::Shunned, what);
    }
    if keeps_nan == Some(true) {
        KEEPS_NAN.store(true, Ordering::Relaxed);
    }
    keeps_nan != Some(false) || KEEPS_NAN.load(Ordering::Relaxed)
}

impl Readings {
    /// Whether the program chose `own` for NaN; `None` if that is not known: cuDNN has refused a plan, and which engines
    /// the program passed over cannot be told.
    fn keep_nan(&self, own: &EngineConfiguration, graph: &Arc<Shadow>) -> Option<bool> {
        let is_strict = own.numerics.contains(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
        match is_strict && self.was_refused {
            true => None,
            false => Some(is_strict && has_passed_over(&self.seen, own, graph, Seen::is_lenient)),
        }
    }
}

/// Returns whether the program has passed over such an engine when it took `own`, for nothing but its determinism or NaN.
fn has_passed_over(
    seen: &[Seen],
    own: &EngineConfiguration,
    graph: &Arc<Shadow>,
    is_shunned: fn(&Seen) -> bool,
) -> bool {
    let of_graph = || seen.iter().filter(|seen| Arc::ptr_eq(&seen.graph, graph));
    let Some(place) = of_graph().position(|seen| seen.index == own.engine) else { return false };
    let explains = [CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP];
    of_graph().take(place).any(|seen| {
        is_shunned(seen)
            && seen.numerics.iter().all(|note| explains.contains(&note) || own.numerics.contains(note))
            && seen.behavior.iter().all(|note| own.behavior.contains(note))
    })
}

impl Seen {
    fn is_random(&self) -> bool {
        self.numerics.contains(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
    }

    fn is_lenient(&self) -> bool {
        !self.numerics.contains(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: cudnnBackendNumericalNote_t = CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;

    fn notes(notes: &[cudnnBackendNumericalNote_t]) -> Notes {
        notes.iter().copied().collect()
    }

    /// Whether a program that took engine 0 chose it for NaN. cuDNN has proposed these engines in this order.
    fn keeps_nan(
        proposed: &[(i64, &[cudnnBackendNumericalNote_t])],
        own: &[cudnnBackendNumericalNote_t],
        was_refused: bool,
    ) -> Option<bool> {
        let graph = Arc::new(Shadow::default());
        let seen = |(index, numerics): &(i64, &[cudnnBackendNumericalNote_t])| Seen {
            graph: graph.clone(),
            index: *index,
            numerics: notes(numerics),
            behavior: Notes::default(),
        };
        let readings = Readings { seen: proposed.iter().map(seen).collect(), is_choosing: false, was_refused };
        readings.keep_nan(&EngineConfiguration::new(0, vec![], notes(own), Notes::default()), &graph)
    }

    #[test]
    fn a_program_asks_for_strict_nan_by_passing_over_other_engines() {
        let tf32 = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        let asks = |proposed: &[(i64, &[_])], own: &[_]| keeps_nan(proposed, own, false).unwrap();
        assert!(asks(&[(1, &[]), (0, &[STRICT])], &[STRICT]), "engine 1 would have been as good but for NaN");
        assert!(!asks(&[(0, &[STRICT]), (1, &[])], &[STRICT]), "cuDNN prefers it");
        assert!(!asks(&[(1, &[STRICT]), (0, &[STRICT])], &[STRICT]), "both spread NaN so");
        assert!(!asks(&[(1, &[tf32]), (0, &[STRICT])], &[STRICT]), "the program wants no TF32");
        assert!(!asks(&[(1, &[]), (0, &[])], &[]), "the engine spreads NaN otherwise");
        assert!(!asks(&[], &[STRICT]), "it has read no notes");
        assert_eq!(keeps_nan(&[(1, &[]), (0, &[STRICT])], &[STRICT], true), None, "cuDNN may have refused engine 1");
        assert_eq!(keeps_nan(&[(0, &[])], &[], true), Some(false));
    }
}
