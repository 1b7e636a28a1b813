//! Our own engines as candidates beside cuDNN's.

use cudnn_abi::*;

use super::our_engine::{configuration, read};
use super::probe::{Candidates, Probe};
use crate::engines::{Convolution, ENGINES, Numerics, Priority, Row};
use crate::problem::graph::{Class, EngineConfiguration, Problem};
use cudnn::convolution::Direction;

/// Returns our engines that compute the problem, by priority. Those that are not on warpgroups take at most `limit`
/// bytes of workspace.
pub fn by_priority(probe: &Probe, limit: usize) -> [Vec<EngineConfiguration>; 3] {
    [Priority::OnWarpgroups, Priority::Fast, Priority::Slow].map(|priority| of_priority(priority, probe, limit))
}

/// Finalizes the best engine of each priority for the whole mini-batch, see [`by_priority`].
pub fn finalize_all(found: &mut Candidates, probe: &Probe, limit: usize) {
    let whole = &mut probe.micro_batch(probe.problem.batch());
    for ours in by_priority(probe, limit) {
        found.finalize_first(probe, whole, &ours, 1);
    }
}

/// The multiply-adds from which on a product needs no trial. With fewer, cuDNN's choices take little time, too.
const LEAST_AT_ONCE: usize = 1 << 24;
/// The bytes of workspace that a product of patches may take where the program's own plan needs less.
const MOST_BEYOND: usize = 16 << 20;

/// Returns the engine that computes the problem as a product, if its filter covers the image or the problem is a patch
/// embedding, and it is no small one. Nothing that a trial could find is faster by much: cuDNN's choices took 4 to 160
/// times as long on an H100 where the filter covers the image, and 5 to 15 times as long as the product in patch
/// embeddings. There is an exception: the input gradient of an embedding in floats took 0.8 to 1.05 times as long by
/// cuDNN, so trials decide.
pub fn at_once(probe: &Probe) -> Option<EngineConfiguration> {
    product(probe.problem, probe.class, probe.budget.limit)
}

/// Returns the workspace to report for a program's plan that needs `own` bytes: a plan that needs none gets enough for
/// the product that [`at_once`] would find with it. A program that allocates none all the same executes its own plan.
/// Plans that need some report that: a program may know the size from their engine's configuration.
pub fn workspace_at_once(problem: &Problem, class: Class, own: usize) -> usize {
    let needs_more = || product(problem, class, own).is_none() && product(problem, class, MOST_BEYOND).is_some();
    if own == 0 && needs_more() { MOST_BEYOND } else { own }
}

/// [`at_once`] within a limit.
fn product(problem: &Problem, class: Class, limit: usize) -> Option<EngineConfiguration> {
    let of = read(problem, is_exact(problem, class)).ok()?;
    let counts = [of.images, of.inputs, of.outputs].into_iter().chain(of.y).chain(of.filter);
    let is_large = counts.fold(1, usize::saturating_mul) >= LEAST_AT_ONCE;
    let is_close = of.is_exact && of.direction == Direction::BackwardData;
    if !is_large || !(of.covers_image() || of.is_patch_embedding() && !is_close) {
        return None;
    }
    let is_product =
        |engine: &EngineConfiguration| ENGINES.iter().any(|row| row.number == engine.engine && row.is_product);
    let within = |limit| offered(Priority::Fast, &of, class, limit).find(is_product);
    let found = within(limit)?;
    // With little workspace, patches take many launches of few images: trials decide then.
    let has_room = of.covers_image() || limit >= MOST_BEYOND || within(MOST_BEYOND) == Some(found);
    has_room.then_some(found)
}

/// Returns our engines of a priority, the best first, if they compute the problem on the calling thread's device and
/// the class admits them. They need no micro-batches.
///
/// 0 × Inf and 0 × NaN are NaN, so an Inf or NaN in x may reach unrelated places of a result. Exact float products make
/// NaN of Inf, and of floats of 2¹²⁸ - 2¹¹⁶ and more. Classes with IEEE 754 NaN propagation exclude these engines, except
/// products without padding.
pub fn of_priority(priority: Priority, probe: &Probe, limit: usize) -> Vec<EngineConfiguration> {
    match read(probe.problem, is_exact(probe.problem, probe.class)) {
        Ok(of) => offered(priority, &of, probe.class, limit).collect(),
        Err(refusal) => {
            log::debug!("no engine of ours computes {}, because of {}", probe.problem, refusal.0);
            vec![]
        }
    }
}

/// Those of [`of_priority`] for a convolution.
fn offered(
    priority: Priority,
    of: &Convolution,
    class: Class,
    limit: usize,
) -> impl Iterator<Item = EngineConfiguration> {
    let (of, device) = (of.simplified(), cudnn::device());
    let of_row = move |row: &'static Row| {
        let choices = row.choices(device, &of, priority, limit).into_iter();
        choices.map(|knobs| configuration(row, knobs))
    };
    ENGINES.iter().flat_map(of_row).filter(move |engine| class.admits(engine))
}

/// Returns whether floats are to be multiplied exactly.
fn is_exact(problem: &Problem, class: Class) -> bool {
    let x = &problem.tensors[problem.convolution().x];
    // NVIDIA's libraries obey this variable too.
    let is_overridden = std::env::var_os("NVIDIA_TF32_OVERRIDE").is_some_and(|it| it == "0");
    let mut on_tensor_cores = ENGINES.iter().filter(|row| row.numerics == Numerics::OnTensorCores);
    let is_admitted = on_tensor_cores.any(|row| class.admits(&configuration(row, vec![])));
    x.data_type == CUDNN_DATA_FLOAT && (is_overridden || !is_admitted)
}
