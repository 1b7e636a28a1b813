//! The registry of problems. For each: times, the promises made to the program, and the decisions for its calls.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use super::decision::{Ask, Decision};
use super::plan::Plan;
use crate::problem::Problem;
use crate::problem::algorithm::{Algorithm, Class};
use cudnn::convolution::AlgoPerf;
use cudnn_abi::*;
use gpu::Device;
use guest::determinism::{self, Choice};
use planner::{BatchSizePolicy, MicroConfiguration};
use tuning::registry::Registry;

/// Set once the process has run a convolution.
pub static EXECUTED: AtomicBool = AtomicBool::new(false);

/// The key of the registry: one problem on one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    problem: Problem,
}

/// A program whose shapes never repeat must not fill the memory: the registry forgets problems without a promise.
static STATES: Registry<Key, State> = Registry::new(1 << 14, is_needed);

/// Set once the registry has forgotten reported workspace sizes. They were all cuDNN's own.
static HAS_FORGOTTEN_SIZES: AtomicBool = AtomicBool::new(false);

/// Returns whether a state that nobody holds must stay. The registry forgets it at once if not.
fn is_needed(state: &State) -> bool {
    let Some(known) = state.known.try_lock() else { return true };
    let is_needed = !known.promises.is_empty();
    if !is_needed && !known.told.is_empty() {
        HAS_FORGOTTEN_SIZES.store(true, Ordering::Relaxed);
    }
    is_needed
}

/// The state of one problem on one device.
#[derive(Default)]
pub struct State {
    /// Do not hold this lock across calls that may block. Who needs the locks of several math types takes them in the
    /// order of the math types.
    pub known: Mutex<Known>,
    /// Set if the program may have been told sizes of this problem that were forgotten. Then all of its ids have cuDNN's
    /// own.
    pub forgot_sizes: bool,
    /// Notified when a thread has ended tuning.
    pub tuned: Condvar,
}

/// The most questions of a problem whose first results are kept: a program may ask under any limit.
const MOST_FIRSTS: usize = 64;

/// The knowledge of one problem on one device.
#[derive(Default)]
pub struct Known {
    /// How often the problem has run.
    pub executions: usize,
    /// Set while a thread tunes the problem and the program waits.
    pub busy: bool,
    /// Measured times of micro-configurations.
    pub measured: Vec<MicroConfiguration<Algorithm>>,
    /// The promises made in answers to queries.
    pub promises: Vec<Promise>,
    /// Set once a query was answered: from then on, an id that is not in `told` has cuDNN's own workspace.
    pub answered: bool,
    /// The reported sizes of ids, in bytes, which are final.
    pub(super) told: Vec<(c_int, usize)>,
    /// The questions that no promise answers, because of the sizes that were reported before.
    pub(super) declined: Vec<(Question, Range<usize>)>,
    /// The algorithm and the math type of the first result to a question that no promise answers.
    firsts: Vec<(Question, [c_int; 2])>,
    /// The first result that the program has been told since the last call, and cuDNN's own results.
    offered: (Option<AlgoPerf>, Vec<AlgoPerf>),
    /// Set if it has had several that differ: then nobody knows which of them a call follows.
    offers_differ: bool,
    /// The decisions for calls without a promised plan.
    pub decisions: Vec<Arc<Decision>>,
}

/// The limits and the batch sizes of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The limit that somebody gave, in bytes.
    pub asked: Option<usize>,
    /// The limit in bytes: the given one, or else the workspace of cuDNN's own choice.
    pub limit: usize,
    pub sizes: BatchSizePolicy,
}

/// The promise behind a reported algorithm id and workspace size.
#[derive(Clone)]
pub struct Promise {
    pub question: Question,
    /// The limits that get the same answer: no algorithm's workspace lies between them.
    pub covers: Range<usize>,
    /// The reported entry: id, bytes of workspace, time.
    pub entry: AlgoPerf,
    /// The milliseconds that the plan saves against what plain cuDNN would run, if they are known.
    pub saves: Option<f64>,
    /// The bytes that plan, fallback and determined algorithm need: at most the reported ones.
    pub needs: usize,
    /// The program's choice without us, which it would make if it fitted a limit of the user's. A plan that is found later
    /// may round floats as far as that one does.
    pub preferred: Option<c_int>,
    /// What may run for the program that asked. `None` for a promise without a plan of its own.
    pub class: Option<Class>,
    /// The fallback: an algorithm that runs undivided in the reported workspace. `None` if no algorithm does: then only
    /// divisions run.
    pub fallback: Option<c_int>,
    /// The algorithm that runs undivided in place of a plan if the program asks for determinism: a deterministic one that
    /// follows from cuDNN's list alone.
    pub determined: Option<c_int>,
    /// The bytes that the reported id needs to run undivided.
    pub undivided: usize,
    /// The plan. `None` if it is still to be found within the reported workspace.
    pub plan: Option<Arc<Plan>>,
    /// Set once tuning has ended: another query changes nothing.
    pub is_final: bool,
    /// Set once the plan has failed, for plain calls and for fused ones. From then on the fallback runs.
    pub broken: [bool; 2],
}

/// Returns the problem's state, a new one if there is none.
pub fn state(device: Device, problem: &Problem) -> Arc<State> {
    // The registry makes it after it has forgotten others, under one lock.
    let make = || State { forgot_sizes: HAS_FORGOTTEN_SIZES.load(Ordering::Relaxed), ..State::default() };
    STATES.state(&Key { device: device.ordinal(), problem: *problem }, make)
}

/// Returns the problem's state, if there is one.
pub fn known_state(device: Device, problem: &Problem) -> Option<Arc<State>> {
    STATES.known(&Key { device: device.ordinal(), problem: *problem })
}

impl Question {
    /// Returns whether what answers this question within the limits of `covers` answers another one.
    fn includes(&self, covers: &Range<usize>, other: Question) -> bool {
        let Question { asked, limit, sizes } = other;
        covers.contains(&limit) && self.asked.is_some() == asked.is_some() && self.sizes == sizes
    }
}

impl Promise {
    /// Returns whether it answers a question.
    pub fn answers(&self, question: Question) -> bool {
        self.question.includes(&self.covers, question)
    }
}

impl Known {
    /// Returns the earlier answer to such a question, the newest if there are several.
    pub fn answer(&self, question: Question) -> Option<&Promise> {
        self.promises.iter().rev().find(|promise| promise.answers(question))
    }

    /// Records that no promise answers a question with a limit in `covers`.
    pub fn decline(&mut self, question: Question, covers: Range<usize>) {
        self.declined.retain(|(old, limits)| !(old.includes(limits, question) && covers.contains(&old.limit)));
        self.declined.push((question, covers));
    }

    /// Returns whether it is known that no promise answers a question.
    pub fn declines(&self, question: Question) -> bool {
        self.declined.iter().any(|(declined, covers)| declined.includes(covers, question))
    }

    /// Puts that result first which was first when such a question was answered before, if it still runs: Find lists
    /// results by times that cuDNN takes anew. They are cuDNN's own results.
    pub fn keep_first(&mut self, question: Question, results: &mut [AlgoPerf]) {
        let key = |result: &AlgoPerf| [result.algo, result.mathType];
        let ran = |result: &&AlgoPerf| result.status == CUDNN_STATUS_SUCCESS;
        match self.firsts.iter().find(|(asked, _)| *asked == question) {
            Some((_, first)) => {
                if let Some(place) = results.iter().position(|result| ran(&result) && key(result) == *first) {
                    results[..=place].rotate_right(1);
                }
            }
            None if self.firsts.len() < MOST_FIRSTS => {
                self.firsts.extend(results.first().filter(ran).map(|result| (question, key(result))));
            }
            None => {}
        }
    }

    /// Returns the promise behind a call of `id` with `workspace` bytes: of the promises that fit, the one that needs
    /// most.
    pub fn promise(&self, id: c_int, workspace: usize) -> Option<&Promise> {
        let made = self.promises.iter().filter(|promise| promise.entry.algo == id && promise.needs <= workspace);
        made.max_by_key(|promise| promise.needs)
    }

    /// Records an answer, for [`Self::chose`].
    pub fn offer(&mut self, first: Option<&AlgoPerf>, own: Vec<AlgoPerf>) {
        let told = |result: &AlgoPerf| (result.algo, result.status, result.determinism);
        let (before, _) = std::mem::replace(&mut self.offered, (first.copied(), own));
        self.offers_differ |= before.is_some() && before.as_ref().map(told) != first.map(told);
    }

    /// Records what the first call after an answer tells about determinism: the program took an algorithm that the answer
    /// has. If cuDNN prefers one that is not deterministic, and that fits the call's workspace under the same math type,
    /// the program has passed it over.
    pub fn chose(&mut self, problem: &Problem, id: c_int, workspace: usize) {
        if self.offered.0.is_none() {
            return;
        }
        let (first, offered) = std::mem::take(&mut self.offered);
        if std::mem::take(&mut self.offers_differ) {
            return;
        }
        let first = first.filter(|first| first.algo == id);
        let mut runs = offered.iter().filter(|result| result.status == CUDNN_STATUS_SUCCESS);
        let is_random = |result: &AlgoPerf| result.determinism != CUDNN_DETERMINISTIC;
        let before: Vec<_> = runs.by_ref().take_while(|result| result.algo != id).collect();
        let listed = offered.iter().find(|it| it.algo == id && it.status == CUDNN_STATUS_SUCCESS);
        let Some(taken) = first.as_ref().or(listed) else { return };
        if is_random(taken) {
            determinism::chose(Choice::Took, problem);
        } else if first.is_none()
            && before.iter().any(|it| is_random(it) && it.memory <= workspace && it.mathType == taken.mathType)
        {
            determinism::chose(Choice::Shunned, problem);
        }
    }

    /// Returns the decision for such a call, if there is one.
    pub fn decision(&self, ask: Ask) -> Option<&Arc<Decision>> {
        self.decisions.iter().find(|decision| decision.covers(ask))
    }

    /// Stores times. A new time replaces the old one of an equal micro-configuration.
    pub fn learn(&mut self, measured: &[MicroConfiguration<Algorithm>]) {
        for new in measured {
            self.measured.retain(|old| old.batch != new.batch || old.algorithm != new.algorithm);
            self.measured.push(*new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_result_stays_the_first() {
        let result = |algo, status| AlgoPerf { algo, status, ..Default::default() };
        let (runs, failed) = (CUDNN_STATUS_SUCCESS, CUDNN_STATUS_NOT_SUPPORTED);
        let question = |limit| Question { asked: Some(limit), limit, sizes: BatchSizePolicy::All };
        let mut known = Known::default();
        let mut answer = |limit: usize, listed: &[(c_int, cudnnStatus_t)]| -> Vec<c_int> {
            let mut results: Vec<_> = listed.iter().map(|(algo, status)| result(*algo, *status)).collect();
            known.keep_first(question(limit), &mut results);
            results.iter().map(|result| result.algo).collect()
        };
        assert_eq!(answer(100, &[(1, runs), (2, runs), (0, failed)]), [1, 2, 0]);
        assert_eq!(answer(100, &[(2, runs), (0, runs), (1, runs)]), [1, 2, 0]);
        // Another question has an answer of its own. A result that fails is not put first.
        assert_eq!(answer(50, &[(2, runs), (1, runs)]), [2, 1]);
        assert_eq!(answer(100, &[(2, runs), (1, failed)]), [2, 1]);
        // An answer without a result that ran is none.
        assert_eq!(answer(10, &[(0, failed)]), [0]);
        assert_eq!(answer(10, &[(3, runs), (0, runs)]), [3, 0]);
        assert_eq!(answer(10, &[(0, runs), (3, runs)]), [3, 0]);
    }
}
