//! Dropout descriptors.

/// The probability of dropout, and the address of the random numbers' states. No probability is refused, as in cuDNN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropoutDescriptor {
    /// The probability that a value is dropped.
    pub probability: f32,
    /// The states' address from the program; 0 for none.
    pub states: usize,
    /// The states' seed.
    pub seed: u64,
}
