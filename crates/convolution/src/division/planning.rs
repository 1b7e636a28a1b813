//! From layers to a division: the desirable set of each problem, and the ILP over all of them.
#![allow(clippy::mutable_key_type)] // the mutable part of an operation graph's state is not hashed

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::layers::{Layer, LayerId};
use super::problem::{LayerConfiguration, LayerProblem};
use super::report;
use super::segments::Division;
use super::solved::{Segment, Solved};
use crate::division::arena::segment_bytes;
use crate::plans::legacy::registry;
use crate::problem::Problem;
use crate::problem::algorithm::{Class, Winograd};
use crate::problem::graph;
use cudnn::convolution::AlgoPerf;
use cudnn::policies::Policies;
use gpu::background;
use gpu::{Device, Fence};
use guest::settings;
use guest::summary::Waiting;
use planner::{self, Alternative, BatchSizePolicy, Configuration, Group};
use tuning::ahead::{self, Budget, Goal, Job, Search};
use tuning::executable::Executable;
use tuning::session::Progress;
use tuning::waiting::Waited;

/// The assumed time of a fallback that could not be timed, as a multiple of the slowest configuration's.
const UNKNOWN: f64 = 10.0;
/// The time limit of the solver.
const SOLVE: Duration = Duration::from_secs(1);

/// A problem and the class that it may use; no class for an operation graph, whose state holds it.
type Question = (LayerProblem, Option<Class>);

/// The desirable sets of problems in their classes.
pub type Sets = HashMap<Question, Arc<Set>>;

/// A problem's desirable set with times in milliseconds, workspace ascending. `fallback` is the time of the fallback,
/// which runs in the reported workspace, if every configuration needs workspace.
#[derive(Default)]
pub struct Set {
    /// The most bytes of workspace that the search considered.
    limit: usize,
    pub choices: Vec<(LayerConfiguration, f64)>,
    pub fallback: Option<f64>,
}

/// The input of a division.
pub struct Wanted {
    pub layers: Vec<(LayerId, Layer)>,
    pub total: usize,
    pub one_stream: bool,
    /// The program waits for the division.
    pub waits: bool,
    pub policies: Policies,
    pub sets: Sets,
}

/// Finds missing desirable sets, solves, and replaces the division in force. Returns all desirable sets known now, and
/// false if the division has to be made again.
pub fn divide(device: Device, wanted: Wanted, division: &RwLock<Division>) -> (Sets, bool) {
    let Wanted { layers, mut total, one_stream, waits, policies, mut sets } = wanted;
    let numerics = settings::get().numerics;
    let limit = policies.call_limit(total);
    let mut groups: Vec<(Question, Vec<LayerId>)> = Vec::new();
    for (id, layer) in &layers {
        let key = (layer.problem.clone(), layer.class(numerics));
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, ids)) => ids.push(*id),
            None => groups.push((key, vec![*id])),
        }
    }
    let chosen = |id: &LayerId| layers.iter().find(|(known, _)| known == id)?.1.chosen;
    tune(&groups, &chosen, limit, &policies, waits, &mut sets);
    if background::stopped() {
        return (sets, true);
    }
    loop {
        let solved = match solve(&groups, &sets, total, one_stream) {
            Ok(solved) => solved,
            Err(why) => {
                log::warn!("the workspace of {} layers is not divided: {why}; they run without", layers.len());
                return (sets, true);
            }
        };
        match Division::replace(division, device, solved) {
            Ok(placed) => return (sets, placed),
            Err(bytes) => {
                log::warn!("{bytes} bytes of workspace cannot be allocated: {} are divided instead", total / 2);
                total /= 2;
            }
        }
    }
}

/// Groups of layers with the same problem and class.
type Groups = [(Question, Vec<LayerId>)];

/// Finds the missing desirable sets.
fn tune(
    groups: &Groups,
    chosen: &dyn Fn(&LayerId) -> Option<AlgoPerf>,
    limit: usize,
    policies: &Policies,
    waits: bool,
    sets: &mut Sets,
) {
    let is_missing = |(key, _): &&(Question, Vec<LayerId>)| sets.get(key).is_none_or(|set| set.limit < limit);
    let missing: Vec<_> = groups.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return;
    }
    let (sizes, devices) = (policies.batch_size_policy, ahead::devices());
    let waiting = waits.then(Waiting::begin);
    for (done, (key, ids)) in missing.iter().enumerate() {
        if background::stopped() {
            return;
        }
        let _waited = waits.then(|| Waited::since(Instant::now()));
        let (problem, class) = key;
        log::info!("Workspace Division: kernel {} of {}, {problem}", done + 1, missing.len());
        let progress = |progress: Progress| {
            if let Some(waiting) = &waiting {
                waiting.show(|| format!("kernel {} of {}, {}", done + 1, missing.len(), progress.of(problem)));
            }
        };
        let tuning = Tuning { limit, sizes, devices: &devices, progress: &progress };
        let set = match problem {
            LayerProblem::Convolution(problem) => tuning.convolution(problem, *class, ids.first().and_then(chosen)),
            LayerProblem::Graph(state) => tuning.graph(&state.key.problem, state.key.class),
        };
        if set.is_err() && background::stopped() {
            return; // the process ends: nothing else is wrong
        }
        let set = set.unwrap_or_else(|why| {
            log::warn!("Workspace Division: {problem} gets no workspace: {why}");
            Set { limit, ..Set::default() }
        });
        report::desirable(problem, &set.choices);
        sets.insert(key.clone(), Arc::new(set));
    }
}

/// The parameters of the search for desirable sets.
struct Tuning<'a> {
    /// The most bytes of workspace.
    limit: usize,
    sizes: BatchSizePolicy,
    devices: &'a [i32],
    /// Called after each micro-configuration.
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Tuning<'_> {
    fn job<'a, K: Executable>(&'a self, problem: &'a K, class: Option<K::Class>) -> Job<'a, K> {
        let settings = settings::get();
        Job {
            problem,
            class,
            sizes: self.sizes,
            goal: Goal::DesirableSet { limit: self.limit },
            budget: Budget::of_time(Duration::from_secs_f64(settings.tune_seconds())),
            bytes: settings.tune_bytes(),
            devices: self.devices,
            stop: &background::STOP,
            progress: self.progress,
        }
    }

    fn convolution(&self, problem: &Problem, class: Option<Class>, chosen: Option<AlgoPerf>) -> Result<Set, String> {
        let job = self.job(problem, class);
        let choices = choices(&ahead::tune(&job)?, LayerConfiguration::Convolution);
        let needs_nothing = choices.first().is_some_and(|(choice, _)| choice.workspace() == 0);
        let fallback = chosen.filter(|_| !needs_nothing).and_then(|chosen| fallback_time(&job, &chosen));
        Ok(Set { limit: self.limit, choices, fallback })
    }

    /// Leaves the fallback untimed: it runs only where no configuration can run.
    fn graph(&self, problem: &graph::Problem, class: graph::Class) -> Result<Set, String> {
        let choices = choices(&ahead::tune(&self.job(problem, Some(class)))?, LayerConfiguration::Graph);
        Ok(Set { limit: self.limit, choices, fallback: None })
    }
}

/// Returns a search's desirable set as configurations of layers.
fn choices<A: Copy + Eq + Hash + Debug>(
    search: &Search<A>,
    of_layer: fn(Configuration<A>) -> LayerConfiguration,
) -> Vec<(LayerConfiguration, f64)> {
    search.desirable_set().into_iter().map(|(configuration, time)| (of_layer(configuration), time)).collect()
}

/// The milliseconds of a layer without a segment. It runs the fallback, or the requested algorithm in a workspace of
/// the program's own.
fn fallback_time(job: &Job<Problem>, chosen: &AlgoPerf) -> Option<f64> {
    let promised = registry::known_state(cudnn::device(), job.problem).and_then(|state| {
        let state = state.known.lock();
        let promise = state.promise(chosen.algo, usize::MAX)?;
        Some((promise.fallback?, promise.needs))
    });
    let (id, limit) = promised.unwrap_or((chosen.algo, usize::MAX));
    let math_type = Some(job.problem.math_type);
    let class = Class { deterministic: false, math_type, winograd: Winograd::All, only: Some(id), engines: false };
    let goal = Goal::Fastest { limit };
    let search = ahead::tune(&Job { class: Some(class), sizes: BatchSizePolicy::Undivided, goal, ..*job }).ok()?;
    search.smallest_whole().map(|micro| micro.time)
}

/// Chooses a configuration for each layer. The segments of all layers take at most `total` bytes together; on one
/// stream, the largest segment does.
fn solve(groups: &Groups, sets: &Sets, total: usize, one_stream: bool) -> Result<Solved, String> {
    let start = Instant::now();
    let sets: Vec<&Set> = groups.iter().map(|(key, _)| sets.get(key).map(|set| &**set).unwrap_or(&EMPTY)).collect();
    let alternatives: Vec<Vec<Alternative>> = sets.iter().map(|set| set.alternatives()).collect();
    let mut solved = Solved { total, one_stream, proven: true, ..Solved::default() };
    let chosen: Vec<Vec<usize>> = if one_stream {
        // A maximum, not a sum: each layer takes its fastest alternative within the total.
        let fastest = |alternatives: &Vec<Alternative>| fastest_within(alternatives, total).unwrap_or(0);
        groups.iter().zip(&alternatives).map(|((_, ids), known)| vec![fastest(known); ids.len()]).collect()
    } else {
        let groups = groups.iter().zip(&alternatives);
        let groups: Vec<Group> =
            groups.map(|((_, ids), known)| Group { layers: ids.len(), alternatives: known.clone() }).collect();
        let division = planner::workspace_division(&groups, total, SOLVE).map_err(|error| error.to_string())?;
        (solved.proven, solved.gap) = (division.proven, division.gap);
        division.chosen
    };
    let layers: usize = groups.iter().map(|(_, ids)| ids.len()).sum();
    let (mut start_of_next, mut arena) = (0, 0);
    for (((key, ids), set), (known, chosen)) in groups.iter().zip(&sets).zip(alternatives.iter().zip(&chosen)) {
        let share = fastest_within(known, if one_stream { total } else { total / layers.max(1) });
        solved.equal_shares += share.map_or(0.0, |index| known[index].time) * ids.len() as f64;
        for (&id, &index) in ids.iter().zip(chosen) {
            solved.time += known[index].time;
            let made = set.choices.get(index).and_then(|(configuration, time)| {
                let plan = key.0.plan(configuration).ok()?;
                Some((plan, configuration.clone(), *time))
            });
            let problem = key.0.clone();
            let Some((plan, configuration, time)) = made else {
                solved.fallback.push(problem);
                continue;
            };
            let from = if one_stream { 0 } else { start_of_next };
            let range = from..from + plan.workspace();
            start_of_next = from + segment_bytes(plan.workspace());
            arena = arena.max(start_of_next);
            let (broken, last) = (false.into(), Fence::default());
            solved.segments.push((id, Segment { problem, configuration, plan, range, time, broken, last }));
        }
    }
    solved.took = start.elapsed().as_secs_f64() * 1e3;
    if arena > total {
        return Err(format!("the plan needs {arena} bytes of {total}"));
    }
    Ok(solved)
}

static EMPTY: Set = Set { limit: 0, choices: Vec::new(), fallback: None };

impl Set {
    /// Returns the solver's alternatives: the desirable set, in whole segments, then the fallback if every
    /// configuration needs workspace.
    fn alternatives(&self) -> Vec<Alternative> {
        let choices = self.choices.iter();
        let mut alternatives: Vec<_> = choices
            .map(|(choice, time)| Alternative { time: *time, workspace: segment_bytes(choice.workspace()) })
            .collect();
        if alternatives.iter().all(|alternative| alternative.workspace > 0) {
            // A fallback that could not be timed must be the last choice.
            let slowest = alternatives.iter().map(|alternative| alternative.time).fold(0.0, f64::max);
            alternatives.push(Alternative { time: self.fallback.unwrap_or(UNKNOWN * slowest), workspace: 0 });
        }
        alternatives
    }
}

fn fastest_within(alternatives: &[Alternative], bytes: usize) -> Option<usize> {
    let fits = alternatives.iter().enumerate().filter(|(_, alternative)| alternative.workspace <= bytes);
    fits.min_by(|(_, a), (_, b)| a.time.total_cmp(&b.time)).map(|(index, _)| index)
}
