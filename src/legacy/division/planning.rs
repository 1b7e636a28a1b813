//! From layers to a division: the desirable set of each kernel, and the ILP over all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::layers::LayerId;
use super::network::Wanted;
use super::segments::{Division, Segment, Solved};
use crate::background;
use crate::cudnn::algorithm::{Algorithm, Class};
use crate::cudnn::calls::query::AlgoPerf;
use crate::cudnn::kernel::Kernel;
use crate::device::{Device, Fence};
use crate::exec::{Plan, segment_bytes};
use crate::legacy::book;
use crate::legacy::report;
use crate::plan::{self, Alternative, BatchSizePolicy, Configuration, Group};
use crate::policies::Policies;
use crate::settings;
use crate::tune::ahead::{self, Budget, Goal, Job};
use crate::tune::waiting::Waited;

/// How much slower than any configuration what is ready counts as, where it could not be timed.
const UNKNOWN: f64 = 10.0;
/// What the solver may take.
const SOLVE: Duration = Duration::from_secs(1);

/// Desirable sets of kernels in the classes that may be used.
pub type Sets = HashMap<(Kernel, Class), Arc<Set>>;

/// A kernel's desirable set with times in milliseconds, workspace ascending; and what an algorithm
/// takes that runs in what the program was told, where no configuration needs nothing.
#[derive(Default)]
pub struct Set {
    /// The most bytes of workspace that were looked at.
    limit: usize,
    pub choices: Vec<(Configuration<Algorithm>, f64)>,
    pub ready: Option<f64>,
}

/// Tunes what is wanted as far as it is not known, solves, and puts the new division in place of the
/// old. Returns all desirable sets that are known now, and whether all was done that can be.
pub fn divide(device: Device, wanted: Wanted, division: &RwLock<Division>) -> (Sets, bool) {
    let Wanted { layers, mut total, one_stream, waits, policies, mut sets } = wanted;
    let numerics = settings::get().numerics;
    let limit = policies.call_limit(total);
    let mut groups: Vec<((Kernel, Class), Vec<LayerId>)> = Vec::new();
    for (id, layer) in &layers {
        let key = (layer.kernel, layer.class(numerics));
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, ids)) => ids.push(*id),
            None => groups.push((key, vec![*id])),
        }
    }
    let chosen = |id: &LayerId| layers.iter().find(|(known, _)| known == id).map(|(_, layer)| layer.chosen);
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

/// Groups of layers that are planned alike.
type Groups = [((Kernel, Class), Vec<LayerId>)];

/// Finds the desirable sets that are missing.
fn tune(
    groups: &Groups,
    chosen: &dyn Fn(&LayerId) -> Option<AlgoPerf>,
    limit: usize,
    policies: &Policies,
    waits: bool,
    sets: &mut Sets,
) {
    let is_missing = |(key, _): &&((Kernel, Class), Vec<LayerId>)| sets.get(key).is_none_or(|set| set.limit < limit);
    let missing: Vec<_> = groups.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return;
    }
    let (settings, devices) = (settings::get(), ahead::devices());
    for (done, (key, ids)) in missing.iter().enumerate() {
        if background::stopped() {
            return;
        }
        let _waited = waits.then(|| Waited::since(Instant::now()));
        let (kernel, class) = key;
        log::info!("Workspace Division: kernel {} of {}, {kernel}", done + 1, missing.len());
        let job = Job {
            kernel,
            class: Some(*class),
            sizes: policies.batch_size_policy,
            goal: Goal::DesirableSet { limit },
            budget: Budget { time: Duration::from_secs_f64(settings.tune_seconds), executions: f64::INFINITY },
            bytes: settings.tune_bytes,
            devices: &devices,
            stop: &background::STOP,
            progress: &|_| (),
        };
        let set = match ahead::tune(&job) {
            Ok(search) => {
                let choices = search.desirable_set();
                let needs_nothing = choices.first().is_some_and(|(choice, _)| choice.workspace() == 0);
                let chosen = ids.first().and_then(chosen).filter(|_| !needs_nothing);
                Set { limit, ready: chosen.and_then(|chosen| ready_time(&job, &chosen)), choices }
            }
            Err(why) => {
                log::warn!("Workspace Division: {kernel} gets no workspace: {why}");
                Set { limit, ..Set::default() }
            }
        };
        report::desirable(kernel, &set.choices);
        sets.insert(*key, Arc::new(set));
    }
}

/// Milliseconds of what runs without a segment: what is ready, or what the program asked for in a workspace
/// of its own.
fn ready_time(job: &Job, chosen: &AlgoPerf) -> Option<f64> {
    let promised = book::known_page(Device::current(), job.kernel).and_then(|page| {
        let state = page.state.lock();
        let promise = state.promise(chosen.algo, usize::MAX)?;
        Some((promise.ready?, promise.entry.memory))
    });
    let (id, limit) = promised.unwrap_or((chosen.algo, usize::MAX));
    let class = Class { deterministic: false, math_type: Some(job.kernel.math_type), only: Some(id) };
    let goal = Goal::Fastest { limit };
    let search = ahead::tune(&Job { class: Some(class), sizes: BatchSizePolicy::Undivided, goal, ..*job }).ok()?;
    search.smallest_whole().map(|micro| micro.time)
}

/// Chooses a configuration for each layer so that all of them together, or on one stream the largest,
/// take at most `total` bytes.
fn solve(groups: &Groups, sets: &Sets, total: usize, one_stream: bool) -> Result<Solved, String> {
    let start = Instant::now();
    let sets: Vec<&Set> = groups.iter().map(|(key, _)| sets.get(key).map(|set| &**set).unwrap_or(&EMPTY)).collect();
    let alternatives: Vec<Vec<Alternative>> = sets.iter().map(|set| set.alternatives()).collect();
    let mut solved = Solved { total, one_stream, proven: true, ..Solved::default() };
    let chosen: Vec<Vec<usize>> = if one_stream {
        // A maximum, not a sum: each layer takes what is fastest within the total.
        let fastest = |alternatives: &Vec<Alternative>| fastest_within(alternatives, total).unwrap_or(0);
        groups.iter().zip(&alternatives).map(|((_, ids), known)| vec![fastest(known); ids.len()]).collect()
    } else {
        let groups = groups.iter().zip(&alternatives);
        let groups: Vec<Group> =
            groups.map(|((_, ids), known)| Group { layers: ids.len(), alternatives: known.clone() }).collect();
        let division = plan::workspace_division(&groups, total, SOLVE).map_err(|error| error.to_string())?;
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
                let plan = Plan::new(&key.0, configuration.clone()).ok()?;
                Some((plan, *time))
            });
            let Some((plan, time)) = made else {
                solved.ready.push(key.0);
                continue;
            };
            let from = if one_stream { 0 } else { start_of_next };
            let range = from..from + plan.workspace();
            start_of_next = from + segment_bytes(plan.workspace());
            arena = arena.max(start_of_next);
            solved.segments.push((id, Segment { plan, range, time, broken: false.into(), last: Fence::default() }));
        }
    }
    solved.took = start.elapsed().as_secs_f64() * 1e3;
    if arena > total {
        return Err(format!("the plan needs {arena} bytes of {total}"));
    }
    Ok(solved)
}

static EMPTY: Set = Set { limit: 0, choices: Vec::new(), ready: None };

impl Set {
    /// What the solver chooses from: the set, with whole segments, and behind it what is ready where no
    /// configuration needs nothing.
    fn alternatives(&self) -> Vec<Alternative> {
        let choices = self.choices.iter();
        let mut alternatives: Vec<_> = choices
            .map(|(choice, time)| Alternative { time: *time, workspace: segment_bytes(choice.workspace()) })
            .collect();
        if alternatives.iter().all(|alternative| alternative.workspace > 0) {
            // Where it could not be timed, it is the last thing to run.
            let slowest = alternatives.iter().map(|alternative| alternative.time).fold(0.0, f64::max);
            alternatives.push(Alternative { time: self.ready.unwrap_or(UNKNOWN * slowest), workspace: 0 });
        }
        alternatives
    }
}

fn fastest_within(alternatives: &[Alternative], bytes: usize) -> Option<usize> {
    let fits = alternatives.iter().enumerate().filter(|(_, alternative)| alternative.workspace <= bytes);
    fits.min_by(|(_, a), (_, b)| a.time.total_cmp(&b.time)).map(|(index, _)| index)
}
