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
/// has run. If `is_whole`, all images run in micro-batches of the candidate: a call that adds to its result could not be
/// repeated after a failure, and a piece of the requested algorithm may round where the whole does not.
pub fn sampling(
    handle: Handle,
    problem: &Problem,
    candidate: &Candidate,
    own: Algorithm,
    limit: usize,
    is_whole: bool,
) -> Option<Vec<(usize, MicroConfiguration<Algorithm>)>> {
    let Candidate { batch, algorithm, workspace } = *candidate;
    let count = (problem.batch() / batch).min(SAMPLES);
    let rest = problem.batch() - count * batch;
    let micro = MicroConfiguration { batch, algorithm, time: 0.0, workspace };
    if rest == 0 {
        return Some(vec![(count, micro)]);
    }
    match requested(handle, problem, rest, own, limit).filter(|_| !is_whole) {
        Some(rest) => Some(vec![(count, micro), (1, rest)]),
        None => problem.batch().is_multiple_of(batch).then(|| vec![(problem.batch() / batch, micro)]),
    }
}

/// Returns the parts of a look at an algorithm: one micro-batch, then the other images in one piece with the requested
/// algorithm. `None` if that piece does not fit into `limit` bytes.
pub fn look(
    handle: Handle,
    problem: &Problem,
    look: &Candidate,
    own: Algorithm,
    limit: usize,
) -> Option<Vec<(usize, MicroConfiguration<Algorithm>)>> {
    let Candidate { batch, algorithm, workspace } = *look;
    let rest = requested(handle, problem, problem.batch() - batch, own, limit)?;
    Some(vec![(1, MicroConfiguration { batch, algorithm, time: 0.0, workspace }), (1, rest)])
}

/// A piece of some images on the requested algorithm. `None` if it does not fit into `limit` bytes.
fn requested(
    handle: Handle,
    problem: &Problem,
    images: usize,
    own: Algorithm,
    limit: usize,
) -> Option<MicroConfiguration<Algorithm>> {
    let descriptors = OwnedDescriptors::new(&problem.with_batch(images), own.math_type).ok()?;
    let needed = descriptors.raw().workspace_size(handle, own.id);
    let workspace = needed.map_or(usize::MAX, |needed| divided_workspace(problem, needed));
    (workspace <= limit).then_some(MicroConfiguration { batch: images, algorithm: own, time: 0.0, workspace })
}
