//! Finds out whether the program asks for determinism: for equal bits from call to call, from run to run and in each
//! process.
//!
//! For such a program, choices follow from the problem and the device alone: no time that was measured while a program
//! ran decides. It may ask in these ways, and at any time:
//! - `UCUDNN_NUMERICS=deterministic`;
//! - PyTorch's `torch.use_deterministic_algorithms(True)` and `torch.backends.cudnn.deterministic = True`;
//! - by its choices: cuDNN offered a nondeterministic engine or algorithm first, and the program passed it over for a
//!   deterministic one. The newest choice counts; see [`chose`].
//!
//! `UCUDNN_NUMERICS=any` answers for the program: no.

mod torch;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::settings::{self, Numerics};

/// True if the program avoided nondeterminism in its newest choice that tells anything ([`chose`]).
static BY_CHOICE: AtomicBool = AtomicBool::new(false);

/// Returns whether the program asks for determinism now. Cheap: for each call.
pub fn is_asked() -> bool {
    match settings::get().numerics {
        Numerics::Deterministic => true,
        Numerics::Any => false,
        Numerics::Match | Numerics::Allowed => BY_CHOICE.load(Ordering::Relaxed) || torch::asks(),
    }
}

/// The meaning of a program's choice among cuDNN's offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It took a deterministic offer, and passed over a nondeterministic one that cuDNN prefers: it asks.
    Shunned,
    /// It took a nondeterministic offer: it does not ask.
    Took,
}

/// Records a choice of the program.
pub fn chose(choice: Choice, what: &dyn std::fmt::Display) {
    let asks = choice == Choice::Shunned;
    if BY_CHOICE.load(Ordering::Relaxed) != asks && BY_CHOICE.swap(asks, Ordering::Relaxed) != asks {
        match choice {
            Choice::Shunned => log::info!(
                "the program asks for determinism: for {what} it passed over what is not deterministic. Nothing is \
                 explored from here on"
            ),
            Choice::Took => log::info!("the program does not ask for determinism any more: for {what}"),
        }
    }
}
