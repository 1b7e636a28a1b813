//! A device's network: its layers, and the segments in which they run.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::Ordering;

use cudnn_abi::*;
use parking_lot::{Condvar, Mutex, RwLock};

use super::kernel::{LayerKernel, LayerPlan};
use super::layers::{Addresses, Key, Lane, Layer, LayerId, Layers};
use super::planning::{self, Sets};
use super::report;
use super::segments::{Division, Launch};
use crate::division::arena::Arena;
use crate::exec::Failure;
use crate::problem::Kernel;
use cudnn::calls::query::AlgoPerf;
use cudnn::convolution::Workspace;
use cudnn::policies::Policies;
use gpu::background;
use gpu::{Device, Stream};
use guest::settings;

/// What Workspace Division knows of one device.
pub struct Network {
    device: Device,
    state: Mutex<State>,
    /// Notified when the program's own planning has ended.
    planned: Condvar,
    /// What calls run. Held for reading while a call is launched; written when the arena changes.
    division: RwLock<Division>,
}

#[derive(Default)]
struct State {
    layers: Layers,
    phase: Phase,
    /// A thread is planning.
    planning: bool,
    /// The total that the program set.
    total: Option<usize>,
    /// The program runs all convolutions on one stream.
    one_stream: bool,
    /// The layers that the division was made for; `None` if it must be made anew.
    planned: Option<BTreeMap<LayerId, LayerKernel>>,
    /// Of every kernel that was tuned.
    sets: Sets,
}

#[derive(Default, PartialEq, Eq)]
enum Phase {
    /// Nothing has run.
    #[default]
    Collecting,
    /// The program waits while its layers are planned for.
    Dividing,
    /// Convolutions run; layers that come back are planned for.
    Running,
}

/// What a division is to be made for.
pub struct Wanted {
    pub layers: Vec<(LayerId, Layer)>,
    pub total: usize,
    pub one_stream: bool,
    /// The program stands still meanwhile.
    pub waits: bool,
    pub policies: Policies,
    pub sets: Sets,
}

/// By device. They live as long as the process: plans may be under way when it ends.
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

    /// A query has told of a layer. Once convolutions have run, queries tell of nothing new.
    pub fn collect(&self, kernel: &Kernel, chosen: AlgoPerf, descriptors: Addresses, name: Option<u64>) {
        let mut state = self.state.lock();
        if state.phase == Phase::Collecting {
            state.layers.collect(kernel, chosen, descriptors, name);
        }
    }

    /// The program has told of all its layers: divides among them now.
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

    /// Sets the total; what is divided is divided anew.
    pub fn set_total(&self, bytes: usize) {
        let mut state = self.state.lock();
        if state.total.replace(bytes) != Some(bytes) {
            state.planned = None;
        }
    }

    /// The total in force.
    pub fn total(&self) -> Option<usize> {
        self.state.lock().total()
    }

    /// Whether all layers may share one segment.
    pub fn set_one_stream(&self, one_stream: bool) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.one_stream, one_stream) != one_stream {
            state.planned = None;
        }
    }

    /// What runs, as text.
    pub fn describe(&self) -> String {
        self.division.read_recursive().describe().to_owned()
    }

    /// Which layer a call is; divides first, or begins to, where it is time. `chosen` asks what cuDNN says of the
    /// algorithm that it names, if it does.
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

    /// Launches a call in its layer's segment. `None` if the layer has none, or the call failed before it changed
    /// anything.
    pub fn in_segment(
        &self,
        layer: LayerId,
        key: &Key,
        stream: Stream,
        launch: impl FnOnce(&LayerPlan, Workspace) -> Result<(), Failure>,
    ) -> Option<cudnnStatus_t> {
        self.with_division(|division| {
            let segment = division.segment(layer, key.lane).filter(|segment| segment.kernel == key.kernel)?;
            if segment.broken.load(Ordering::Relaxed) {
                return None;
            }
            let arena = division.arena()?;
            let workspace = arena.workspace(&segment.range)?;
            let launch = || {
                let _launch = Launch::begin(&segment.last, self.device, stream);
                launch(&segment.plan, workspace)
            };
            match watched(division, arena, &segment.range, &key.kernel, stream, launch) {
                Ok(()) => Some(CUDNN_STATUS_SUCCESS),
                Err(failure) if failure.result_spent => Some(failure.status),
                Err(failure) => {
                    // What cuDNN refuses as the program's mistake is no fault of the plan.
                    if !(CUDNN_STATUS_BAD_PARAM..CUDNN_STATUS_NOT_SUPPORTED).contains(&failure.status)
                        && !segment.broken.swap(true, Ordering::Relaxed)
                    {
                        let (kernel, plan, status) = (&key.kernel, &segment.configuration, failure.status);
                        log::warn!("{kernel}: {plan} failed with status {status}; it runs without workspace");
                    }
                    None
                }
            }
        })
    }

    /// The most bytes that layers without a segment may share.
    pub fn rest(&self) -> usize {
        let total = self.total().unwrap_or(0);
        self.division.read_recursive().rest_of(total)
    }

    /// Launches a call whose layer has no segment in `bytes` of what such layers share. `None` if there is not as much,
    /// or another lane has it.
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
            // Not by waiting: this may be cuDNN, called from within a call that is being launched.
            self.division.try_write()?.extend(self.device, key.lane, bytes, total);
        }
        self.with_division(|division| {
            let (rest, arena) = division.rest(key.lane, bytes)?;
            let workspace = arena.workspace(&(0..bytes))?;
            let launch = || {
                let _launch = Launch::begin(&rest.last, self.device, stream);
                launch(workspace)
            };
            Some(watched(division, arena, &(0..bytes), &key.kernel, stream, launch))
        })
    }

    /// Calls with the division in force, which does not change meanwhile; nobody else has it where calls are checked.
    fn with_division<T>(&self, act: impl FnOnce(&Division) -> T) -> T {
        if settings::get().check {
            act(&self.division.write())
        } else {
            // cuDNN may call itself through our symbols, beside a thread that waits to write.
            act(&self.division.read_recursive())
        }
    }
}

/// Launches something in part of an arena, and where calls are checked says whether it kept to that.
fn watched<T>(
    division: &Division,
    arena: &Arena,
    range: &Range<usize>,
    kernel: &LayerKernel,
    stream: Stream,
    launch: impl FnOnce() -> T,
) -> T {
    // SAFETY: nobody else has the arena where calls are checked, once it has come to rest.
    let poisoned = settings::get().check && division.rests() && unsafe { arena.poison(stream) };
    let launched = launch();
    if poisoned {
        report::kept(kernel, range, arena.bytes(), arena.overwritten(range, stream));
    }
    launched
}

impl State {
    /// The total in force: the program's, or the environment's.
    fn total(&self) -> Option<usize> {
        self.total.or(settings::get().total_workspace_size)
    }

    /// Whether layers came back that the division does not know, or it is to be made anew.
    fn has_news(&self) -> bool {
        match &self.planned {
            Some(planned) => self.layers.lasting(false).any(|(id, layer)| planned.get(&id) != Some(&layer.kernel)),
            None => self.layers.lasting(false).next().is_some(),
        }
    }
}

/// The right to divide anew, which one thread has at a time: `planning` is set, or the phase is
/// `Dividing`, until it is dropped.
pub struct Planning(&'static Network);

thread_local! {
    /// This thread plans: what cuDNN calls meanwhile is none of the program's layers.
    static PLANS: Cell<bool> = const { Cell::new(false) };
}

impl Planning {
    /// Divides among the layers that came back, and where it is `collected` those that queries told of.
    pub fn plan(self, policies: &Policies, collected: bool) {
        PLANS.set(true);
        let wanted = {
            let mut state = self.0.state.lock();
            let layers: Vec<_> = state.layers.lasting(collected).map(|(id, layer)| (id, layer.clone())).collect();
            // Even if this fails: what cannot be planned is not tried in each iteration anew.
            state.planned = Some(layers.iter().map(|(id, layer)| (*id, layer.kernel.clone())).collect());
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

/// Whether the calling thread plans: what cuDNN calls meanwhile is none of the program's layers.
pub fn plans() -> bool {
    PLANS.get()
}

/// Where a call on `stream` runs.
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
