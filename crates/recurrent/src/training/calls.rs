//! The calls of a training pass, on our kernels or cuDNN's: forward decides whose the pass is, and the calls that go back
//! follow the owner of its reserve, whatever is decided in between. The sizes are the same for either.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudnn_abi::*;

use super::contestant::TrainingContest;
use super::course;
use crate::network::call::Call;
use crate::network::eligible::{check_states, check_weight_space, output};
use crate::network::memory::Memory;
use crate::network::room::Asked;
use crate::network::subject;
use crate::network::temporary::Temporary;
use crate::training::compute::data;

use crate::training::compute::forward;
use crate::training::compute::known::{self, Engine, KnownNetwork};
use crate::training::compute::pass::{Pass, Spaces};
use crate::training::compute::runner::{NotRun, Outcome, Runner};
use crate::training::compute::weights;

use crate::training::owner::owners::{Back, OWNERS, Owner};
use crate::training::owner::reserve::{HEADER, Header, State, is_header};
use cudnn::arguments::{Promised, RnnBackwardData, RnnBackwardWeights};
use cudnn::policies;
use cudnn::rnn::{Data, Weights};
use guest::settings::{self, Policy, Rnn, RnnTraining};
use guest::summary::{self, Counted};

/// The most bytes that our reserve may have more than cuDNN's.
const MOST_MORE: usize = 8 << 10;

/// Why our kernels did not run a call on our own reserve. cuDNN cannot run it either.
pub(super) enum Refusal {
    /// An argument is wrong.
    Argument(&'static str),
    /// A launch failed.
    Failed(String),
}

impl From<&'static str> for Refusal {
    fn from(why: &'static str) -> Self {
        Self::Argument(why)
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Argument(why) => f.write_str(why),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// The status of a call by our kernels. Says why if they refused it.
fn status_of(ran: Result<(), Refusal>, call: &str) -> cudnnStatus_t {
    let Err(why) = ran else { return CUDNN_STATUS_SUCCESS };
    let status = match why {
        Refusal::Argument(_) => CUDNN_STATUS_BAD_PARAM,
        Refusal::Failed(_) => CUDNN_STATUS_EXECUTION_FAILED,
    };
    log::error!("{call} with a reserve of ours: {why}; the call fails, since cuDNN cannot go on with it");
    status
}

/// Returns whether a call may be of a network that trains on our kernels. This does not change in a process's life.
pub fn concerns_us() -> bool {
    let settings = settings::get();
    settings.rnn_training != RnnTraining::Off && settings.rnn != Rnn::Off && !policies::environment_is_off()
}

/// Returns what a call returns after a panic inside of it, where `by_cudnn` makes the same call of cuDNN: our kernels may
/// have begun, and cuDNN cannot go on with our reserve.
pub fn after_a_panic(by_cudnn: impl FnOnce() -> cudnnStatus_t) -> cudnnStatus_t {
    if known::any_has_run() { CUDNN_STATUS_INTERNAL_ERROR } else { by_cudnn() }
}

/// Raises the sizes that cuDNN has told for a training pass to what our kernels need. They depend on the arguments and the
/// device alone, since a program may ask at any time and keep an answer for good. `None` stands for a size that the program
/// does not want.
///
/// # Safety
/// The arguments are those of a call of `cudnnGetRNNTempSpaceSizes`, which cuDNN has accepted.
pub unsafe fn raise_sizes(
    handle: cudnnHandle_t,
    descriptor: cudnnRNNDescriptor_t,
    x_descriptor: cudnnRNNDataDescriptor_t,
    workspace: Option<&mut usize>,
    reserve: Option<&mut usize>,
) {
    if !concerns_us() {
        return;
    }
    settings::fault_point("rnn-training-sizes");
    // SAFETY: cuDNN has accepted the arguments (see `# Safety`).
    match unsafe { Pass::of(handle, descriptor, x_descriptor) } {
        Ok(pass) => {
            let raise =
                |told: Option<&mut usize>, needed: usize| told.into_iter().for_each(|told| *told = needed.max(*told));
            raise(workspace, pass.workspace_bytes);
            // Without a projection, our reserve is not larger than that. With one, cuDNN 9.19 keeps 6 H + P numbers a row, and
            // we keep 6 H; other versions may keep fewer.
            let is_far = |told: &&mut usize| pass.network.projects() && pass.layout.bytes() > **told + MOST_MORE;
            raise(reserve.filter(|told| !is_far(told)), pass.layout.bytes());
        }
        Err(why) => log::trace!("an RNN's training is cuDNN's: {why}"),
    }
}

/// Returns whether a call's workspace and reserve are as large as the sizes that the program got. Where they are not, cuDNN may refuse
/// the call.
fn has_room(pass: &Pass, spaces: [usize; 2]) -> bool {
    let asked = Asked {
        handle: pass.handle,
        descriptor: pass.descriptor,
        x_descriptor: pass.x_descriptor,
        mode: CUDNN_FWD_MODE_TRAINING,
        network: &pass.network,
        data: &pass.data,
        others: pass.layout.hash(),
    };
    let is_ours = spaces[0] >= pass.workspace_bytes && spaces[1] >= pass.layout.bytes();
    // SAFETY: a pass's handle and descriptors are live.
    is_ours && unsafe { pass.known.room.is_enough(&asked, spaces) }
}

/// Decides whose a pass is whose forward begins.
fn decide(pass: &Pass, contest: &Arc<TrainingContest>, call: &Call) -> Owner {
    let memory = &call.memory();
    if memory.weight_space.is_null() || policies::of(pass.handle).policy == Policy::Off {
        return Owner::Cudnn;
    }
    let space = (memory.weight_space, memory.weight_space_size);
    // SAFETY: a pass's handle and descriptor are live; cuDNN looks at the space's size itself.
    let weights = unsafe { pass.known.weights(pass.handle, pass.descriptor, &pass.network, space) };
    let can_run = weights.is_some() && has_room(pass, [memory.workspace_size, call.reserve_size]);
    let is_ours = can_run && contest.next_pass(pass.stream) && pass.known.loaded().is_some();
    if is_ours { Owner::Us } else { Owner::Cudnn }
}

/// Says that a gradient was wrong, if the device has seen that since the last call.
fn say_alarm(known: &KnownNetwork) {
    if known.loaded().is_some_and(|engine| engine.around.take_alarm()) {
        log::error!(
            "an RNN's backward call got a reserve that its forward call did not leave: a second cudnnRNNBackwardData_v8 on \
             one reserve, or other memory. Its gradients are NaN"
        );
    }
}

/// Whose a reserve is that a call goes back from.
struct Found {
    owner: Owner,
    /// The reserve's header may tell another owner.
    is_guess: bool,
}

/// Finds the owner of a reserve that a call goes back from. Waits for the stream's work where only the header can tell.
///
/// # Safety
/// The reserve is null, or memory of the stream's device, of this size.
unsafe fn find_owner(pass: &Pass, (reserve, size): (*mut c_void, usize), call: Back) -> Found {
    let (known, stream, layout) = (&pass.known, &pass.stream, &pass.layout);
    let (at, hash) = (reserve.addr(), layout.hash());
    if !known.has_run.load(Ordering::Relaxed) {
        if call == Back::Data {
            OWNERS.lock().goes_back_in_cudnn(at, hash);
        }
        return Found { owner: Owner::Cudnn, is_guess: false };
    }
    say_alarm(known);
    let only = known.only_owner();
    // The lock is not held while the stream's work is waited for.
    let remembered = {
        let mut owners = OWNERS.lock();
        if let Some(owner) = only {
            owners.all_belong_to(hash, owner);
        }
        owners.goes_back(at, hash, call)
    };
    match (remembered, only) {
        // A copy of a reserve of the other owner may lie there, unless only this owner has any.
        (Some(owner), _) => return Found { owner, is_guess: only != Some(owner) },
        (None, Some(owner)) => return Found { owner, is_guess: true },
        (None, None) => {}
    }
    let mut header = [0; HEADER];
    let can_be_read = is_place(reserve, size) && !cudnn::device().is_capturing(*stream);
    // SAFETY: the reserve is the device's memory and has room for a header.
    let is_read = can_be_read && unsafe { cudnn::device().read(&mut header, reserve, *stream) };
    let mut owners = OWNERS.lock();
    if is_read {
        let owner = if is_header(&header) { Owner::Us } else { Owner::Cudnn };
        owners.was_read(at, hash, owner, call);
        return Found { owner, is_guess: false };
    }
    Found { owner: owners.last(at, hash).unwrap_or_else(|| known.last_owner()), is_guess: true }
}

/// Runs a call on cuDNN by `run`, between time marks if its turn is to be timed.
fn by_cudnn(
    pass: &Pass,
    contest: &TrainingContest,
    call: subject::Call,
    run: impl FnOnce() -> cudnnStatus_t,
) -> cudnnStatus_t {
    course::run(pass, contest, (call, false), |_| (run(), true))
}

/// Runs a call on our kernels by `run`, between time marks if its turn is to be timed.
fn by_us(
    pass: &Pass,
    contest: &TrainingContest,
    call: subject::Call,
    run: impl FnOnce(&Runner) -> cudnnStatus_t,
) -> cudnnStatus_t {
    course::run(pass, contest, (call, true), |kernel| {
        settings::fault_point("rnn-training-launch");
        let outcome = Outcome::default();
        let status = run(&Runner { kernel: kernel.map(|kernel| &**kernel), outcome: &outcome });
        if let Some(NotRun::Failed(why)) = outcome.not_run() {
            contest.give_up(why);
        }
        (status, outcome.not_run().is_none())
    })
}

/// The parts of a call with our reserve, beside its data.
struct Ready<'a> {
    y: Data,
    weights: &'a [Weights],
    engine: &'a Engine,
}

/// Checks a call with our reserve: the first `needed` data are not null, and its spaces are as large as told.
///
/// # Safety
/// The descriptors are null or live.
unsafe fn check<'a>(
    pass: &'a Pass,
    spaces: &Spaces,
    y_descriptor: cudnnRNNDataDescriptor_t,
    states: [(cudnnTensorDescriptor_t, [*const c_void; 2]); 2],
    data: &[*const c_void],
    needed: usize,
) -> Result<Ready<'a>, Refusal> {
    let Spaces { weights, weights_size, workspace, workspace_size, reserve, reserve_size } = *spaces;
    let places = [weights, workspace.cast_const(), reserve.cast_const()];
    if data[..needed].iter().chain(&places).any(|pointer| pointer.is_null()) {
        return Err("data, weights, workspace or reserve are null".into());
    }
    let element = pass.element.bytes();
    if data.iter().chain([&weights]).any(|pointer| !pointer.addr().is_multiple_of(element)) {
        return Err("data are not aligned to their type".into());
    }
    if !is_place(reserve, reserve_size) {
        return Err("the reserve is not aligned to 16 bytes".into());
    }
    if !has_room(pass, [workspace_size, reserve_size]) {
        return Err("the workspace or the reserve is smaller than cudnnGetRNNTempSpaceSizes says".into());
    }
    let Pass { handle, descriptor, network, known, .. } = pass;
    // SAFETY: these descriptors are null or live, and so are a pass's handle and descriptor.
    let (y, weights) = unsafe {
        check_states(network, &pass.data, states)?;
        check_weight_space(*handle, *descriptor, weights_size)?;
        let y = output(network, &pass.data, y_descriptor)?;
        (y, known.weights(*handle, *descriptor, network, (weights, weights_size)))
    };
    let weights = weights.ok_or("weights lie otherwise than our kernels take them")?;
    Ok(Ready { y, weights, engine: known.engine(network).map_err(ToOwned::to_owned)? })
}

/// Runs forward in training.
pub fn run_forward(call: &Call) -> cudnnStatus_t {
    settings::fault_point("rnn-training");
    // SAFETY: handle and descriptors are a call's, and the pass does not outlive it.
    let pass = unsafe { Pass::of(call.handle, call.descriptor, call.x_descriptor) };
    let Ok(pass) = pass else { return call.by_cudnn() };
    say_alarm(&pass.known);
    summary::count(Counted::Network);
    let contest = course::of(&pass, true);
    match decide(&pass, &contest, call) {
        Owner::Cudnn => {
            went_forward(&pass, call, Owner::Cudnn);
            by_cudnn(&pass, &contest, subject::Call::Forward, || call.by_cudnn())
        }
        Owner::Us => {
            went_forward(&pass, call, Owner::Us);
            by_us(&pass, &contest, subject::Call::Forward, |runner| match forward_by_us(&pass, call, runner) {
                Err(why) => forward_by_cudnn_after_all(&pass, &contest, call, why),
                ran => status_of(ran, "cudnnRNNForward"),
            })
        }
    }
}

/// Remembers whose a pass is, whose forward runs next. cuDNN's forward begins on a reserve without our header: an old one
/// may lie there.
fn went_forward(pass: &Pass, call: &Call, owner: Owner) {
    OWNERS.lock().went_forward(call.reserve.addr(), pass.layout.hash(), owner);
    pass.known.went_forward(owner);
    let is_old = owner == Owner::Cudnn && pass.known.has_run.load(Ordering::Relaxed);
    if is_old && is_place(call.reserve, call.reserve_size) {
        // SAFETY: the reserve has the header's bytes, and cuDNN has not begun to use them.
        unsafe { clear_header(pass, call.reserve) };
    }
}

/// Runs forward on our kernels. The pass is the call's.
pub(super) fn forward_by_us(pass: &Pass, call: &Call, runner: &Runner) -> Result<(), Refusal> {
    let memory = &match pass.network.cell {
        CUDNN_LSTM => call.memory(),
        // cuDNN ignores them as well.
        _ => Memory { cx: std::ptr::null(), cy: std::ptr::null_mut(), ..call.memory() },
    };
    let spaces = Spaces {
        weights: memory.weight_space,
        weights_size: memory.weight_space_size,
        workspace: memory.workspace,
        workspace_size: memory.workspace_size,
        reserve: call.reserve,
        reserve_size: call.reserve_size,
    };
    let (hy, cy) = (memory.hy.cast_const(), memory.cy.cast_const());
    let states = [(call.h_descriptor, [memory.hx, hy]), (call.c_descriptor, [memory.cx, cy])];
    let data = [memory.x, memory.y.cast_const(), memory.hx, memory.cx, hy, cy];
    // SAFETY: descriptors and memory are a call's, and `check` has looked at their sizes.
    unsafe {
        let ready = check(pass, &spaces, call.y_descriptor, states, &data, 2)?;
        let fill = ready.y.padding_fill;
        forward::run(pass, ready.engine, memory, ready.weights, call.reserve, fill, runner)?;
    }
    pass.known.ran_forward();
    summary::count(Counted::OnOurKernels);
    Ok(())
}

/// Runs forward on cuDNN where our kernels refused it or failed. If cuDNN does not refuse it too, the network is cuDNN's
/// from now on.
fn forward_by_cudnn_after_all(pass: &Pass, contest: &TrainingContest, call: &Call, refusal: Refusal) -> cudnnStatus_t {
    let has_begun = matches!(refusal, Refusal::Failed(_));
    // A launch that has begun may have written last states over first ones.
    if has_begun && forward::overlap(&call.memory(), pass.states().map(|count| count * pass.element.bytes())) {
        return status_of(Err(refusal), "cudnnRNNForward");
    }
    if has_begun {
        pass.known.ran_forward();
    }
    OWNERS.lock().waits_no_more(pass.layout.hash(), Owner::Us);
    went_forward(pass, call, Owner::Cudnn);
    let status = call.by_cudnn();
    if has_begun || status == CUDNN_STATUS_SUCCESS {
        let why = refusal.to_string();
        log::error!("cudnnRNNForward on our kernels: {why}; cuDNN runs the call, and the next ones");
        contest.give_up(&why);
    }
    status
}

/// Runs the gradients of data.
pub fn run_backward_data(call: &Promised<RnnBackwardData>) -> cudnnStatus_t {
    settings::fault_point("rnn-training");
    // SAFETY: handle and descriptors are a call's, and the pass does not outlive it.
    let pass = unsafe { Pass::of(call.handle, call.descriptor, call.x_descriptor) };
    let Ok(pass) = pass else { return call.by_cudnn() };
    // SAFETY: the reserve is a call's.
    let found = unsafe { find_owner(&pass, (call.reserve, call.reserve_size), Back::Data) };
    match found.owner {
        Owner::Cudnn => {
            let status = by_cudnn(&pass, &course::of(&pass, false), subject::Call::Data, || call.by_cudnn());
            // SAFETY: the spaces and the results are those of the call.
            unsafe { guard(&pass, &found, status, &data::spaces(call), data::results(call, &pass)) }
        }
        Owner::Us => by_us(&pass, &course::of(&pass, false), subject::Call::Data, |runner| {
            status_of(data_by_us(&pass, call, runner), "cudnnRNNBackwardData_v8")
        }),
    }
}

/// Runs the gradients of data on our kernels. The pass is the call's.
pub(super) fn data_by_us(pass: &Pass, call: &Promised<RnnBackwardData>, runner: &Runner) -> Result<(), Refusal> {
    let call = &match pass.network.cell {
        CUDNN_LSTM => **call,
        _ => RnnBackwardData { cx: std::ptr::null(), dcy: std::ptr::null(), dcx: std::ptr::null_mut(), ..**call },
    };
    let (dx, dhx, dcx) = (call.dx.cast_const(), call.dhx.cast_const(), call.dcx.cast_const());
    let states = [(call.h_descriptor, [call.dhy, dhx]), (call.c_descriptor, [call.dcy, dcx])];
    let data = [call.y, call.dy, dx, call.hx, call.cx, call.dhy, call.dcy, dhx, dcx];
    // SAFETY: descriptors and memory are a call's, and `check` has looked at their sizes.
    unsafe {
        let ready = check(pass, &data::spaces(call), call.y_descriptor, states, &data, 3)?;
        Ok(data::run(pass, ready.engine, call, ready.weights, runner)?)
    }
}

/// Runs the gradients of weights.
pub fn run_backward_weights(call: &Promised<RnnBackwardWeights>) -> cudnnStatus_t {
    settings::fault_point("rnn-training");
    // SAFETY: handle and descriptors are a call's, and the pass does not outlive it.
    let pass = unsafe { Pass::of(call.handle, call.descriptor, call.x_descriptor) };
    let Ok(pass) = pass else { return call.by_cudnn() };
    // cuDNN refuses to set gradients, whatever the reserve.
    if call.mode != CUDNN_WGRAD_MODE_ADD {
        return call.by_cudnn();
    }
    // SAFETY: the reserve is a call's.
    let found = unsafe { find_owner(&pass, (call.reserve, call.reserve_size), Back::Weights) };
    match found.owner {
        Owner::Cudnn => {
            let status = by_cudnn(&pass, &course::of(&pass, false), subject::Call::Weights, || call.by_cudnn());
            let count = call.weight_space_size / pass.element.bytes();
            let nothing = (std::ptr::null_mut(), 0);
            // SAFETY: the spaces and the results are those of the call.
            unsafe { guard(&pass, &found, status, &weights::spaces(call), [(call.dweights, count), nothing, nothing]) }
        }
        Owner::Us => by_us(&pass, &course::of(&pass, false), subject::Call::Weights, |_| {
            status_of(weights_by_us(&pass, call), "cudnnRNNBackwardWeights_v8")
        }),
    }
}

/// Runs the gradients of weights on our kernels. The pass is the call's.
pub(super) fn weights_by_us(pass: &Pass, call: &Promised<RnnBackwardWeights>) -> Result<(), Refusal> {
    let nothing = std::ptr::null();
    let states = [(call.h_descriptor, [call.hx, nothing]), (std::ptr::null_mut(), [nothing; 2])];
    // SAFETY: descriptors and memory are a call's, and `check` has looked at their sizes.
    unsafe {
        let data = [call.x, call.y, call.hx];
        let ready = check(pass, &weights::spaces(call), call.y_descriptor, states, &data, 2)?;
        Ok(weights::run(pass, ready.engine, call, ready.weights)?)
    }
}

/// Returns whether a reserve has a place for our header.
fn is_place(reserve: *mut c_void, size: usize) -> bool {
    !reserve.is_null() && size >= HEADER && reserve.addr().is_multiple_of(HEADER)
}

/// Clears the place of our header.
///
/// # Safety
/// The reserve has such a place, in memory of the stream's device.
unsafe fn clear_header(pass: &Pass, reserve: *mut c_void) {
    let Some(engine) = pass.known.loaded() else { return };
    let nothing = Header { magic: 0, layout: 0, hash: 0, state: State::Forward };
    // SAFETY: the header's place is the device's memory.
    if let Err(why) = unsafe { engine.around.stamp(pass.stream, reserve, nothing) } {
        log::warn!("a reserve's header was not cleared: {why}");
    }
}

/// Makes the results of cuDNN's backward NaN if the reserve has our header, where its owner was a guess. Returns the call's
/// status.
///
/// # Safety
/// cuDNN has run the call, in these spaces; each result is null or has this many elements.
unsafe fn guard(
    pass: &Pass,
    found: &Found,
    status: cudnnStatus_t,
    spaces: &Spaces,
    results: [(*mut c_void, usize); 3],
) -> cudnnStatus_t {
    let Spaces { workspace, workspace_size, reserve, reserve_size, .. } = *spaces;
    if !found.is_guess || status != CUDNN_STATUS_SUCCESS {
        return status;
    }
    let Some(engine) = pass.known.loaded().filter(|_| is_place(reserve, reserve_size)) else { return status };
    let is_wrong = Temporary::first(workspace.cast()).cast::<i32>();
    let has_room = !workspace.is_null() && workspace_size >= Temporary::LEAST;
    if has_room {
        let (around, header) = (&engine.around, pass.layout.header(State::Forward));
        // SAFETY: cuDNN is done with its workspace in the stream's order; the results are as long as told.
        let looked = unsafe {
            around
                .claim_theirs(pass.stream, reserve, header, is_wrong)
                .and_then(|()| around.spoil(pass.stream, is_wrong, results))
        };
        if let Err(why) = looked {
            log::warn!("a reserve's header was not looked at: {why}");
        }
    }
    status
}
