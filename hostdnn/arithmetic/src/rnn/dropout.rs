//! Dropout between layers: each element is 0 with some probability, and the others are scaled so that the mean stays.

use super::element::Number;

/// Bytes of the random numbers' states.
pub const STATES_BYTES: usize = 8;

/// Dropout with a probability, from states that continue from call to call.
#[derive(Debug)]
pub struct Dropout<'a> {
    /// The probability that an element is dropped: 0 to 1.
    pub probability: f32,
    /// The states.
    pub states: &'a mut [u8; STATES_BYTES],
}

/// States that begin with a seed.
pub fn seed(seed: u64) -> [u8; STATES_BYTES] {
    seed.to_ne_bytes()
}

impl Dropout<'_> {
    /// Drops elements.
    pub fn apply<N: Number>(&mut self, values: &mut [N]) {
        let probability = f64::from(self.probability);
        let scale = if probability < 1.0 { N::of(1.0 / (1.0 - probability)) } else { N::zero() };
        for value in values {
            *value = if self.uniform() < probability { N::zero() } else { *value * scale };
        }
    }

    /// A number from 0 up to 1, by SplitMix64 (Steele, Lea and Flood, 2014).
    fn uniform(&mut self) -> f64 {
        let state = u64::from_ne_bytes(*self.states).wrapping_add(0x9e37_79b9_7f4a_7c15);
        *self.states = state.to_ne_bytes();
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
