//! The arithmetic of convolutions on the CPU: every algorithm that cuDNN names, on raw host pointers.
//! Knows shapes, strides and numbers, and nothing of cuDNN's C ABI; uses rayon for all cores, `gemm` and `hostdnn_fft`.
//!
//! The one entry is [`run`]; [`workspace_size`] says beforehand whether an algorithm supports a [`Problem`] and how
//! many bytes of workspace it needs. Only the workspace grows with the batch: besides it, every thread keeps a few
//! buffers of fixed size.

mod algorithm;
mod columns;
mod correlation;
pub(crate) mod element;
mod fft;
mod filter_gradient;
mod gather;
mod memory;
mod method;
#[doc(hidden)]
pub mod oracle;
mod scatter;
mod winograd;

pub use algorithm::Algorithm;

use correlation::Operands;
use half::{bf16, f16};
use method::Method;
use std::fmt;

/// Which of the three tensors is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `y` from `x` and `w`.
    Forward,
    /// `x` (its gradient) from `w` and `y`.
    BackwardData,
    /// `w` (its gradient) from `x` and `y`.
    BackwardFilter,
}

/// The storage type of `x`, `w` and `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE binary16; computed in single precision and rounded once.
    Half,
    /// The upper half of an IEEE binary32, likewise.
    Bfloat16,
    /// IEEE binary32.
    Float,
    /// IEEE binary64.
    Double,
}

/// One convolution. Spatial triples are `[d, h, w]`; a 2-D convolution has extents 1, pad 0, stride 1 and dilation 1 in `d`.
///
/// With `flip` false the operation is a cross-correlation,
/// `y[n,k,o] = Σ x[n,c,o·stride − pad + r·dilation] · w[k,c,r]`; with `flip` true (cuDNN's `CUDNN_CONVOLUTION`) the filter
/// is read backwards in all spatial dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Which tensor is the output.
    pub direction: Direction,
    /// Storage type of all three tensors.
    pub element: Element,
    /// Images.
    pub batch: usize,
    /// Groups; divides both channel counts.
    pub groups: usize,
    /// Channels of `x`, all groups together.
    pub in_channels: usize,
    /// Channels of `y`, all groups together.
    pub out_channels: usize,
    /// Extents of `x`.
    pub input: [usize; 3],
    /// Extents of `w`.
    pub filter: [usize; 3],
    /// Extents of `y`.
    pub output: [usize; 3],
    /// Zeros before `x`. `output` determines the zeros behind.
    pub pad: [usize; 3],
    /// Step in `x` from one output position to the next.
    pub stride: [usize; 3],
    /// Step in `x` from one filter position to the next.
    pub dilation: [usize; 3],
    /// Strides of `x` in elements: n, c, d, h, w.
    pub x_strides: [usize; 5],
    /// Strides of `w` in elements: k, c (within a group), d, h, w.
    pub w_strides: [usize; 5],
    /// Strides of `y` in elements: n, k, d, h, w.
    pub y_strides: [usize; 5],
    /// The filter is read backwards.
    pub flip: bool,
}

/// The algorithm does not compute this problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

/// Why a convolution did not run; nothing has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The algorithm does not compute this problem.
    Unsupported,
    /// The workspace is smaller than [`workspace_size`] says, or null.
    Workspace {
        /// Bytes that the algorithm needs.
        needed: usize,
        /// Bytes that the caller gave.
        given: usize,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the algorithm does not compute this convolution")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => Unsupported.fmt(f),
            Self::Workspace { needed, given } => write!(f, "the workspace holds {given} bytes of the {needed} needed"),
        }
    }
}

impl std::error::Error for Unsupported {}
impl std::error::Error for Error {}

impl From<Unsupported> for Error {
    fn from(_: Unsupported) -> Self {
        Self::Unsupported
    }
}

/// Bytes of workspace that [`run`] needs, at any alignment; it never touches more.
///
/// The problem's numbers are consistent: extents, strides and dilations are at least 1, groups divide channels, and the
/// output is what cuDNN's formula gives, `1 + (input + 2·pad − (1 + (filter − 1)·dilation)) / stride`.
pub fn workspace_size(problem: &Problem, algorithm: Algorithm) -> Result<usize, Unsupported> {
    let size = match problem.element {
        Element::Half => Method::<f16>::new(problem, algorithm, &Operands::none())?.workspace_size(),
        Element::Bfloat16 => Method::<bf16>::new(problem, algorithm, &Operands::none())?.workspace_size(),
        Element::Float => Method::<f32>::new(problem, algorithm, &Operands::none())?.workspace_size(),
        Element::Double => Method::<f64>::new(problem, algorithm, &Operands::none())?.workspace_size(),
    };
    size.ok_or(Unsupported)
}

/// Computes `out = alpha·convolution + beta·out`, where `out` is `y`, `x` or `w` by direction.
/// With `beta` 0 the old value is never read. Blocks until done; uses rayon's current pool.
///
/// # Safety
/// `x`, `w` and `y` point to elements of the problem's type, valid for all offsets its shapes and strides reach; the
/// output is written by nobody else, and its elements do not overlap one another or the inputs.
/// `workspace` is valid for reads and writes of `workspace_size` bytes and overlaps nothing (it may be null if that is 0).
#[allow(clippy::too_many_arguments)]
pub unsafe fn run(
    problem: &Problem,
    algorithm: Algorithm,
    alpha: f64,
    beta: f64,
    x: *mut u8,
    w: *mut u8,
    y: *mut u8,
    workspace: *mut u8,
    workspace_size: usize,
) -> Result<(), Error> {
    let needed = self::workspace_size(problem, algorithm)?;
    let given = if workspace.is_null() { 0 } else { workspace_size };
    if given < needed {
        return Err(Error::Workspace { needed, given });
    }
    // SAFETY: the caller promises valid tensors, and the workspace is large enough.
    unsafe {
        match problem.element {
            Element::Half => {
                Method::<f16>::new(problem, algorithm, &Operands::new(alpha, beta, x, w, y))?.run(workspace)
            }
            Element::Bfloat16 => {
                Method::<bf16>::new(problem, algorithm, &Operands::new(alpha, beta, x, w, y))?.run(workspace)
            }
            Element::Float => {
                Method::<f32>::new(problem, algorithm, &Operands::new(alpha, beta, x, w, y))?.run(workspace)
            }
            Element::Double => {
                Method::<f64>::new(problem, algorithm, &Operands::new(alpha, beta, x, w, y))?.run(workspace)
            }
        }
    }
    Ok(())
}
