//! A division in whole bytes and ticks, by dynamic programming.
//!
//! Goes layer by layer, and extends each division of the layers so far by every alternative of the next layer. Drops a
//! division if another beats it in both time and workspace, or if it cannot be faster than the best one known even when
//! the remaining layers take their bound. The divisions left may still grow without limit, so there is a maximum.

use super::fronts::{Counts, Fronts, Point};
use super::relaxation::{ROUNDING, least_priced};

/// The most divisions of some of the layers to keep: some megabytes, and some milliseconds.
const MOST_KEPT: usize = 1 << 17;

/// A division of the layers so far.
#[derive(Clone, Copy)]
struct Partial {
    workspace: usize,
    /// In ticks.
    time: u64,
    /// The index of its division of all layers but the last, among those kept.
    before: u32,
    /// The last layer's point.
    point: u32,
}

/// The fastest division with at most `most` layers at each point, or `best` if none is faster. `most` comes from
/// [`super::relaxation::most`] for `best` at this `price`. `None` if it would take too long.
pub(super) fn fastest(fronts: &Fronts, price: f64, most: &Counts, best: &Counts) -> Option<Counts> {
    let limit = u64::try_from(fronts.time(best)).ok()?;
    let mut rest_least = fronts.workspace(&fronts.least()) as usize;
    let mut rest_priced: f64 = fronts.layers().map(|(_, front)| least_priced(front, price)).sum();
    let mut kept: Vec<Vec<Partial>> = vec![vec![Partial { workspace: 0, time: 0, before: 0, point: 0 }]];
    let mut count = 1;
    for (at, front) in fronts.layers() {
        rest_least -= front.points[0].workspace;
        rest_priced -= least_priced(front, price);
        let room = fronts.total - rest_least;
        let points: Vec<(usize, &Point)> = front.points.iter().enumerate().filter(|(i, _)| most[at][*i] > 0).collect();
        let partials = &kept[kept.len() - 1];
        if count + partials.len() * points.len() > MOST_KEPT {
            return None;
        }
        let can_win = |partial: &Partial| {
            let spent = partial.time as f64 + price * partial.workspace as f64 + rest_priced;
            let total = price * fronts.total as f64;
            partial.time < limit && spent - total - ROUNDING * (spent + total) < limit as f64
        };
        let extended = partials.iter().enumerate().flat_map(|(before, partial)| {
            points.iter().filter_map(move |(index, point)| {
                let workspace =
                    partial.workspace.checked_add(point.workspace).filter(|&workspace| workspace <= room)?;
                let time = partial.time.saturating_add(point.time);
                Some(Partial { workspace, time, before: before as u32, point: *index as u32 })
            })
        });
        let mut extended: Vec<Partial> = extended.filter(can_win).collect();
        extended.sort_unstable_by_key(|partial| (partial.workspace, partial.time));
        let mut least = u64::MAX;
        extended.retain(|partial| {
            let faster = partial.time < least;
            least = least.min(partial.time);
            faster
        });
        count += extended.len();
        kept.push(extended);
    }
    // time descends as workspace ascends, so the fastest is the last
    let Some(mut last) = kept.pop()?.pop() else { return Some(best.clone()) };
    let mut counts: Counts = most.iter().map(|front| vec![0; front.len()]).collect();
    for (at, _) in fronts.layers().rev() {
        counts[at][last.point as usize] += 1;
        last = kept.pop()?[last.before as usize];
    }
    Some(counts)
}
