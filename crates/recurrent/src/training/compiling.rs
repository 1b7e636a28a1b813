//! The candidates of a trial, compiled in the background: the model's first choices forward and back, then the others in
//! turns.

use std::sync::Arc;

use super::course::Course;
use super::page::Page;
use super::trial::Call;
use crate::compiler;
use crate::configuration::Configuration;
use crate::kernels::Engine;
use gpu::background::{self, compiling};
use guest::settings;

/// The candidates of a network that are still to be compiled.
pub struct Compiling {
    course: Arc<Course>,
    /// The call of each, forward or data, and its configuration; the last one is the next.
    left: Vec<(Call, Configuration)>,
    /// The first kernels forward and back, until the trial gets them. `None`: it has them.
    first: Option<[Option<Arc<Engine>>; 2]>,
    compiled: usize,
    has_turn: bool,
}

impl Compiling {
    /// The candidates of a course; all, or those behind first ones that run already.
    pub fn new(course: Arc<Course>, all: bool) -> Self {
        let most = course.shapes.iter().map(|shape| shape.configurations().len()).max().unwrap_or(0);
        let ranked = (0..most).flat_map(|rank| {
            let of = |call: Call| Some((call, *course.shapes[call as usize].configurations().get(rank)?));
            [Call::Forward, Call::Data].map(of).into_iter().flatten().collect::<Vec<_>>()
        });
        let mut left: Vec<_> = ranked.collect();
        left.reverse();
        Self { left, first: all.then(Default::default), compiled: 0, has_turn: !all, course }
    }

    /// Compiles and loads the next candidate. `None`: it does not run. `Err`: the process ends.
    fn compile(&self, call: Call, configuration: Configuration) -> Result<Option<Arc<Engine>>, ()> {
        let problem = &self.course.shapes[call as usize].problem;
        let loaded = match Engine::compile(problem, &configuration) {
            Err(why) => Err(why),
            Ok(()) => compiling::gently(|| Engine::load(problem, configuration)).ok_or(())?,
        };
        if background::stopped() {
            return Err(()); // a failure that the process's end causes says nothing
        }
        Ok(loaded.inspect_err(|why| log::debug!("training of {}: {why}", self.course.key.subject)).ok())
    }

    /// Begins the trial of ours with the first candidates, once both are compiled or do not run.
    fn begin(&mut self) -> bool {
        let Some(kernels) = self.first.take() else { return true };
        let Course { page, key, .. } = &*self.course;
        // If that fails, loading says why.
        let _ = Page::compile(&key.subject.network);
        match compiling::gently(|| page.engine(&key.subject.network).map_err(ToOwned::to_owned)) {
            Some(Ok(_)) => {
                self.course.with_trial(|trial| trial.begin(kernels));
                true
            }
            Some(Err(why)) => {
                log::info!("training of {}: cuDNN runs it: {why}", key.subject);
                self.course.with_trial(|trial| trial.is_complete = true);
                false
            }
            None => false,
        }
    }
}

impl compiler::Network for Compiling {
    fn device(&self) -> i32 {
        self.course.key.device
    }

    fn compiled(&self) -> usize {
        self.compiled
    }

    /// Two recurrences in each pass.
    fn spent(&self) -> u64 {
        let subject = &self.course.key.subject;
        self.course.seen()[0].saturating_mul((2 * subject.steps * subject.network.pseudo_layers()) as u64)
    }

    fn compile_next(&mut self) -> bool {
        settings::fault_point("rnn-training-load");
        if !self.has_turn {
            if !self.course.takes_turn() {
                return false;
            }
            self.has_turn = true;
        }
        let Some((call, configuration)) = self.left.pop() else {
            if self.begin() {
                self.course.with_trial(|trial| trial.is_complete = true);
            }
            return false;
        };
        let Ok(kernel) = self.compile(call, configuration) else { return false };
        self.compiled += 1;
        if kernel.is_none() {
            self.course.with_trial(|trial| trial.failed.push((call, configuration.to_string())));
        }
        match (&mut self.first, kernel) {
            (Some(first), kernel) => {
                first[call as usize] = first[call as usize].take().or(kernel);
                // The next one is of another rank: both first ones were tried.
                if call == Call::Data || self.left.last().is_none_or(|(next, _)| *next == Call::Forward) {
                    return self.begin();
                }
            }
            (None, Some(kernel)) => {
                self.course.with_trial(|trial| {
                    // The first ones of forced kernels run already.
                    if trial.kernels(call).all(|known| known.configuration() != kernel.configuration()) {
                        trial.add(call, Some(kernel));
                    }
                });
            }
            (None, None) => {}
        }
        true
    }
}
