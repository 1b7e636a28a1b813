//! From an algorithm's name to its implementation.

use super::columns::Columns;
use super::correlation::{Axis, Correlation, Operands, forward_axes, phases};
use super::element::Storage;
use super::fft::{self, Span};
use super::filter_gradient::FilterGradient;
use super::gather;
use super::memory::{Parts, parts_size};
use super::scatter::Scatter;
use super::winograd::{fused::Fused, nonfused::Nonfused};
use super::{Algorithm, Direction, Problem, Unsupported};

/// An algorithm that is ready for a problem.
pub enum Method<S: Storage> {
    ImplicitGemm(Correlation<S>, Vec<[Axis; 3]>),
    ImplicitPrecompGemm(Correlation<S>, [Axis; 3]),
    Gemm(Correlation<S>, [Axis; 3]),
    Scatter(Scatter<S>),
    FilterGradient(FilterGradient<S>),
    FilterGradientUnordered(FilterGradient<S>),
    FilterGradientGemm(FilterGradient<S>),
    Winograd(Fused<S>),
    WinogradNonfused(Nonfused<S>),
    WinogradGradient(Nonfused<S>),
    Fft(fft::Fft<S>),
}

impl<S: Storage> Method<S> {
    pub fn new(p: &Problem, algorithm: Algorithm, operands: &Operands<S>) -> Result<Self, Unsupported> {
        use Algorithm::*;
        let correlation = || Correlation::new(p, operands);
        let gradient = || FilterGradient::new(p, operands);
        let all_phases = || phases(p);
        // Transforms need stride 1.
        let only_phase = || if p.stride == [1; 3] { Ok(phases(p)[0]) } else { Err(Unsupported) };
        Ok(match (p.direction, algorithm) {
            (Direction::Forward, ImplicitGemm) => Self::ImplicitGemm(correlation(), all_phases()),
            (Direction::Forward, ImplicitPrecompGemm) => Self::ImplicitPrecompGemm(correlation(), all_phases()[0]),
            (Direction::Forward, Gemm) => Self::Gemm(correlation(), all_phases()[0]),
            (Direction::BackwardData, Algo1) => match Scatter::new(p, operands) {
                Some(scatter) => Self::Scatter(scatter),
                None => Self::ImplicitGemm(correlation(), all_phases()),
            },
            (Direction::BackwardData, Algo0) => Self::ImplicitGemm(correlation(), all_phases()),
            (Direction::BackwardFilter, Algo0) => Self::FilterGradientUnordered(gradient()),
            (Direction::BackwardFilter, Algo1) => Self::FilterGradient(gradient()),
            (Direction::BackwardFilter, Algo3) => Self::FilterGradientGemm(gradient()),
            (_, Algorithm::Fft | FftTiling | FftTiling16 | FftTiling64) => {
                let span = algorithm.fft_tile().map_or(Span::Image, Span::Tile);
                let gradient = p.direction == Direction::BackwardFilter;
                let axes = if gradient { forward_axes(p) } else { only_phase()? };
                Self::Fft(fft::Fft::new(correlation(), axes, span, gradient).ok_or(Unsupported)?)
            }
            (Direction::BackwardFilter, WinogradNonfused) => {
                Self::WinogradGradient(Nonfused::new(correlation(), forward_axes(p)).ok_or(Unsupported)?)
            }
            (_, WinogradNonfused) => {
                Self::WinogradNonfused(Nonfused::new(correlation(), only_phase()?).ok_or(Unsupported)?)
            }
            (Direction::Forward | Direction::BackwardData, Winograd) => {
                Self::Winograd(Fused::new(correlation(), only_phase()?).ok_or(Unsupported)?)
            }
            _ => return Err(Unsupported),
        })
    }

    /// Bytes of workspace; `None` if no address space holds them.
    pub fn workspace_size(&self) -> Option<usize> {
        match self {
            Self::ImplicitGemm(..)
            | Self::Scatter(..)
            | Self::FilterGradient(..)
            | Self::FilterGradientUnordered(..) => Some(0),
            Self::ImplicitPrecompGemm(_, axes) => parts_size(&[lines_bytes(axes)]),
            Self::Gemm(job, axes) => gather::explicit_size(job, *axes),
            Self::FilterGradientGemm(job) => job.explicit_size(),
            Self::Winograd(job) => job.workspace_size(),
            Self::WinogradNonfused(job) | Self::WinogradGradient(job) => job.workspace_size(),
            Self::Fft(job) => job.workspace_size(),
        }
    }

    /// # Safety
    /// As for [`super::run`], with a workspace of [`Self::workspace_size`] bytes.
    pub unsafe fn run(&self, workspace: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::ImplicitGemm(job, phases) => gather::implicit(job, phases, None),
                Self::ImplicitPrecompGemm(job, axes) => {
                    let lines = Parts::new(workspace).take(lines_bytes(axes));
                    gather::implicit(job, &[*axes], Some(lines));
                }
                Self::Gemm(job, axes) => gather::explicit(job, *axes, workspace),
                Self::Scatter(job) => job.run(),
                Self::FilterGradient(job) => job.implicit(),
                Self::FilterGradientUnordered(job) => job.implicit_unordered(),
                Self::FilterGradientGemm(job) => job.explicit(workspace),
                Self::Winograd(job) => job.run(workspace),
                Self::WinogradNonfused(job) => job.run(workspace),
                Self::WinogradGradient(job) => job.run_gradient(workspace),
                Self::Fft(job) => job.run(workspace),
            }
        }
    }
}

fn lines_bytes(axes: &[Axis; 3]) -> usize {
    Columns::lines_len(axes) * size_of::<isize>()
}
