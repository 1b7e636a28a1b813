//! What engines share of their tiles: the layout in shared memory, as in `kernels/common/tiles.cuh`, and the compiler's
//! options for the axes of a filter.

/// The smallest pitch of at least `least` that is congruent to `beyond` modulo 32, the number of shared memory banks.
pub fn pitch_of(least: usize, beyond: usize) -> usize {
    least + (beyond % 32 + 32 - least % 32) % 32
}

/// The compiler's options for a filter's sizes, strides, paddings and dilations along rows and columns, and along slices
/// unless images are flat: `FILTER_ROWS` and so on.
pub fn options_of_axes(values: [[usize; 3]; 4], is_flat: bool) -> impl Iterator<Item = String> {
    const AXES: [&str; 3] = ["SLICES", "ROWS", "COLUMNS"];
    let of_axis = move |axis: usize| {
        let named = ["FILTER", "STRIDE", "PADDING", "DILATION"].into_iter().zip(values);
        named.map(move |(name, its)| format!("-D{name}_{}={}", AXES[axis], its[axis]))
    };
    (usize::from(is_flat)..AXES.len()).flat_map(of_axis)
}
