use super::{
    MicroConfiguration, Room, best_within,
    division::{Cost, Division, in_grains, usable},
    time,
};

/// A slack of 1 in fixed point, so that bounds are exact and round down.
const SLACK_ONE: u64 = 1 << 32;
/// How many groups of limits [`can_be_desirable`] tells apart.
const MOST_LEVELS: usize = 64;

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
    let mut division = Division::of(batch);
    for part in usable(batch, timed, limit) {
        division.add(part.size, part.time, part.index);
    }
    let best = division.least(division.whole());
    worth_timing(batch, timed, untimed, slack, best, division)
}

/// As [`can_win`], within a room that depends on the place. List only those that fit at the beginning, while all other
/// images are still to be computed.
pub fn can_win_within<A: Clone + PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    room: Room,
    untimed: &[(usize, A)],
    slack: f64,
) -> Vec<bool> {
    let best = best_within(batch, timed, room, 1);
    let best = best.first().map_or(Cost::UNREACHABLE, |best| Cost { time: best.ticks(), parts: best.len() as u32 });
    // The bound takes no heed of places but the first.
    let mut bound = Division::of(batch);
    for part in usable(batch, timed, usize::MAX) {
        let micro = &timed[part.index];
        if micro.workspace <= room.before(batch - micro.batch) {
            bound.add(part.size, part.time, part.index);
        }
    }
    worth_timing(batch, timed, untimed, slack, best, bound)
}

/// Which of the `untimed` may be part of a configuration that beats the `best`, where `bound` is T over the timed.
fn worth_timing<A: PartialEq>(
    batch: usize,
    timed: &[MicroConfiguration<A>],
    untimed: &[(usize, A)],
    slack: f64,
    best: Cost,
    mut bound: Division,
) -> Vec<bool> {
    let slack = (slack * SLACK_ONE as f64) as u64; // a NaN or less than 0 becomes 0
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

/// As [`can_win`], under every limit up to `limit` at once: which of the `untimed` (micro-batch size, algorithm, bytes of
/// workspace) may still change the desirable set within it.
///
/// The best so far and the bound both fall as limits grow, at no more limits than there are workspaces. More of those than
/// [`MOST_LEVELS`] are taken in groups: against the best under a group's smallest limit, with the bound under its largest. So
/// grouping may keep what exactness would drop, never the reverse.
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

/// Whether a configuration with a part of `size` that takes `time` may cost less time than `best`, all its other parts at
/// the `bound`.
fn beats(best: Cost, bound: &Division, size: usize, time: u64) -> bool {
    let rest = bound.least(bound.whole() - size);
    rest.is_reachable() && (!best.is_reachable() || time.saturating_add(rest.time) < best.time)
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
