//! Engine configurations as plain values: an engine with its knobs, as it computes a graph.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, PoisonError};

use cudnn_abi::*;

use cudnn::graph::descriptor::{Owned, count, read_descriptors};
use cudnn::names::{Names, named};

const NUMERICAL_NOTES: &Names = &[
    ("tensor-core", CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
    ("down-convert", CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS),
    ("reduced-precision", CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION),
    ("fft", CUDNN_NUMERICAL_NOTE_FFT),
    ("nondeterministic", CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
    ("winograd", CUDNN_NUMERICAL_NOTE_WINOGRAD),
    ("winograd-4x4", CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4),
    ("winograd-6x6", CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6),
    ("winograd-13x13", CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13),
    ("strict-nan", CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP),
];

/// A knob and its value.
pub type Knob = (cudnnBackendKnobType_t, i64);

/// The set of an engine's notes: `cudnnBackendNumericalNote_t` or `cudnnBackendBehaviorNote_t`. Notes numbered past the
/// last bit share that bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Notes(u32);

impl Notes {
    const LAST: i32 = u32::BITS as i32 - 1;

    fn bit(note: i32) -> u32 {
        1 << note.clamp(0, Self::LAST)
    }

    /// Returns true if the engine has `note`.
    pub fn contains(self, note: i32) -> bool {
        self.0 & Self::bit(note) != 0
    }

    /// The notes, smallest first.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (0..=Self::LAST).filter(move |&note| self.contains(note))
    }
}

impl FromIterator<i32> for Notes {
    fn from_iter<I: IntoIterator<Item = i32>>(notes: I) -> Self {
        Self(notes.into_iter().fold(0, |bits, note| bits | Self::bit(note)))
    }
}

/// The library that an engine belongs to, and the layout of the tensors that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// A cuDNN engine, on the tensors as they are stored.
    AsStored,
    /// A cuDNN engine, on copies of the tensors with channels last.
    OnCopies,
    /// One of our engines, on the tensors as they are stored.
    Ours,
}

impl Route {
    const ALL: [Self; 3] = [Self::OnCopies, Self::Ours, Self::AsStored];

    /// The prefix of the engine's name.
    const fn prefix(self) -> &'static str {
        match self {
            Self::AsStored => "",
            Self::OnCopies => "NHWC_",
            Self::Ours => "UCUDNN_",
        }
    }

    /// The suffix of an engine's text.
    fn version(self) -> String {
        match self {
            Self::AsStored => String::new(),
            Self::OnCopies | Self::Ours => format!(":v{OUR_ENGINES}"),
        }
    }
}

/// The version of our convolution kernels and of the kernels that copy tensors for cuDNN's engines.
pub const OUR_ENGINES: &str = kernels::convolution::VERSION;

/// An engine, its knobs, its notes and its route. It holds for the graph that it was proposed for and for graphs that
/// differ from it in the batch alone; on another graph its notes differ, if it runs at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineConfiguration {
    /// The engine's index among the graph's engines (`CUDNN_ATTR_ENGINE_GLOBAL_INDEX`), or among our engines.
    pub engine: i64,
    /// Sorted by knob. Configurations with equal knobs share one copy.
    pub knobs: &'static [Knob],
    /// The numerical notes.
    pub numerics: Notes,
    /// The behaviour notes.
    pub behavior: Notes,
    /// The library that runs the engine, and the layout that it runs on.
    pub route: Route,
}

/// The shared copy of `knobs`, never freed. The number of copies is bounded: they come only from cuDNN's heuristics and
/// our engines.
fn interned(knobs: &[Knob]) -> &'static [Knob] {
    static KNOBS: LazyLock<Mutex<HashSet<&'static [Knob]>>> = LazyLock::new(Mutex::default);
    let mut known = KNOBS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(knobs) {
        return known;
    }
    let leaked: &'static [Knob] = knobs.to_vec().leak();
    known.insert(leaked);
    leaked
}

impl EngineConfiguration {
    /// An engine with some of its knobs set, in any order. Its route is `AsStored` until the caller sets another.
    pub fn new(engine: i64, mut knobs: Vec<Knob>, numerics: Notes, behavior: Notes) -> Self {
        knobs.sort_unstable();
        Self { engine, knobs: interned(&knobs), numerics, behavior, route: Route::AsStored }
    }

    /// Reads a configuration from its descriptor.
    ///
    /// # Safety
    /// `engine_config` is a live, finalized `CUDNN_BACKEND_ENGINECFG_DESCRIPTOR`.
    pub unsafe fn read(engine_config: cudnnBackendDescriptor_t) -> Result<Self, cudnnStatus_t> {
        let (engine, choices) = (CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
        // SAFETY: the caller promises a live `engine_config`, and `engine` is a live descriptor made here.
        let (engine, choices) = unsafe {
            let mut engines = read_descriptors(engine_config, engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)?;
            let engine = engines.pop().ok_or(CUDNN_STATUS_INTERNAL_ERROR)?;
            // cuDNN reports the number of choices only to a caller with space for them; an engine has at most one per
            // knob.
            let knobs = count(engine.raw(), CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
            let choices = read_descriptors(engine_config, choices, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, knobs)?;
            (engine, choices)
        };
        let knob = |choice: &Owned| {
            let knob = choice.get_one(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE)?;
            Ok((knob, choice.get_one(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64)?))
        };
        let knobs = choices.iter().map(knob).collect::<Result<_, cudnnStatus_t>>()?;
        let index = engine.get_one(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64)?;
        let notes = |name, element| engine.get::<i32>(name, element).map(Notes::from_iter);
        let numerics = notes(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE)?;
        let behavior = notes(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE)?;
        Ok(Self::new(index, knobs, numerics, behavior))
    }

    /// The configuration of an execution plan.
    ///
    /// # Safety
    /// `plan` is a live, finalized `CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR`.
    pub unsafe fn of_plan(plan: cudnnBackendDescriptor_t) -> Result<Self, cudnnStatus_t> {
        const CONFIGURATION: cudnnBackendAttributeName_t = CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
        // SAFETY: the caller promises a live, finalized plan, and its configuration is of this kind.
        let configurations = unsafe { read_descriptors(plan, CONFIGURATION, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 1) }?;
        let configuration = configurations.first().ok_or(CUDNN_STATUS_INTERNAL_ERROR)?;
        // SAFETY: cuDNN has filled in this finalized configuration.
        unsafe { Self::read(configuration.raw()) }
    }

    /// Returns true if the engine multiplies on tensor cores, by its notes.
    pub fn has_tensor_cores(&self) -> bool {
        self.numerics.contains(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
    }

    /// The configuration without the note of tensor cores.
    pub fn without_tensor_cores(&self) -> Self {
        let numerics = self.numerics.iter().filter(|note| *note != CUDNN_NUMERICAL_NOTE_TENSOR_CORE).collect();
        Self { numerics, ..*self }
    }

    /// Returns true if a CUDA graph can hold plans on this engine without capturing a stream.
    pub fn has_form_in_cuda_graphs(&self) -> bool {
        self.route == Route::AsStored && self.behavior.contains(CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API)
    }

    /// Returns true if `text` is a [`Self::text`] written with another version of our kernels, or with none.
    pub fn is_of_other_kernels(text: &str) -> bool {
        let others = text.rsplit_once(":v").map_or(text, |(others, _)| others);
        text.parse::<Self>().is_err() && format!("{others}:v{OUR_ENGINES}").parse::<Self>().is_ok()
    }

    /// The names of the numerical notes.
    pub fn numerical_notes(&self) -> Vec<String> {
        self.numerics.iter().map(|note| named(NUMERICAL_NOTES, note)).collect()
    }

    /// The configuration as text, which [`FromStr`] reads back. The displayed form comes first, then the numbers of the
    /// numerical and of the behaviour notes, `ENGINE_11[k2=4,k14=0]:n0,4:b3`, and the version of our kernels if they
    /// take part.
    pub fn text(&self) -> String {
        let version = self.route.version();
        format!("{self}:n{}:b{}{version}", joined(self.numerics.iter()), joined(self.behavior.iter()))
    }
}

fn joined(values: impl Iterator<Item = impl ToString>) -> String {
    let texts: Vec<_> = values.map(|value| value.to_string()).collect();
    texts.join(",")
}

/// Writes the form used in log lines: `ENGINE_11[k2=4,k14=0]`, `NHWC_ENGINE_11[k2=4,k14=0]` on copies with their
/// channels last, or `UCUDNN_ENGINE_0[k0=132]`.
impl fmt::Display for EngineConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let knobs = self.knobs.iter().map(|(knob, value)| format!("k{knob}={value}"));
        let prefix = self.route.prefix();
        f.pad(&format!("{prefix}ENGINE_{}[{}]", self.engine, joined(knobs)))
    }
}

/// Reads the text of [`EngineConfiguration::text`], and nothing else: it rejects other versions of our kernels.
impl FromStr for EngineConfiguration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = parse(text);
        // One configuration has one text.
        let exact = parsed.filter(|configuration| configuration.text() == text);
        exact.ok_or_else(|| format!("{text:?} is no engine's configuration, such as ENGINE_11[k2=4,k14=0]:n0,4:b3"))
    }
}

fn parse(text: &str) -> Option<EngineConfiguration> {
    let (route, text) = Route::ALL.into_iter().find_map(|route| Some((route, text.strip_prefix(route.prefix())?)))?;
    let text = text.strip_suffix(&*route.version())?;
    let (engine, rest) = text.strip_prefix("ENGINE_")?.split_once('[')?;
    let (knobs, notes) = rest.split_once("]:n")?;
    let (numerics, behavior) = notes.split_once(":b")?;
    let parts = |list: &'_ str| list.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let knob = |part: &String| {
        let (knob, value) = part.strip_prefix('k')?.split_once('=')?;
        Some((knob.parse().ok()?, value.parse().ok()?))
    };
    let notes = |list: &str| parts(list).iter().map(|note| note.parse::<i32>().ok()).collect::<Option<Notes>>();
    let knobs = parts(knobs).iter().map(knob).collect::<Option<_>>()?;
    let engine = EngineConfiguration::new(engine.parse().ok()?, knobs, notes(numerics)?, notes(behavior)?);
    Some(EngineConfiguration { route, ..engine })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn configurations() -> impl Strategy<Value = EngineConfiguration> {
        let notes = || vec(0..32, 0..6).prop_map(|notes| notes.into_iter().collect::<Notes>());
        let knobs = vec((any::<i32>(), any::<i64>()), 0..6);
        (any::<i64>(), knobs, notes(), notes(), proptest::sample::select(&Route::ALL[..])).prop_map(
            |(engine, knobs, numerics, behavior, route)| EngineConfiguration {
                route,
                ..EngineConfiguration::new(engine, knobs, numerics, behavior)
            },
        )
    }

    proptest! {
        #[test]
        fn every_configuration_is_read_back(configuration in configurations()) {
            let again: EngineConfiguration = configuration.text().parse().unwrap();
            prop_assert_eq!(again, configuration);
            prop_assert!(std::ptr::eq(again.knobs, configuration.knobs), "equal knobs are one");
        }

        #[test]
        fn garbage_is_an_error_and_no_panic(cut in 0..30_usize, text in ".{0,9}") {
            let garbage = format!("{}{text}", &"ENGINE_11[k2=4,k14=0]:n0,4:b3!"[..cut]);
            if let Ok(configuration) = garbage.parse::<EngineConfiguration>() {
                prop_assert_eq!(configuration.text(), garbage);
            }
        }
    }

    #[test]
    fn the_text_is_as_documented() {
        let notes = |list: &[i32]| list.iter().copied().collect::<Notes>();
        let configuration = EngineConfiguration::new(11, vec![(14, 0), (2, 4)], notes(&[4, 0]), notes(&[3]));
        assert_eq!(configuration.to_string(), "ENGINE_11[k2=4,k14=0]");
        assert_eq!(configuration.text(), "ENGINE_11[k2=4,k14=0]:n0,4:b3");
        for (route, prefix) in [(Route::OnCopies, "NHWC_"), (Route::Ours, "UCUDNN_")] {
            let text = EngineConfiguration { route, ..configuration }.text();
            assert_eq!(text, format!("{prefix}ENGINE_11[k2=4,k14=0]:n0,4:b3:v{OUR_ENGINES}"));
            for other in [text.replace(OUR_ENGINES, "0123456789abcdef"), text.replace(&format!(":v{OUR_ENGINES}"), "")]
            {
                assert!(
                    other.parse::<EngineConfiguration>().is_err() && EngineConfiguration::is_of_other_kernels(&other)
                );
            }
        }
        assert_eq!("ENGINE_0[]:n:b".parse(), Ok(EngineConfiguration::new(0, vec![], notes(&[]), notes(&[]))));
        for no_other in ["ENGINE_0[]:n:b", "ENGINE_0[]:n:b:v0", "NHWC_TURBINE_0[]:n:b", ""] {
            assert!(!EngineConfiguration::is_of_other_kernels(no_other), "{no_other}");
        }
        for wrong in ["", "ENGINE_0[]", "ENGINE_0[k14=0,k2=4]:n:b", "ENGINE_0[]:n4,0:b", "ENGINE_00[]:n:b"] {
            assert!(wrong.parse::<EngineConfiguration>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn notes_that_we_do_not_know_are_kept() {
        let notes: Notes = [0, 12, 77].into_iter().collect();
        assert!(notes.contains(12) && notes.contains(77) && !notes.contains(1));
        assert_eq!(notes.iter().collect::<Vec<_>>(), [0, 12, 31]);
    }
}
