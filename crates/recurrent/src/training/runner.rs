//! What runs the recurrences of a call: a persistent kernel, or one launch a time step.

use std::cell::OnceCell;

use crate::kernels::Engine;
use crate::parts::ALIGNMENT;
use crate::recurrence::Recurrent;
use gpu::jit::Error;
use guest::settings::{self, Fault};

/// The choice for a call.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    /// `None` stands for one launch a time step.
    pub kernel: Option<&'a Engine>,
    /// Why the kernel was not launched. Then it runs no longer, not in this call either: steps may have written to its
    /// exchange.
    pub failure: &'a OnceCell<String>,
}

impl Runner<'_> {
    /// Bytes of a direction's exchange, which a persistent kernel finds full of zeros; 0 without one.
    pub fn exchange_bytes(&self) -> usize {
        self.kernel.map_or(0, |kernel| kernel.exchange_bytes().next_multiple_of(ALIGNMENT))
    }

    /// Launches the kernel by `launch`. Returns whether all of it was launched.
    pub fn launch(&self, launch: impl FnOnce(&Engine) -> Result<(), Error>) -> bool {
        let Some(kernel) = self.kernel.filter(|_| self.failure.get().is_none()) else { return false };
        let launched = match settings::get().fault {
            Some(Fault::Launch) => Err("UCUDNN_FAULT asked for no launch".to_owned()),
            _ => launch(kernel).map_err(|error| error.to_string()),
        };
        launched.map_err(|why| self.failure.set(why)).is_ok()
    }
}
