//! Enumerates a problem's candidates: engines that run it in micro-batches of several sizes. This takes long, for cuDNN's
//! heuristics.

use std::collections::HashMap;

use cudnn_abi::*;

use super::micro_plan::MicroBatch;
use super::our_candidates;
use super::probe::{self, Candidates, Probe};
use crate::engines::Priority;
use crate::problem::graph::EngineConfiguration;
use cudnn::convolution::Direction;
use gpu::background;

/// The number of engines on copies to try at a micro-batch size: they differ little.
const ENOUGH_CONVERTED: usize = 2;
/// An engine has enough workspace if it fits parts of 1 / `ROOMY` of the mini-batch or more. On smaller parts, our
/// engines without workspace may be faster: at a limit of 0, they were in 13 problems of ResNet-50 in half, by 1.4 to
/// 6.6 times, and in 11 in TF32.
const ROOMY: usize = 2;
/// The factor between sizes at which the heuristics are queried.
pub const ASKED_EVERY: usize = 4;

/// How far down the heuristics' lists to look.
struct Depth {
    /// The number of engines of a list to look at.
    looked_at: usize,
    /// The number of fitting engines that is enough at a micro-batch size.
    enough: usize,
    /// Set to query the heuristics again for smaller sizes.
    asks_again: bool,
}

/// The heuristics' proposals at each queried size: for the tensors as stored, and for copies.
#[derive(Default)]
struct Proposals {
    known: HashMap<usize, [Vec<EngineConfiguration>; 2]>,
}

impl Proposals {
    fn at(&mut self, probe: &Probe, of: &mut MicroBatch) -> &[Vec<EngineConfiguration>; 2] {
        self.known.entry(of.batch()).or_insert_with(|| {
            let as_stored = probe::heuristics(probe, of, CUDNN_HEUR_MODE_A);
            let on_copies = probe::heuristics_on_copies(probe, of, &as_stored);
            [as_stored, on_copies]
        })
    }
}

/// Probes candidates at the micro-batch sizes: the requested engine, our engines, and the heuristics' proposals, for
/// copies of the tensors too. If no tensor core engine has enough workspace ([`ROOMY`]), our engines without workspace
/// follow. If nothing fits in large parts, all other engines follow. There is an exception: if our engine computes a
/// filter's gradient, or runs on warpgroups, small parts and these other engines are not probed. Where a problem is one
/// product, nothing else is.
///
/// If the heuristics' best engine fits undivided, few are tried: parts win little there, the third engine of a list
/// wins nothing (3% in one of 68 problems of ResNet-50 in half), and each engine's code stays in the device's memory.
/// Otherwise, too, a list is not tried to its end: the engines far down need no workspace but take some ten times as
/// long, and would use up the budget of exploring.
pub fn collect(
    probe: &Probe,
    is_here: bool,
    requested: Option<&EngineConfiguration>,
    sizes: &[usize],
    candidates: &mut Candidates,
) {
    const WITH_ROOM: Depth = Depth { looked_at: 8, enough: 2, asks_again: false };
    const FIRST: Depth = Depth { looked_at: 8, enough: 4, asks_again: true };
    const ALL: Depth = Depth { looked_at: usize::MAX, ..FIRST };
    let requested: Vec<_> = requested.copied().into_iter().collect();
    let of_all = &mut probe.micro_batch(probe.problem.batch());
    candidates.finalize_first(probe, of_all, &requested, 1);
    let limit = probe.budget.limit;
    let mut is_on_warpgroups = false;
    if is_here {
        let product: Vec<_> = our_candidates::at_once(probe).into_iter().collect();
        if candidates.finalize_first(probe, of_all, &product, 1) > 0 {
            return;
        }
        let engines = our_candidates::of_priority(Priority::OnWarpgroups, probe, limit);
        is_on_warpgroups = candidates.finalize_first(probe, of_all, &engines, 1) > 0;
        candidates.finalize_first(probe, of_all, &our_candidates::of_priority(Priority::Fast, probe, limit), 1);
    }
    let mut proposals = Proposals::default();
    let best = proposals.at(probe, of_all)[0].first().copied();
    let depth = if candidates.finalize_first(probe, of_all, best.as_slice(), 1) > 0 { &WITH_ROOM } else { &FIRST };
    // Our engine is faster than cuDNN's engines in small parts, so we skip these: there are hundreds. This holds
    // for gradients of filters (all 23 of ResNet-50 at a limit of 0), and for all engines on warpgroups.
    let is_gradient = probe.problem.convolution().direction == Direction::BackwardFilter;
    let is_found = is_on_warpgroups || is_gradient && candidates.has_ours();
    let large = sizes.iter().take_while(|&&size| probe.is_large(size)).count();
    let sizes = if is_found { &sizes[..large] } else { sizes };
    let have_room = collect_to(depth, probe, &mut proposals, &requested, sizes, candidates);
    if is_here && !candidates.has_tensor_cores(probe.problem.batch().div_ceil(ROOMY)) {
        candidates.finalize_first(probe, of_all, &our_candidates::of_priority(Priority::Slow, probe, limit), 1);
    }
    if !have_room && !is_found {
        collect_to(&ALL, probe, &mut proposals, &requested, sizes, candidates);
        let fallback = probe::heuristics(probe, of_all, CUDNN_HEUR_MODE_FALLBACK);
        candidates.finalize_first(probe, of_all, &fallback, 1);
    }
}

/// Probes candidates at the micro-batch sizes, the largest first. At each size: the proposals for that size or for the
/// next larger queried size, and those for the whole mini-batch. Returns whether any of them fits in large parts.
fn collect_to(
    depth: &Depth,
    probe: &Probe,
    proposals: &mut Proposals,
    requested: &[EngineConfiguration],
    sizes: &[usize],
    candidates: &mut Candidates,
) -> bool {
    let Depth { looked_at, enough, asks_again } = *depth;
    let batch = probe.problem.batch();
    let [whole, on_copies] = proposals.at(probe, &mut probe.micro_batch(batch)).clone();
    let (mut asked, mut proposed, mut converted) = (batch, whole.clone(), on_copies);
    let mut have_room = false;
    for &size in sizes {
        if background::stopped() {
            return true;
        }
        let is_large = probe.is_large(size);
        let of = &mut probe.micro_batch(size);
        // Proposals for small parts bring yet other engines, whose code takes time to load.
        if asks_again && size <= asked / ASKED_EVERY && (is_large || !have_room) {
            asked = size;
            [proposed, converted] = proposals.at(probe, of).clone();
        }
        candidates.finalize_first(probe, of, requested, 1);
        let mut offer = |engines: &[EngineConfiguration], enough| {
            candidates.finalize_first(probe, of, &engines[..engines.len().min(looked_at)], enough)
        };
        let found = offer(&converted, ENOUGH_CONVERTED) + offer(&proposed, enough) + offer(&whole, enough / 2);
        have_room |= is_large && found > 0;
    }
    have_room
}
