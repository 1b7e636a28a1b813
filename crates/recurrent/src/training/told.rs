//! The sizes that the program was told for reserves of ours, and of cuDNN's. A size that was told for one batch may have
//! another batch's tag by chance, so the tag alone does not make a reserve ours.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The sizes that are remembered: more than a program has reserves at one time.
const MOST: usize = 1 << 16;

/// The hash of a network and its data, a size that was told for it, and whether that is ours.
type Size = (u64, usize, bool);

#[derive(Default)]
struct Told {
    sizes: HashSet<Size>,
    /// The oldest first.
    order: VecDeque<Size>,
}

static TOLD: Mutex<Option<Told>> = Mutex::new(None);
static HAS_TOLD: AtomicBool = AtomicBool::new(false);

/// Returns whether any size of ours was told. Until then every reserve is cuDNN's.
pub fn has_told() -> bool {
    HAS_TOLD.load(Ordering::Relaxed)
}

/// Remembers a size that the program is told.
pub fn tell(hash: u64, size: usize, is_ours: bool) {
    HAS_TOLD.fetch_or(is_ours, Ordering::Relaxed);
    TOLD.lock().get_or_insert_default().tell((hash, size, is_ours));
}

/// Forgets a size of ours: reserves of it are cuDNN's from now on.
pub fn forget(hash: u64, size: usize) {
    if let Some(told) = &mut *TOLD.lock() {
        told.sizes.remove(&(hash, size, true));
        told.order.retain(|&known| known != (hash, size, true));
    }
}

/// Returns whether the program was told this size.
pub fn was_told(hash: u64, size: usize, is_ours: bool) -> bool {
    has_told() && TOLD.lock().as_ref().is_some_and(|told| told.sizes.contains(&(hash, size, is_ours)))
}

impl Told {
    fn tell(&mut self, size: Size) {
        if !self.sizes.insert(size) {
            return;
        }
        self.order.push_back(size);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.sizes.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sizes_are_forgotten() {
        let mut told = Told::default();
        for size in 0..MOST {
            told.tell((1, size, true));
            told.tell((1, size, true));
        }
        assert!(told.sizes.contains(&(1, 0, true)) && !told.sizes.contains(&(1, 0, false)));
        told.tell((2, 0, true));
        assert!(
            [(1, 0), (1, 1), (2, 0)].map(|(hash, size)| told.sizes.contains(&(hash, size, true)))
                == [false, true, true]
        );
        assert_eq!((told.sizes.len(), told.order.len()), (MOST, MOST));
    }
}
