//! The micro-configurations of a convolution problem that can be timed.

use cudnn_abi::*;

use super::plan::divided_workspace;
use crate::problem::OwnedDescriptors;
use crate::problem::Problem;
use crate::problem::algorithm::{Algorithm, Class};
use cudnn::convolution::AlgoPerf;
use cudnn::handle::Handle;
use gpu::Device;
use planner::BatchSizePolicy;

use tuning::search::Candidate;

/// Returns the micro-batch sizes to try: the policy's, where the problem can be cut at them. Sizes of the smaller
/// policies come first, the largest of them first, so that a search that runs out of time has seen the most important
/// sizes.
pub fn sizes(problem: &Problem, policy: BatchSizePolicy, device: Device) -> Vec<usize> {
    let batch = problem.batch();
    let policy = if problem.splittable() { policy } else { BatchSizePolicy::Undivided };
    let mut sizes = policy.sizes(batch);
    sizes.retain(|&size| problem.aligned(size, device.alignment()));
    sizes.sort_by_key(|&size| (size != batch, !size.is_power_of_two(), std::cmp::Reverse(size)));
    sizes
}

/// Returns the candidates of `problem` in a class, whatever their workspace: sizes in the order of [`sizes`], algorithms
/// in the order of `results`, which are cuDNN's for the whole mini-batch.
///
/// Asks cuDNN for the workspace of each size, but for its choice of algorithms only once more, at one smaller size:
/// some algorithms take small batches only.
pub fn candidates(
    handle: Handle,
    problem: &Problem,
    results: &[AlgoPerf],
    class: Class,
    sizes: &[usize],
) -> Vec<Candidate<Algorithm>> {
    let mut algorithms = admitted(problem, results, class);
    if let Some(&part) = sizes.iter().find(|&&size| size < problem.batch()) {
        // Without TF32, algorithms come under the math type that forbids it.
        let math_type = class.math_type.filter(|it| *it == CUDNN_FMA_MATH).unwrap_or(problem.math_type);
        let part = OwnedDescriptors::new(&problem.with_batch(part), math_type);
        let more = part.and_then(|part| part.raw().get_algorithms(handle)).unwrap_or_default();
        for algorithm in admitted(problem, &more, class) {
            if !algorithms.contains(&algorithm) {
                algorithms.push(algorithm);
            }
        }
    }
    let mut candidates = Vec::new();
    for &size in sizes {
        let micro = problem.with_batch(size);
        for &algorithm in &algorithms {
            let Ok(descriptors) = OwnedDescriptors::new(&micro, algorithm.math_type) else { continue };
            let Ok(own) = descriptors.raw().workspace_size(handle, algorithm.id) else { continue };
            let workspace = if size < problem.batch() { divided_workspace(problem, own) } else { own };
            candidates.push(Candidate { batch: size, algorithm, workspace });
        }
    }
    candidates
}

fn admitted(problem: &Problem, results: &[AlgoPerf], class: Class) -> Vec<Algorithm> {
    results
        .iter()
        .filter(|result| class.admits(problem.direction, result))
        .map(|result| Algorithm::of(problem.direction, result))
        .collect()
}
