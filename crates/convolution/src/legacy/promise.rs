//! Makes the promise that answers a query. Either tunes while the program waits, or reserves workspace for a plan that
//! is found while the program runs.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_abi::*;

use super::asking::{Asking, Made, Timed};
use crate::exec::{self, Constant};
use crate::plans::graph::targets;
use crate::plans::legacy::candidates;
use crate::plans::legacy::engine::Engines;
use crate::plans::legacy::plan::Plan;
use crate::plans::legacy::registry::{self, EXECUTED, Promise, Question, State};
use crate::plans::legacy::rounding;
use crate::problem::OwnedDescriptors;
use crate::problem::algorithm::{self, Algorithm, Class, Plain};
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::{Operands, Workspace};
use gpu::{Moment, Stream};
use guest::summary::Waiting;
use guest::{determinism, room, settings};
use planner::{Configuration, MicroConfiguration};
use tuning::allowance;
use tuning::devices;
use tuning::record::{End, Record, Wanted};
use tuning::search::{self, Candidate, Goal, Next, Search, any_division};
use tuning::session::Session;
use tuning::waiting::{Bench, Budget, OwnBuffers, Waited};

/// Set once any problem has been tuned while the program waited.
static TUNED: AtomicBool = AtomicBool::new(false);

/// The budget for tuning the first problem, in executions of it, if the program asked for no timing: the problem may
/// run once and never come back. A second query before the first execution shows that the program is being set up.
const FIRST_EXECUTIONS: f64 = 20.0;

/// How long the program may wait for the tuning of one problem.
#[derive(Clone, Copy)]
struct Patience {
    time: Duration,
    /// The most memory that tuning may take, in bytes.
    bytes: usize,
    /// True if this is what the promise about exploring leaves.
    is_rest: bool,
    /// The budget in executions of the problem.
    executions: f64,
}

impl Patience {
    /// A shorter time would measure next to nothing.
    const LEAST: Duration = Duration::from_millis(10);
    /// The most memory beside the program's, if the user names none.
    const BYTES: usize = 16 << 20;

    /// What the user's settings and the promise about exploring allow a query now. `None`: the program does not wait.
    fn now(query: &Query) -> Option<Self> {
        let executions = || {
            let is_first = !TUNED.swap(true, Ordering::Relaxed) && matches!(query, Query::Get);
            if is_first { FIRST_EXECUTIONS } else { f64::INFINITY }
        };
        if !room::is_left_or("cuDNN's own choices run") {
            return None;
        }
        let settings = settings::get();
        let time = Duration::from_secs_f64(settings.tune_seconds());
        match allowance::of_process().remaining().filter(|_| settings.tune_seconds.is_none()) {
            None => Some(Self { time, bytes: settings.tune_bytes(), is_rest: false, executions: executions() }),
            Some(rest) if rest < Self::LEAST => None,
            // Half of it: the last candidate may end late, and the next problem waits too.
            Some(rest) => {
                let bytes = settings.tune_bytes.unwrap_or(Self::BYTES);
                Some(Self { time: time.min(rest / 2), bytes, is_rest: true, executions: executions() })
            }
        }
    }
}

/// How the program asks for algorithms.
#[derive(Clone, Copy)]
pub enum Query {
    /// `cudnnGetConvolution*Algorithm_v7`.
    Get,
    /// `cudnnFindConvolution*Algorithm`.
    Find,
    /// `cudnnFindConvolution*AlgorithmEx`, with the program's data and workspace.
    FindEx(Operands, Workspace),
}

/// A search that has ended.
struct Tuned {
    search: Search<Algorithm>,
    /// The limits with the same result.
    covers: Range<usize>,
    class: Class,
}

impl Asking<'_> {
    /// Returns the promise to answer with, an earlier one or a new one. `None` if cuDNN's own results are the answer.
    ///
    /// # Safety
    /// As for [`algorithms`](super::answer::algorithms).
    pub unsafe fn answer(&self, query: &Query) -> Option<Promise> {
        let state = registry::state(cudnn::device(), &self.problem);
        let _answering = Answering(&state);
        // SAFETY: the query is the one of this function (see `# Safety`).
        let promise = unsafe { self.promise(&state, query) };
        if promise.is_none() {
            state.known.lock().answered = true;
        }
        promise
    }

    /// # Safety
    /// As for [`algorithms`](super::answer::algorithms).
    unsafe fn promise(&self, state: &State, query: &Query) -> Option<Promise> {
        let stream = self.handle.stream()?;
        let capturing = cudnn::device().is_capturing(stream);
        let (earlier, patience) = {
            let mut known = state.known.lock();
            while known.busy {
                state.tuned.wait(&mut known);
            }
            if determinism::is_asked() {
                // Times decide a plan. Without one, cuDNN's own results are the answer, if any of them fits.
                drop(known);
                let reserved = |asking: &Self| if self.fitting.is_some() { None } else { asking.reserve(query) };
                return self.recorded(state, false, |asking| reserved(asking).map(Made::reserved));
            }
            // A program that queries before it runs anything is being set up, and waits. Later, only a problem that has
            // run makes the program wait: one that never comes back is not worth the stall.
            let waits = !capturing && (known.executions > 0 || !EXECUTED.load(Ordering::Relaxed));
            let patience = if waits { Patience::now(query) } else { None };
            let earlier = known.answer(self.question).cloned();
            let is_settled = match &earlier {
                Some(made) => made.is_final || patience.is_none() || known.declines(self.question),
                None => known.declines(self.question),
            };
            if is_settled {
                drop(known);
                return earlier.map(|made| self.record(made.clone(), usize::MAX).unwrap_or(made));
            }
            known.busy |= patience.is_some();
            (earlier, patience)
        };
        let _busy = patience.is_some().then(|| Busy(state));
        let is_whole = patience.is_some_and(|patience| !patience.is_rest);
        // SAFETY: the query is the one of this function (see `# Safety`).
        let new = self.recorded(state, is_whole, |asking| unsafe { asking.find(state, query, stream, patience) });
        new.or_else(|| earlier.map(|made| self.record(made.clone(), usize::MAX).unwrap_or(made)))
    }

    /// Finds a promise: tunes, or reserves workspace.
    ///
    /// # Safety
    /// As for [`algorithms`](super::answer::algorithms).
    unsafe fn find(&self, state: &State, query: &Query, stream: Stream, patience: Option<Patience>) -> Option<Made> {
        let measured = state.known.lock().measured.clone();
        let is_rest = patience.is_some_and(|patience| patience.is_rest);
        // SAFETY: the query is the one of this function (see `# Safety`).
        let tuned = unsafe { self.tune(query, stream, &measured, patience) };
        if let Some(mut tuned) = tuned {
            state.known.lock().learn(tuned.search.measured());
            // What a short wait left out, the program's executions time, and no promise must keep them from it.
            if !is_rest || tuned.search.wants() == Next::Nothing {
                return self.make(&tuned);
            }
        }
        self.reserve(query).map(Made::reserved)
    }

    /// Returns cuDNN's algorithms in cuDNN's order of preference. Find leaves out algorithms that do not fit undivided,
    /// so for Find queries this calls cuDNN's Get function.
    fn offered(&self, query: &Query) -> Option<Cow<'_, [AlgoPerf]>> {
        if let Query::Get = query {
            return Some(Cow::Borrowed(self.results));
        }
        self.descriptors.get_algorithms(self.handle).ok().map(Cow::Owned)
    }

    /// Whether the preferred algorithm rounds floats as far as its math type lets it. Finds out if the program may wait.
    /// `None` if that is not known.
    fn rounds(&self, may_wait: bool) -> Option<bool> {
        let known = rounding::known(&self.problem, self.preferred()).map(|known| known.rounds());
        if known.is_some() || !may_wait {
            return known;
        }
        let (begin, plain) = (Moment::now(), rounding::find(&self.problem, self.preferred()));
        if rounding::known(&self.problem, self.preferred()).is_some() {
            allowance::of_process().explored(begin.elapsed().as_secs_f64() * 1e3);
        }
        Some(plain.rounds())
    }

    /// The numerical class of the program's choice without us. Its math type is no stricter than the preferred
    /// algorithm's. It rounds floats if that one does.
    fn class(&self, rounds: bool) -> Class {
        let (chosen, preferred) = (self.fitting.unwrap_or(self.own), self.preferred());
        let math_types = [chosen.mathType, preferred.mathType];
        let math_type = algorithm::loosest(math_types.into_iter()).unwrap_or(chosen.mathType);
        let class_of = |chosen: &AlgoPerf| {
            let chosen = AlgoPerf { mathType: math_type, ..*chosen };
            Class::of(&Plain::new(&self.problem, &chosen, rounds), settings::get().numerics)
        };
        Class { winograd: class_of(&chosen).winograd.max(class_of(preferred).winograd), ..class_of(&chosen) }
    }

    /// Lets the preferred algorithm run undivided as the program would run it, if that fits. In a class without TF32 the same
    /// algorithm is there under another math type, by which cuDNN may run a slower kernel. That one goes: the database
    /// knows both by one name.
    fn admit_preferred(&self, class: Class, candidates: &mut Vec<Candidate<Algorithm>>) {
        let preferred = self.preferred();
        let (alone, whole) = (class.alone(preferred), [self.problem.batch()]);
        let mut admitted = candidates::candidates(self.handle, &self.problem, &[*preferred], alone, &whole);
        admitted.retain(|it| it.workspace <= self.question.limit);
        if let [admitted] = admitted[..] {
            let name = admitted.algorithm.to_string();
            candidates.retain(|it| it.batch != admitted.batch || it.algorithm.to_string() != name);
            candidates.insert(0, admitted);
        }
    }

    /// Makes a promise without timing: reserves workspace for algorithms that cuDNN prefers to the fitting one, and
    /// that fit in micro-batches. The plan is found while the program runs. Until then the fitting algorithm runs
    /// undivided, or if none fits, some division runs. `None` if there are no such algorithms, or nobody gave a limit.
    fn reserve(&self, query: &Query) -> Option<Promise> {
        let Self { handle, problem, question, own, .. } = self;
        let fallback = self.fitting;
        if question.asked.is_none() || fallback.is_some_and(|fallback| fallback.algo == own.algo) {
            return None; // no limit, or cuDNN prefers nothing else
        }
        let offered = self.offered(query)?;
        let better = offered.iter().position(|result| fallback.is_some_and(|fallback| result.algo == fallback.algo));
        let better = better.unwrap_or(offered.len());
        let sizes = candidates::sizes(problem, question.sizes, cudnn::device());
        let of = |rounds: bool| {
            let class = self.class(rounds);
            let mut listed = rounding::listed(*handle, problem, &offered[..better], class.math_type);
            listed.retain(|result| offered[..better].iter().any(|better| better.algo == result.algo));
            (class, candidates::candidates(*handle, problem, &listed, class, &sizes))
        };
        let rounds = self.rounds(false);
        let (class, strict) = of(rounds.unwrap_or(false));
        // The workspace is enough for either.
        let either = [Some(strict), rounds.is_none().then(|| of(true).1)];
        let (mut room, mut covers) = (None, 0..usize::MAX);
        for mut candidates in either.into_iter().flatten() {
            let its = search::covers(&candidates, question.limit);
            covers = covers.start.max(its.start)..covers.end.min(its.end);
            candidates.retain(|candidate| candidate.workspace <= question.limit);
            if fallback.is_none() {
                any_division(problem.batch(), &candidates)?;
            }
            room = room.max(candidates.iter().map(|candidate| candidate.workspace).max());
        }
        let room = room?;
        // If the fallback is the last resort, its result must stay, so the promise gets the id of cuDNN's first result.
        let entry = fallback.filter(|fallback| Some(fallback.algo) != self.last_resort).unwrap_or(*own);
        let for_fallback = |fallback: AlgoPerf| fallback.memory.max(self.need(fallback.algo, entry.mathType));
        let needs = room.max(fallback.map_or(0, for_fallback));
        // Without a fallback, a division runs that the program's own math type must allow.
        if needs > question.limit || (fallback.is_none() && !runs_within(entry.mathType, problem.math_type)) {
            return None;
        }
        Some(Promise {
            question: *question,
            covers,
            entry: AlgoPerf { memory: needs, ..entry },
            saves: None,
            needs,
            preferred: Some(self.preferred().algo),
            class: Some(class),
            fallback: fallback.map(|fallback| fallback.algo),
            determined: None,
            undivided: entry.memory.max(self.need(entry.algo, entry.mathType)),
            plan: None,
            is_final: false,
            broken: [false; 2],
        })
    }

    /// Searches with the known times. If the program waits, with `patience`, times the rest on its buffers or our own.
    /// `None` if the search is not possible.
    ///
    /// # Safety
    /// As for [`algorithms`](super::answer::algorithms).
    unsafe fn tune(
        &self,
        query: &Query,
        stream: Stream,
        known: &[MicroConfiguration<Algorithm>],
        patience: Option<Patience>,
    ) -> Option<Tuned> {
        let Self { handle, problem, question, .. } = self;
        let device = cudnn::device();
        let ordinal = device.ordinal();
        let record = Record::of(problem, device, ordinal);
        if patience.is_none() && record.is_empty() {
            return None;
        }
        settings::fault_point("tune");
        let sizes = question.sizes;
        let class = self.class(self.rounds(patience.is_some()).unwrap_or(false));
        let offered = self.offered(query)?;
        let offered = rounding::listed(*handle, problem, &offered, class.math_type);
        let all_sizes = candidates::sizes(problem, sizes, device);
        let mut candidates = candidates::candidates(*handle, problem, &offered, class, &all_sizes);
        self.admit_preferred(class, &mut candidates);
        if patience.is_some() && class.engines {
            targets::learn(handle.raw());
            candidates.extend(&Engines::ours(problem, class, question.limit).candidates);
        }
        let covers = search::covers(&candidates, question.limit);
        if !candidates.iter().any(|candidate| candidate.workspace <= question.limit) {
            return None;
        }
        let wanted = Wanted::among(candidates, Goal::Fastest { limit: question.limit }, sizes, class);
        let Some(Patience { time, bytes, is_rest, executions }) = patience else {
            let time = Duration::from_secs_f64(settings::get().tune_seconds());
            let whole = Budget::of_time(time);
            let ends = [Budget { executions: FIRST_EXECUTIONS, ..whole }, whole].map(End::Spent);
            let mut search = record.search(&wanted, known, &ends);
            return (search.wants() == Next::Nothing).then_some(Tuned { search, covers, class });
        };
        let waiting = Waiting::begin();
        let session = Session {
            problem,
            part: problem,
            wanted: &wanted,
            record: &record,
            budget: Budget { time, executions, is_rest },
            devices: &devices::tuning_for(device, ordinal),
            bytes,
            stop: &AtomicBool::new(false),
            progress: &|progress| waiting.show(|| progress.of(problem)),
        };
        let prepare = |workspace| match query {
            Query::FindEx(operands, own) => {
                let scaling = exec::scaling_type(problem);
                let (alpha, beta) = (scaling.constant(Constant::One), scaling.constant(Constant::Zero));
                let operands = Operands { alpha, beta, ..*operands };
                Ok((Bench { device, handle: handle.raw(), stream, operands, workspace: *own }, None))
            }
            Query::Get | Query::Find => {
                let buffers = OwnBuffers::allocate(device, stream, problem, workspace, bytes)?;
                Ok((buffers.bench(device, handle.raw(), stream, problem), Some(buffers)))
            }
        };
        let (begin, _waited) = (Moment::now(), Waited::since(Instant::now()));
        // SAFETY: the bench holds this problem's data; its workspace is as large as any candidate's, or as the limit;
        // its handle is the program's, which is in this call and in no other use.
        let searched = unsafe { session.tune(known, prepare) };
        if is_rest {
            allowance::of_process().explored(begin.elapsed().as_secs_f64() * 1e3);
        }
        let searched = searched.map_err(|why| log::info!("{problem} is not tuned before it runs: {why}")).ok();
        searched.map(|search| Tuned { search, covers, class })
    }

    /// Makes the promise that follows from a search. `None` if nothing fits.
    fn make(&self, tuned: &Tuned) -> Option<Made> {
        let Tuned { search, covers, class } = tuned;
        let Question { asked, limit, .. } = self.question;
        let (mut best, mut time) = search.best()?;
        let mut fallback = self.fallback_for(search, &best);
        if fallback.is_none() {
            // An engine may refuse a call for its addresses, and nothing else would run in its place.
            (best, time) = search.among(|algorithm| algorithm.engine.is_none()).best()?;
        }
        if asked.is_some()
            && (!best.is_undivided() || has_engines(&best))
            && fallback.is_some_and(|r| r.deterministic && !is_deterministic(&best))
        {
            // The plan gets the fallback's id, so a program may rely on the determinism of that algorithm.
            (best, time) = search.among(|algorithm| algorithm.deterministic).best()?;
            fallback = self.fallback_for(search, &best);
        }
        let plan = Arc::new(Plan::new(&self.problem, best).ok()?);
        // An engine has no id of its own: its plan goes under another's, as divisions do.
        let undivided = plan.configuration().is_undivided() && !plan.has_engines();
        let need = |id| self.need(id, plan.math_type());
        let whole = fallback.and_then(|fallback| search.whole(fallback)).map_or(0, |micro| micro.workspace);
        let for_fallback = fallback.map_or(0, |fallback| need(fallback.id)).max(whole);
        let for_determined = |determined: &AlgoPerf| determined.memory.max(need(determined.algo));
        let determined = self.determined().filter(|determined| for_determined(determined) <= limit);
        let memory = plan.workspace().max(for_fallback).max(determined.map_or(0, for_determined));
        // A program that keeps its own math type may get no plan, and then the fallback must run.
        if memory > limit || (fallback.is_none() && !plan.runs_within(self.problem.math_type)) {
            return None;
        }
        let spare = |id| Some(id) != self.last_resort;
        // The id, and the bytes that its algorithm needs to run undivided.
        let chosen = self.fitting.unwrap_or(self.own);
        let (algo, own_need) = match (undivided, asked, fallback) {
            // A program that shuns what is not deterministic must see cuDNN's deterministic results as cuDNN lists them.
            _ if chosen.determinism != CUDNN_DETERMINISTIC && spare(chosen.algo) => (chosen.algo, chosen.memory),
            (true, ..) => (plan.main_algorithm().id, memory),
            (false, Some(_), Some(fallback)) if spare(fallback.id) => (fallback.id, memory),
            (false, Some(_), _) if !spare(self.own.algo) && !plan.has_engines() => {
                (plan.main_algorithm().id, usize::MAX)
            }
            _ => (self.own.algo, self.own.memory),
        };
        // And it must see that cuDNN would take what is not: see `Known::chose`.
        let chosen = chosen.determinism == CUDNN_DETERMINISTIC;
        let deterministic = chosen && plan.is_deterministic() && fallback.is_none_or(|fallback| fallback.deterministic);
        let entry = AlgoPerf {
            algo,
            status: CUDNN_STATUS_SUCCESS,
            time: time as f32,
            memory,
            determinism: if deterministic { CUDNN_DETERMINISTIC } else { CUDNN_NON_DETERMINISTIC },
            mathType: plan.math_type(),
            reserved: self.own.reserved,
        };
        let plain = self.plain_time(search);
        let promise = Promise {
            question: self.question,
            covers: covers.clone(),
            entry,
            saves: plain.map(|plain| plain - time),
            needs: memory,
            preferred: Some(self.preferred().algo),
            class: Some(*class),
            fallback: fallback.map(|fallback| fallback.id),
            determined: determined.map(|determined| determined.algo),
            undivided: own_need.max(need(algo)),
            plan: Some(plan),
            is_final: true,
            broken: [false; 2],
        };
        Some(Made { promise, timed: Some(Timed { time, plain, undivided: search.undivided() }) })
    }

    /// Returns the milliseconds of the program's choice without us. `None` if it was not timed: it may not fit a limit that
    /// the user set. The timed candidate may have a stricter math type than cuDNN's result, if it was found not to round.
    fn plain_time(&self, search: &Search<Algorithm>) -> Option<f64> {
        let plain = self.plain?;
        let whole = search.measured().iter().filter(|micro| micro.batch == self.problem.batch());
        let of_id = whole.map(|micro| micro.algorithm).filter(|it| it.engine.is_none() && it.id == plain.algo);
        search.whole_of(of_id.min_by_key(|it| it.math_type != plain.mathType)?).map(|(_, time)| time)
    }

    /// Returns the deterministic algorithm that needs the least workspace undivided, and of those the one of the least id.
    /// Nothing here may depend on times: cuDNN lists what it has timed by them, and they decide a plan's workspace.
    fn determined(&self) -> Option<&AlgoPerf> {
        let runs = self
            .results
            .iter()
            .filter(|result| result.status == CUDNN_STATUS_SUCCESS && result.determinism == CUDNN_DETERMINISTIC);
        runs.min_by_key(|result| (result.memory, result.algo))
    }

    /// Returns the fastest algorithm that runs undivided in the configuration's workspace, or else the one that needs
    /// least. Prefers an algorithm that is as deterministic as the configuration, and is not the last resort.
    fn fallback_for(&self, search: &Search<Algorithm>, configuration: &Configuration<Algorithm>) -> Option<Algorithm> {
        let find = |admits: &dyn Fn(&Algorithm) -> bool| {
            let search = search.among(|algorithm| algorithm.engine.is_none() && admits(algorithm));
            let fits = search.fastest_whole(configuration.workspace()).or_else(|| search.smallest_whole());
            fits.map(|micro| micro.algorithm)
        };
        let as_deterministic = is_deterministic(configuration);
        // The fallback runs under the configuration's math type, which may raise the need of the same id.
        let math_type = algorithm::loosest(configuration.parts().iter().map(|(_, micro)| micro.algorithm.math_type));
        let descriptors = OwnedDescriptors::new(&self.problem, math_type.unwrap_or(self.problem.math_type)).ok();
        let fits = |algorithm: &Algorithm| {
            Some(algorithm.math_type) == math_type
                || descriptors.as_ref().is_some_and(|descriptors| {
                    let needed = descriptors.raw().workspace_size(self.handle, algorithm.id);
                    needed.is_ok_and(|needed| needed <= configuration.workspace())
                })
        };
        let alike = |algorithm: &Algorithm| algorithm.deterministic == as_deterministic && fits(algorithm);
        let spare = |algorithm: &Algorithm| Some(algorithm.id) != self.last_resort;
        let fitting = find(&|algorithm| alike(algorithm) && spare(algorithm))
            .filter(|found| search.whole(*found).is_some_and(|micro| micro.workspace <= configuration.workspace()));
        fitting.or_else(|| find(&alike)).or_else(|| find(&fits)).or_else(|| find(&|_| true))
    }
}

/// Returns whether a math type is no looser than another.
fn runs_within(math_type: cudnnMathType_t, other: cudnnMathType_t) -> bool {
    algorithm::loosest([math_type, other].into_iter()) == Some(other)
}

fn has_engines(configuration: &Configuration<Algorithm>) -> bool {
    configuration.parts().iter().any(|(_, micro)| micro.algorithm.engine.is_some())
}

fn is_deterministic(configuration: &Configuration<Algorithm>) -> bool {
    configuration.parts().iter().all(|(_, micro)| micro.algorithm.deterministic)
}

/// A query under way. If it panics, cuDNN's own results are the answer, and no earlier reported workspace applies.
struct Answering<'a>(&'a State);

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.known.lock().answered = true;
        }
    }
}

/// Ends the tuning of a problem when dropped, even by a panic.
struct Busy<'a>(&'a State);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.known.lock().busy = false;
        self.0.tuned.notify_all();
    }
}
