//! Calls of two kinds in turns, so that whatever else the machine does meets both.

use std::time::{Duration, Instant};

/// Calls of one kind before the other has its turn.
const TURN: u64 = 100;

fn timed(calls: u64, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed()
}

/// What `calls` of `one` take over as many of `other`, by the median over the turns: some of them are
/// interrupted.
pub fn over(calls: u64, mut one: impl FnMut(), mut other: impl FnMut()) -> Duration {
    let mut differences: Vec<f64> = (0..calls.div_ceil(TURN))
        .map(|_| timed(TURN, &mut one).as_secs_f64() - timed(TURN, &mut other).as_secs_f64())
        .collect();
    let middle = differences.len() / 2;
    let (_, median, _) = differences.select_nth_unstable_by(middle, f64::total_cmp);
    // Criterion takes nothing below a nanosecond.
    Duration::from_secs_f64((*median / TURN as f64 * calls as f64).max(1e-9))
}
