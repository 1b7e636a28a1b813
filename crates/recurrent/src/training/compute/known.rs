//! The facts about a network that trains in this process, and its kernels.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cudnn_abi::*;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use crate::network::room::Room;
use crate::projection;
use crate::steps::{self, Kind, StepKernels};
use crate::training::compute::back_steps::{self, BackKernels};
use crate::training::compute::kernels::{self, Kernels};
use crate::training::compute::plan::{Plan, cell_and_element};
use crate::training::owner::owners::Owner;
use cudnn::rnn::{Data, Network, Weights};
use gpu::jit::Source;
use tuning::registry::Registry;

/// A network on a device. The algorithm and the type of mathematics do not matter: backward may have others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: i32,
    network: Network,
}

/// The facts about a network, and its kernels.
#[derive(Default)]
pub struct KnownNetwork {
    pub device: i32,
    weights: OnceCell<Option<Vec<Weights>>>,
    engine: OnceCell<Result<Engine, String>>,
    /// What cuDNN's calls need.
    pub room: Room,
    /// The plan of the last call.
    plan: Mutex<Option<Arc<Plan>>>,
    /// Forward ran on our kernels. From then on the network is kept.
    pub has_run: AtomicBool,
    /// The forward calls in a row that cuDNN ran, and those that our kernels ran. One of them is 0.
    in_a_row: [AtomicU32; 2],
}

/// So many forward calls in a row of one owner, and no reserve of the other's is taken to be alive.
const ALL_ALIKE: u32 = 1024;

/// Forward of any network ran on our kernels.
static ANY_HAS_RUN: AtomicBool = AtomicBool::new(false);

/// Returns whether forward of any network ran on our kernels.
pub fn any_has_run() -> bool {
    ANY_HAS_RUN.load(Ordering::Relaxed)
}

/// The kernels that train a network, one launch a time step.
pub struct Engine {
    pub around: Arc<Kernels>,
    pub steps: Arc<StepKernels>,
    pub back: Arc<BackKernels>,
    /// With a projection alone.
    pub projection: Option<Arc<projection::Kernels>>,
}

static NETWORKS: Registry<Key, KnownNetwork> =
    Registry::new(1 << 10, |known: &KnownNetwork| known.has_run.load(Ordering::Relaxed));

/// The network of a network on the calling thread's device.
pub fn of(network: &Network) -> Arc<KnownNetwork> {
    let network = Network { algorithm: CUDNN_RNN_ALGO_STANDARD, math_type: CUDNN_DEFAULT_MATH, ..*network };
    let device = cudnn::device().ordinal();
    NETWORKS.state(&Key { device, network }, || KnownNetwork { device, ..KnownNetwork::default() })
}

impl KnownNetwork {
    /// Where each pseudo layer's weights lie in a weight space; asks cuDNN once. `None`: our kernels do not take this
    /// layout.
    ///
    /// # Safety
    /// The handle and the descriptor are valid, the descriptor is of the known network, and the space has its size.
    pub unsafe fn weights(
        &self,
        handle: cudnnHandle_t,
        descriptor: cudnnRNNDescriptor_t,
        network: &Network,
        space: (*const c_void, usize),
    ) -> Option<&[Weights]> {
        // SAFETY: the caller makes the same promise.
        let of = |layer| unsafe { Weights::find(handle, descriptor, network, layer, space) };
        self.weights.get_or_init(|| (0..network.pseudo_layers()).map(of).collect()).as_deref()
    }

    /// The plan of a call. With dropout, the mask has so many bytes. The later calls of a pass find the first one's plan.
    /// `Err` says why our kernels cannot run it.
    pub fn plan(&self, network: &Network, data: Data, mask: Option<usize>) -> Result<Arc<Plan>, &'static str> {
        if let Some(last) = self.plan.lock().as_ref().filter(|last| last.is_of(network, &data, mask)) {
            return Ok(last.clone());
        }
        let plan = Arc::new(Plan::of(network, data, mask)?);
        *self.plan.lock() = Some(plan.clone());
        Ok(plan)
    }

    /// Forward has run on our kernels.
    pub fn ran_forward(&self) {
        if self.has_run.swap(true, Ordering::Relaxed) {
            return;
        }
        ANY_HAS_RUN.store(true, Ordering::Relaxed);
        // The network is kept, so no launch of a time step has to ask whether a graph will hold it.
        if let Some(engine) = self.loaded() {
            engine.steps.keep_loaded();
            engine.back.keep_loaded();
        }
    }

    /// Counts a forward call.
    pub fn went_forward(&self, owner: Owner) {
        let [other, own] = match owner {
            Owner::Cudnn => [1, 0],
            Owner::Us => [0, 1],
        };
        self.in_a_row[other].store(0, Ordering::Relaxed);
        if self.in_a_row[own].load(Ordering::Relaxed) < ALL_ALIKE {
            self.in_a_row[own].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The owner of the last forward call.
    pub fn last_owner(&self) -> Owner {
        if self.in_a_row[1].load(Ordering::Relaxed) > 0 { Owner::Us } else { Owner::Cudnn }
    }

    /// The owner of all reserves that may be alive, if they have the same one.
    pub fn only_owner(&self) -> Option<Owner> {
        let owner = self.last_owner();
        let is_long = self.in_a_row.iter().any(|count| count.load(Ordering::Relaxed) >= ALL_ALIKE);
        is_long.then_some(owner)
    }

    /// The sources of the kernels.
    pub fn sources(network: &Network) -> Result<Vec<Source>, String> {
        let (cell, element) = cell_and_element(network)?;
        let steps = steps::source(Kind { cell, element, saves: true });
        let mut sources = vec![kernels::source(element), steps, back_steps::source(cell, element)];
        sources.extend(network.projects().then(|| projection::source(element)));
        Ok(sources)
    }

    /// Compiles the kernels, so that [`Self::engine`] is quick.
    pub fn compile(network: &Network) -> Result<(), String> {
        let compile = |source| cudnn::device().compile(source).map_err(|error| error.to_string());
        Self::sources(network)?.iter().try_for_each(compile)
    }

    /// The kernels, loaded on the calling thread's device once. `Err` says why they cannot run there.
    pub fn engine(&self, network: &Network) -> Result<&Engine, &str> {
        let load = || {
            let (cell, element) = cell_and_element(network)?;
            let text = |error: gpu::jit::Error| error.to_string();
            let around = Kernels::load(element)?;
            let steps = StepKernels::load(Kind { cell, element, saves: true }).map_err(text)?;
            let back = BackKernels::load(cell, element).map_err(text)?;
            let projection =
                network.projects().then(|| projection::Kernels::load(element)).transpose().map_err(text)?;
            Ok(Engine { around, steps, back, projection })
        };
        self.engine.get_or_init(load).as_ref().map_err(String::as_str)
    }

    /// The kernels, if they are loaded.
    pub fn loaded(&self) -> Option<&Engine> {
        self.engine.get().and_then(|engine| engine.as_ref().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::testing::emulated;

    #[test]
    fn a_plan_is_kept_for_its_network_its_batch_and_its_mask() {
        if !emulated::is_child("training::compute::known::tests::a_plan_is_kept_for_its_network_its_batch_and_its_mask")
        {
            return;
        }
        let network = Network {
            algorithm: CUDNN_RNN_ALGO_STANDARD,
            cell: CUDNN_LSTM,
            bias: CUDNN_RNN_DOUBLE_BIAS,
            direction: CUDNN_UNIDIRECTIONAL,
            input_mode: CUDNN_LINEAR_INPUT,
            data_type: CUDNN_DATA_FLOAT,
            math_type: CUDNN_DEFAULT_MATH,
            input: 3,
            hidden: 5,
            projection: 5,
            layers: 2,
            flags: CUDNN_RNN_PADDED_IO_ENABLED,
            is_clipped: false,
        };
        let data = |lengths: [i32; 2]| Data {
            data_type: CUDNN_DATA_FLOAT,
            layout: CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
            steps: 4,
            vector: 3,
            lengths: lengths.to_vec(),
            padding_fill: [0; 8],
        };
        let known = KnownNetwork::default();
        let plan = |network: &Network, lengths, mask| known.plan(network, data(lengths), mask).ok().unwrap();
        let first = plan(&network, [4, 3], None);
        let backward = Network { algorithm: CUDNN_RNN_ALGO_PERSIST_STATIC, ..network };
        assert!(Arc::ptr_eq(&first, &plan(&backward, [4, 3], None)));
        let exact = Network { math_type: CUDNN_FMA_MATH, ..network };
        for (of, lengths, mask) in [(network, [4, 2], None), (network, [4, 3], Some(64)), (exact, [4, 3], None)] {
            let other = plan(&of, lengths, mask);
            assert!(!Arc::ptr_eq(&first, &other));
            assert_eq!((&other.packing.lengths[..], other.allows_tf32()), (&lengths[..], of != exact));
            assert_eq!(other.layout.saved[1].mask.is_some(), mask.is_some());
            plan(&network, [4, 3], None);
        }
    }
}
