use super::{
    MicroConfiguration,
    division::{Division, in_grains, usable},
    time,
};

/// A slack of 1 in fixed point, so that bounds are exact and round down.
const SLACK_ONE: u64 = 1 << 32;

/// Which of the `untimed` (micro-batch size, algorithm) are still worth timing for a mini-batch of `batch` under
/// `limit` bytes, after `timed`: true where a configuration with it may beat the best one so far.
///
/// **Assumption**, with `slack` in 0…1: no algorithm takes less time at one size than `slack` times what it takes at a
/// smaller one, nor less time per image than `slack` times what it takes per image at a larger one. At 1 it is that
/// more images take longer in all and no longer each; below 1 it leaves room for noise, and for small
/// micro-batches that profit from staying in the cache.
///
/// **Bound.** So the times so far give each untimed micro-configuration a least time t̲; zero if its algorithm was
/// never timed. Let T̲(b) be Workspace Reuse over the timed at their times and the untimed at their least. A
/// configuration with a part of size s takes at least t̲ + T̲(B − s); where that is no less than the best so far, timing
/// it cannot lower the optimum, whatever the other measurements will be. So all that are false may be dropped, at once and
/// for good, as long as the assumption holds.
///
/// Bounds start to bite when each algorithm has been timed at the largest size where it fits: time those first.
/// `timed` may hold micro-configurations over the limit; they serve the bounds. Workspaces of the untimed are not known
/// here: list only those that fit.
pub fn can_win<A: PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    limit: usize,
    untimed: &[(usize, A)],
    slack: f64,
) -> Vec<bool> {
    let slack = (slack * SLACK_ONE as f64) as u64; // a NaN or less than 0 becomes 0
    let slack = slack.min(SLACK_ONE);
    let mut division = Division::of(batch);
    for part in usable(batch, timed, limit) {
        division.add(part.size, part.time, part.index);
    }
    let whole = division.whole();
    let best = division.least(whole);

    let least: Vec<Option<(usize, u64)>> = untimed
        .iter()
        .map(|(size, algorithm)| Some((in_grains(*size, batch)?, least_time(timed, *size, algorithm, slack))))
        .collect();
    for &(size, time) in least.iter().flatten() {
        division.add(size, time, usize::MAX);
    }
    let wins = |(size, time): (usize, u64)| {
        let rest = division.least(whole - size);
        rest.is_reachable() && (!best.is_reachable() || time.saturating_add(rest.time) < best.time)
    };
    least.into_iter().map(|least| least.is_some_and(wins)).collect()
}

/// The least time, in ticks, that `algorithm` may take at `size` images under [`can_win`]'s assumption.
fn least_time<A: PartialEq>(timed: &[MicroConfiguration<A>], size: usize, algorithm: &A, slack: u64) -> u64 {
    let bound = |known: &MicroConfiguration<A>| {
        let time = time::ticks(known.time).filter(|_| known.batch > 0 && known.algorithm == *algorithm)?;
        // at a larger size its rate, at a smaller one its time
        let scaled = time as u128 * size.min(known.batch) as u128 / known.batch as u128;
        Some((scaled * slack as u128 / SLACK_ONE as u128) as u64)
    };
    timed.iter().filter_map(bound).max().unwrap_or(0)
}
