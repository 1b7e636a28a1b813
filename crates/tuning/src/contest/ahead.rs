//! The candidates of a call ahead of time, on handles and data of our own.

use super::contestant::{Contestant, NOTHING_FITS};
use super::recall;
use super::trial::Candidate;
use crate::family::Time;
use gpu::background::compiling;

/// A call's candidates, loaded.
pub struct Candidates<C: Contestant> {
    call: usize,
    /// cuDNN first.
    pub all: Vec<Candidate<C::Kernel>>,
    /// The names of kernels that do not load.
    failed: Vec<String>,
}

impl<C: Contestant> Candidates<C> {
    /// Loads our kernels for a call, and compiles those that are not compiled. `Err` says why none of them can run.
    pub fn load(contestant: &C, call: usize) -> Result<Self, String> {
        let mut loaded = Self { call, all: vec![Candidate::Cudnn], failed: Vec::new() };
        let mut why = NOTHING_FITS.to_owned();
        for choice in contestant.choices(call) {
            match compiling::now(|| contestant.load(call, choice)) {
                Ok(kernel) => loaded.all.push(Candidate::Ours(Some(kernel))),
                Err(error) => {
                    log::info!("{contestant}: {error}");
                    loaded.failed.push(contestant.name(call, Some(choice)));
                    why = error;
                }
            }
        }
        if C::RUNS_WITHOUT {
            loaded.all.push(Candidate::Ours(None));
        }
        if loaded.all.len() > 1 { Ok(loaded) } else { Err(why) }
    }

    /// The candidates' times, by name.
    pub fn times(&self, contestant: &C, times: &[Option<f64>]) -> Vec<Time> {
        recall::named_times(contestant, self.call, &self.all, times, self.failed.iter().cloned())
    }
}
