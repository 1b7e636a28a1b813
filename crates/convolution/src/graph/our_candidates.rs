//! Our own engines as candidates beside cuDNN's.

use cudnn_abi::*;

use super::our_engine::{
    BACKWARD_FILTER, EXACT_BACKWARD_FILTER, EXACT_IMPLICIT_GEMM, FEW_CHANNELS, IMPLICIT_GEMM, OurProblem,
    SAME_CONVOLUTION, SAME_GRADIENT, SHIFTED_CONVOLUTION, engine, knobs, read,
};
use super::probe::{Candidates, Probe};
use crate::engines::{BackwardFilter, FewChannels, ImplicitGemm, SameConvolution, SameGradient, ShiftedConvolution};
use crate::problem::graph::EngineConfiguration;

/// Returns our engines that compute the problem, by kind: on warpgroups, fast, and slow. The last two kinds take at most
/// `limit` bytes of workspace.
pub fn by_kind(probe: &Probe, limit: usize) -> [Vec<EngineConfiguration>; 3] {
    [by_warpgroups(probe), fast(probe, limit), slow(probe, limit)]
}

/// Finalizes the best engine of each kind for the whole mini-batch, see [`by_kind`].
pub fn finalize_all(found: &mut Candidates, probe: &Probe, limit: usize) {
    let whole = &mut probe.micro_batch(probe.problem.batch());
    for ours in by_kind(probe, limit) {
        found.finalize_first(probe, whole, &ours, 1);
    }
}

/// Returns our engines on the tensor cores of warpgroups that compute the problem, if the class admits them. The first
/// that fits is the fastest of them: with filters of several places, SHIFTED_CONVOLUTION took 0.4 to 0.6 times as long
/// as SAME_CONVOLUTION in all layers of ResNet-50. As with our other engines, an Inf or NaN may reach unrelated places.
pub fn by_warpgroups(probe: &Probe) -> Vec<EngineConfiguration> {
    let device = cudnn::device();
    let indices = match read(probe.problem, is_exact(probe)) {
        Some(OurProblem::Correlation(of)) => [
            FewChannels::computes(device, &of).then_some(FEW_CHANNELS),
            ShiftedConvolution::computes(device, &of).then_some(SHIFTED_CONVOLUTION),
            SameConvolution::computes(device, &of).then_some(SAME_CONVOLUTION),
        ],
        Some(OurProblem::FilterGradient(of)) => {
            [SameGradient::computes(device, &of).then_some(SAME_GRADIENT), None, None]
        }
        None => [None; 3],
    };
    // Sums of 2,048 products of two-byte numbers or fewer are as exact on tensor cores as elsewhere, beside the
    // rounding of the result. cuDNN often chooses engines without tensor cores where there are few channels.
    let engines = indices.into_iter().flatten().map(|index| engine(index, vec![], index == FEW_CHANNELS));
    engines.filter(|engine| probe.admits(engine)).collect()
}

/// Returns configurations of our engine within `limit` bytes of workspace on the calling thread's device, the best
/// first, if the class admits them. Only the first that the device runs counts. It needs no micro-batches.
///
/// 0 × Inf and 0 × NaN are NaN, so an Inf or NaN in x may reach unrelated places of a result. Exact float products make
/// NaN of Inf, and of floats of 2¹²⁸ - 2¹¹⁶ and more. Classes with IEEE 754 NaN propagation exclude these engines.
pub fn fast(probe: &Probe, limit: usize) -> Vec<EngineConfiguration> {
    let problem = read(probe.problem, is_exact(probe)).filter(OurProblem::is_fast);
    problem.map_or(vec![], |problem| configurations(probe, &problem, limit))
}

/// Returns our slower engine, for use where none of cuDNN's tensor core engines fits half of the mini-batch.
pub fn slow(probe: &Probe, limit: usize) -> Vec<EngineConfiguration> {
    let problem = read(probe.problem, is_exact(probe)).filter(|problem| !problem.is_fast());
    problem.map_or(vec![], |problem| configurations(probe, &problem, limit))
}

/// Returns whether floats are to be multiplied exactly.
fn is_exact(probe: &Probe) -> bool {
    let x = &probe.problem.tensors[probe.problem.convolution().x];
    // NVIDIA's libraries obey this variable too.
    let is_overridden = std::env::var_os("NVIDIA_TF32_OVERRIDE").is_some_and(|it| it == "0");
    let on_tensor_cores = engine(BACKWARD_FILTER, vec![], false);
    x.data_type == CUDNN_DATA_FLOAT && (is_overridden || !probe.admits(&on_tensor_cores))
}

fn configurations(probe: &Probe, problem: &OurProblem, limit: usize) -> Vec<EngineConfiguration> {
    let device = cudnn::device();
    let mut engines = match problem {
        OurProblem::FilterGradient(gradient) => {
            let index = if gradient.is_exact { EXACT_BACKWARD_FILTER } else { BACKWARD_FILTER };
            let parts = BackwardFilter::best_parts(device, gradient, limit).into_iter();
            parts.map(|parts| engine(index, knobs(parts), gradient.is_exact)).collect()
        }
        OurProblem::Correlation(correlation) => {
            let index = if correlation.is_exact { EXACT_IMPLICIT_GEMM } else { IMPLICIT_GEMM };
            let is_computed = ImplicitGemm::computes(device, correlation);
            is_computed.then(|| engine(index, vec![], correlation.is_exact)).into_iter().collect::<Vec<_>>()
        }
    };
    engines.retain(|engine| probe.admits(engine));
    engines
}
