//! Configurations as text, as reports have them.

use std::fmt;
use std::str::FromStr;

use super::{Configuration, Math, Regime};

const KINDS: [(&str, (Regime, Math)); 4] = [
    ("block", (Regime::Block, Math::Fma)),
    ("grid", (Regime::Grid, Math::Fma)),
    ("block-tensor", (Regime::Block, Math::TensorCores)),
    ("grid-tensor", (Regime::Grid, Math::TensorCores)),
];

impl fmt::Display for Configuration {
    /// Such as `grid u8 b4 t256 l32 r128`, or `grid-tensor …`: regime and math, units, batch tile, threads, lanes, weights
    /// in registers.
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Self { regime, math, units, batch_tile, threads, lanes, register_weights } = self;
        let (name, ..) = KINDS.into_iter().find(|(_, kind)| *kind == (*regime, *math)).ok_or(fmt::Error)?;
        write!(formatter, "{name} u{units} b{batch_tile} t{threads} l{lanes} r{register_weights}")
    }
}

impl FromStr for Configuration {
    type Err = String;

    /// What [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no configuration, such as \"grid u8 b4 t256 l32 r128\"");
        let words: Vec<_> = text.split(' ').collect();
        let [kind, numbers @ ..] = &words[..] else { return Err(bad()) };
        let (_, (regime, math)) = KINDS.into_iter().find(|(name, _)| name == kind).ok_or_else(bad)?;
        let number = |word: &&str, letter| word.strip_prefix(letter)?.parse::<usize>().ok();
        let read = numbers.iter().zip(['u', 'b', 't', 'l', 'r']).map(|(word, letter)| number(word, letter));
        let numbers = read.collect::<Option<Vec<_>>>().filter(|read| read.len() == numbers.len()).ok_or_else(bad)?;
        let &[units, batch_tile, threads, lanes, register_weights] = &numbers[..] else { return Err(bad()) };
        let read = Self { regime, math, units, batch_tile, threads, lanes, register_weights };
        let sound = [units, batch_tile, threads, lanes].iter().all(|&number| (1..=1 << 20).contains(&number))
            && lanes.is_power_of_two()
            && threads.is_multiple_of(32)
            && threads <= 1024
            && register_weights.is_multiple_of(4)
            && match math {
                Math::Fma => lanes <= 32,
                Math::TensorCores => batch_tile.is_multiple_of(8) && lanes >= 4 && threads.is_multiple_of(8 * lanes),
            };
        if sound { Ok(read) } else { Err(bad()) }
    }
}
