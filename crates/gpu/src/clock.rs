//! The clock for the time of the device's work, and of the program's calls that wait for it. On hostdnn it is hostdnn's
//! clock, which may count work in place of time; tests of the cost of calls let it do so.

use std::ops::Add;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::host;

/// A moment by this clock.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Moment(Duration);

impl Moment {
    /// The present moment.
    pub fn now() -> Self {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        Self(host::time().unwrap_or_else(|| START.elapsed()))
    }

    /// The time since this moment.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// The time from an earlier moment to this one.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}
