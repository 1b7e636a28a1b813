//! cuDNN's candidates for a problem's micro-batches, enumerated ahead of any program. By a device's properties, this
//! works on a machine without that device.

use cudnn_abi::*;

use super::micro_plan::{MicroBatch, MicroPlan};
use super::probe;
use crate::problem::graph::{EngineConfiguration, Problem};
use cudnn::graph::Target;
use planner::BatchSizePolicy;

/// A candidate: an engine configuration that runs micro-batches of one size.
pub struct Proposal {
    /// The images of a micro-batch.
    pub batch: usize,
    /// The engine and its knobs.
    pub engine: EngineConfiguration,
    /// The bytes of workspace, as a part of the mini-batch or as all of it. Sums over micro-batches are included.
    pub workspace: usize,
}

/// Returns the micro-batch sizes to cut a problem into, the largest first.
pub fn sizes(problem: &Problem, policy: BatchSizePolicy) -> Vec<usize> {
    probe::sizes(problem, policy)
}

/// Returns the heuristics' proposals for micro-batches of `size` that can be finalized, in their order: first those of
/// mode A, then those of mode FALLBACK. `Err` if cuDNN refuses the operation graph itself.
pub fn proposals(problem: &Problem, target: &Target, size: usize) -> Result<Vec<Proposal>, cudnnStatus_t> {
    let mut part = MicroBatch::new(problem, size, target);
    part.check()?;
    let mut proposals = Vec::<Proposal>::new();
    for mode in [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK] {
        // No proposals are an answer too.
        for engine in part.heuristics(mode, false).unwrap_or_default() {
            if proposals.iter().any(|known| known.engine == engine) {
                continue;
            }
            if let Ok(plan) = MicroPlan::new(&mut part, &engine) {
                proposals.push(Proposal { batch: size, engine, workspace: plan.workspace(problem, size) });
            }
        }
    }
    Ok(proposals)
}
