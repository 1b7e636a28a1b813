//! A device's network: its layers, and the segments in which they run.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use cudnn_abi::*;
use parking_lot::{Condvar, Mutex, RwLock};

use super::layers::{Addresses, Key, Lane, Layer, LayerId, Layers, addresses};
use super::planning::{self, Sets};
use super::segments::Division;
use crate::background;
use crate::cudnn::calls;
use crate::cudnn::calls::query::AlgoPerf;
use crate::cudnn::convolution::{Descriptors, Workspace};
use crate::cudnn::kernel::Kernel;
use crate::device::{Device, Stream};
use crate::legacy::answer;
use crate::legacy::call::Call;
use crate::policies::Policies;
use crate::settings;

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
    planned: Option<BTreeMap<LayerId, Kernel>>,
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

    /// Runs a call in its layer's segment, or as it is ready.
    ///
    /// # Safety
    /// As for [`Call::run`].
    pub unsafe fn run(
        &'static self,
        call: &Call,
        kernel: &Kernel,
        only: bool,
        policies: &Policies,
        spent: &Cell<bool>,
    ) -> cudnnStatus_t {
        if PLANS.get() {
            // SAFETY: as ours.
            return unsafe { call.run_as_asked() };
        }
        let mut stream: Stream = std::ptr::null_mut();
        // SAFETY: the program's handle.
        let known = unsafe { calls::cudnnGetStream(call.handle, &mut stream) } == CUDNN_STATUS_SUCCESS;
        // What is captured may be run again at any time, beside anything: it can have no segment.
        if known && !self.device.is_capturing(stream) {
            let key = Key {
                kernel: *kernel,
                algorithm: call.algorithm,
                only,
                filter: call.operands.w.addr(),
                lane: lane(self.device, stream),
                name: policies.layer,
            };
            // SAFETY: as ours.
            let layer = unsafe { self.enter(&key, call, policies) };
            // SAFETY: as ours.
            if let Some(status) = unsafe { self.run_in_segment((layer, key.lane), call, kernel, stream, spent) } {
                return status;
            }
            // SAFETY: as ours.
            if only && let Some(status) = unsafe { self.run_in_passing(call, stream) } {
                return status;
            }
        }
        // SAFETY: as ours.
        unsafe { call.run_ready() }
    }

    /// Which layer the call is; divides first, or begins to, where it is time.
    ///
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn enter(&'static self, key: &Key, call: &Call, policies: &Policies) -> LayerId {
        let descriptors = addresses(&call.descriptors);
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
                // SAFETY: as ours.
                let chosen = alike.unwrap_or_else(|| unsafe { chosen(call.handle, &call.descriptors, key) });
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

    /// Runs a call that takes no other algorithm than the one asked for, and was told that this one needs
    /// less than it does, in memory for this call only: what is ready cannot take its place. `None` if it
    /// was not told so, or there is no memory.
    ///
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn run_in_passing(&self, call: &Call, stream: Stream) -> Option<cudnnStatus_t> {
        // SAFETY: as ours.
        let promise = unsafe { answer::promise(&call.descriptors, call.algorithm, call.workspace.size) }?;
        if promise.undivided <= call.workspace.size {
            return None;
        }
        let buffer = self.device.allocate(promise.undivided)?;
        let workspace = Workspace { data: buffer.data(), size: promise.undivided };
        // SAFETY: as ours, with a workspace as large as the algorithm needs.
        let status = unsafe { Call { workspace, ..*call }.run_as_asked() };
        self.device.synchronize(stream);
        Some(status)
    }

    /// `None` if the layer has no segment, or its plan failed before it changed anything.
    ///
    /// # Safety
    /// As for [`Call::run`].
    unsafe fn run_in_segment(
        &self,
        (layer, lane): (LayerId, Lane),
        call: &Call,
        kernel: &Kernel,
        stream: Stream,
        spent: &Cell<bool>,
    ) -> Option<cudnnStatus_t> {
        let checks = settings::get().check;
        let (shared, alone);
        // A check has the arena for itself.
        let division = if checks {
            alone = self.division.write();
            &*alone
        } else {
            // cuDNN may call itself through our symbols, beside a thread that waits to write.
            shared = self.division.read_recursive();
            &*shared
        };
        let segment = division.segment(layer, lane).filter(|segment| segment.plan.kernel() == kernel)?;
        if segment.broken.load(Ordering::Relaxed) {
            return None;
        }
        let workspace = division.workspace(segment)?;
        // SAFETY: nobody else has the arena, once it has come to rest.
        let poisoned = checks && division.rests() && unsafe { division.poison(stream) };
        let ran = {
            let _launch = segment.launch(self.device, stream);
            // SAFETY: as ours; the segment is this layer's alone.
            unsafe { call.run_parts(&segment.plan, workspace, spent, |_, _| ()) }
        };
        if poisoned {
            division.check(segment, stream);
        }
        match ran {
            Ok(()) => Some(CUDNN_STATUS_SUCCESS),
            Err(failure) if failure.result_spent => Some(failure.status),
            Err(failure) => {
                // What cuDNN refuses as the program's mistake is no fault of the plan.
                if !(CUDNN_STATUS_BAD_PARAM..CUDNN_STATUS_NOT_SUPPORTED).contains(&failure.status)
                    && !segment.broken.swap(true, Ordering::Relaxed)
                {
                    let (plan, status) = (segment.plan.configuration(), failure.status);
                    log::warn!("{kernel}: {plan} failed with status {status}; it runs without workspace");
                }
                None
            }
        }
    }
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
            state.planned = Some(layers.iter().map(|(id, layer)| (*id, layer.kernel)).collect());
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

/// Where a call on `stream` runs.
fn lane(device: Device, stream: Stream) -> Lane {
    thread_local!(static HERE: u8 = const { 0 });
    let thread = if device.has_one_for_each_thread(stream) { HERE.with(|here| (&raw const *here).addr()) } else { 0 };
    Lane { stream: stream.addr(), thread }
}

/// What cuDNN says of the algorithm that a call asks for, under the math type of its descriptors; that it
/// is not supported, where it says nothing.
///
/// # Safety
/// The handle and the descriptors are the program's.
unsafe fn chosen(handle: cudnnHandle_t, descriptors: &Descriptors, key: &Key) -> AlgoPerf {
    // SAFETY: as ours.
    let offered = unsafe { descriptors.get_algorithms(handle) }.unwrap_or_default();
    Descriptors::of_algorithm(&offered, key.algorithm, key.kernel.math_type).unwrap_or(AlgoPerf {
        algo: key.algorithm,
        status: CUDNN_STATUS_NOT_SUPPORTED,
        time: -1.0,
        memory: 0,
        determinism: CUDNN_NON_DETERMINISTIC,
        mathType: key.kernel.math_type,
        reserved: [0; 3],
    })
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
