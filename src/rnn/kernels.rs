//! The recurrence's kernels: their parameters, what they are compiled for, and launching them.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Weak};

use cudnn_abi::*;
use parking_lot::Mutex;

use super::input::Input;
use crate::cudnn::rnn::Network;
use crate::device::jit::{Error, Function, Launch, Source};
use crate::device::{Device, Stream};

/// What the sources include.
pub const HEADERS: &[(&str, &str)] = &[
    ("device.cuh", include_str!("../../kernels/device.cuh")),
    ("exchange.cuh", include_str!("../../kernels/exchange.cuh")),
    ("ops_float.cuh", include_str!("../../kernels/ops_float.cuh")),
    ("ops_half.cuh", include_str!("../../kernels/ops_half.cuh")),
    ("ops_bfloat16.cuh", include_str!("../../kernels/ops_bfloat16.cuh")),
    ("rnn/recurrence.cuh", include_str!("../../kernels/rnn/recurrence.cuh")),
    ("rnn/share.cuh", include_str!("../../kernels/rnn/share.cuh")),
    ("rnn/states.cuh", include_str!("../../kernels/rnn/states.cuh")),
    ("rnn/cells/logistic.cuh", include_str!("../../kernels/rnn/cells/logistic.cuh")),
    ("rnn/cells/lstm.cuh", include_str!("../../kernels/rnn/cells/lstm.cuh")),
    ("rnn/cells/gru.cuh", include_str!("../../kernels/rnn/cells/gru.cuh")),
    ("rnn/cells/tanh.cuh", include_str!("../../kernels/rnn/cells/tanh.cuh")),
    ("rnn/cells/relu.cuh", include_str!("../../kernels/rnn/cells/relu.cuh")),
];

/// The option that names a type of elements.
pub fn element_option(data_type: cudnnDataType_t) -> &'static str {
    match data_type {
        CUDNN_DATA_HALF => "-DELEMENT_HALF",
        CUDNN_DATA_BFLOAT16 => "-DELEMENT_BFLOAT16",
        _ => "-DELEMENT_FLOAT",
    }
}

/// One layer and direction: the twin of the struct in `kernels/rnn/recurrence.cuh`, which says what is what.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Recurrence {
    pub input: *const f32,
    pub weights: *const c_void,
    pub reset_bias: *const c_void,
    pub h0: *const c_void,
    pub c0: *const c_void,
    pub y: *mut c_void,
    pub hy: *mut c_void,
    pub cy: *mut c_void,
    pub lengths: *const i32,
    pub starts: *const i32,
    pub y_stride: i64,
    pub time_stride: i64,
    pub batch_stride: i64,
    /// An element, in its first bytes; shorter ones are padded to as many.
    pub fill: [u8; 4],
    pub steps: i32,
    pub batch: i32,
    pub reverse: i32,
    pub exchange: *mut c_void,
}

/// What a recurrence's kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub cell: cudnnRNNMode_t,
    pub data_type: cudnnDataType_t,
    pub hidden: usize,
    pub batch: usize,
    /// Of the device.
    pub multiprocessors: usize,
}

impl Problem {
    /// A network's on the calling thread's device.
    pub fn new(device: Device, network: &Network, batch: usize) -> Self {
        /// The emulator has any number of blocks at once.
        const EMULATED: i32 = 64;
        let identity = match device {
            Device::Host => None,
            Device::Cuda => device.identity(device.ordinal()),
        };
        let multiprocessors = identity.map_or(EMULATED, |identity| identity.multiprocessors) as usize;
        let Network { cell, data_type, hidden, .. } = *network;
        Self { cell, data_type, hidden, batch, multiprocessors }
    }

    fn gates(&self) -> usize {
        match self.cell {
            CUDNN_LSTM => 4,
            CUDNN_GRU => 3,
            _ => 1,
        }
    }

    fn element(&self) -> usize {
        if self.data_type == CUDNN_DATA_FLOAT { 4 } else { 2 }
    }

    /// So many configurations, the best by the model first.
    pub fn ranked(&self, count: usize) -> Vec<Configuration> {
        Configuration::space(self).into_iter().take(count).collect()
    }
}

/// How the work is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Regime {
    /// A block computes all units of some rows of the batch.
    Block,
    /// Blocks of the whole grid compute some units each.
    Grid,
}

/// What a kernel is compiled for, beside its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    pub regime: Regime,
    pub units: usize,
    pub batch_tile: usize,
    pub threads: usize,
    pub lanes: usize,
    pub register_weights: usize,
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { regime, units, batch_tile, threads, lanes, register_weights } = self;
        write!(f, "{regime:?} {units} units, {batch_tile} rows, {threads} threads, {lanes} lanes, {register_weights}")
    }
}

impl Configuration {
    fn space(problem: &Problem) -> Vec<Self> {
        let (threads, lanes, batch_tile) = (128, 8, problem.batch.min(4));
        let units = problem.hidden.div_ceil(problem.multiprocessors).next_multiple_of(4);
        let block =
            Self { regime: Regime::Block, units: problem.hidden, batch_tile, threads, lanes, register_weights: 64 };
        let grid = Self { regime: Regime::Grid, units, ..block };
        if problem.hidden <= 32 { vec![block, grid] } else { vec![grid] }
    }

    fn shared_bytes(&self, problem: &Problem) -> usize {
        let chunks = problem.hidden.div_ceil(4 * self.lanes);
        let tile = self.batch_tile * chunks * 4 * self.lanes * size_of::<f32>();
        let quads = chunks * self.units.div_ceil(self.threads / self.lanes) * problem.gates();
        let shared = quads - quads.min(self.register_weights / 4);
        let weights = shared * self.threads * 4 * problem.element();
        match self.regime {
            Regime::Block => 2 * tile + weights,
            Regime::Grid => {
                let values = 12 / problem.element();
                let own = (self.units * self.batch_tile).div_ceil(values) * values * problem.element();
                tile + own.next_multiple_of(16) + weights
            }
        }
    }

    fn blocks(&self, problem: &Problem) -> [usize; 2] {
        match self.regime {
            Regime::Block => [problem.batch.div_ceil(self.batch_tile), 1],
            Regime::Grid => [problem.hidden.div_ceil(self.units), 1],
        }
    }

    /// Bytes of the exchange.
    pub fn exchange_bytes(&self, problem: &Problem) -> usize {
        let values = 12 / problem.element();
        let packets = self.blocks(problem)[0] * (self.units * self.batch_tile).div_ceil(values);
        match self.regime {
            Regime::Block => 0,
            Regime::Grid => 128 + (2 * packets * 16).next_multiple_of(128),
        }
    }

    fn options(&self, problem: &Problem) -> Vec<String> {
        let cell = match problem.cell {
            CUDNN_LSTM => "-DCELL_LSTM",
            CUDNN_GRU => "-DCELL_GRU",
            CUDNN_RNN_TANH => "-DCELL_TANH",
            _ => "-DCELL_RELU",
        };
        let numbers = [
            ("HIDDEN", problem.hidden),
            ("UNITS", self.units),
            ("BATCH_TILE", self.batch_tile),
            ("THREADS", self.threads),
            ("LANES", self.lanes),
            ("REGISTER_WEIGHTS", self.register_weights),
        ];
        let names = [element_option(problem.data_type).to_owned(), cell.to_owned()];
        names.into_iter().chain(numbers.map(|(name, number)| format!("-D{name}={number}"))).collect()
    }
}

/// A recurrence's kernel in one configuration, loaded on the device that was current then, and what comes before it.
pub struct Engine {
    configuration: Configuration,
    recurrence: Function,
    launch: Launch,
    exchange_bytes: usize,
    pub input: Arc<Input>,
}

type Known<K, V> = Mutex<Option<HashMap<(i32, K), Weak<V>>>>;

/// What is loaded, by the device's number.
static ENGINES: Known<(Problem, Configuration), Engine> = Mutex::new(None);
static INPUTS: Known<cudnnDataType_t, Input> = Mutex::new(None);

/// What is known, or what is made; nothing is held meanwhile, and of two that are made at once the first is kept.
fn known_or_made<K: Eq + std::hash::Hash + Copy, V>(
    known: &Known<K, V>,
    key: K,
    make: impl FnOnce() -> Result<V, String>,
) -> Result<Arc<V>, String> {
    let key = (Device::current().ordinal(), key);
    let find = |known: &Option<HashMap<_, Weak<V>>>| known.as_ref().and_then(|known| known.get(&key)?.upgrade());
    if let Some(found) = find(&known.lock()) {
        return Ok(found);
    }
    let made = Arc::new(make()?);
    let mut known = known.lock();
    Ok(find(&known).unwrap_or_else(|| {
        let known = known.get_or_insert_default();
        known.retain(|_, value| value.strong_count() > 0);
        known.insert(key, Arc::downgrade(&made));
        made
    }))
}

impl Engine {
    /// Compiles and loads on the calling thread's device, or takes what is loaded. `Err` says why it cannot run there.
    pub fn load(problem: &Problem, configuration: Configuration) -> Result<Arc<Self>, String> {
        known_or_made(&ENGINES, (*problem, configuration), || Self::new(problem, configuration))
    }

    fn new(problem: &Problem, configuration: Configuration) -> Result<Self, String> {
        let device = Device::current();
        let text = |error: Error| error.to_string();
        let input = known_or_made(&INPUTS, problem.data_type, || Input::load(device, problem.data_type).map_err(text))?;
        let (name, source, kernel) = match configuration.regime {
            Regime::Block => ("rnn/block.cu", include_str!("../../kernels/rnn/block.cu"), c"recurrence_block"),
            Regime::Grid => ("rnn/grid.cu", include_str!("../../kernels/rnn/grid.cu"), c"recurrence_grid"),
        };
        let source = Source { name, text: source, headers: HEADERS, options: configuration.options(problem) };
        let recurrence = device.load(&source).and_then(|module| module.function(kernel)).map_err(text)?;
        let (shared, blocks) = (configuration.shared_bytes(problem) as u32, configuration.blocks(problem));
        recurrence.allow_shared(shared).map_err(text)?;
        let threads = configuration.threads as u32;
        let launch = Launch {
            grid: [blocks[0] as u32, blocks[1] as u32, 1],
            block: [threads, 1, 1],
            shared_bytes: shared,
            // Blocks that wait for each other run all at once, or not at all.
            cooperative: configuration.regime == Regime::Grid,
            ..Launch::default()
        };
        let resident = recurrence.resident_blocks(threads, shared).map_err(text)? as usize * problem.multiprocessors;
        let count = blocks[0] * blocks[1];
        if resident == 0 || (launch.cooperative && resident < count) {
            return Err(format!("{configuration}: {count} blocks, and the device holds {resident} at once"));
        }
        let exchange_bytes = configuration.exchange_bytes(problem);
        Ok(Self { configuration, recurrence, launch, exchange_bytes, input })
    }

    /// What it was compiled for.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Bytes of the exchange, which are to be zero before a call's first launch.
    pub fn exchange_bytes(&self) -> usize {
        self.exchange_bytes
    }

    /// Launches one layer and direction; nothing waits or allocates.
    ///
    /// # Safety
    /// The memory is the stream's device's, of the problem's sizes and type, and no other launch uses the exchange.
    pub unsafe fn launch(&self, stream: Stream, recurrence: &Recurrence) -> Result<(), Error> {
        let mut arguments = [std::ptr::from_ref(recurrence).cast_mut().cast()];
        // SAFETY: the kernel's one parameter; its memory is the caller's promise.
        unsafe { self.recurrence.launch(stream, &self.launch, &mut arguments) }
    }
}
