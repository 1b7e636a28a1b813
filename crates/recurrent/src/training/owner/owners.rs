//! Whose the reserves of passes are: forward decides, and backward asks.
//!
//! Forward and backward are calls of their own, and between them a program may clone the reserve or move it. What
//! forward ran on is remembered by the reserve's address. Where that may not hold any more, the reserve's header is read
//! from the device: it is there if our forward ran.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// The owner of a reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Cudnn,
    Us,
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

/// The reserves that are remembered. When there are more, all are forgotten: headers tell.
const MOST: usize = 1 << 16;

/// The reserves of a process, by address.
#[derive(Default)]
pub struct Owners {
    reserves: HashMap<usize, Remembered>,
    /// The program clones or moves reserves, so an address may hold what forward left elsewhere.
    moves: bool,
}

/// The owners of the process's reserves.
pub static OWNERS: LazyLock<Mutex<Owners>> = LazyLock::new(Mutex::default);

impl Owners {
    /// Forward of a pass runs on a reserve.
    pub fn went_forward(&mut self, reserve: usize, pass: u64, owner: Owner) {
        self.remember(reserve, Remembered { pass, owner, has_gone_back: false });
    }

    /// The owner of the reserve that a call goes back from, if memory is sure to hold.
    pub fn goes_back(&mut self, reserve: usize, pass: u64, call: Back) -> Option<Owner> {
        let Some(remembered) = self.reserves.get_mut(&reserve) else {
            self.moves = true;
            return None;
        };
        // A call that comes twice, of another pass, or without the call before it may be on a copy of another reserve.
        let has_gone_back = std::mem::replace(&mut remembered.has_gone_back, true);
        let is_as_left = remembered.pass == pass && has_gone_back == (call == Back::Weights);
        // Between the two calls backward nothing is moved to where the first one was.
        (is_as_left && (call == Back::Weights || !self.moves)).then_some(remembered.owner)
    }

    /// The reserve's header has told its owner, before a call goes back from it.
    pub fn was_read(&mut self, reserve: usize, pass: u64, owner: Owner) {
        self.remember(reserve, Remembered { pass, owner, has_gone_back: true });
    }

    /// What forward left at the reserve's address, or a copy there, whether it still holds or not.
    pub fn last(&self, reserve: usize, pass: u64) -> Option<Owner> {
        self.reserves.get(&reserve).filter(|remembered| remembered.pass == pass).map(|remembered| remembered.owner)
    }

    fn remember(&mut self, reserve: usize, remembered: Remembered) {
        if self.reserves.len() >= MOST && !self.reserves.contains_key(&reserve) {
            self.reserves.clear();
        }
        self.reserves.insert(reserve, remembered);
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
        owners.went_forward(5, PASS, Owner::Cudnn);
        assert_eq!(owners.goes_back(5, PASS, Back::Data), Some(Owner::Cudnn), "another reserve is trusted");
    }

    #[test]
    fn nothing_is_trusted_once_a_reserve_was_moved() {
        let mut owners = Owners::default();
        owners.went_forward(1, PASS, Owner::Us);
        assert_eq!(owners.goes_back(2, PASS, Back::Data), None);
        owners.was_read(2, PASS, Owner::Us);
        assert_eq!(owners.goes_back(2, PASS, Back::Weights), Some(Owner::Us));
        assert_eq!((owners.last(1, PASS), owners.goes_back(1, PASS, Back::Data)), (Some(Owner::Us), None));
    }

    #[test]
    fn memory_is_bounded() {
        let mut owners = Owners::default();
        for reserve in 0..=MOST {
            owners.went_forward(reserve, PASS, Owner::Us);
        }
        assert_eq!((owners.reserves.len(), owners.goes_back(MOST, PASS, Back::Data)), (1, Some(Owner::Us)));
        assert_eq!(owners.goes_back(0, PASS, Back::Data), None);
    }
}
