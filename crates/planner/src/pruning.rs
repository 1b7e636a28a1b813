use super::{
    MicroConfiguration, WorkspaceBudget, best_within,
    division::{Cost, Division, in_grains, usable},
    time,
};

/// A slack of 1 in fixed point, which makes bounds exact and rounds them down.
const SLACK_ONE: u64 = 1 << 32;
/// The most groups of limits that [`can_be_desirable`] distinguishes.
const MOST_LEVELS: usize = 64;

/// Returns, for each of the `untimed` (micro-batch size, algorithm), whether it is still worth timing for a mini-batch
/// of `batch` under `limit` bytes, given `timed`: true if a configuration with it may beat the best one so far.
///
/// **Assumption**, with `slack` in 0…1: an algorithm takes at least `slack` times as long at one size as at a smaller
/// one, and at least `slack` times as long per image as at a larger one. With a slack of 1, more images take longer in
/// total and no longer each. A smaller slack tolerates noise, and small micro-batches that profit from the cache.
///
/// **Bound.** The times so far thus give each untimed micro-configuration a least time t̲, zero if its algorithm was
/// never timed. Let T̲(b) be Workspace Reuse over the timed ones at their times and the untimed ones at their least
/// times. A configuration with a part of size s takes at least t̲ + T̲(B − s). If that is not below the best time so
/// far, timing the part cannot lower the optimum, whatever the other measurements are. So every false entry can be
/// dropped at once and for good, as long as the assumption holds.
///
/// The bounds become effective once each algorithm has been timed at the largest size where it fits, so time those
/// first. `timed` may include micro-configurations over the limit, which only serve the bounds. List only those
/// `untimed` that fit, because their workspaces are not known here.
pub fn can_win<A: PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    limit: usize,
    untimed: &[(usize, A)],
    slack: f64,
) -> Vec<bool> {
    let mut division = Division::of(batch);
    for part in usable(batch, timed, limit) {
        division.add(part.size, part.time, part.index);
    }
    let best = division.least(division.whole());
    worth_timing(batch, timed, untimed, slack, best, division)
}

/// Like [`can_win`], within a budget that depends on the position. List only those that fit at the beginning, while all
/// other images are still to be computed.
pub fn can_win_within<A: Clone + PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    room: WorkspaceBudget,
    untimed: &[(usize, A)],
    slack: f64,
) -> Vec<bool> {
    let best = best_within(batch, timed, room, 1);
    let best = best.first().map_or(Cost::UNREACHABLE, |best| Cost { time: best.ticks(), parts: best.len() as u32 });
    // The bound uses only the first position's budget.
    let mut bound = Division::of(batch);
    for part in usable(batch, timed, usize::MAX) {
        let micro = &timed[part.index];
        if micro.workspace <= room.before(batch - micro.batch) {
            bound.add(part.size, part.time, part.index);
        }
    }
    worth_timing(batch, timed, untimed, slack, best, bound)
}

/// Returns which of the `untimed` may be part of a configuration that beats `best`. `bound` is T over the timed.
fn worth_timing<A: PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    untimed: &[(usize, A)],
    slack: f64,
    best: Cost,
    mut bound: Division,
) -> Vec<bool> {
    let slack = (slack * SLACK_ONE as f64) as u64; // NaN and negative numbers become 0
    let slack = slack.min(SLACK_ONE);
    let least: Vec<Option<(usize, u64)>> = untimed
        .iter()
        .map(|(size, algorithm)| Some((in_grains(*size, batch)?, least_time(timed, *size, algorithm, slack))))
        .collect();
    for &(size, time) in least.iter().flatten() {
        bound.add(size, time, usize::MAX);
    }
    least.into_iter().map(|least| least.is_some_and(|(size, time)| beats(best, &bound, size, time))).collect()
}

/// Like [`can_win`], for every limit up to `limit` at once: returns which of the `untimed` (micro-batch size,
/// algorithm, bytes of workspace) may still change the desirable set within `limit`.
///
/// Both the best time and the bound fall as limits grow, and only at limits that equal some workspace. More than
/// [`MOST_LEVELS`] limits are taken in groups: the best time under a group's smallest limit against the bound under its
/// largest. So grouping may keep more than exact limits would, but never less.
pub fn can_be_desirable<A: PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    limit: usize,
    untimed: &[(usize, A, usize)],
    slack: f64,
) -> Vec<bool> {
    let slack = ((slack * SLACK_ONE as f64) as u64).min(SLACK_ONE);
    let mut known = usable(batch, timed, limit);
    known.sort_by_key(|part| part.workspace);
    let mut open: Vec<(usize, usize, u64, usize)> = (untimed.iter().enumerate())
        .filter(|(_, (_, _, workspace))| *workspace <= limit)
        .filter_map(|(index, (size, algorithm, workspace))| {
            Some((*workspace, in_grains(*size, batch)?, least_time(timed, *size, algorithm, slack), index))
        })
        .collect();
    open.sort_unstable_by_key(|(workspace, ..)| *workspace);
    let mut levels: Vec<usize> = known.iter().map(|part| part.workspace).chain(open.iter().map(|it| it.0)).collect();
    levels.sort_unstable();
    levels.dedup();

    let (mut best, mut bound) = (Division::of(batch), Division::of(batch));
    let (mut in_best, mut in_bound, mut in_open) = (0, 0, 0);
    let mut wins = vec![false; untimed.len()];
    for group in levels.chunks(levels.len().div_ceil(MOST_LEVELS).max(1)) {
        let (smallest, largest) = (group[0], group[group.len() - 1]);
        while let Some(part) = known.get(in_best).filter(|part| part.workspace <= smallest) {
            best.add(part.size, part.time, part.index);
            in_best += 1;
        }
        while let Some(part) = known.get(in_bound).filter(|part| part.workspace <= largest) {
            bound.add(part.size, part.time, part.index);
            in_bound += 1;
        }
        while let Some((_, size, time, _)) = open.get(in_open).filter(|it| it.0 <= largest) {
            bound.add(*size, *time, usize::MAX);
            in_open += 1;
        }
        let to_beat = best.least(best.whole());
        for &(_, size, time, index) in &open[..in_open] {
            wins[index] |= beats(to_beat, &bound, size, time);
        }
    }
    wins
}

/// Returns true if a configuration may be faster than `best` when one part of `size` takes `time` and all other parts
/// take the `bound`.
fn beats(best: Cost, bound: &Division, size: usize, time: u64) -> bool {
    let rest = bound.least(bound.whole() - size);
    rest.is_reachable() && (!best.is_reachable() || time.saturating_add(rest.time) < best.time)
}

/// The least time, in ticks, of `algorithm` at `size` images under [`can_win`]'s assumption.
fn least_time<A: PartialEq>(timed: &[MicroConfiguration<A>], size: usize, algorithm: &A, slack: u64) -> u64 {
    let bound = |known: &MicroConfiguration<A>| {
        let time = time::ticks(known.time).filter(|_| known.batch > 0 && known.algorithm == *algorithm)?;
        // bounded by the rate at a larger size, and by the time at a smaller one
        let scaled = time as u128 * size.min(known.batch) as u128 / known.batch as u128;
        Some((scaled * slack as u128 / SLACK_ONE as u128) as u64)
    };
    timed.iter().filter_map(bound).max().unwrap_or(0)
}
