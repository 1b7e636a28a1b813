//! The calls of a training pass, on our kernels or cuDNN's: the size of the reserve says whose. Nothing else is asked, so
//! that all calls of a pass give the same answer, whatever the settings say by then.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudnn_abi::*;

use super::course::Course;
use super::data::DataCall;
use super::page::{Engine, Page};
use super::pass::{DataPlaces, ForwardPlaces, Pass, Spaces, TOO_LARGE, WeightPlaces};
use super::probation::{PROBATION, Returned};
use super::reserve::{HEADER, Header, State};
use super::runner::{NotRun, Outcome, Runner};
use super::weights::WeightsCall;
use super::{data, forward, told, trial, weights};
use crate::call::Call;
use crate::eligible::{check_states, check_weight_space, output};
use crate::memory::Memory;
use crate::parts::ALIGNMENT;
use crate::temporary::Temporary;
use cudnn::policies;
use cudnn::rnn::{Data, Weights};
use guest::settings::{self, Policy, Rnn, RnnTraining};
use guest::summary::{self, Counted};

/// Why our kernels did not run a call on a reserve of ours. cuDNN cannot run it either.
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

fn trains() -> bool {
    let settings = settings::get();
    settings.rnn_training != RnnTraining::Off && settings.rnn != Rnn::Off
}

/// Returns whether a call may be of a network that trains on our kernels.
pub fn concerns_us() -> bool {
    trains() || told::has_told()
}

/// Returns what a call returns after a panic inside of it, where `theirs` makes the same call of cuDNN: our kernels may
/// have begun, and cuDNN cannot go on with a reserve of ours.
pub fn after_a_panic(theirs: impl FnOnce() -> cudnnStatus_t) -> cudnnStatus_t {
    if told::has_told() { CUDNN_STATUS_INTERNAL_ERROR } else { theirs() }
}

/// Changes the sizes that cuDNN has told for a training pass: the workspace is large enough for our kernels too, and the
/// reserve's size says whose it will be. `None` stands for a size that the program does not want.
///
/// # Safety
/// The arguments are those of a call of `cudnnGetRNNTempSpaceSizes`, which cuDNN has accepted.
pub unsafe fn change_sizes(
    handle: cudnnHandle_t,
    descriptor: cudnnRNNDescriptor_t,
    x_descriptor: cudnnRNNDataDescriptor_t,
    workspace: Option<&mut usize>,
    reserve: Option<&mut usize>,
) {
    if !trains() {
        return;
    }
    settings::fault_point("rnn-training-sizes");
    // SAFETY: cuDNN has accepted the arguments (see `# Safety`).
    let pass = match unsafe { Pass::of(handle, descriptor, x_descriptor) } {
        Ok(pass) => pass,
        Err(why) => return log::trace!("an RNN's training is cuDNN's: {why}"),
    };
    let is_off = policies::of(handle).policy == Policy::Off;
    let has_told = pass.page.has_told.load(Ordering::Relaxed);
    if is_off && !has_told {
        return;
    }
    let wanders = PROBATION.lock().has_failed();
    let course = pass.course(reserve.is_some());
    let may_be_ours = !wanders && course.may_be_ours();
    if let Some(workspace) = workspace.filter(|_| has_told || may_be_ours) {
        *workspace = pass.workspace_bytes.max(*workspace);
    }
    let Some(reserve) = reserve else { return };
    let ours = if !is_off && is_next_ours(&pass, &course) { pass.layout.our_size(*reserve) } else { None };
    let ours = ours.filter(|&size| !told::was_forgotten(pass.layout.hash(), size));
    *reserve = match ours {
        Some(size) => {
            pass.page.has_told.store(true, Ordering::Relaxed);
            size
        }
        None => {
            let distinction = if is_off || is_proven(&pass) { 0 } else { PROBATION.lock().distinction() };
            pass.layout.their_size(reserve.saturating_add(distinction))
        }
    };
    told::tell(pass.layout.hash(), *reserve, ours.is_some());
}

/// Returns whether sizes come back: the network has shown it, and the program often enough.
fn is_proven(pass: &Pass) -> bool {
    pass.page.comes_back.load(Ordering::Relaxed) && PROBATION.lock().is_passed()
}

/// Returns whether the next reserve of a pass is ours.
fn is_next_ours(pass: &Pass, course: &Arc<Course>) -> bool {
    is_proven(pass) && pass.page.knows_weights() && course.next_pass(pass.stream) && pass.page.loaded().is_some()
}

/// Says that a gradient was wrong, if the device has seen that since the last call.
fn say_alarm(engine: &Engine) {
    if engine.around.take_alarm() {
        log::error!(
            "an RNN's backward call got a reserve that its forward call did not leave: another size than the one that \
             forward got, a second cudnnRNNBackwardData_v8 on one reserve, or other memory. Its gradients are NaN"
        );
    }
}

/// The owner of a call's reserve.
enum Owner {
    /// The pass is not one of those that our kernels know.
    Unknown,
    Cudnn(Pass),
    Us(Pass),
}

/// # Safety
/// The caller keeps cuDNN's rules for the handle and the descriptors.
unsafe fn owner(
    handle: cudnnHandle_t,
    descriptor: cudnnRNNDescriptor_t,
    x_descriptor: cudnnRNNDataDescriptor_t,
    reserve_size: usize,
) -> Owner {
    // SAFETY: the caller makes the same promise.
    let Ok(pass) = (unsafe { Pass::of(handle, descriptor, x_descriptor) }) else { return Owner::Unknown };
    if let Some(engine) = pass.page.loaded() {
        say_alarm(engine);
    }
    let is_ours = told::was_told(pass.layout.hash(), reserve_size, true) && pass.layout.is_ours(reserve_size);
    if is_ours { Owner::Us(pass) } else { Owner::Cudnn(pass) }
}

/// Runs a call on cuDNN by `run`, between time marks if its turn is to be timed.
fn by_cudnn(pass: &Pass, call: trial::Call, run: impl FnOnce() -> cudnnStatus_t) -> cudnnStatus_t {
    if !trains() {
        return run();
    }
    let course = pass.course(false);
    let turn = course.turn(call, false, &pass.shapes, pass.stream);
    course.timed((call, turn), (pass.data.steps, pass.stream), |_| (run(), true))
}

/// Runs a call on our kernels by `run`, between time marks if its turn is to be timed.
fn by_us(pass: &Pass, call: trial::Call, run: impl FnOnce(&Runner) -> cudnnStatus_t) -> cudnnStatus_t {
    let course = pass.course(false);
    let turn = course.turn(call, true, &pass.shapes, pass.stream);
    course.timed((call, turn), (pass.data.steps, pass.stream), |kernel| {
        let outcome = Outcome::default();
        let status = run(&Runner { kernel: kernel.map(|kernel| &**kernel), outcome: &outcome });
        if let Some(NotRun::Failed(why)) = outcome.not_run() {
            course.give_up(why);
        }
        (status, outcome.not_run().is_none())
    })
}

/// What a call with a reserve of ours needs beside its data.
struct Ready<'a> {
    y: Data,
    weights: &'a [Weights],
    engine: &'a Engine,
}

/// Checks a call with a reserve of ours: the first `needed` data are not null, and the workspace has room for so many
/// bytes.
///
/// # Safety
/// The caller keeps cuDNN's rules for the descriptors.
unsafe fn check<'a>(
    pass: &'a Pass,
    spaces: &Spaces,
    y_descriptor: cudnnRNNDataDescriptor_t,
    states: [(cudnnTensorDescriptor_t, [*const c_void; 2]); 2],
    data: &[*const c_void],
    (needed, bytes): (usize, usize),
) -> Result<Ready<'a>, Refusal> {
    let Spaces { weights, weights_size, workspace, workspace_size, reserve, .. } = *spaces;
    let places = [weights, workspace.cast_const(), reserve.cast_const()];
    if data[..needed].iter().chain(&places).any(|pointer| pointer.is_null()) {
        return Err("data, weights, workspace or reserve are null".into());
    }
    let element = pass.element.bytes();
    if data.iter().chain([&weights]).any(|pointer| !pointer.addr().is_multiple_of(element)) {
        return Err("data are not aligned to their type".into());
    }
    if !reserve.addr().is_multiple_of(HEADER) {
        return Err("the reserve is not aligned to 16 bytes".into());
    }
    if workspace_size < bytes + ALIGNMENT {
        return Err("the workspace is smaller than cudnnGetRNNTempSpaceSizes says".into());
    }
    let Pass { handle, descriptor, network, page, .. } = pass;
    // SAFETY: the caller makes the same promise; the pass keeps cuDNN's rules for its handle and descriptor.
    let (y, weights) = unsafe {
        check_states(network, &pass.data, states)?;
        check_weight_space(*handle, *descriptor, weights_size)?;
        let y = output(network, &pass.data, y_descriptor)?;
        (y, page.weights(*handle, *descriptor, network, (weights, weights_size)))
    };
    let weights = weights.ok_or("weights lie otherwise than our kernels take them")?;
    Ok(Ready { y, weights, engine: page.engine(network).map_err(ToOwned::to_owned)? })
}

/// Runs forward in training.
///
/// # Safety
/// The arguments are those of a call of `cudnnRNNForward` in training, or cuDNN refuses them.
pub unsafe fn run_forward(call: &Call) -> cudnnStatus_t {
    settings::fault_point("rnn-training");
    let memory = &call.memory;
    // SAFETY: the arguments are those of a call (see `# Safety`).
    unsafe {
        match owner(call.handle, call.descriptor, call.x_descriptor, call.reserve_size) {
            Owner::Unknown => call.run_as_asked(),
            Owner::Cudnn(pass) => {
                summary::count(Counted::Network);
                let space = (memory.weight_space, memory.weight_space_size);
                if trains() && !space.0.is_null() {
                    pass.page.weights(call.handle, call.descriptor, &pass.network, space);
                }
                match is_proven(&pass) {
                    true => PROBATION.lock().forgets(call.reserve.addr()),
                    false => PROBATION.lock().went_forward(call.reserve.addr(), call.reserve_size),
                }
                clear_header(&pass, call.reserve, call.reserve_size);
                by_cudnn(&pass, trial::Call::Forward, || call.run_as_asked())
            }
            Owner::Us(pass) => {
                summary::count(Counted::Network);
                PROBATION.lock().forgets(call.reserve.addr());
                by_us(&pass, trial::Call::Forward, |runner| match forward_by_us(&pass, call, runner) {
                    Err(why) => forward_by_cudnn_after_all(&pass, call, why),
                    ran => status_of(ran, "cudnnRNNForward"),
                })
            }
        }
    }
}

/// Runs forward on our kernels.
///
/// # Safety
/// As for [`run_forward`].
pub(super) unsafe fn forward_by_us(pass: &Pass, call: &Call, runner: &Runner) -> Result<(), Refusal> {
    let memory = &match pass.network.cell {
        CUDNN_LSTM => call.memory,
        // cuDNN ignores them as well.
        _ => Memory { cx: std::ptr::null(), cy: std::ptr::null_mut(), ..call.memory },
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
    let places = ForwardPlaces::of(pass).ok_or(TOO_LARGE)?;
    // SAFETY: the arguments are those of a call (see `# Safety`).
    unsafe {
        let ready = check(pass, &spaces, call.y_descriptor, states, &data, (2, places.bytes))?;
        let fill = ready.y.padding_fill;
        forward::run(pass, ready.engine, memory, ready.weights, call.reserve, (fill, &places), runner)?;
    }
    pass.page.has_run.store(true, Ordering::Relaxed);
    summary::count(Counted::OnOurKernels);
    Ok(())
}

/// Runs forward on cuDNN where our kernels refused it or failed. If cuDNN does not refuse it too, reserves of this size are
/// cuDNN's from now on, and backward looks for our header in them.
///
/// # Safety
/// As for [`run_forward`].
unsafe fn forward_by_cudnn_after_all(pass: &Pass, call: &Call, refusal: Refusal) -> cudnnStatus_t {
    let has_begun = matches!(refusal, Refusal::Failed(_));
    // What has begun may have written last states over first ones.
    if has_begun && forward::overlap(&call.memory, pass.states() * pass.network.element()) {
        return status_of(Err(refusal), "cudnnRNNForward");
    }
    if has_begun {
        pass.page.has_run.store(true, Ordering::Relaxed);
        // SAFETY: the reserve has at least cuDNN's size.
        unsafe { clear_header(pass, call.reserve, call.reserve_size) };
    }
    // SAFETY: the caller's promise.
    let status = unsafe { call.run_as_asked() };
    if has_begun || status == CUDNN_STATUS_SUCCESS {
        let why = refusal.to_string();
        log::error!("cudnnRNNForward with a reserve of ours: {why}; cuDNN runs the call, and the next ones");
        told::forget(pass.layout.hash(), call.reserve_size);
        pass.course(false).give_up(&why);
    }
    status
}

/// Runs the gradients of data.
///
/// # Safety
/// The arguments are those of a call of `cudnnRNNBackwardData_v8`, or cuDNN refuses them.
pub unsafe fn run_backward_data(call: &DataCall) -> cudnnStatus_t {
    settings::fault_point("rnn-training");
    // SAFETY: the arguments are those of a call (see `# Safety`).
    unsafe {
        match owner(call.handle, call.descriptor, call.x_descriptor, call.reserve_size) {
            Owner::Unknown => call.run_as_asked(),
            Owner::Cudnn(pass) => {
                let returned = match is_proven(&pass) {
                    true => Returned::Unknown,
                    false => PROBATION.lock().goes_back(call.reserve.addr(), call.reserve_size),
                };
                match returned {
                    Returned::Same => pass.page.comes_back.store(true, Ordering::Relaxed),
                    Returned::Unknown => {}
                    Returned::Other => log::warn!(
                        "the program hands in another reserve size in cudnnRNNBackwardData_v8 than in cudnnRNNForward: \
                         its RNNs train by cuDNN (said once)"
                    ),
                }
                let status = by_cudnn(&pass, trial::Call::Data, || call.run_as_asked());
                guard(&pass, status, &call.spaces(), call.results(&pass))
            }
            Owner::Us(pass) => by_us(&pass, trial::Call::Data, |runner| {
                status_of(data_by_us(&pass, call, runner), "cudnnRNNBackwardData_v8")
            }),
        }
    }
}

/// Runs the gradients of data on our kernels.
///
/// # Safety
/// As for [`run_backward_data`].
pub(super) unsafe fn data_by_us(pass: &Pass, call: &DataCall, runner: &Runner) -> Result<(), Refusal> {
    let call = &match pass.network.cell {
        CUDNN_LSTM => *call,
        _ => DataCall { cx: std::ptr::null(), dcy: std::ptr::null(), dcx: std::ptr::null_mut(), ..*call },
    };
    let (dx, dhx, dcx) = (call.dx.cast_const(), call.dhx.cast_const(), call.dcx.cast_const());
    let states = [(call.h_descriptor, [call.dhy, dhx]), (call.c_descriptor, [call.dcy, dcx])];
    let data = [call.y, call.dy, dx, call.hx, call.cx, call.dhy, call.dcy, dhx, dcx];
    let places = DataPlaces::of(pass).ok_or(TOO_LARGE)?;
    // SAFETY: the arguments are those of a call (see `# Safety`).
    unsafe {
        let ready = check(pass, &call.spaces(), call.y_descriptor, states, &data, (3, places.bytes))?;
        Ok(data::run(pass, ready.engine, call, ready.weights, &places, runner)?)
    }
}

/// Runs the gradients of weights.
///
/// # Safety
/// The arguments are those of a call of `cudnnRNNBackwardWeights_v8`, or cuDNN refuses them.
pub unsafe fn run_backward_weights(call: &WeightsCall) -> cudnnStatus_t {
    settings::fault_point("rnn-training");
    // SAFETY: the arguments are those of a call (see `# Safety`).
    unsafe {
        match owner(call.handle, call.descriptor, call.x_descriptor, call.reserve_size) {
            // cuDNN refuses to set gradients, whatever the reserve.
            Owner::Us(_) if call.mode != CUDNN_WGRAD_MODE_ADD => call.run_as_asked(),
            Owner::Unknown => call.run_as_asked(),
            Owner::Cudnn(pass) => {
                let status = by_cudnn(&pass, trial::Call::Weights, || call.run_as_asked());
                let count = call.weight_space_size / pass.element.bytes();
                let nothing = (std::ptr::null_mut(), 0);
                guard(&pass, status, &call.spaces(), [(call.dweights, count), nothing, nothing])
            }
            Owner::Us(pass) => by_us(&pass, trial::Call::Weights, |_| {
                status_of(weights_by_us(&pass, call), "cudnnRNNBackwardWeights_v8")
            }),
        }
    }
}

/// Runs the gradients of weights on our kernels.
///
/// # Safety
/// As for [`run_backward_weights`].
pub(super) unsafe fn weights_by_us(pass: &Pass, call: &WeightsCall) -> Result<(), Refusal> {
    let nothing = std::ptr::null();
    let states = [(call.h_descriptor, [call.hx, nothing]), (std::ptr::null_mut(), [nothing; 2])];
    let places = WeightPlaces::of(pass).ok_or(TOO_LARGE)?;
    // SAFETY: the arguments are those of a call (see `# Safety`).
    unsafe {
        let data = [call.x, call.y, call.hx];
        let ready = check(pass, &call.spaces(), call.y_descriptor, states, &data, (2, places.bytes))?;
        Ok(weights::run(pass, ready.engine, call, ready.weights, &places)?)
    }
}

/// Clears the place of our header before cuDNN's forward, if our kernels have run the network: it may hold an old one.
///
/// # Safety
/// The reserve is one of cuDNN's, of so many bytes.
unsafe fn clear_header(pass: &Pass, reserve: *mut c_void, size: usize) {
    let Some(engine) = looked_at(pass, reserve, size) else { return };
    let nothing = Header { magic: 0, layout: 0, hash: 0, state: State::Forward };
    // SAFETY: the reserve has the header's bytes, and cuDNN has not begun to use them.
    if let Err(why) = unsafe { engine.around.stamp(pass.stream, reserve, nothing) } {
        log::warn!("a reserve's header was not cleared: {why}");
    }
}

/// The kernels, if our header may be in a reserve that cuDNN uses: one of a size that nobody was told.
fn looked_at(pass: &Pass, reserve: *mut c_void, size: usize) -> Option<&Engine> {
    let Page { has_run, .. } = &*pass.page;
    let is_place = !reserve.is_null() && size >= HEADER && reserve.addr().is_multiple_of(align_of::<u32>());
    let may_be_there = has_run.load(Ordering::Relaxed) && is_place && !told::was_told(pass.layout.hash(), size, false);
    if may_be_there { pass.page.loaded() } else { None }
}

/// Makes the results of cuDNN's backward NaN if the reserve was left by our forward. Returns the call's status.
///
/// # Safety
/// cuDNN has run the call, in these spaces; each result is null or has so many elements.
unsafe fn guard(
    pass: &Pass,
    status: cudnnStatus_t,
    spaces: &Spaces,
    results: [(*mut c_void, usize); 3],
) -> cudnnStatus_t {
    let Spaces { workspace, workspace_size, reserve, reserve_size, .. } = *spaces;
    let Some(engine) = looked_at(pass, reserve, reserve_size) else { return status };
    let is_wrong = Temporary::first(workspace.cast()).cast::<i32>();
    let has_room = !workspace.is_null() && workspace_size >= Temporary::LEAST;
    if status == CUDNN_STATUS_SUCCESS && has_room {
        let (around, header) = (&engine.around, pass.layout.header(State::Forward));
        // SAFETY: cuDNN is done with its workspace in the stream's order; the caller promises the results.
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
