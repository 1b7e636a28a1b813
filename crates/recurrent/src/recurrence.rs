//! The recurrence of a layer: what a launch takes, and what every way to run it can do.

use std::ffi::c_void;
use std::ptr;

use super::configuration::MOST_RECURRENCES;
use super::input::Input;
use gpu::Stream;
use gpu::jit::Error;

/// One layer and direction: twin of the struct in `kernels/recurrent/recurrence.cuh`, which documents the fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Recurrence {
    pub input: *const f32,
    pub weights: *const c_void,
    pub x: *const c_void,
    pub input_weights: *const c_void,
    pub input_biases: *const c_void,
    pub recurrent_biases: *const c_void,
    pub h0: *const c_void,
    pub c0: *const c_void,
    pub y: *mut c_void,
    pub hy: *mut c_void,
    pub cy: *mut c_void,
    pub gates: *mut c_void,
    pub cells: *mut c_void,
    pub lengths: *const i32,
    pub starts: *const i32,
    pub y_stride: i64,
    pub time_stride: i64,
    pub batch_stride: i64,
    /// An element in the first bytes; shorter ones are padded to 4 bytes.
    pub fill: [u8; 4],
    pub steps: i32,
    pub batch: i32,
    pub reverse: i32,
    pub exchange: *mut c_void,
}

impl Recurrence {
    /// The recurrence of m = o ∘ tanh(c) in place of its projection h = W_p m, with R W_p for R. R h0 is in the input.
    pub fn unprojected(self, weights: *const c_void, outputs: *mut c_void, hidden: usize) -> Self {
        let (h0, hy) = (ptr::null(), ptr::null_mut());
        Self { weights, h0, y: outputs, hy, y_stride: hidden as i64, fill: [0; 4], ..self }
    }
}

/// The parameter of a launch: twin of the struct in `kernels/recurrent/recurrence.cuh`.
#[repr(C)]
pub struct Recurrences {
    pub of: [Recurrence; MOST_RECURRENCES],
}

/// The gradients of one layer and direction: twin of the struct in `kernels/recurrent/back_recurrence.cuh`, which
/// documents the fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BackRecurrence {
    pub gates: *mut c_void,
    pub cells: *const c_void,
    pub y: *const c_void,
    pub dy: *const c_void,
    pub h0: *const c_void,
    pub c0: *const c_void,
    pub last_dh: *const c_void,
    pub last_dc: *const c_void,
    pub first_dh: *mut c_void,
    pub first_dc: *mut c_void,
    pub lengths: *const i32,
    pub starts: *const i32,
    pub weights: *const c_void,
    pub exchange: *mut c_void,
    pub y_stride: i32,
    pub steps: i32,
    pub batch: i32,
    pub reverse: i32,
}

/// The most recurrences whose gradients a launch computes: both directions of a layer.
pub const MOST_BACK_RECURRENCES: usize = 2;

/// The parameter of such a launch: twin of the struct in `kernels/recurrent/back_recurrence.cuh`.
#[repr(C)]
pub struct BackRecurrences {
    pub of: [BackRecurrence; MOST_BACK_RECURRENCES],
}

/// Runs a recurrence, and the work before it, on one device.
pub trait Recurrent: Send + Sync {
    /// The kernels before the recurrence.
    fn input(&self) -> &Input;

    /// Bytes of a recurrence's own memory, which must be zero before a call's first launch.
    fn exchange_bytes(&self) -> usize;

    /// Layers that a launch computes, each from the output of the layer below. Only the first needs input products from
    /// an earlier launch.
    fn layers(&self) -> usize {
        1
    }

    /// Returns true if the recurrence multiplies its own input, so that no products come before it.
    fn multiplies_input(&self) -> bool {
        false
    }

    /// Launches a layer's recurrences, one for each direction; or one recurrence for each of several stacked layers.
    /// Nothing waits or allocates. An `early` launch may begin while its predecessor runs, and waits before it reads
    /// the input's products.
    ///
    /// # Safety
    /// If `early`, the previous launch on the stream computes products and is not early itself. All memory is on the
    /// stream's device, with the network's sizes and type. Each direction has its own exchange, which no other launch
    /// uses at the same time.
    unsafe fn launch(&self, stream: Stream, recurrences: &[Recurrence], early: bool) -> Result<(), Error>;
}
