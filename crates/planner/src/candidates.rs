//! The configurations to time in place, and the choice among them. A predicted sum is only a model: splitting costs
//! launches and changes the cache's contents.

use std::cmp::Reverse;

use super::{
    Configuration, MicroConfiguration,
    division::{Division, configuration, grain, usable},
    workspace_reuse,
};

/// Times this close, as a fraction of the best, count as equal.
pub const TIE: f64 = 0.02;

/// At most `count` configurations of `batch` images within `limit` bytes, predicted times ascending. The candidates are
/// the fastest configuration for each size of the largest micro-batch. [`workspace_reuse`]'s answer comes first. If
/// `count` is at least 2 and the undivided mini-batch fits, it is always included.
pub fn best_configurations<A: Clone>(
    batch: usize,
    micro: &[MicroConfiguration<A>],
    limit: usize,
    count: usize,
) -> Vec<Configuration<A>> {
    let Some(best) = workspace_reuse(batch, micro, limit) else { return Vec::new() };
    let best_size = largest(&best);
    let mut usable = usable(batch, micro, limit);
    usable.sort_by_key(|part| (part.size, part.time, part.workspace));
    usable.dedup_by_key(|part| part.size);

    let mut division = Division::of(batch);
    let mut found = vec![best];
    for part in usable {
        division.add(part.size, part.time, part.index);
        let rest = division.whole() - part.size;
        if part.size * grain(batch) == best_size || !division.least(rest).is_reachable() {
            continue;
        }
        // exactly this largest size: one part of it, even if smaller parts would be faster
        let mut parts = division.parts(rest);
        match parts.first_mut() {
            Some((count, index)) if *index == part.index => *count += 1,
            _ => parts.insert(0, (1, part.index)),
        }
        found.push(configuration(&parts, micro));
    }
    found.sort_by_cached_key(|found| (found.ticks(), found.workspace(), found.len(), Reverse(largest(found))));
    let undivided = found.iter().position(Configuration::is_undivided).filter(|&at| at >= count && count >= 2);
    if let Some(at) = undivided {
        found.swap(at, count - 1);
    }
    found.truncate(count);
    found
}

fn largest<A>(configuration: &Configuration<A>) -> usize {
    configuration.parts().first().map_or(0, |(_, micro)| micro.batch)
}

/// The candidate with the least `cost` (its workspace, or that and a tie-breaker) among those with a time within
/// [`TIE`] of the best. Equal costs go to the fastest, then to the first. Works on predicted and on measured times.
/// Skips candidates with a time that is negative, infinite or not a number.
pub fn prefer_small<T, C: Ord>(candidates: &[T], time: impl Fn(&T) -> f64, cost: impl Fn(&T) -> C) -> Option<&T> {
    let timed = || candidates.iter().map(|it| (time(it), it)).filter(|(time, _)| time.is_finite() && *time >= 0.0);
    let best = timed().map(|(time, _)| time).min_by(f64::total_cmp)?;
    let close = timed().filter(|(time, _)| *time <= best * (1.0 + TIE));
    let least = close.min_by(|(s, a), (t, b)| cost(a).cmp(&cost(b)).then(s.total_cmp(t)));
    least.map(|(_, candidate)| candidate)
}
