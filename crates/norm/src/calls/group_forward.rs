//! Group normalization, forward.

use std::ffi::c_void;

use crate::shape::{Groups, Shape};

/// Twin of `GroupForward` in `kernels/norm/group_forward.cu`. Numbers for each channel, and for each group of each image,
/// have the type of parameters that the kernels are compiled for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GroupForward {
    pub shape: Shape,
    pub groups: Groups,
    /// Aligned to 16 bytes, as y, which may be x.
    pub x: *const c_void,
    pub y: *mut c_void,
    /// For each channel. Null for 1.
    pub weight: *const c_void,
    /// Likewise. Null for 0.
    pub bias: *const c_void,
    /// For each group of each image: where the mean and 1 / √(variance + epsilon) go.
    pub saved_mean: *mut c_void,
    pub saved_inverse: *mut c_void,
    pub epsilon: f64,
}
