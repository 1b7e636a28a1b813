//! What one execution of a legacy call runs to show how long a candidate takes.

use cudnn::handle::Handle;
use planner::MicroConfiguration;
use tuning::running::SAMPLES;
use tuning::search;

use crate::plans::legacy::plan::divided_workspace;
use crate::problem::{Algorithm, OwnedDescriptors, Problem};

type Candidate = search::Candidate<Algorithm>;

/// Returns the parts, in running order, that measure a candidate: some micro-batches of it, then the other images in
/// one piece with the requested algorithm. If that piece does not fit into `limit` bytes, all images run in
/// micro-batches of the candidate; `None` if their size does not divide the mini-batch.
///
/// The candidate comes first: if it does not run after all, nothing has changed yet. The rest has a size that nobody
/// has run. A call that `adds` to its result could not be repeated after a failure, so all its images run in
/// micro-batches of the candidate.
pub fn sampling(
    handle: Handle,
    problem: &Problem,
    candidate: &Candidate,
    own: Algorithm,
    limit: usize,
    adds: bool,
) -> Option<Vec<(usize, MicroConfiguration<Algorithm>)>> {
    let Candidate { batch, algorithm, workspace } = *candidate;
    let count = (problem.batch() / batch).min(SAMPLES);
    let rest = problem.batch() - count * batch;
    let micro = MicroConfiguration { batch, algorithm, time: 0.0, workspace };
    if rest == 0 {
        return Some(vec![(count, micro)]);
    }
    let descriptors = OwnedDescriptors::new(&problem.with_batch(rest), own.math_type).ok()?;
    let needed = descriptors.raw().workspace_size(handle, own.id);
    let workspace = needed.map_or(usize::MAX, |needed| divided_workspace(problem, needed));
    if adds || workspace > limit {
        return problem.batch().is_multiple_of(batch).then(|| vec![(problem.batch() / batch, micro)]);
    }
    let rest = MicroConfiguration { batch: rest, algorithm: own, time: 0.0, workspace };
    Some(vec![(count, micro), (1, rest)])
}
