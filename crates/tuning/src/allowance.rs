//! The promise about exploring: at any moment, the time that exploring has cost so far is at most a share of the
//! program's time in the calls that are tuned, plus half a second (`UCUDNN_EXPLORE`).
//!
//! The program's time is the sum over its executions of the time that each takes as the program requested it, once that
//! is known. The cost is the time of explored executions beyond that, the time to prepare them, and all time that the
//! program waits for tuning. One account covers convolutions of both APIs, recurrent networks and batch normalization.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpu::Moment;
use guest::settings::{self, Explore};

/// The cost that is always allowed, in milliseconds. Times are known only after an execution, so the account keeps a
/// part of the half second for an execution that turns out slow.
const FREE: f64 = 400.0;

/// The account of a process. Times are milliseconds.
pub struct Allowance {
    calls: AtomicU64,
    cost: AtomicU64,
}

static OF_PROCESS: Allowance = Allowance::new();

/// The account of this process.
pub fn of_process() -> &'static Allowance {
    &OF_PROCESS
}

const NANOSECONDS: f64 = 1e6; // in a millisecond

impl Allowance {
    const fn new() -> Self {
        Self { calls: AtomicU64::new(0), cost: AtomicU64::new(0) }
    }

    /// An execution would have taken this long as requested.
    pub fn executed(&self, time: f64) {
        self.calls.fetch_add((time * NANOSECONDS) as u64, Ordering::Relaxed);
    }

    /// Exploring took this long beyond that.
    pub fn explored(&self, time: f64) {
        self.cost.fetch_add((time.max(0.0) * NANOSECONDS) as u64, Ordering::Relaxed);
    }

    /// The nanoseconds that exploring has cost so far, and those of the program's calls.
    pub fn so_far(&self) -> [u64; 2] {
        [&self.cost, &self.calls].map(|time| time.load(Ordering::Relaxed))
    }

    /// Prepares something for exploring on the program's thread, and counts the time.
    pub fn timed<T>(&self, prepare: impl FnOnce() -> T) -> T {
        let begin = Moment::now();
        let prepared = prepare();
        self.explored(begin.elapsed().as_secs_f64() * 1e3);
        prepared
    }

    /// Returns whether anything may ever be explored.
    pub fn explores(&self) -> bool {
        settings::get().explore != Explore::Share(0.0)
    }

    /// Returns whether exploring may cost this much more.
    pub fn permits(&self, time: f64) -> bool {
        self.within(settings::get().explore, time)
    }

    /// The most that the program may wait now; `None` without a bound.
    pub fn remaining(&self) -> Option<Duration> {
        match settings::get().explore {
            Explore::Unbounded => None,
            Explore::Share(share) => Some(Duration::from_secs_f64(self.left(share).max(0.0) / 1e3)),
        }
    }

    fn within(&self, explore: Explore, time: f64) -> bool {
        match explore {
            Explore::Unbounded => true,
            Explore::Share(share) => time <= self.left(share),
        }
    }

    fn left(&self, share: f64) -> f64 {
        if share == 0.0 {
            return f64::NEG_INFINITY; // `explores` is false
        }
        let [cost, calls] = self.so_far().map(|time| time as f64 / NANOSECONDS);
        FREE + share * calls - cost
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Random programs with candidates up to ten times as slow as the requested algorithm.
    #[test]
    fn the_promise_holds_at_any_moment() {
        let mut random = StdRng::seed_from_u64(1);
        for share in [0.05, 0.2] {
            let account = Allowance::new();
            let (mut calls, mut cost, mut explored) = (0.0, 0.0, 0);
            for _ in 0..20_000 {
                let usual: f64 = random.random_range(0.01..10.0);
                account.executed(usual);
                calls += usual;
                if account.within(Explore::Share(share), usual) {
                    let extra = usual * random.random_range(0.0..10.0);
                    account.explored(extra);
                    cost += extra;
                    explored += 1;
                }
                assert!(cost <= share * calls + 500.0, "{cost} ms of {calls}");
            }
            assert!(explored > 100 && cost > 0.8 * share * calls, "{explored}: exploring goes on");
        }
    }

    #[test]
    fn nothing_is_explored_at_0_and_everything_without_bounds() {
        let account = Allowance::new();
        account.executed(1e9);
        assert!(!account.within(Explore::Share(0.0), 0.0));
        account.explored(1e12);
        assert!(account.within(Explore::Unbounded, 1e12) && !account.within(Explore::Share(0.05), 0.0));
    }
}
