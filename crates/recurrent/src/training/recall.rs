//! What the database knows of a network's training: the times of each call, by its own text.

use std::sync::Arc;

use super::course::Course;
use super::page::Page;
use super::subject::Subject;
use super::text;
use super::trial::{CALLS, Call, Seen, Verdict, weighed};
use crate::choice::CUDNN;
use crate::configuration::Configuration;
use crate::fit;
use crate::kernels::Engine;
use crate::record::FAMILY;
use guest::settings::{self, RnnTraining};
use tuning::family::Time;
use tuning::turns::MARGIN;

/// The times of each call's candidates.
pub type Times = [Vec<Time>; 3];

/// A result that was known.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    pub is_ours: bool,
    /// The fastest of ours, forward and back; `None` stands for one launch a time step.
    pub configurations: [Option<Configuration>; 2],
    /// The calls whose times are known.
    pub weighs: [bool; 3],
    pub times: Times,
}

/// The result in the database, if that suffices.
pub fn of_database(course: &Course) -> Option<Recalled> {
    let entries = FAMILY.entries()?;
    let times = CALLS.map(|call| entries.times(&Subject::of_call(&course.key.subject, call).spec()));
    if times[Call::Forward as usize].is_empty() { None } else { of_times(course, times) }
}

/// Stores times in the database, and lets the model learn from them.
pub fn keep(course: &Course, times: &Times) {
    if let Some(entries) = FAMILY.entries() {
        for (call, times) in CALLS.into_iter().zip(times) {
            entries.keep(&Subject::of_call(&course.key.subject, call).spec(), times);
        }
        fit::learn(&entries);
    }
}

/// The result that these times give, if they suffice.
pub fn of_times(course: &Course, times: Times) -> Option<Recalled> {
    let spaces = course.shapes.each_ref().map(|shape| Configuration::space(&shape.problem));
    let wanted = course.shapes.each_ref().map(|shape| shape.configurations().len());
    recall(times, &spaces, wanted, settings::get().rnn_training != RnnTraining::Force)
}

/// Chooses by known times if they suffice: for forward and gradients of data the time of cuDNN, where it is a candidate,
/// and entries of at least so many configurations. Entries that are not in the spaces are ignored.
fn recall(times: Times, spaces: &[Vec<Configuration>; 2], wanted: [usize; 2], with_cudnn: bool) -> Option<Recalled> {
    let mut configurations = [None; 2];
    let mut best = [[None; 2]; 3];
    for (call, rows) in CALLS.into_iter().zip(&times) {
        let own = text::ours(call, None);
        let mut known = 0;
        for Time { what, time } in rows {
            let side = usize::from(what != CUDNN);
            let configuration = match what.as_str() {
                what if what == CUDNN || what == own => None,
                what => {
                    let Some(space) = spaces.get(call as usize) else { continue };
                    let Some(read) = what.parse().ok().filter(|read| space.contains(read)) else { continue };
                    known += 1;
                    Some(read)
                }
            };
            if let Some(time) = *time
                && best[call as usize][side].is_none_or(|least| time < least)
            {
                best[call as usize][side] = Some(time);
                if side == 1
                    && let Some(chosen) = configurations.get_mut(call as usize)
                {
                    *chosen = configuration;
                }
            }
        }
        if wanted.get(call as usize).is_some_and(|&wanted| known < wanted) {
            return None;
        }
    }
    let weighs = times.each_ref().map(|rows| !rows.is_empty());
    let seen: Seen = weighs.map(u64::from);
    let [cudnn, ours] = [0, 1].map(|side| weighed(&seen, |call| best[call as usize][side]));
    let is_ours = match (with_cudnn, cudnn, ours) {
        (true, Some(cudnn), ours) => ours.is_some_and(|ours| ours < MARGIN * cudnn),
        (true, None, _) => return None,
        (false, ..) => true,
    };
    Some(Recalled { is_ours, configurations, weighs, times })
}

impl Recalled {
    /// Returns whether nothing is to be compiled for it.
    pub fn is_quick(&self, course: &Course) -> bool {
        let is_compiled = |(pass, one): (usize, &Option<Configuration>)| {
            one.as_ref().is_none_or(|one| Engine::is_compiled(&course.shapes[pass].problem, one))
        };
        !self.is_ours || self.configurations.iter().enumerate().all(is_compiled)
    }

    /// Compiles what was fastest, so that loading is quick. If that fails, loading says why.
    pub fn compile(&self, course: &Course) {
        if self.is_ours {
            let _ = Page::compile(&course.key.subject.network);
            for (shape, configuration) in course.shapes.iter().zip(&self.configurations) {
                let _ = configuration.as_ref().map(|one| Engine::compile(&shape.problem, one));
            }
        }
    }

    /// Loads what was fastest. `Err` says why it does not run.
    pub fn load(&self, course: &Course) -> Result<Verdict<Arc<Engine>>, String> {
        let mut kernels = [None, None];
        if self.is_ours {
            course.page.engine(&course.key.subject.network).map_err(ToOwned::to_owned)?;
            for (pass, kernel) in kernels.iter_mut().enumerate() {
                let load = |one| Engine::load(&course.shapes[pass].problem, one);
                *kernel = self.configurations[pass].map(load).transpose()?;
            }
        }
        Ok(Verdict { is_ours: self.is_ours, kernels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps;
    use crate::training::text::PRODUCTS;

    const FORWARD: &str = "cluster u32 b8 t256 l8 r128";
    const BACK: &str = "cluster u16 b8 t256 l8 r128";
    type Known<'a> = &'a [(&'a str, Option<f64>)];

    fn recalled(known: [Known; 3], with_cudnn: bool) -> Option<Recalled> {
        let rows = |known: Known| known.iter().map(|&(what, time)| Time { what: what.into(), time }).collect();
        let spaces = [FORWARD, BACK].map(|one| vec![one.parse().unwrap()]);
        recall(known.map(rows), &spaces, [1, 1], with_cudnn)
    }

    #[test]
    fn the_sum_of_all_calls_decides() {
        let forward: Known = &[(CUDNN, Some(1.0)), (FORWARD, Some(0.5)), (steps::NAME, Some(2.0))];
        let data: Known = &[(BACK, Some(1.8)), (CUDNN, Some(2.0)), (steps::NAME, Some(1.5))];
        for (weights, is_ours) in [(0.4, true), (0.8, true), (1.0, false), (5.0, false)] {
            let weights: Known = &[(CUDNN, Some(0.0)), (PRODUCTS, Some(weights))];
            let recalled = recalled([forward, data, weights], true).unwrap();
            assert_eq!(recalled.is_ours, is_ours, "{weights:?}");
            assert_eq!(recalled.configurations, [Some(FORWARD.parse().unwrap()), None]);
            assert_eq!(recalled.weighs, [true; 3]);
        }
        assert_eq!(recalled([forward, data, &[]], true).unwrap().weighs, [true, true, false]);
        let failed: Known = &[(CUDNN, Some(1.0)), (FORWARD, None)];
        assert!(!recalled([failed, data, &[]], true).unwrap().is_ours, "nothing of ours runs");
        assert!(recalled([failed, data, &[]], false).unwrap().is_ours, "ours are forced");
    }

    #[test]
    fn what_is_not_enough_is_as_nothing() {
        let forward: Known = &[(CUDNN, Some(1.0)), (FORWARD, Some(0.5))];
        let without_cudnn: Known = &[(BACK, Some(0.5))];
        let of_other: Known = &[(CUDNN, Some(1.0)), (FORWARD, Some(0.5)), ("tree u9", Some(0.1))];
        for data in [&[] as Known, without_cudnn, of_other] {
            assert_eq!(recalled([forward, data, &[]], true), None, "{data:?}");
        }
        assert!(recalled([forward, without_cudnn, &[]], false).is_some());
    }
}
