//! Milliseconds that threads share without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number of milliseconds; 0 until it is set.
#[derive(Default)]
pub struct Milliseconds(AtomicU64);

impl Milliseconds {
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    pub fn set(&self, time: f64) {
        self.0.store(time.to_bits(), Ordering::Relaxed);
    }
}
