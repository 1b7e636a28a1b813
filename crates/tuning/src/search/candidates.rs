//! Questions about a list of candidates that nobody has timed.

use std::ops::Range;

use planner::{Configuration, MicroConfiguration};

use super::Candidate;

/// Returns the limits that leave the same candidates as `limit` does.
pub fn covers<A>(candidates: &[Candidate<A>], limit: usize) -> Range<usize> {
    let workspaces = || candidates.iter().map(|candidate| candidate.workspace);
    let from = workspaces().filter(|&workspace| workspace <= limit).max().unwrap_or(0);
    let below = workspaces().filter(|&workspace| workspace > limit).min().unwrap_or(usize::MAX);
    from..below
}

/// Returns some configuration of the mini-batch from untimed candidates: it repeats the first candidate that still
/// fits. `None` if images remain for which none fits.
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
