//! The text form of configurations, which reports use.

use std::fmt;
use std::str::FromStr;

use super::{Configuration, MOST_RECURRENCES, Math, Regime};

const KINDS: [(&str, (Regime, Math)); 11] = [
    ("block", (Regime::Block, Math::Fma)),
    ("cluster", (Regime::Cluster, Math::Fma)),
    ("scatter", (Regime::Scatter, Math::Fma)),
    ("grid-scatter", (Regime::GridScatter, Math::Fma)),
    ("grid", (Regime::Grid, Math::Fma)),
    ("grid-single", (Regime::GridSingle, Math::Fma)),
    ("block-tensor", (Regime::Block, Math::TensorCores)),
    ("cluster-tensor", (Regime::Cluster, Math::TensorCores)),
    ("scatter-tensor", (Regime::Scatter, Math::TensorCores)),
    ("grid-scatter-tensor", (Regime::GridScatter, Math::TensorCores)),
    ("grid-tensor", (Regime::Grid, Math::TensorCores)),
];

/// The name's prefix; the number of layers follows.
const WAVEFRONT: &str = "wavefront";

impl fmt::Display for Configuration {
    /// Such as `grid u8 b4 t256 l32 r128`, `grid-single …`, `grid-tensor …`, `wavefront3 …` (3 layers): regime and
    /// math, units, batch tile, threads, lanes, weights in registers; W's too if W x is within each step: `… r128 w48`.
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Self { regime, math, units, batch_tile, threads, lanes, register_weights, input_register_weights } = self;
        match (regime, math) {
            (Regime::Wavefront { layers }, Math::Fma) => write!(formatter, "{WAVEFRONT}{layers}")?,
            kind => {
                let found = KINDS.into_iter().find(|(_, (regime, math))| (regime, math) == kind);
                formatter.write_str(found.ok_or(fmt::Error)?.0)?;
            }
        }
        write!(formatter, " u{units} b{batch_tile} t{threads} l{lanes} r{register_weights}")?;
        input_register_weights.iter().try_for_each(|weights| write!(formatter, " w{weights}"))
    }
}

/// Reads the name of a regime and math.
fn kind(name: &str) -> Option<(Regime, Math)> {
    if let Some(layers) = name.strip_prefix(WAVEFRONT) {
        let layers = layers.parse().ok().filter(|layers| (2..=MOST_RECURRENCES).contains(layers))?;
        return Some((Regime::Wavefront { layers }, Math::Fma));
    }
    KINDS.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
}

impl FromStr for Configuration {
    type Err = String;

    /// Reads the text that [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no configuration, such as \"grid u8 b4 t256 l32 r128\"");
        let words: Vec<_> = text.split(' ').collect();
        let [name, numbers @ ..] = &words[..] else { return Err(bad()) };
        let (regime, math) = kind(name).ok_or_else(bad)?;
        let number = |word: &&str, letter| word.strip_prefix(letter)?.parse::<usize>().ok();
        let read = numbers.iter().zip(['u', 'b', 't', 'l', 'r', 'w']).map(|(word, letter)| number(word, letter));
        let numbers = read.collect::<Option<Vec<_>>>().filter(|read| read.len() == numbers.len()).ok_or_else(bad)?;
        let &[units, batch_tile, threads, lanes, register_weights, ref input @ ..] = &numbers[..] else {
            return Err(bad());
        };
        let input_register_weights = input.first().copied();
        let read = Self { regime, math, units, batch_tile, threads, lanes, register_weights, input_register_weights };
        let sound = [units, batch_tile, threads, lanes].iter().all(|&number| (1..=1 << 20).contains(&number))
            && lanes.is_power_of_two()
            && threads.is_multiple_of(32)
            && threads <= 1024
            && register_weights.is_multiple_of(4 * read.matrices())
            && read.is_shared_out()
            && (math == Math::Fma || batch_tile.is_multiple_of(8))
            && input_register_weights.is_none_or(|weights| {
                weights.is_multiple_of(4) && math == Math::Fma && matches!(regime, Regime::Cluster | Regime::Grid)
            });
        if sound { Ok(read) } else { Err(bad()) }
    }
}
