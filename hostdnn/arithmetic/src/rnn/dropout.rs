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
    /// What a kept element is multiplied by.
    pub fn scale<N: Number>(probability: f32) -> N {
        let probability = f64::from(probability);
        N::of(if probability < 1.0 { 1.0 / (1.0 - probability) } else { 0.0 })
    }

    /// Draws whether the next element is kept.
    pub fn keeps(&mut self) -> bool {
        self.uniform() >= f64::from(self.probability)
    }

    /// Draws the factors of elements: 0 or the scale.
    pub fn draw<N: Number>(&mut self, factors: &mut [N]) {
        let scale = Self::scale(self.probability);
        factors.fill_with(|| if self.keeps() { scale } else { N::zero() });
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
