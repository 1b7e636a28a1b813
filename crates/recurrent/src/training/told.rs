//! The sizes that the program was told for reserves of ours, and of cuDNN's. A size that was told for one batch may have
//! another batch's tag by chance, so the tag alone does not make a reserve ours.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The sizes that are remembered: more than a program has reserves at one time.
const MOST: usize = 1 << 16;

/// The hash of a network and its data, and a size that was told for it.
type Size = (u64, usize);

/// The sizes of one owner.
#[derive(Default)]
struct Sizes {
    /// When each was told last, as a number that counts up.
    told: HashMap<Size, u64>,
    /// In the order of telling. A size that was told again later is here more than once.
    order: VecDeque<(Size, u64)>,
    now: u64,
}

#[derive(Default)]
struct Told {
    ours: Sizes,
    theirs: Sizes,
    /// Sizes of ours that cuDNN runs after all. They are never told again.
    forgotten: HashSet<Size>,
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
    let mut told = TOLD.lock();
    let Told { ours, theirs, .. } = told.get_or_insert_default();
    if is_ours { ours } else { theirs }.tell((hash, size));
}

/// Forgets a size of ours: reserves of it are cuDNN's from now on.
pub fn forget(hash: u64, size: usize) {
    let mut told = TOLD.lock();
    let Told { ours, forgotten, .. } = told.get_or_insert_default();
    ours.told.remove(&(hash, size));
    if forgotten.len() < MOST {
        forgotten.insert((hash, size));
    }
}

/// Returns whether a size of ours was forgotten.
pub fn was_forgotten(hash: u64, size: usize) -> bool {
    TOLD.lock().as_ref().is_some_and(|told| told.forgotten.contains(&(hash, size)))
}

/// Returns whether the program was told this size.
pub fn was_told(hash: u64, size: usize, is_ours: bool) -> bool {
    let is_among = |told: &Told| if is_ours { &told.ours } else { &told.theirs }.told.contains_key(&(hash, size));
    has_told() && TOLD.lock().as_ref().is_some_and(is_among)
}

impl Sizes {
    fn tell(&mut self, size: Size) {
        self.now += 1;
        self.told.insert(size, self.now);
        self.order.push_back((size, self.now));
        // What was told again is further behind, too.
        while self.told.len() > MOST || self.order.len() > 4 * MOST {
            let Some((oldest, when)) = self.order.pop_front() else { return };
            if self.told.get(&oldest) != Some(&when) {
                continue;
            }
            if self.told.len() > MOST {
                self.told.remove(&oldest);
            } else {
                self.order.retain(|(size, when)| self.told.get(size) == Some(when));
                self.order.push_front((oldest, when));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_were_not_told_for_the_longest_time_are_forgotten() {
        let mut sizes = Sizes::default();
        for size in 0..MOST {
            sizes.tell((1, size));
        }
        sizes.tell((1, 0));
        sizes.tell((2, 0));
        let knows = |size| sizes.told.contains_key(&size);
        assert!(knows((1, 0)) && !knows((1, 1)) && knows((1, 2)) && knows((2, 0)));
        assert_eq!(sizes.told.len(), MOST);
    }

    #[test]
    fn a_size_that_is_told_again_and_again_takes_no_memory() {
        let mut sizes = Sizes::default();
        sizes.tell((7, 7));
        for _ in 0..10 * MOST {
            sizes.tell((1, 0));
        }
        assert!(sizes.order.len() <= 4 * MOST && sizes.told.len() == 2);
        assert!(sizes.order.iter().any(|&(size, _)| size == (7, 7)), "it is still to be found");
    }
}
