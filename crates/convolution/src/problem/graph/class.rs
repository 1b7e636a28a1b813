//! The numerical classes that follow from a program's choice of an engine.

use std::fmt;

use cudnn_abi::*;

use crate::problem::graph::engine::{EngineConfiguration, Notes};
use guest::settings::Numerics;

/// The notes that an engine may have only if the program's chosen engine has them.
const LOOSE: [cudnnBackendNumericalNote_t; 4] = [
    CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
    CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
];

/// The engines that a plan may use in place of the chosen one, so that no result loses accuracy or determinism. Every
/// class allows transforms (FFT, Winograd), as cuDNN's legacy API does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// The loose notes that an engine may have.
    allowed: Notes,
    /// True if NaN must spread as IEEE 754 requires.
    is_nan_strict: bool,
}

impl Class {
    /// The class of a chosen engine, as strict as `numerics` requires.
    pub fn of(chosen: &EngineConfiguration, numerics: Numerics) -> Self {
        let may = |note: &cudnnBackendNumericalNote_t| match (numerics, *note) {
            (Numerics::Any, _) => true,
            (Numerics::Deterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) => false,
            (Numerics::Match | Numerics::Deterministic, note) => chosen.numerics.contains(note),
        };
        Self {
            allowed: LOOSE.into_iter().filter(may).collect(),
            is_nan_strict: numerics != Numerics::Any && chosen.numerics.contains(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP),
        }
    }

    /// The class of engines that have no loose notes except those to `allow`.
    pub fn allowing(allow: impl Fn(cudnnBackendNumericalNote_t) -> bool) -> Self {
        Self { allowed: LOOSE.into_iter().filter(|note| allow(*note)).collect(), is_nan_strict: false }
    }

    /// Returns true if the class allows `engine`.
    pub fn admits(&self, engine: &EngineConfiguration) -> bool {
        let has = |note| engine.numerics.contains(note);
        LOOSE.into_iter().all(|note| !has(note) || self.allowed.contains(note))
            && (!self.is_nan_strict || has(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP))
    }
}

/// Writes the form used in the `question` of a stored search: `notes 0,1,4` or `notes 0, strict NaN`.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let notes: Vec<_> = self.allowed.iter().map(|note| note.to_string()).collect();
        write!(
            f,
            "notes {}{}",
            if notes.is_empty() { "none".into() } else { notes.join(",") },
            if self.is_nan_strict { ", strict NaN" } else { "" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(notes: &[cudnnBackendNumericalNote_t]) -> EngineConfiguration {
        EngineConfiguration::new(0, Vec::new(), notes.iter().copied().collect(), Notes::default())
    }

    #[test]
    fn a_class_admits_nothing_looser_and_every_transform() {
        for chosen in [&[][..], &[CUDNN_NUMERICAL_NOTE_TENSOR_CORE], &LOOSE] {
            let class = Class::of(&engine(chosen), Numerics::Match);
            assert!(class.admits(&engine(chosen)) && class.admits(&engine(&[])));
            assert!(class.admits(&engine(&[CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6])));
            for note in LOOSE {
                assert_eq!(class.admits(&engine(&[note])), chosen.contains(&note), "{chosen:?} {note}");
            }
        }
    }

    #[test]
    fn strict_nans_are_kept_where_they_were_chosen() {
        let strict = engine(&[CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP]);
        let class = Class::of(&strict, Numerics::Match);
        assert!(class.admits(&strict) && !class.admits(&engine(&[])));
        assert!(Class::of(&engine(&[]), Numerics::Match).admits(&strict));
        assert!(Class::of(&strict, Numerics::Any).admits(&engine(&[])));
        assert_eq!(class.to_string(), "notes none, strict NaN");
    }

    #[test]
    fn settings_widen_or_narrow_the_class() {
        let any = Class::of(&engine(&[]), Numerics::Any);
        assert!(LOOSE.into_iter().all(|note| any.admits(&engine(&[note]))));
        let deterministic = Class::of(&engine(&LOOSE), Numerics::Deterministic);
        for note in LOOSE {
            let is_deterministic = note != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
            assert_eq!(deterministic.admits(&engine(&[note])), is_deterministic);
        }
    }
}
