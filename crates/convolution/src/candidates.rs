//! Which micro-configurations of a kernel there are to time.

use std::ops::Range;

use cudnn_abi::*;

use crate::exec::divided_workspace;
use crate::problem::Kernel;
use crate::problem::OwnedDescriptors;
use crate::problem::algorithm::{Algorithm, Class};
use cudnn::calls::query::AlgoPerf;
use gpu::Device;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};

use tuning::search::Candidate;

/// The micro-batch sizes to try: the policy's, as far as the kernel can be cut there. Those that the
/// smaller policies name come first, and of those the largest, so that a search that runs out of time
/// has seen what matters most.
pub fn sizes(kernel: &Kernel, policy: BatchSizePolicy, device: Device) -> Vec<usize> {
    let batch = kernel.batch();
    let policy = if kernel.splittable() { policy } else { BatchSizePolicy::Undivided };
    let mut sizes = policy.sizes(batch);
    sizes.retain(|&size| kernel.aligned(size, device.alignment()));
    sizes.sort_by_key(|&size| (size != batch, !size.is_power_of_two(), std::cmp::Reverse(size)));
    sizes
}

/// The candidates of `kernel` in a class, whatever their workspace, sizes in the order of [`sizes`]
/// and algorithms in the order of `results`, which is what cuDNN says of the whole mini-batch.
///
/// cuDNN is asked for each size's workspace, but for its choice of algorithms only once more, at half
/// the mini-batch: some algorithms take small batches only.
///
/// # Safety
/// The handle is the program's.
pub unsafe fn candidates(
    handle: cudnnHandle_t,
    kernel: &Kernel,
    results: &[AlgoPerf],
    class: Class,
    sizes: &[usize],
) -> Vec<Candidate<Algorithm>> {
    let mut algorithms = admitted(kernel, results, class);
    if let Some(&part) = sizes.iter().find(|&&size| size < kernel.batch()) {
        let part = OwnedDescriptors::new(&kernel.with_batch(part), kernel.math_type);
        // SAFETY: our own descriptors.
        let more = part.and_then(|part| unsafe { part.raw().get_algorithms(handle) }).unwrap_or_default();
        for algorithm in admitted(kernel, &more, class) {
            if !algorithms.contains(&algorithm) {
                algorithms.push(algorithm);
            }
        }
    }
    let mut candidates = Vec::new();
    for &size in sizes {
        let micro = kernel.with_batch(size);
        for &algorithm in &algorithms {
            let Ok(descriptors) = OwnedDescriptors::new(&micro, algorithm.math_type) else { continue };
            // SAFETY: our own descriptors.
            let Ok(own) = (unsafe { descriptors.raw().workspace_size(handle, algorithm.id) }) else { continue };
            let workspace = if size < kernel.batch() { divided_workspace(kernel, own) } else { own };
            candidates.push(Candidate { batch: size, algorithm, workspace });
        }
    }
    candidates
}

fn admitted(kernel: &Kernel, results: &[AlgoPerf], class: Class) -> Vec<Algorithm> {
    results.iter().filter(|result| class.admits(result)).map(|result| Algorithm::of(kernel.direction, result)).collect()
}

/// The limits that leave the same candidates as `limit` does.
pub fn covers<A>(candidates: &[Candidate<A>], limit: usize) -> Range<usize> {
    let workspaces = || candidates.iter().map(|candidate| candidate.workspace);
    let from = workspaces().filter(|&workspace| workspace <= limit).max().unwrap_or(0);
    let below = workspaces().filter(|&workspace| workspace > limit).min().unwrap_or(usize::MAX);
    from..below
}

/// Some configuration of the mini-batch from candidates that nobody has timed: the first of them that
/// still fits, again and again. `None` if that does not come out even.
pub fn any_division<A: Copy + PartialEq>(batch: usize, candidates: &[Candidate<A>]) -> Option<Configuration<A>> {
    let (mut rest, mut parts) = (batch, Vec::new());
    while rest > 0 {
        let Candidate { batch, algorithm, workspace } = *candidates.iter().find(|c| c.batch <= rest)?;
        let count = rest / batch;
        parts.push((count, MicroConfiguration { batch, algorithm, time: 0.0, workspace }));
        rest -= count * batch;
    }
    Some(Configuration::new(parts))
}
