//! The numerical classes that follow from a program's choice of an engine.

use std::fmt;

use cudnn_abi::*;

use crate::problem::graph::engine::{EngineConfiguration, Notes};
use guest::settings::Numerics;

/// The notes that an engine may have only if the class allows them. FFT is not among them: it rounds as sums do.
const LOOSE: [cudnnBackendNumericalNote_t; 8] = [
    CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
    CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
    CUDNN_NUMERICAL_NOTE_WINOGRAD,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
];

/// Winograd's notes, the smallest tile first. A smaller tile rounds less. The note without a tile comes first too: an
/// engine that has it alone is admitted with any tile.
pub const WINOGRAD: [cudnnBackendNumericalNote_t; 4] = [
    CUDNN_NUMERICAL_NOTE_WINOGRAD,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
];

/// The engines that a plan may use in place of the chosen one, so that no result loses accuracy or determinism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// The loose notes that an engine may have.
    allowed: Notes,
    /// Those that an engine on tensor cores may have. What TF32 rounds, Winograd's transforms amplify, so that both lose
    /// more digits than either.
    on_tensor_cores: Notes,
    /// True if NaN must spread as IEEE 754 requires.
    is_nan_strict: bool,
}

impl Class {
    /// The class of an engine that was chosen for data of a type, as strict as `numerics` requires: the engine's own
    /// notes, and what rounds less than they allow. Winograd's transforms of floats round less than TF32, unless they are
    /// rounded to it themselves. Where the program `keeps_nan`, an engine that spreads NaN as IEEE 754 requires gives place
    /// to such engines alone. cuDNN proposes engines for their speed, so it is chance otherwise that one is strict.
    pub fn of(chosen: &EngineConfiguration, data_type: cudnnDataType_t, numerics: Numerics, keeps_nan: bool) -> Self {
        let has = |note: &cudnnBackendNumericalNote_t| chosen.numerics.contains(*note);
        let largest_tile = WINOGRAD.iter().rposition(has);
        let is_tf32 = data_type == CUDNN_DATA_FLOAT && has(&CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        let of_engines = |takes_transforms: bool| {
            let may = |note: &cudnnBackendNumericalNote_t| match (numerics, *note) {
                (Numerics::Any, _) => true,
                (Numerics::Deterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) => false,
                _ => match WINOGRAD.iter().position(|winograd| winograd == note) {
                    Some(tile) => takes_transforms || largest_tile.is_some_and(|largest| tile <= largest),
                    None => has(note),
                },
            };
            LOOSE.into_iter().filter(may).collect()
        };
        Self {
            allowed: of_engines(is_tf32 || numerics == Numerics::Allowed),
            on_tensor_cores: of_engines(numerics == Numerics::Allowed),
            is_nan_strict: keeps_nan && numerics != Numerics::Any && has(&CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP),
        }
    }

    /// Returns whether NaN must spread as IEEE 754 requires.
    pub fn keeps_nan(&self) -> bool {
        self.is_nan_strict
    }

    /// The class of engines that have no loose notes except those to `allow`.
    pub fn allowing(allow: impl Fn(cudnnBackendNumericalNote_t) -> bool) -> Self {
        let allowed = LOOSE.into_iter().filter(|note| allow(*note)).collect();
        Self { allowed, on_tensor_cores: allowed, is_nan_strict: false }
    }

    /// The same class, whose engines on tensor cores make no transforms.
    pub fn without_rounded_transforms(self) -> Self {
        let is_other = |note: &cudnnBackendNumericalNote_t| self.allowed.contains(*note) && !WINOGRAD.contains(note);
        Self { on_tensor_cores: LOOSE.into_iter().filter(is_other).collect(), ..self }
    }

    /// Returns true if the class allows `engine`.
    pub fn admits(&self, engine: &EngineConfiguration) -> bool {
        let has = |note| engine.numerics.contains(note);
        let allowed = if has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) { self.on_tensor_cores } else { self.allowed };
        LOOSE.into_iter().all(|note| !has(note) || allowed.contains(note))
            && (!self.is_nan_strict || has(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP))
    }

    /// Returns true if the class allows engines on tensor cores, which round floats to TF32.
    pub fn allows_tensor_cores(&self) -> bool {
        self.allowed.contains(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
    }
}

/// Writes the form used in the `question` of a stored search: `only notes 0,1,4`, `only notes 0, strict NaN` or `only notes
/// 0,5, on tensor cores 0`. Without the first word it was a question of earlier versions, whose classes all allowed
/// Winograd's transforms.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |notes: &Notes| {
            let numbers: Vec<_> = notes.iter().map(|note| note.to_string()).collect();
            if numbers.is_empty() { "none".into() } else { numbers.join(",") }
        };
        let is_one = self.on_tensor_cores == self.allowed || !self.allows_tensor_cores();
        write!(
            f,
            "only notes {}{}{}",
            all(&self.allowed),
            if is_one { String::new() } else { format!(", on tensor cores {}", all(&self.on_tensor_cores)) },
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

    fn class(notes: &[cudnnBackendNumericalNote_t], numerics: Numerics) -> Class {
        Class::of(&engine(notes), CUDNN_DATA_FLOAT, numerics, true)
    }

    #[test]
    fn a_class_admits_nothing_looser() {
        for chosen in [&[][..], &[CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS], &LOOSE] {
            let class = class(chosen, Numerics::Match);
            assert!(class.admits(&engine(chosen)) && class.admits(&engine(&[])));
            assert!(class.admits(&engine(&[CUDNN_NUMERICAL_NOTE_FFT])));
            for note in LOOSE {
                assert_eq!(class.admits(&engine(&[note])), chosen.contains(&note), "{chosen:?} {note}");
            }
        }
    }

    #[test]
    fn smaller_tiles_round_less_and_tf32_rounds_most() {
        let chosen = [CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6];
        let of_6x6 = class(&chosen, Numerics::Match);
        for (note, is_admitted) in WINOGRAD.into_iter().zip([true, true, true, false]) {
            assert_eq!(of_6x6.admits(&engine(&[note])), is_admitted, "{note}");
        }
        assert!(!of_6x6.admits(&engine(&[CUDNN_NUMERICAL_NOTE_TENSOR_CORE])));
        for (data_type, is_admitted) in [(CUDNN_DATA_FLOAT, true), (CUDNN_DATA_HALF, false)] {
            let chosen = engine(&[CUDNN_NUMERICAL_NOTE_TENSOR_CORE]);
            let class = Class::of(&chosen, data_type, Numerics::Match, true);
            assert!(class.admits(&chosen) && class.allows_tensor_cores());
            for note in WINOGRAD {
                assert_eq!(class.admits(&engine(&[note])), is_admitted, "{data_type}");
                assert!(!class.admits(&engine(&[note, CUDNN_NUMERICAL_NOTE_TENSOR_CORE])), "{data_type}");
            }
        }
        // An engine on tensor cores has tiles up to the chosen one's. An exact engine has any.
        let of_4x4 =
            class(&[CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4], Numerics::Match);
        for (note, is_admitted) in WINOGRAD.into_iter().zip([true, true, false, false]) {
            assert_eq!(of_4x4.admits(&engine(&[note, CUDNN_NUMERICAL_NOTE_TENSOR_CORE])), is_admitted, "{note}");
            assert!(of_4x4.admits(&engine(&[note])), "{note}");
        }
        assert_eq!(of_4x4.to_string(), "only notes 0,5,6,7,8, on tensor cores 0,5,6");
    }

    #[test]
    fn strict_nans_are_kept_where_they_were_chosen() {
        let strict = [CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP];
        let class_of_strict = class(&strict, Numerics::Match);
        assert!(class_of_strict.admits(&engine(&strict)) && !class_of_strict.admits(&engine(&[])));
        assert!(class(&[], Numerics::Match).admits(&engine(&strict)));
        assert!(class(&strict, Numerics::Any).admits(&engine(&[])));
        assert_eq!(class_of_strict.to_string(), "only notes none, strict NaN");
        let class_by_chance = Class::of(&engine(&strict), CUDNN_DATA_FLOAT, Numerics::Match, false);
        assert!(class_by_chance.admits(&engine(&[])) && !class_by_chance.keeps_nan() && class_of_strict.keeps_nan());
    }

    #[test]
    fn settings_widen_or_narrow_the_class() {
        let any = class(&[], Numerics::Any);
        assert!(LOOSE.into_iter().all(|note| any.admits(&engine(&[note]))));
        let allowed = class(&[], Numerics::Allowed);
        for note in LOOSE {
            assert_eq!(allowed.admits(&engine(&[note])), WINOGRAD.contains(&note), "{note}");
        }
        let deterministic = class(&LOOSE, Numerics::Deterministic);
        for note in LOOSE {
            let is_deterministic = note != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
            assert_eq!(deterministic.admits(&engine(&[note])), is_deterministic);
        }
    }
}
