//! Our own engines for operation graphs, as candidates beside cuDNN's: single convolutions over images in NCHW.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::engines::{
    self, BackwardFilter, Correlation, CorrelationMemory, FewChannels, FilterGradient, GradientMemory, ImplicitGemm,
    Parts, SameConvolution, SameGradient, ShiftedConvolution,
};
use crate::problem::graph::{EngineConfiguration, Factor, Problem, Route, Tensor};
use cudnn::convolution::Direction;
use gpu::{Element, Stream};

/// The index of the filter gradient's engine on tensor cores. It multiplies floats in TF32.
pub const BACKWARD_FILTER: i64 = 0;
/// The index of the same engine with exact float products.
pub const EXACT_BACKWARD_FILTER: i64 = 1;
/// The index of the engine for convolutions and input gradients on tensor cores. It multiplies floats in TF32.
pub const IMPLICIT_GEMM: i64 = 2;
/// The index of the same engine with exact float products.
pub const EXACT_IMPLICIT_GEMM: i64 = 3;
/// The index of the engine for convolutions and input gradients on the tensor cores of warpgroups.
pub const SAME_CONVOLUTION: i64 = 4;
/// The index of the engine for filter gradients on the tensor cores of warpgroups.
pub const SAME_GRADIENT: i64 = 5;
/// The index of the engine for convolutions and input gradients by filters of several places, on the same tensor cores.
pub const SHIFTED_CONVOLUTION: i64 = 6;
/// The index of the engine for convolutions of images with few channels, on the same tensor cores.
pub const FEW_CHANNELS: i64 = 7;
/// The gradient's knobs: the number of parts of the pixels, whose sums meet in the workspace; or the number of blocks
/// in a cluster that share the pixels, and the number of k that such a block computes.
const SPLITS: cudnnBackendKnobType_t = 0;
const CLUSTER: cudnnBackendKnobType_t = 1;
const K_TILE: cudnnBackendKnobType_t = 2;
/// The alignment that our GPU kernels need of addresses, in bytes.
const ALIGNMENT: i64 = 16;

pub fn knobs(parts: Parts) -> Vec<(cudnnBackendKnobType_t, i64)> {
    match parts {
        Parts::InWorkspace(count) => vec![(SPLITS, count as i64)],
        Parts::InCluster { blocks, k_tile } => vec![(CLUSTER, blocks as i64), (K_TILE, k_tile as i64)],
    }
}

fn parts(knobs: &[(cudnnBackendKnobType_t, i64)]) -> Option<Parts> {
    let size = |value: i64| usize::try_from(value).ok();
    match *knobs {
        [(SPLITS, count)] => Some(Parts::InWorkspace(size(count)?)),
        [(CLUSTER, blocks), (K_TILE, k_tile)] => {
            Some(Parts::InCluster { blocks: size(blocks)?, k_tile: size(k_tile)? })
        }
        _ => None,
    }
}

pub fn engine(index: i64, knobs: Vec<(cudnnBackendKnobType_t, i64)>, is_exact: bool) -> EngineConfiguration {
    // cuDNN notes tensor cores on its own engines in the same way, for TF32 too. Engines as exact as without tensor
    // cores get no note, so that every class admits them.
    let numerics = (!is_exact).then_some(CUDNN_NUMERICAL_NOTE_TENSOR_CORE).into_iter().collect();
    let behavior = [CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION].into_iter().collect();
    let engine = EngineConfiguration::new(index, knobs, numerics, behavior);
    EngineConfiguration { route: Route::Ours, ..engine }
}

/// The plan of one of our engines.
pub enum OurPlan {
    /// A filter's gradient.
    BackwardFilter(BackwardFilter),
    /// A convolution, or its input's gradient.
    ImplicitGemm(ImplicitGemm),
    /// A convolution, or its input's gradient, by warpgroups.
    SameConvolution(SameConvolution),
    /// A filter's gradient by warpgroups.
    SameGradient(SameGradient),
    /// A convolution, or its input's gradient, by warpgroups and a filter of several places.
    ShiftedConvolution(ShiftedConvolution),
    /// A convolution of images with few channels, by warpgroups.
    FewChannels(FewChannels),
}

/// The addresses of a convolution's tensors and workspace.
#[derive(Clone, Copy)]
pub struct Memory {
    /// The input, or its gradient.
    pub x: *mut c_void,
    /// The filter, or its gradient.
    pub w: *mut c_void,
    /// The output, or its gradient.
    pub y: *mut c_void,
    /// The workspace, of [`OurPlan::workspace`] bytes.
    pub workspace: *mut c_void,
}

// SAFETY: the addresses are only passed on to the device, so any thread may hold them.
unsafe impl Send for Memory {}

impl OurPlan {
    /// Makes the plan of an engine of ours, see [`our_candidates`](super::our_candidates). `Err` if the engine does not
    /// compute the problem.
    pub fn new(problem: &Problem, engine: &EngineConfiguration) -> Result<Self, cudnnStatus_t> {
        let device = cudnn::device();
        let is_exact = [EXACT_BACKWARD_FILTER, EXACT_IMPLICIT_GEMM].contains(&engine.engine);
        let problem = read(problem, is_exact).ok_or(CUDNN_STATUS_NOT_SUPPORTED)?;
        let plan = match (engine.engine, engine.knobs, problem) {
            (BACKWARD_FILTER | EXACT_BACKWARD_FILTER, knobs, OurProblem::FilterGradient(gradient)) => {
                let parts = parts(knobs).ok_or(CUDNN_STATUS_NOT_SUPPORTED)?;
                BackwardFilter::new(device, gradient, parts).map(Self::BackwardFilter)
            }
            (IMPLICIT_GEMM | EXACT_IMPLICIT_GEMM, &[], OurProblem::Correlation(correlation)) => {
                ImplicitGemm::new(device, correlation).map(Self::ImplicitGemm)
            }
            (SAME_CONVOLUTION, &[], OurProblem::Correlation(correlation)) => {
                SameConvolution::new(device, correlation).map(Self::SameConvolution)
            }
            (SAME_GRADIENT, &[], OurProblem::FilterGradient(gradient)) => {
                SameGradient::new(device, gradient).map(Self::SameGradient)
            }
            (SHIFTED_CONVOLUTION, &[], OurProblem::Correlation(correlation)) => {
                ShiftedConvolution::new(device, correlation).map(Self::ShiftedConvolution)
            }
            (FEW_CHANNELS, &[], OurProblem::Correlation(correlation)) => {
                FewChannels::new(device, correlation).map(Self::FewChannels)
            }
            _ => return Err(CUDNN_STATUS_NOT_SUPPORTED),
        };
        plan.map_err(engines::unavailable)
    }

    /// The bytes of workspace.
    pub fn workspace(&self) -> usize {
        match self {
            Self::BackwardFilter(gradient) => gradient.workspace(),
            Self::ShiftedConvolution(convolution) => convolution.workspace(),
            Self::ImplicitGemm(_) | Self::SameConvolution(_) | Self::SameGradient(_) | Self::FewChannels(_) => 0,
        }
    }

    /// Launches result = `alpha` · convolution or gradient + `beta` · result. Returns whether that worked.
    ///
    /// # Safety
    /// The caller promises that `memory` is device memory as large as the tensors, which are aligned to 16 bytes, that
    /// the result overlaps nothing else, and that the stream belongs to that device.
    pub unsafe fn run(&self, stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Memory { x, w, y, workspace } = memory;
        // SAFETY: all engines require of the memory and the stream only what our caller promised.
        unsafe {
            match self {
                Self::BackwardFilter(gradient) => {
                    gradient.run(stream, GradientMemory { x, dy: y, dw: w, workspace }, alpha, beta)
                }
                Self::ImplicitGemm(gemm) => {
                    let (from, to) = if gemm.is_gradient() { (y, x) } else { (x, y) };
                    gemm.run(stream, CorrelationMemory { w, from, to }, alpha, beta)
                }
                Self::SameConvolution(convolution) => {
                    let (from, to) = if convolution.is_gradient() { (y, x) } else { (x, y) };
                    convolution.run(stream, CorrelationMemory { w, from, to }, alpha, beta)
                }
                Self::SameGradient(gradient) => {
                    gradient.run(stream, GradientMemory { x, dy: y, dw: w, workspace }, alpha, beta)
                }
                Self::ShiftedConvolution(convolution) => {
                    let (from, to) = if convolution.is_gradient() { (y, x) } else { (x, y) };
                    convolution.run(stream, CorrelationMemory { w, from, to }, workspace, alpha, beta)
                }
                Self::FewChannels(convolution) => {
                    convolution.run(stream, CorrelationMemory { w, from: x, to: y }, alpha, beta)
                }
            }
        }
    }
}

/// A problem for one of our GPU kernels.
pub enum OurProblem {
    FilterGradient(FilterGradient),
    Correlation(Correlation),
}

impl OurProblem {
    /// Returns whether our kernel is at least as fast as cuDNN's tensor core engines with enough workspace.
    pub fn is_fast(&self) -> bool {
        match self {
            Self::FilterGradient(gradient) => gradient.is_fast(),
            Self::Correlation(correlation) => correlation.is_exact,
        }
    }
}

/// Reads a problem for our GPU kernels. `None` if it is more than a convolution over images in NCHW.
pub fn read(problem: &Problem, is_exact: bool) -> Option<OurProblem> {
    let convolution = problem.convolution();
    let [x, w, y] = [convolution.x, convolution.w, convolution.y].map(|place| &problem.tensors[place]);
    let is_stored = |tensor: &Tensor| {
        tensor.data_type == x.data_type
            && !tensor.is_virtual
            && !tensor.is_by_value
            && tensor.dims.len() == 4
            && tensor.channels_first().is_some()
            && tensor.alignment % ALIGNMENT == 0
    };
    let [stride, dilation, pre, post] =
        [&convolution.stride, &convolution.dilation, &convolution.pre_padding, &convolution.post_padding];
    let alike = |values: &[i64]| values.first().copied().filter(|first| values.iter().all(|value| value == first));
    let is_ours = problem.operations.len() == 1
        && convolution.mode == CUDNN_CROSS_CORRELATION
        && convolution.compute_type == CUDNN_DATA_FLOAT
        && [x, w, y].into_iter().all(is_stored)
        && [x.dims[0], w.dims[0], w.dims[1]] == [y.dims[0], y.dims[1], x.dims[1]]
        && alike(dilation) == Some(1)
        && pre == post
        && (!is_exact || x.data_type == CUDNN_DATA_FLOAT)
        && [convolution.alpha, convolution.beta]
            .iter()
            .all(|factor| *factor == Factor::new(factor.value() as f32 as f64));
    if !is_ours {
        return None;
    }
    let element = Element::of(x.data_type)?;
    let size = |value: i64| usize::try_from(value).ok();
    let spatial = |tensor: &Tensor| Some([size(tensor.dims[2])?, size(tensor.dims[3])?]);
    let [images, k, c] = [size(x.dims[0])?, size(w.dims[0])?, size(w.dims[1])?];
    let [x_pixels, y_pixels, filter] = [spatial(x)?, spatial(y)?, spatial(w)?];
    let (stride, padding) = (size(alike(stride)?)?, size(alike(pre)?)?);
    // Checks that y has the size that follows from x.
    let is_whole = |axis: usize| {
        let padded = padding.checked_mul(2).and_then(|both| x_pixels[axis].checked_add(both));
        let beyond = padded.and_then(|padded| padded.checked_sub(filter[axis]));
        beyond.is_some_and(|beyond| y_pixels[axis] == beyond / stride.max(1) + 1)
    };
    let [rows, columns] = filter;
    let correlation = |is_gradient: bool| {
        let reaches = rows.checked_sub(padding + 1)?;
        let (padding, depth, m) = if is_gradient { (reaches, k, c) } else { (padding, c, k) };
        let [from, to] = if is_gradient { [y_pixels, x_pixels] } else { [x_pixels, y_pixels] };
        let correlation = Correlation {
            element,
            is_exact,
            is_gradient,
            images,
            depth,
            rows: m,
            from,
            to,
            filter: rows,
            stride,
            padding,
        };
        (rows == columns && is_whole(0) && is_whole(1)).then_some(OurProblem::Correlation(correlation))
    };
    match convolution.direction {
        Direction::Forward => correlation(false),
        Direction::BackwardData => correlation(true),
        Direction::BackwardFilter => Some(OurProblem::FilterGradient(FilterGradient {
            element,
            is_exact,
            images,
            k,
            c,
            x: x_pixels,
            dy: y_pixels,
            filter,
            stride,
            padding,
        })),
    }
}
