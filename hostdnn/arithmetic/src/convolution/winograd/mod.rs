//! Winograd's minimal filtering: fewer multiplications for small filters of stride 1, as products of matrices for every
//! point of a transformed tile.
//!
//! [`nonfused`] computes forward and backward data in stages over the whole batch, through the workspace; [`fused`] does
//! it in blocks of tiles; [`gradient`] is backward filter. Computes in single precision.

pub mod fused;
mod gradient;
pub mod nonfused;
mod tiles;
mod transform;

use super::correlation::Axis;

/// Returns whether tiles fit this geometry, with filters of `taps` by `taps`: 2-D, stride 1, dilation 1.
fn suits(axes: &[Axis; 3], taps: usize) -> bool {
    let [depth, height, width] = axes;
    let flat = depth.count == 1 && depth.taps == 1 && depth.source_extent == 1 && depth.offset == 0;
    let dense = |a: &Axis| a.taps == taps && a.step == 1 && a.source_step == 1 && a.offset_step.abs() == 1;
    flat && dense(height) && dense(width)
}
