//! Time as a whole number of ticks. Sums are exact and do not depend on their order: two ways to add up the same parts
//! tie, and rounding never makes a plan over more micro-configurations slower than one over fewer.

/// Ticks in a millisecond. A tick is about a picosecond, far below the resolution of any clock.
const TICKS_PER_MS: f64 = (1u64 << 30) as f64;

/// `ms` in ticks; `None` if negative, infinite or not a number. Times over 198 days saturate.
pub(super) fn ticks(ms: f64) -> Option<u64> {
    (ms.is_finite() && ms >= 0.0).then(|| (ms * TICKS_PER_MS).round() as u64)
}

pub(super) fn milliseconds(ticks: u128) -> f64 {
    ticks as f64 / TICKS_PER_MS
}
