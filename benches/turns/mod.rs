//! Two kinds of calls in turns, so that disturbances of the machine meet both.

use std::time::{Duration, Instant};

/// Calls in a turn, all alike.
const TURN: u64 = 100;

fn timed(calls: u64, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed()
}

/// The time of `calls` calls of `one` over as many of `other`: the median over all turns, because interrupts lengthen
/// some.
pub fn over(calls: u64, mut one: impl FnMut(), mut other: impl FnMut()) -> Duration {
    let mut differences: Vec<f64> = (0..calls.div_ceil(TURN))
        .map(|_| timed(TURN, &mut one).as_secs_f64() - timed(TURN, &mut other).as_secs_f64())
        .collect();
    let middle = differences.len() / 2;
    let (_, median, _) = differences.select_nth_unstable_by(middle, f64::total_cmp);
    // Criterion rejects times below a nanosecond.
    Duration::from_secs_f64((*median / TURN as f64 * calls as f64).max(1e-9))
}
