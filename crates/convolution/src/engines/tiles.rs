//! How tiles of tensors are laid out in shared memory: as `kernels/tiles.cuh` has it.

/// At least so much, and as far behind a multiple of 32 as `beyond`.
pub fn pitch_of(least: usize, beyond: usize) -> usize {
    least + (beyond % 32 + 32 - least % 32) % 32
}
