//! Time as a whole number of ticks, so that sums are exact and do not depend on their order: two ways to add up the
//! same parts tie, and a plan over more micro-configurations is never a rounding error slower than one over fewer.

/// Ticks in a millisecond: a tick is about a picosecond, far below what any clock resolves.
const TICKS_PER_MS: f64 = (1u64 << 30) as f64;

/// `ms` in ticks; none if it is negative, infinite or not a number. More than 198 days saturate.
pub(super) fn ticks(ms: f64) -> Option<u64> {
    (ms.is_finite() && ms >= 0.0).then(|| (ms * TICKS_PER_MS).round() as u64)
}

pub(super) fn milliseconds(ticks: u128) -> f64 {
    ticks as f64 / TICKS_PER_MS
}
