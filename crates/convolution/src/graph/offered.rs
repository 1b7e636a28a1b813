//! What cuDNN offers for a kernel's micro-batches, asked ahead of any program and, by a device's properties, on a machine
//! that need not have one.

use cudnn_abi::*;

use super::micro_plan::{MicroBatch, MicroPlan};
use super::offers;
use crate::problem::graph::{EngineConfiguration, Kernel};
use cudnn::graph::Target;
use planner::BatchSizePolicy;

/// An engine's configuration that runs micro-batches of a size.
pub struct Offer {
    /// Images of a micro-batch.
    pub batch: usize,
    /// What computes it.
    pub engine: EngineConfiguration,
    /// Bytes that it takes as a part of the mini-batch, or as all of it. Sums over micro-batches are included.
    pub workspace: usize,
}

/// The micro-batch sizes that a kernel is cut into, the largest first.
pub fn sizes(kernel: &Kernel, policy: BatchSizePolicy) -> Vec<usize> {
    offers::sizes(kernel, policy)
}

/// All that heuristics propose for micro-batches of `size` and that finalizes, in their order: first those of mode A,
/// then of mode FALLBACK. `Err` where cuDNN refuses the operation graph itself.
pub fn offers(kernel: &Kernel, target: &Target, size: usize) -> Result<Vec<Offer>, cudnnStatus_t> {
    let mut part = MicroBatch::new(kernel, size, target);
    part.check()?;
    let mut offers = Vec::<Offer>::new();
    for mode in [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK] {
        // That none is proposed is an answer too.
        for engine in part.heuristics(mode, false).unwrap_or_default() {
            if offers.iter().any(|known| known.engine == engine) {
                continue;
            }
            if let Ok(plan) = MicroPlan::new(&mut part, &engine) {
                offers.push(Offer { batch: size, engine, workspace: plan.workspace(kernel, size) });
            }
        }
    }
    Ok(offers)
}
