//! Whether what cuDNN runs without us rounds floats to TF32. The math type of a call or a result only allows it.

use cudnn_abi::*;

use crate::problem::algorithm::{Algorithm, Plain};
use crate::problem::{OwnedDescriptors, Problem};
use cudnn::convolution::AlgoPerf;
use cudnn::handle::Handle;
use guest::settings::{self, Numerics};
use tuning::rounding;

/// Returns what cuDNN runs, if it is known whether that rounds.
pub fn known(problem: &Problem, chosen: &AlgoPerf) -> Option<Plain> {
    let rounds = match matters(problem, chosen) {
        true => rounding::known(problem, &Algorithm::of(problem.direction, chosen)),
        false => Some(true),
    };
    rounds.map(|rounds| Plain::new(problem, chosen, rounds))
}

/// Returns what cuDNN runs. Finds out whether that rounds, on memory of our own, and waits for it. What cannot be found
/// out counts as not rounded: then no plan rounds more.
pub fn find(problem: &Problem, chosen: &AlgoPerf) -> Plain {
    known(problem, chosen).unwrap_or_else(|| {
        let algorithm = Algorithm::of(problem.direction, chosen);
        let rounds = rounding::rounds(problem, &algorithm, |image, handle| {
            let descriptors = OwnedDescriptors::new(image, algorithm.math_type).ok()?;
            // SAFETY: the handle lives while `rounds` runs.
            descriptors.raw().workspace_size(unsafe { Handle::new(handle) }, algorithm.id).ok()
        });
        let rounds = rounds.inspect_err(|why| log::debug!("{problem}: {algorithm}: {why}"));
        Plain::new(problem, chosen, rounds.unwrap_or(false))
    })
}

/// Returns whether rounding counts: floats that the math type lets cuDNN round, and a program that wants what cuDNN does.
fn matters(problem: &Problem, chosen: &AlgoPerf) -> bool {
    matches!(settings::get().numerics, Numerics::Match | Numerics::Deterministic)
        && problem.x.data_type == CUDNN_DATA_FLOAT
        && chosen.mathType != CUDNN_FMA_MATH
}

/// Returns cuDNN's algorithms in a class, from its list for the problem's own math type. In a class without TF32 these
/// are the algorithms under the math type that forbids it.
pub fn listed(
    handle: Handle,
    problem: &Problem,
    own: &[AlgoPerf],
    math_type: Option<cudnnMathType_t>,
) -> Vec<AlgoPerf> {
    if math_type != Some(CUDNN_FMA_MATH) || problem.math_type == CUDNN_FMA_MATH {
        return own.to_vec();
    }
    let exact = OwnedDescriptors::new(problem, CUDNN_FMA_MATH);
    exact.and_then(|exact| exact.raw().get_algorithms(handle)).unwrap_or_default()
}
