//! Whether the sizes that a program is told come back. The owner of a reserve is its size, so a program that hands in
//! another size in backward than in forward cannot have a reserve of ours.
//!
//! No program is told a size of ours before it has shown, under cuDNN, that sizes come back, and none for a network that
//! has not shown it. Until then each answer differs from the ones before, so that a program which asks again before
//! backward hands in another size.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Answers that differ, and the bytes from one to the next: not an odd multiple of 16, which is ours.
const ANSWERS: usize = 64;
const APART: usize = 32;
/// Passes that must show it.
const PASSES: usize = 2;
/// Forward calls that are remembered.
const MOST_FORWARDS: usize = 256;

/// What a program has shown.
#[derive(Debug)]
pub struct Probation {
    answers: usize,
    /// Reserves of forward calls, by address, and their sizes.
    forwards: VecDeque<(usize, usize)>,
    matches: usize,
    wanders: bool,
}

/// What the size of a reserve in backward shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It is the one of forward.
    Same,
    /// It is another: sizes do not come back. Said once.
    Other,
    /// Nothing: the reserve is not known.
    Unknown,
}

/// The probation of the process.
pub static PROBATION: Mutex<Probation> = Mutex::new(Probation::new());

impl Probation {
    const fn new() -> Self {
        Self { answers: 0, forwards: VecDeque::new(), matches: 0, wanders: false }
    }

    /// Returns whether a reserve may be ours.
    pub fn is_passed(&self) -> bool {
        self.matches >= PASSES && !self.wanders
    }

    /// Returns whether sizes do not come back, so that no reserve is ours.
    pub fn has_failed(&self) -> bool {
        self.wanders
    }

    /// The bytes to add to the next answer while it is not shown that sizes come back.
    pub fn distinction(&mut self) -> usize {
        if self.wanders {
            return 0;
        }
        self.answers += 1;
        self.answers % ANSWERS * APART
    }

    /// Forward ran on a reserve of cuDNN's while it is not shown.
    pub fn went_forward(&mut self, reserve: usize, size: usize) {
        if self.wanders {
            return;
        }
        self.forwards.retain(|&(address, _)| address != reserve);
        self.forwards.truncate(MOST_FORWARDS - 1);
        self.forwards.push_front((reserve, size));
    }

    /// Forward ran on a reserve, in whose memory another may have been.
    pub fn forgets(&mut self, reserve: usize) {
        self.forwards.retain(|&(address, _)| address != reserve);
    }

    /// Backward runs on a reserve of cuDNN's, of a network that has not shown it. A size that any forward call got may be
    /// that of a copy of its reserve.
    pub fn goes_back(&mut self, reserve: usize, size: usize) -> Returned {
        if self.wanders {
            return Returned::Unknown;
        }
        let Some(at) = self.forwards.iter().position(|&(address, _)| address == reserve) else {
            return Returned::Unknown;
        };
        let is_known = self.forwards.iter().any(|&(_, forward)| forward == size);
        if self.forwards.remove(at).is_some_and(|(_, forward)| forward == size) {
            self.matches += 1;
            return Returned::Same;
        }
        if is_known {
            return Returned::Unknown;
        }
        self.wanders = true;
        Returned::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_come_back_twice_pass() {
        let mut probation = Probation::new();
        for pass in 0..2 {
            assert!(!probation.is_passed());
            let size = 1000 + probation.distinction();
            probation.went_forward(pass, size);
            assert_eq!(probation.goes_back(pass, size), Returned::Same);
        }
        assert!(probation.is_passed());
        // Another network has to show it as well, and shows the opposite.
        let size = 1000 + probation.distinction();
        probation.went_forward(9, size);
        assert_eq!(
            {
                let asked_again = 1000 + probation.distinction();
                probation.goes_back(9, asked_again)
            },
            Returned::Other
        );
        assert!(!probation.is_passed());
    }

    #[test]
    fn a_program_that_asks_again_never_passes() {
        for networks in 1..60 {
            let mut probation = Probation::new();
            let wandered = (0..4).any(|_| {
                let sizes: Vec<_> = (0..networks).map(|_| 1000 + probation.distinction()).collect();
                sizes.iter().enumerate().for_each(|(reserve, &size)| probation.went_forward(reserve, size));
                (0..networks).rev().any(|reserve| {
                    let size = 1000 + probation.distinction();
                    probation.goes_back(reserve, size) == Returned::Other
                })
            });
            assert!(wandered && !probation.is_passed(), "{networks} networks");
        }
    }

    /// A copy of a reserve, in the memory of one that no backward call came for.
    #[test]
    fn a_copy_shows_nothing() {
        let mut probation = Probation::new();
        probation.went_forward(1, 1000);
        probation.went_forward(2, 1032);
        assert_eq!(probation.goes_back(1, 1032), Returned::Unknown);
        probation.went_forward(1, 1000);
        probation.forgets(1);
        assert_eq!(probation.goes_back(1, 2000), Returned::Unknown);
    }

    #[test]
    fn what_is_unknown_shows_nothing() {
        let mut probation = Probation::new();
        probation.went_forward(1, 1000);
        assert_eq!(probation.goes_back(2, 2000), Returned::Unknown);
        assert!(!probation.is_passed());
        for reserve in 10..10 + MOST_FORWARDS {
            probation.went_forward(reserve, 1000);
        }
        assert_eq!(probation.goes_back(1, 2000), Returned::Unknown, "the oldest is forgotten");
        assert_eq!(probation.goes_back(10, 2000), Returned::Other);
        assert_eq!(probation.goes_back(11, 2000), Returned::Unknown, "said once");
    }
}
