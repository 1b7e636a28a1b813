//! A device's network: its layers, and the segments in which they run.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::Ordering;

use cudnn_abi::*;
use parking_lot::{Condvar, Mutex, RwLock};

use super::layers::{Addresses, Key, Lane, LayerId, Layers};
use super::planning::{self, Sets, Wanted};
use super::problem::{LayerPlan, LayerProblem};
use super::report;
use super::segments::{Division, Launch};
use crate::division::arena::Arena;
use crate::exec::Failure;
use crate::problem::Problem;
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::Workspace;
use cudnn::policies::Policies;
use gpu::background;
use gpu::{Device, Stream};
use guest::settings;

/// The state of Workspace Division on one device.
pub struct Network {
    device: Device,
    state: Mutex<State>,
    /// Notified when the program's own planning has ended.
    planned: Condvar,
    /// The division that calls run. Held for reading while a call is launched; written when the arena changes.
    division: RwLock<Division>,
}

#[derive(Default)]
struct State {
    layers: Layers,
    phase: Phase,
    /// A background thread is planning.
    planning: bool,
    /// The total that the program set, in bytes.
    total: Option<usize>,
    /// The program runs all convolutions on one stream.
    one_stream: bool,
    /// The layers that the division was made for; `None` if it must be made anew.
    planned: Option<BTreeMap<LayerId, LayerProblem>>,
    /// The desirable sets of all problems tuned so far.
    sets: Sets,
}

#[derive(Default, PartialEq, Eq)]
enum Phase {
    /// No convolution has run.
    #[default]
    Collecting,
    /// The program waits while its layers are planned.
    Dividing,
    /// Convolutions run; layers that come back are planned.
    Running,
}

/// The networks by device. They live as long as the process: a plan may be running when it ends.
static NETWORKS: RwLock<Option<HashMap<i32, &'static Network>>> = RwLock::new(None);

impl Network {
    /// The network of the calling thread's current device.
    pub fn of(device: Device) -> &'static Self {
        let ordinal = device.ordinal();
        if let Some(known) = NETWORKS.read().as_ref().and_then(|networks| networks.get(&ordinal)) {
            return known;
        }
        let new = || {
            let (state, division) = (Mutex::default(), RwLock::default());
            &*Box::leak(Box::new(Self { device, state, planned: Condvar::new(), division }))
        };
        NETWORKS.write().get_or_insert_default().entry(ordinal).or_insert_with(new)
    }

    /// Adds a layer that a query reported. Once convolutions have run, queries add nothing.
    pub fn collect(&self, problem: &Problem, chosen: AlgoPerf, descriptors: Addresses, name: Option<u64>) {
        let mut state = self.state.lock();
        if state.phase == Phase::Collecting {
            state.layers.collect(problem, chosen, descriptors, name);
        }
    }

    /// Divides now: the program has asked about all its layers.
    pub fn finish_collection(&'static self, policies: &Policies) {
        let mut state = self.state.lock();
        while state.phase == Phase::Dividing {
            self.planned.wait(&mut state);
        }
        if state.phase == Phase::Collecting && !state.layers.is_empty() {
            state.phase = Phase::Dividing;
            drop(state);
            Planning(self).plan(policies, true);
        }
    }

    /// Sets the total, in bytes. If it differs, the workspace is divided anew.
    pub fn set_total(&self, bytes: usize) {
        let mut state = self.state.lock();
        if state.total.replace(bytes) != Some(bytes) {
            state.planned = None;
        }
    }

    /// The total in force, in bytes.
    pub fn total(&self) -> Option<usize> {
        self.state.lock().total()
    }

    /// Sets whether the program runs all layers on one stream, so that they may share one segment.
    pub fn set_one_stream(&self, one_stream: bool) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.one_stream, one_stream) != one_stream {
            state.planned = None;
        }
    }

    /// The division in force, as text.
    pub fn describe(&self) -> String {
        self.division.read_recursive().describe().to_owned()
    }

    /// Returns the layer of a call. Divides first, or begins to divide, if it is time. `chosen` asks cuDNN for its
    /// result for the requested algorithm, if the call names one.
    pub fn enter(
        &'static self,
        key: &Key,
        descriptors: Addresses,
        policies: &Policies,
        chosen: impl FnOnce() -> Option<AlgoPerf>,
    ) -> LayerId {
        let mut state = self.state.lock();
        while state.phase == Phase::Dividing {
            self.planned.wait(&mut state);
        }
        let collected = state.phase == Phase::Collecting && !state.layers.is_empty();
        let seen = match state.layers.call(key, descriptors) {
            Some(seen) => seen,
            None => {
                let alike = state.layers.chosen_alike(key);
                drop(state);
                let chosen = alike.or_else(chosen);
                state = self.state.lock();
                state.layers.add(key, chosen)
            }
        };
        match state.phase {
            Phase::Collecting if collected => {
                state.phase = Phase::Dividing;
                drop(state);
                Planning(self).plan(policies, true);
            }
            Phase::Collecting => state.phase = Phase::Running,
            Phase::Running if seen.begins_iteration && !state.planning && state.has_news() => {
                state.planning = true;
                drop(state);
                let (planning, policies) = (Planning(self), *policies);
                let plan = move || planning.plan(&policies, false);
                background::spawn(self.device, plan, "the workspace stays divided as it was");
            }
            Phase::Running | Phase::Dividing => {}
        }
        seen.layer
    }

    /// Launches a call in its layer's segment. Returns `None` if the layer has none, or if the call failed before it
    /// changed anything.
    pub fn in_segment(
        &self,
        layer: LayerId,
        key: &Key,
        stream: Stream,
        launch: impl FnOnce(&LayerPlan, Workspace) -> Result<(), Failure>,
    ) -> Option<cudnnStatus_t> {
        self.with_division(|division| {
            let segment = division.segment(layer, key.lane).filter(|segment| segment.problem == key.problem)?;
            if segment.broken.load(Ordering::Relaxed) {
                return None;
            }
            let arena = division.arena()?;
            let workspace = arena.workspace(&segment.range)?;
            let launch = || {
                let _launch = Launch::begin(&segment.last, self.device, stream);
                launch(&segment.plan, workspace)
            };
            match watched(division, arena, &segment.range, &key.problem, stream, launch) {
                Ok(()) => Some(CUDNN_STATUS_SUCCESS),
                Err(failure) if failure.result_modified => Some(failure.status),
                Err(failure) => {
                    // A status in this range is the program's mistake, not the plan's.
                    if !(CUDNN_STATUS_BAD_PARAM..CUDNN_STATUS_NOT_SUPPORTED).contains(&failure.status)
                        && !segment.broken.swap(true, Ordering::Relaxed)
                    {
                        let (problem, plan, status) = (&key.problem, &segment.configuration, failure.status);
                        log::warn!("{problem}: {plan} failed with status {status}; it runs without workspace");
                    }
                    None
                }
            }
        })
    }

    /// The most bytes that a lane's layers without a segment may share.
    pub fn rest(&self, lane: Lane) -> usize {
        let total = self.total().unwrap_or(0);
        self.division.read_recursive().rest_of(total, lane)
    }

    /// Launches a call whose layer has no segment, in `bytes` of the buffer that such layers of its lane share. Returns
    /// `None` if the buffer is too small.
    pub fn in_rest(
        &self,
        key: &Key,
        bytes: usize,
        stream: Stream,
        launch: impl FnOnce(Workspace) -> Result<(), Failure>,
    ) -> Option<Result<(), Failure>> {
        let total = self.total().unwrap_or(0);
        let lacks = |division: &Division| division.rest(key.lane, bytes).is_none();
        let extends = |division: &Division| lacks(division) && division.may_extend(key.lane, bytes, total);
        if extends(&self.division.read_recursive()) {
            // Never wait here: this may be cuDNN calling itself, inside a call that is being launched.
            self.division.try_write()?.extend(self.device, key.lane, bytes, total);
        }
        self.with_division(|division| {
            let (rest, arena) = division.rest(key.lane, bytes)?;
            let workspace = arena.workspace(&(0..bytes))?;
            let launch = || {
                let _launch = Launch::begin(&rest.last, self.device, stream);
                launch(workspace)
            };
            Some(watched(division, arena, &(0..bytes), &key.problem, stream, launch))
        })
    }

    /// Calls `act` with the division in force, which stays as it is meanwhile. With `UCUDNN_CHECK=1`, `act` has it
    /// alone.
    fn with_division<T>(&self, act: impl FnOnce(&Division) -> T) -> T {
        if settings::get().check {
            act(&self.division.write())
        } else {
            // cuDNN may call itself through our symbols while another thread waits to write.
            act(&self.division.read_recursive())
        }
    }
}

/// Launches work in part of an arena. With `UCUDNN_CHECK=1`, reports whether the work kept to that part.
fn watched<T>(
    division: &Division,
    arena: &Arena,
    range: &Range<usize>,
    problem: &LayerProblem,
    stream: Stream,
    launch: impl FnOnce() -> T,
) -> T {
    // SAFETY: with `UCUDNN_CHECK=1` we hold the write lock, and `rests` has waited for all work in the arena.
    let poisoned = settings::get().check && division.rests() && unsafe { arena.poison(stream) };
    let launched = launch();
    if poisoned {
        report::kept(problem, range, arena.bytes(), arena.overwritten(range, stream));
    }
    launched
}

impl State {
    /// The total in force, in bytes: the program's, or the environment's.
    fn total(&self) -> Option<usize> {
        self.total.or(settings::get().total_workspace_size)
    }

    /// True if the division lacks layers that came back, or must be made anew.
    fn has_news(&self) -> bool {
        match &self.planned {
            Some(planned) => self.layers.lasting(false).any(|(id, layer)| planned.get(&id) != Some(&layer.problem)),
            None => self.layers.lasting(false).next().is_some(),
        }
    }
}

/// The right to divide anew. Only one thread has it: until it is dropped, `planning` is set or the phase is `Dividing`.
pub struct Planning(&'static Network);

thread_local! {
    /// The calling thread plans: its cuDNN calls are not the program's layers.
    static PLANS: Cell<bool> = const { Cell::new(false) };
}

impl Planning {
    /// Divides among the layers that came back and, if `collected`, those that queries reported.
    pub fn plan(self, policies: &Policies, collected: bool) {
        PLANS.set(true);
        let wanted = {
            let mut state = self.0.state.lock();
            let layers: Vec<_> = state.layers.lasting(collected).map(|(id, layer)| (id, layer.clone())).collect();
            // Set even if planning fails: a layer that cannot be planned is not tried again in each iteration.
            state.planned = Some(layers.iter().map(|(id, layer)| (*id, layer.problem.clone())).collect());
            Wanted {
                layers,
                total: state.total().unwrap_or(0),
                one_stream: state.one_stream,
                waits: collected,
                policies: *policies,
                sets: state.sets.clone(),
            }
        };
        settings::fault_point("divide");
        let (sets, done) = planning::divide(self.0.device, wanted, &self.0.division);
        let mut state = self.0.state.lock();
        state.sets = sets;
        if !done {
            state.planned = None;
        }
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        PLANS.set(false);
        let mut state = self.0.state.lock();
        state.planning = false;
        if state.phase == Phase::Dividing {
            state.phase = Phase::Running;
        }
        drop(state);
        self.0.planned.notify_all();
    }
}

/// True if the calling thread plans: its cuDNN calls are then not the program's layers.
pub fn plans() -> bool {
    PLANS.get()
}

/// Returns the lane of a call on `stream`.
pub fn lane(device: Device, stream: Stream) -> Lane {
    thread_local!(static HERE: u8 = const { 0 });
    let thread = if device.has_one_for_each_thread(stream) { HERE.with(|here| (&raw const *here).addr()) } else { 0 };
    Lane { stream: stream.addr(), thread }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_threads_run_at_once_is_on_two_lanes() {
        let lanes_differ = |device: Device, stream: usize| {
            let lane = move || lane(device, std::ptr::without_provenance_mut(stream));
            let here = lane();
            std::thread::scope(|scope| scope.spawn(lane).join().unwrap() != here)
        };
        assert!(lanes_differ(Device::Host, 0));
        assert!(!lanes_differ(Device::Cuda, 0) && !lanes_differ(Device::Cuda, 0x7000));
        assert!(lanes_differ(Device::Cuda, 2));
    }
}
