//! Dropout descriptors.

/// How often values are dropped, and where the random numbers' states are. No probability is refused here, as in cuDNN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropoutDescriptor {
    /// The probability that a value is dropped.
    pub probability: f32,
    /// The states' address as the program gave it; 0 for none.
    pub states: usize,
    /// What the states began with.
    pub seed: u64,
}
