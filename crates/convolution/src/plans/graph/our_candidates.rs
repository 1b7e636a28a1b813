//! Our own engines as candidates beside cuDNN's.

use cudnn_abi::*;

use super::our_engine::{configuration, read};
use super::probe::{Candidates, Probe};
use crate::engines::{Convolution, ENGINES, Numerics, Priority, Row};
use crate::problem::graph::{Class, EngineConfiguration, Problem};
use cudnn::convolution::Direction;
use guest::kept_sizes;

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

/// The multiply-adds from which on a product needs no trial, and a plan without workspace gets some. With fewer, cuDNN's
/// choices take little time, too.
const LEAST_LARGE: usize = 1 << 24;
/// The bytes of workspace that a large convolution may take where the program's own plan needs none.
const MOST_BEYOND: usize = 16 << 20;
/// With fewer multiply-adds than this, embeddings of flat patches and gradients of their filters need trials: cuDNN's
/// choices took 0.7 to 1 times as long as the copies and the product on an H200. Input gradients and patches of volumes
/// took up to 1,000 times as long by cuDNN.
const LEAST_OF_FLAT_PATCHES: usize = 1 << 30;
/// The gradient of a filter with fewer values than this needs trials: its product has too few tiles for a GPU. That of
/// 96 × 48 values took 4.4 times as long as cuDNN's choice on an H200.
const LEAST_FILTER: usize = 1 << 15;

/// Returns the engine that computes the problem as a product, if its filter covers the image or the problem is a patch
/// embedding, and it is no small one. Nothing that a trial could find is faster by much: cuDNN's choices took 4 to 160
/// times as long on an H100 where the filter covers the image, and 5 to 15 times as long as the product in patch
/// embeddings. There are exceptions in which trials decide: the input gradient of an embedding in floats, which took 0.8
/// to 1.05 times as long by cuDNN, and small products otherwise.
pub fn at_once(probe: &Probe) -> Option<EngineConfiguration> {
    product(probe.problem, probe.class, probe.budget.limit)
}

/// Returns the workspace to report for a program's plan that needs `own` bytes: a plan of a large convolution that needs
/// none gets some. Within nothing, few engines run: in a sweep over convolutions of networks, cuDNN's choices without
/// workspace took up to 230 times their bound on an H200. A program that allocates none all the same executes its own
/// plan. Plans that need some report that: a program may know the size from their engine's configuration. All plans do
/// where sizes may be kept from an earlier process.
pub fn workspace_to_report(problem: &Problem, own: usize) -> usize {
    let is_beyond = own == 0 && multiply_adds(problem) >= LEAST_LARGE && !kept_sizes::are_possible();
    if is_beyond { MOST_BEYOND } else { own }
}

/// Returns the multiply-adds of a convolution.
fn multiply_adds(problem: &Problem) -> usize {
    let convolution = problem.convolution();
    let sizes = |place: usize| problem.tensors[place].dims.iter().map(|&size| size as usize);
    // An element of y is a sum over one of the filter's outputs, whose number is the filter's first size.
    sizes(convolution.y).chain(sizes(convolution.w).skip(1)).fold(1, usize::saturating_mul)
}

/// Returns whether the product runs without a trial.
fn needs_no_trial(of: &Convolution, multiply_adds: usize) -> bool {
    let is_small = of.filter[0] == 1 && multiply_adds < LEAST_OF_FLAT_PATCHES;
    let has_small_filter = || of.filter.iter().product::<usize>() * of.inputs * of.outputs < LEAST_FILTER;
    let is_near = match of.direction {
        Direction::Forward => is_small,
        Direction::BackwardData => of.is_exact,
        Direction::BackwardFilter => is_small || has_small_filter(),
    };
    multiply_adds >= LEAST_LARGE && (of.covers_image() || of.is_patch_embedding() && !is_near)
}

/// [`at_once`] within a limit.
fn product(problem: &Problem, class: Class, limit: usize) -> Option<EngineConfiguration> {
    let of = read(problem, is_exact(problem, class)).ok()?;
    if !needs_no_trial(&of, multiply_adds(problem)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::Element;

    /// An embedding of 64 images, and its multiply-adds. The images have three channels, and eight patches on each axis.
    fn embedding(direction: Direction, is_exact: bool, filter: [usize; 3], outputs: usize) -> (Convolution, usize) {
        let x = filter.map(|size| if size == 1 { 1 } else { 8 * size });
        let y = [0, 1, 2].map(|axis| x[axis] / filter[axis]);
        let of = Convolution {
            element: Element::Float,
            is_exact,
            direction,
            images: 64,
            inputs: 3,
            outputs,
            groups: 1,
            x,
            y,
            filter,
            stride: filter,
            padding: [0; 3],
            dilation: [1; 3],
        };
        (of, 64 * 3 * outputs * x.iter().product::<usize>())
    }

    #[test]
    fn small_embeddings_are_left_to_trials() {
        let is_at_once = |(of, multiply_adds)| needs_no_trial(&of, multiply_adds);
        use Direction::{BackwardData, BackwardFilter, Forward};
        let (flat, of_volumes) = ([1, 16, 16], [2, 4, 4]);
        // 64 x 3 x 128 x 128 multiply-adds for each output.
        for direction in [Forward, BackwardFilter] {
            assert!(is_at_once(embedding(direction, true, flat, 342)), "{direction:?}");
            assert!(!is_at_once(embedding(direction, true, flat, 341)), "{direction:?}");
        }
        assert!(is_at_once(embedding(BackwardData, false, flat, 6)));
        // 64 x 3 x 16 x 32 x 32 for each output, and 96 values of the filter.
        assert!(is_at_once(embedding(BackwardData, false, of_volumes, 6)));
        assert!(!is_at_once(embedding(BackwardData, false, of_volumes, 5)));
        assert!(!is_at_once(embedding(BackwardData, true, of_volumes, 600)), "floats, exactly");
        assert!(is_at_once(embedding(BackwardFilter, false, of_volumes, 342)));
        assert!(!is_at_once(embedding(BackwardFilter, false, of_volumes, 341)), "a small filter");
    }
}
