//! The contests of networks that train, and running a call as its contest says.

use std::sync::Arc;

use cudnn_abi::*;
use parking_lot::Mutex;

use super::contestant::{Key, TrainingContest, TrainingContestant};
use crate::kernels::Engine;
use crate::network::inference::Inference;
use crate::network::subject::Call;
use crate::training::compute::pass::Pass;
use tuning::contest::compiler::later;
use tuning::contest::{Outcome, Turn};
use tuning::registry::Registry;

/// The contests of one network with one shape, which differ in the algorithm and the type of mathematics: backward may have
/// others than forward. The last one is the one of the last forward.
type Alike = Mutex<Vec<Arc<TrainingContest>>>;

/// Unloading the kernels of forgotten contests may wait for the device.
static CONTESTS: Registry<Key, Alike> = Registry::new(1 << 10, |_| false).forgetting_by(|forgotten| {
    later(move || drop(forgotten));
});

/// The contest of a pass. If `begins`, the pass's forward runs next. Otherwise the program goes back from the pass that
/// began last.
pub fn of(pass: &Pass, begins: bool) -> Arc<TrainingContest> {
    let (device, subject) = (pass.known.device, Inference::of(&pass.network, &pass.data));
    let mut alike = Key { device, subject: subject.clone() };
    alike.subject.network.algorithm = CUDNN_RNN_ALGO_STANDARD;
    alike.subject.network.math_type = CUDNN_DEFAULT_MATH;
    let contests = CONTESTS.state(&alike, Alike::default);
    let mut contests = contests.lock();
    if !begins && let Some(last) = contests.last() {
        return last.clone();
    }
    if let Some(at) = contests.iter().position(|contest| contest.contestant.key.subject == subject) {
        let last = contests.len() - 1;
        contests.swap(at, last);
        return contests[last].clone();
    }
    let key = Key { device, subject };
    let contestant = TrainingContestant { key, known: pass.known.clone(), shapes: pass.shapes.clone() };
    let contest = Arc::new(TrainingContest::new(contestant));
    contests.push(contest.clone());
    contest
}

/// Runs a call by `run`, on our side or cuDNN's, between time marks if its turn is to be timed. `run` gets our
/// kernel, and returns the status, and whether that kernel ran.
///
/// A call whose type of mathematics is not that of the last forward gets no kernel: the kernel might need another workspace,
/// and round what must not be.
pub fn run(
    pass: &Pass,
    contest: &TrainingContest,
    (call, is_ours): (Call, bool),
    run: impl FnOnce(Option<&Arc<Engine>>) -> (cudnnStatus_t, bool),
) -> cudnnStatus_t {
    let call = call as usize;
    let is_alike = contest.contestant.shapes[0].problem == pass.shapes[0].problem;
    let turn = match is_alike {
        true => contest.turn(call, is_ours, pass.stream),
        false => {
            contest.stand_back("its calls differ in the type of mathematics");
            Turn::untimed(None)
        }
    };
    contest.timed((call, &turn), (pass.data.steps, pass.stream), || {
        let (status, has_run) = run(turn.kernel.as_ref());
        let counts = status == CUDNN_STATUS_SUCCESS && has_run;
        // A refused call does not count against a candidate, nor does memory that its kernel cannot take.
        (status, if counts { Outcome::Ran } else { Outcome::Nothing })
    })
}
