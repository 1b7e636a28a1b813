//! What one execution of a legacy call runs to show how long a candidate takes.

use cudnn_abi::*;
use planner::MicroConfiguration;
use tuning::running::SAMPLES;
use tuning::search;

use crate::exec::divided_workspace;
use crate::problem::{Algorithm, Kernel, OwnedDescriptors};

type Candidate = search::Candidate<Algorithm>;

/// The parts, in running order, that show what a candidate takes: some micro-batches of it, and then
/// the other images in one piece as the program asked, or all in micro-batches where that does not fit
/// into `limit` bytes. `None` where this does not come out even.
///
/// The candidate comes first: if it does not run after all, nothing has been changed yet. The rest is
/// of a size that nobody has run: a call that `adds` to its result has all images in micro-batches of
/// the candidate, since it could not be run anew.
///
/// # Safety
/// The handle is the program's.
pub unsafe fn sampling(
    handle: cudnnHandle_t,
    kernel: &Kernel,
    candidate: &Candidate,
    own: Algorithm,
    limit: usize,
    adds: bool,
) -> Option<Vec<(usize, MicroConfiguration<Algorithm>)>> {
    let Candidate { batch, algorithm, workspace } = *candidate;
    let count = (kernel.batch() / batch).min(SAMPLES);
    let rest = kernel.batch() - count * batch;
    let micro = MicroConfiguration { batch, algorithm, time: 0.0, workspace };
    if rest == 0 {
        return Some(vec![(count, micro)]);
    }
    let descriptors = OwnedDescriptors::new(&kernel.with_batch(rest), own.math_type).ok()?;
    // SAFETY: our own descriptors.
    let needed = unsafe { descriptors.raw().workspace_size(handle, own.id) };
    let workspace = needed.map_or(usize::MAX, |needed| divided_workspace(kernel, needed));
    if adds || workspace > limit {
        return kernel.batch().is_multiple_of(batch).then(|| vec![(kernel.batch() / batch, micro)]);
    }
    let rest = MicroConfiguration { batch: rest, algorithm: own, time: 0.0, workspace };
    Some(vec![(count, micro), (1, rest)])
}
