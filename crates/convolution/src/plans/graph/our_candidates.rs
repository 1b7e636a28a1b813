//! Our own engines as candidates beside cuDNN's.

use cudnn_abi::*;

use super::our_engine::{configuration, read};
use super::probe::{Candidates, Probe};
use crate::engines::{ENGINES, Numerics, Priority, Row};
use crate::problem::graph::EngineConfiguration;

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

/// Returns the engine that computes the problem as one product, if its filter covers the image and it is no small one.
/// Nothing that a trial could find is faster by much: cuDNN's choices took 4 to 160 times as long on an H100.
pub fn at_once(probe: &Probe) -> Option<EngineConfiguration> {
    if !read(probe.problem, is_exact(probe)).is_ok_and(|of| of.covers_image()) {
        return None;
    }
    let w = &probe.problem.tensors[probe.problem.convolution().w];
    let is_large = w.values().saturating_mul(probe.problem.batch()) >= LEAST_AT_ONCE;
    let engines = if is_large { of_priority(Priority::Fast, probe, probe.budget.limit) } else { vec![] };
    let is_product =
        |engine: &EngineConfiguration| ENGINES.iter().any(|row| row.number == engine.engine && row.source.is_none());
    engines.into_iter().find(is_product)
}

/// Returns our engines of a priority, the best first, if they compute the problem on the calling thread's device and
/// the class admits them. They need no micro-batches.
///
/// 0 × Inf and 0 × NaN are NaN, so an Inf or NaN in x may reach unrelated places of a result. Exact float products make
/// NaN of Inf, and of floats of 2¹²⁸ - 2¹¹⁶ and more. Classes with IEEE 754 NaN propagation exclude these engines.
pub fn of_priority(priority: Priority, probe: &Probe, limit: usize) -> Vec<EngineConfiguration> {
    let of = match read(probe.problem, is_exact(probe)) {
        Ok(of) => of.simplified(),
        Err(refusal) => {
            log::debug!("no engine of ours computes {}, because of {}", probe.problem, refusal.0);
            return vec![];
        }
    };
    let device = cudnn::device();
    let of_row = |row: &'static Row| {
        let choices = row.choices(device, &of, priority, limit).into_iter();
        choices.map(|knobs| configuration(row, knobs))
    };
    ENGINES.iter().flat_map(of_row).filter(|engine| probe.class.admits(engine)).collect()
}

/// Returns whether floats are to be multiplied exactly.
fn is_exact(probe: &Probe) -> bool {
    let x = &probe.problem.tensors[probe.problem.convolution().x];
    // NVIDIA's libraries obey this variable too.
    let is_overridden = std::env::var_os("NVIDIA_TF32_OVERRIDE").is_some_and(|it| it == "0");
    let mut on_tensor_cores = ENGINES.iter().filter(|row| row.numerics == Numerics::OnTensorCores);
    let is_admitted = on_tensor_cores.any(|row| probe.class.admits(&configuration(row, vec![])));
    x.data_type == CUDNN_DATA_FLOAT && (is_overridden || !is_admitted)
}
