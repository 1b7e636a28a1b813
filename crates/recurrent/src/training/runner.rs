//! What runs the recurrences of a call: a persistent kernel, or one launch a time step.

use super::course::Course;
use crate::kernels::Engine;
use crate::parts::ALIGNMENT;
use crate::recurrence::Recurrent;
use gpu::jit::Error;
use guest::settings::{self, Fault};

/// The choice for a call. `kernel`: `None` stands for one launch a time step.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    pub course: &'a Course,
    pub kernel: Option<&'a Engine>,
}

impl Runner<'_> {
    /// Bytes of a direction's exchange, which a persistent kernel finds full of zeros; 0 without one.
    pub fn exchange_bytes(&self) -> usize {
        self.kernel.map_or(0, |kernel| kernel.exchange_bytes().next_multiple_of(ALIGNMENT))
    }

    /// Launches the kernel by `launch`. Returns whether all of it was launched. Else the kernels of the course run no
    /// longer, not in this call either: steps may have written to their exchange.
    pub fn launch(&self, launch: impl FnOnce(&Engine) -> Result<(), Error>) -> bool {
        let Some(kernel) = self.kernel.filter(|_| !self.course.has_given_up()) else { return false };
        let launched = match settings::get().fault {
            Some(Fault::Launch) => Err("UCUDNN_FAULT asked for no launch".to_owned()),
            _ => launch(kernel).map_err(|error| error.to_string()),
        };
        launched.inspect_err(|why| self.course.give_up(why)).is_ok()
    }
}
