//! Chooses between cuDNN and our kernels by their times, from a trial that has ended or from the database.

use std::sync::Arc;

use super::configuration::Configuration;
use super::kernels::Engine;
use guest::determinism;
use tuning::family::Time;
use tuning::turns::MARGIN;

/// Returns true if results must have the same bits each time, so that times choose nothing.
pub fn is_deterministic() -> bool {
    determinism::is_asked()
}

/// cuDNN's name in the database and in reports.
pub const CUDNN: &str = "cuDNN";

/// Returns a configuration's name, or cuDNN's for `None`.
pub fn name(configuration: Option<&Configuration>) -> String {
    configuration.map_or(CUDNN.to_owned(), ToString::to_string)
}

/// The engines that a trial times in turns, the preferred one first.
pub struct Candidates {
    /// `None` stands for cuDNN.
    pub engines: Vec<Option<Arc<Engine>>>,
    /// Configurations that could not be loaded.
    pub failed: Vec<Configuration>,
}

impl Candidates {
    /// Returns the time of each candidate. `times` are in milliseconds a time step; `None`: it did not run.
    pub fn step_times(&self, times: &[Option<f64>]) -> Vec<Time> {
        let configurations = self.engines.iter().map(|engine| engine.as_ref().map(|engine| engine.configuration()));
        let timed = configurations.zip(times).map(|(configuration, &time)| Time { what: name(configuration), time });
        timed.chain(self.failed.iter().map(|failed| Time { what: name(Some(failed)), time: None })).collect()
    }

    /// Returns the fastest engine; `None` stands for cuDNN.
    pub fn fastest(&self, times: &[Option<f64>]) -> Option<Arc<Engine>> {
        let timed = self.engines.iter().zip(times).map(|(engine, &time)| (engine.is_none(), time));
        fastest(timed).and_then(|index| self.engines[index].clone())
    }
}

/// Returns the index of the fastest, given "is cuDNN" and the time of each. Our kernels must win by the margin.
fn fastest(times: impl Iterator<Item = (bool, Option<f64>)>) -> Option<usize> {
    let handicap = |is_cudnn| if is_cudnn { MARGIN } else { 1.0 };
    let timed = times.enumerate().filter_map(|(index, (is_cudnn, time))| Some((index, time? * handicap(is_cudnn))));
    timed.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
}

/// The result of an earlier trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// `None` stands for cuDNN.
    pub chosen: Option<Configuration>,
    pub step_times: Vec<Time>,
}

/// Chooses by `known` times if they suffice: one of cuDNN, where it is a candidate, and entries of at least `wanted`
/// configurations. Entries that are no configurations, or not in `space`, are ignored.
pub fn recall(known: Vec<Time>, space: &[Configuration], wanted: usize, with_cudnn: bool) -> Option<Recalled> {
    let read = |step_time: Time| {
        let configuration = match step_time.what.as_str() {
            CUDNN => (with_cudnn && step_time.time.is_some()).then_some(None)?,
            text => Some(text.parse().ok().filter(|configuration| space.contains(configuration))?),
        };
        Some((configuration, step_time))
    };
    let (configurations, step_times): (Vec<_>, Vec<_>) = known.into_iter().filter_map(read).unzip();
    let ours = configurations.iter().flatten().count();
    if ours < wanted || (with_cudnn && ours == configurations.len()) {
        return None;
    }
    let timed = configurations.iter().zip(&step_times).map(|(candidate, known)| (candidate.is_none(), known.time));
    let chosen = configurations[fastest(timed)?];
    Some(Recalled { chosen, step_times })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: &str = "grid u8 b4 t256 l32 r96";
    /// A configuration outside of the space.
    const BLOCK: &str = "block u1024 b1 t256 l32 r0";

    fn chosen(known: &[(&str, Option<f64>)], wanted: usize, with_cudnn: bool) -> Option<Option<String>> {
        let known = known.iter().map(|&(what, time)| Time { what: what.into(), time }).collect();
        let recalled = recall(known, &[GRID.parse().unwrap()], wanted, with_cudnn)?;
        Some(recalled.chosen.map(|configuration| configuration.to_string()))
    }

    #[test]
    fn the_faster_is_chosen_of_what_is_known() {
        let ours = Some(Some(GRID.to_owned()));
        let cudnn = Some(None);
        assert_eq!(chosen(&[(CUDNN, Some(1.0)), (GRID, Some(0.97))], 1, true), ours);
        assert_eq!(chosen(&[(CUDNN, Some(1.0)), (GRID, Some(0.99))], 1, true), cudnn, "not beyond doubt");
        assert_eq!(chosen(&[(GRID, None), (CUDNN, Some(1.0))], 1, true), cudnn);
        assert_eq!(chosen(&[(CUDNN, Some(1.0)), (GRID, Some(2.0))], 1, false), ours, "cuDNN is no candidate");
        assert_eq!(chosen(&[(GRID, None)], 1, false), None, "nothing runs");
    }

    #[test]
    fn what_is_not_enough_is_as_nothing() {
        assert_eq!(chosen(&[], 1, true), None);
        assert_eq!(chosen(&[(GRID, Some(0.5))], 1, true), None, "cuDNN is not known");
        assert_eq!(chosen(&[(CUDNN, None), (GRID, Some(0.5))], 1, true), None);
        assert_eq!(chosen(&[(CUDNN, Some(1.0)), (GRID, Some(0.5))], 2, true), None, "another is wanted");
        for unknown in ["", "tree u8", "grid u8 b4 t256 l32 r96 x9", BLOCK] {
            assert_eq!(chosen(&[(CUDNN, Some(1.0)), (unknown, Some(0.5))], 1, true), None, "{unknown}");
            let both = [(CUDNN, Some(1.0)), (unknown, Some(0.1)), (GRID, Some(0.5))];
            assert_eq!(chosen(&both, 1, true), Some(Some(GRID.to_owned())), "{unknown}");
        }
    }
}
