//! Whose the reserves of passes are: forward decides, and backward asks.
//!
//! Forward and backward are calls of their own, and between them a program may clone the reserve or move it. What
//! forward ran on is remembered by the reserve's address. Where that may not hold any more, the reserve's header is read
//! from the device: it is there if our forward ran. An address alone is trusted only while no reserve of the other owner
//! waits for its backward: a copy of one may lie there. Copies of reserves that have gone back already are not expected.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// The owner of a reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Cudnn,
    Us,
}

impl Owner {
    fn other(self) -> Self {
        match self {
            Self::Cudnn => Self::Us,
            Self::Us => Self::Cudnn,
        }
    }
}

/// A call that goes back from a reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    Data,
    Weights,
}

/// The memory of a reserve's last calls.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// The hash of the network and its data.
    pass: u64,
    owner: Owner,
    /// The gradients of data were computed from it.
    has_gone_back: bool,
}

/// The reserves and passes that are remembered. When there are more, all are forgotten: headers tell.
const MOST: usize = 1 << 16;

/// The reserves of a process, by address.
#[derive(Default)]
pub struct Owners {
    reserves: HashMap<usize, Remembered>,
    /// The number of each owner's reserves of a pass that wait for their backward.
    waiting: HashMap<u64, [usize; 2]>,
    /// The program clones or moves reserves, so an address may hold what forward left elsewhere.
    moves: bool,
}

/// The owners of the process's reserves.
pub static OWNERS: LazyLock<Mutex<Owners>> = LazyLock::new(Mutex::default);

impl Owners {
    /// Forward of a pass runs on a reserve.
    pub fn went_forward(&mut self, reserve: usize, pass: u64, owner: Owner) {
        let before = self.remember(reserve, Remembered { pass, owner, has_gone_back: false });
        // Forward runs again on a reserve that nobody goes back from: one that waits is enough for doubts.
        let is_again = before.is_some_and(|it| (it.pass, it.owner, it.has_gone_back) == (pass, owner, false));
        if !is_again {
            self.waiting.entry(pass).or_default()[owner as usize] += 1;
        }
    }

    /// One of an owner's reserves of a pass does not wait any more: it has gone back, or forward did not run after all.
    pub fn waits_no_more(&mut self, pass: u64, owner: Owner) {
        self.change_waiting(pass, owner, |count| count.saturating_sub(1));
    }

    /// Changes the count of reserves that wait. Passes without any are forgotten.
    fn change_waiting(&mut self, pass: u64, owner: Owner, change: impl FnOnce(usize) -> usize) {
        if let Some(waiting) = self.waiting.get_mut(&pass) {
            waiting[owner as usize] = change(waiting[owner as usize]);
            if *waiting == [0; 2] {
                self.waiting.remove(&pass);
            }
        }
    }

    /// All reserves of a pass that may still be used are one owner's.
    pub fn all_belong_to(&mut self, pass: u64, owner: Owner) {
        self.change_waiting(pass, owner.other(), |_| 0);
    }

    /// The gradients of data are computed from a reserve of a network that has only run on cuDNN.
    pub fn goes_back_in_cudnn(&mut self, reserve: usize, pass: u64) {
        if let Some(remembered) = self.reserves.get_mut(&reserve)
            && (remembered.pass, remembered.has_gone_back) == (pass, false)
        {
            remembered.has_gone_back = true;
            self.waits_no_more(pass, Owner::Cudnn);
        }
    }

    /// The owner of the reserve that a call goes back from, if it is sure to hold what forward left at its address.
    pub fn goes_back(&mut self, reserve: usize, pass: u64, call: Back) -> Option<Owner> {
        let Some(remembered) = self.reserves.get_mut(&reserve) else {
            self.moves = true;
            return None;
        };
        let owner = remembered.owner;
        // A call that comes twice, of another pass, or without the call before it may be on a copy of another reserve.
        if remembered.pass != pass || remembered.has_gone_back != (call == Back::Weights) {
            return None;
        }
        if call == Back::Weights {
            // Between the two calls backward nothing is moved to where the first one was.
            return Some(owner);
        }
        let others = self.waiting.get(&pass).map_or(0, |waiting| waiting[owner.other() as usize]);
        if self.moves || others > 0 {
            return None;
        }
        remembered.has_gone_back = true;
        self.waits_no_more(pass, owner);
        Some(owner)
    }

    /// The reserve's header has told its owner, before a call goes back from it.
    pub fn was_read(&mut self, reserve: usize, pass: u64, owner: Owner, call: Back) {
        let before = self.remember(reserve, Remembered { pass, owner, has_gone_back: true });
        let is_as_left = before.is_some_and(|before| before.pass == pass && before.owner == owner);
        self.moves |= !is_as_left;
        if call == Back::Data && is_as_left && before.is_some_and(|before| !before.has_gone_back) {
            self.waits_no_more(pass, owner);
        }
    }

    /// What forward left at the reserve's address, or a copy there, whether it still holds or not.
    pub fn last(&self, reserve: usize, pass: u64) -> Option<Owner> {
        self.reserves.get(&reserve).filter(|remembered| remembered.pass == pass).map(|remembered| remembered.owner)
    }

    /// Returns the reserve's entry before this one.
    fn remember(&mut self, reserve: usize, remembered: Remembered) -> Option<Remembered> {
        let is_new = !self.reserves.contains_key(&reserve);
        if (is_new && self.reserves.len() >= MOST) || self.waiting.len() >= MOST {
            self.reserves.clear();
            self.waiting.clear();
            self.moves = true;
        }
        self.reserves.insert(reserve, remembered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: u64 = 7;

    #[test]
    fn a_reserve_that_stays_keeps_its_owner() {
        let mut owners = Owners::default();
        for owner in [Owner::Us, Owner::Cudnn, Owner::Us] {
            owners.went_forward(1, PASS, owner);
            assert_eq!(owners.goes_back(1, PASS, Back::Data), Some(owner));
            assert_eq!(owners.goes_back(1, PASS, Back::Weights), Some(owner));
            assert_eq!(owners.goes_back(1, PASS, Back::Weights), Some(owner), "weights may come twice");
        }
    }

    #[test]
    fn what_may_be_a_copy_is_not_trusted() {
        let mut owners = Owners::default();
        let mut doubts = |number: usize, before: Option<Back>, pass, call| {
            owners.went_forward(number, PASS, Owner::Us);
            before.map(|before| owners.goes_back(number, PASS, before));
            assert_eq!(owners.goes_back(number, pass, call), None, "{before:?} {call:?}");
            assert_eq!(owners.last(number, PASS), Some(Owner::Us));
        };
        doubts(1, Some(Back::Data), PASS, Back::Data);
        doubts(2, None, PASS, Back::Weights);
        doubts(3, None, PASS + 1, Back::Data);
        doubts(4, Some(Back::Data), PASS + 1, Back::Weights);
        assert_eq!(owners.last(1, PASS + 1), None);
        owners.went_forward(5, PASS, Owner::Us);
        assert_eq!(owners.goes_back(5, PASS, Back::Data), Some(Owner::Us), "another reserve is trusted");
    }

    #[test]
    fn nothing_is_trusted_once_a_reserve_was_moved() {
        let mut owners = Owners::default();
        owners.went_forward(1, PASS, Owner::Us);
        assert_eq!(owners.goes_back(2, PASS, Back::Data), None);
        owners.was_read(2, PASS, Owner::Us, Back::Data);
        assert_eq!(owners.goes_back(2, PASS, Back::Weights), Some(Owner::Us));
        assert_eq!((owners.last(1, PASS), owners.goes_back(1, PASS, Back::Data)), (Some(Owner::Us), None));
    }

    /// A program may keep a copy of a reserve, and put it where forward left another one.
    #[test]
    fn no_address_is_trusted_while_the_other_owner_has_a_reserve() {
        let mut owners = Owners::default();
        for (reserve, owner) in [(1, Owner::Us), (2, Owner::Cudnn), (3, Owner::Cudnn)] {
            owners.went_forward(reserve, PASS, owner);
        }
        owners.went_forward(4, PASS + 1, Owner::Cudnn);
        assert_eq!(owners.goes_back(4, PASS + 1, Back::Data), Some(Owner::Cudnn), "another pass is another matter");
        for (reserve, owner) in [(3, Owner::Cudnn), (2, Owner::Cudnn)] {
            assert_eq!(owners.goes_back(reserve, PASS, Back::Data), None, "{reserve}");
            owners.was_read(reserve, PASS, owner, Back::Data);
            assert_eq!(owners.goes_back(reserve, PASS, Back::Weights), Some(owner));
        }
        assert_eq!(owners.goes_back(1, PASS, Back::Data), Some(Owner::Us), "all of the other's went back");
        owners.went_forward(2, PASS, Owner::Cudnn);
        owners.went_forward(1, PASS, Owner::Us);
        owners.all_belong_to(PASS, Owner::Us);
        assert_eq!(owners.goes_back(1, PASS, Back::Data), Some(Owner::Us), "the other's are not used any more");
    }

    #[test]
    fn a_header_that_tells_another_owner_shows_a_copy() {
        let mut owners = Owners::default();
        for (reserve, owner) in [(1, Owner::Us), (2, Owner::Cudnn)] {
            owners.went_forward(reserve, PASS, owner);
        }
        assert_eq!(owners.goes_back(2, PASS, Back::Data), None);
        owners.was_read(2, PASS, Owner::Us, Back::Data);
        owners.went_forward(3, PASS + 1, Owner::Us);
        assert_eq!(owners.goes_back(3, PASS + 1, Back::Data), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut owners = Owners::default();
        for reserve in 0..=MOST {
            owners.went_forward(reserve, PASS, Owner::Us);
        }
        assert_eq!((owners.reserves.len(), owners.last(MOST, PASS)), (1, Some(Owner::Us)));
        assert_eq!(owners.goes_back(0, PASS, Back::Data), None);
        assert_eq!(owners.goes_back(MOST, PASS, Back::Data), None, "what was forgotten may lie there");
        let mut owners = Owners::default();
        for pass in 0..=MOST {
            owners.went_forward(pass % 3, pass as u64, Owner::Us);
        }
        assert!(owners.waiting.len() <= MOST, "{}", owners.waiting.len());
    }

    /// Passes that were completed leave nothing behind, nor do those that run forward again and again.
    #[test]
    fn what_waits_is_forgotten() {
        let mut owners = Owners::default();
        for pass in 0..3 {
            owners.went_forward(1, pass, Owner::Us);
            assert_eq!(owners.goes_back(1, pass, Back::Data), Some(Owner::Us));
            owners.went_forward(2, pass, Owner::Cudnn);
            owners.goes_back_in_cudnn(2, pass);
            owners.goes_back_in_cudnn(3, pass);
            owners.went_forward(4, pass, Owner::Us);
            owners.waits_no_more(pass, Owner::Us);
        }
        assert!(owners.waiting.is_empty() && !owners.moves, "{:?}", owners.waiting);
        for _ in 0..3 {
            owners.went_forward(1, PASS, Owner::Us);
        }
        owners.went_forward(2, PASS, Owner::Cudnn);
        assert_eq!(owners.goes_back(2, PASS, Back::Data), None);
        owners.was_read(1, PASS, Owner::Us, Back::Data);
        assert_eq!(owners.goes_back(2, PASS, Back::Data), Some(Owner::Cudnn));
    }
}
