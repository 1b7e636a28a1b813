//! The layout of tiles in shared memory, as in `kernels/common/tiles.cuh`.

/// The smallest pitch of at least `least` that is congruent to `beyond` modulo 32, the number of shared memory banks.
pub fn pitch_of(least: usize, beyond: usize) -> usize {
    least + (beyond % 32 + 32 - least % 32) % 32
}
