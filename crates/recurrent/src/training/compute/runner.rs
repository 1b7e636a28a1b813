//! The choice for a call's recurrences: a persistent kernel, or one launch a time step.

use std::cell::OnceCell;

use crate::kernels::Engine;
use crate::network::parts::ALIGNMENT;
use crate::recurrence::Recurrent;
use gpu::jit::Error;
use guest::settings::{self, Fault};

/// The choice for a call.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    /// `None` stands for one launch a time step.
    pub kernel: Option<&'a Engine>,
    /// Why one launch a time step took the kernel's place.
    pub outcome: &'a Outcome,
}

/// Why a kernel did not run; empty if it did.
#[derive(Default)]
pub struct Outcome(OnceCell<NotRun>);

pub enum NotRun {
    /// The call's memory does not allow for it.
    Unfit,
    /// It could not be launched. It is not launched again in this call: steps may have written to its exchange. The caller
    /// gives it up.
    Failed(String),
}

impl Outcome {
    pub fn not_run(&self) -> Option<&NotRun> {
        self.0.get()
    }
}

impl<'a> Runner<'a> {
    /// The same without its kernel, where the call's memory does not allow for one.
    pub fn without_kernel(self) -> Self {
        if self.kernel.is_some() {
            let _ = self.outcome.0.set(NotRun::Unfit);
        }
        Self { kernel: None, ..self }
    }

    /// Bytes of a direction's exchange, which a persistent kernel finds full of zeros; 0 without one.
    pub fn exchange_bytes(&self) -> usize {
        self.kernel.map_or(0, |kernel| kernel.exchange_bytes().next_multiple_of(ALIGNMENT))
    }

    /// Launches the kernel by `launch`. Returns whether all of it was launched.
    pub fn launch(&self, launch: impl FnOnce(&Engine) -> Result<(), Error>) -> bool {
        let Some(kernel) = self.kernel.filter(|_| self.outcome.not_run().is_none()) else { return false };
        let launched = match settings::get().fault {
            Some(Fault::Launch) => Err("UCUDNN_FAULT asked for no launch".to_owned()),
            _ => launch(kernel).map_err(|error| error.to_string()),
        };
        launched.map_err(|why| self.outcome.0.set(NotRun::Failed(why))).is_ok()
    }
}
