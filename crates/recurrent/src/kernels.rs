//! The recurrence's persistent kernels: compiling, loading and launching.

use std::iter;
use std::sync::Arc;

use cudnn_abi::CUDNN_FMA_MATH;

use super::configuration::{Cell, Configuration, Element, MOST_RECURRENCES, Pass, Problem, Regime};
use super::input::Input;
use super::recurrence::{BackRecurrence, BackRecurrences, MOST_BACK_RECURRENCES, Recurrence, Recurrences, Recurrent};
use cudnn::rnn::Network;
use gpu::Stream;
use gpu::background::compiling;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Launch, Source};
use kernels::recurrent as sources;

/// The problem of a network on the calling thread's device, for about `steps` time steps. `None`: our kernels lack the
/// cell or the type, or the device does not report its properties.
pub fn problem(network: &Network, batch: usize, steps: usize) -> Option<Problem> {
    let cell = Cell::of(network.cell)?;
    let element = Element::of(network.data_type)?;
    let device = cudnn::device();
    let ordinal = device.ordinal();
    // The input's products use the same rule for TF32, but may use tensor cores for other types in any case.
    let tensor_cores = network.math_type != CUDNN_FMA_MATH;
    Some(Problem {
        cell,
        element,
        hidden: network.hidden,
        input: network.input_of_all_layers().unwrap_or(0),
        batch,
        layers: network.layers,
        directions: network.directions(),
        steps,
        pass: Pass::Inference,
        tensor_cores,
        multiprocessors: device.multiprocessors(ordinal)?,
        shared_bytes: device.shared_bytes(ordinal)?,
        cluster_blocks: device.cluster_blocks(ordinal),
    })
}

/// The source of a configuration's kernel.
pub fn source(problem: &Problem, configuration: &Configuration) -> Source {
    let source = match (configuration.regime, problem.cell) {
        (Regime::Block, _) if problem.pass == Pass::Backward => &sources::BACK_BLOCK,
        (Regime::Scatter, _) => &sources::BACK_SCATTER,
        (Regime::GridScatter, _) => &sources::BACK_GRID,
        _ if problem.pass == Pass::Backward => &sources::BACK_CLUSTER,
        (Regime::Block, Cell::CanonicalGru) => &sources::CANONICAL_BLOCK,
        (Regime::Block, _) => &sources::BLOCK,
        (Regime::Cluster, _) => &sources::CLUSTER,
        (Regime::Grid | Regime::GridSingle, _) => &sources::GRID,
        (Regime::Wavefront { .. }, _) => &sources::WAVEFRONT,
    };
    Source::new(source, configuration.options(problem))
}

/// Returns true if the launch may begin before its predecessor ends: the kernel waits before it reads the results.
pub fn may_be_early(configuration: &Configuration) -> bool {
    !is_cooperative(configuration)
}

/// Returns true if the blocks wait for each other: all run at once, or none. A cluster's blocks always run at once.
fn is_cooperative(configuration: &Configuration) -> bool {
    configuration.regime != Regime::Block && !configuration.is_in_clusters()
}

/// The launch of a configuration's kernel.
pub fn launch(problem: &Problem, configuration: &Configuration) -> Launch {
    Launch {
        grid: configuration.grid(problem),
        block: [configuration.block_threads() as u32, 1, 1],
        cluster: configuration.cluster(problem),
        shared_bytes: configuration.shared_bytes(problem) as u32,
        cooperative: is_cooperative(configuration),
        early: false,
        ..Launch::default()
    }
}

/// A recurrence's kernel in one configuration and the kernels before it, loaded on the device that was current then.
pub struct Engine {
    configuration: Configuration,
    recurrence: Function,
    launch: Launch,
    exchange_bytes: usize,
    input: Arc<Input>,
}

static ENGINES: Loaded<(Problem, Configuration), Engine> = Loaded::while_used();
static INPUTS: Loaded<Element, Input> = Loaded::while_used();

/// The kernels before a recurrence, on the calling thread's device; loads them if necessary.
pub fn input(element: Element) -> Result<Arc<Input>, String> {
    let device = cudnn::device();
    INPUTS.get(device, element, || Input::load(device, element).map_err(|error| error.to_string()))
}

/// The sources of a network's kernels: those before its recurrences, and those of its recurrences' configurations.
pub fn sources(element: Element, recurrences: &[(&Problem, &[Configuration])]) -> Vec<Source> {
    let of_all = recurrences.iter().flat_map(|(problem, configurations)| {
        configurations.iter().map(|configuration| source(problem, configuration))
    });
    iter::once(Input::source(element)).chain(of_all).collect()
}

impl Engine {
    /// Finds or compiles and loads the kernels for the calling thread's device. `Err` says why they cannot run there.
    pub fn load(problem: &Problem, configuration: Configuration) -> Result<Arc<Self>, String> {
        // The kernels do not depend on the number of steps.
        let key = (Problem { steps: 0, ..*problem }, configuration);
        ENGINES.get(cudnn::device(), key, || Self::new(problem, configuration))
    }

    /// Compiles the kernels, so that [`Self::load`] is quick. The program's launches do not wait for it.
    pub fn compile(problem: &Problem, configuration: &Configuration) -> Result<(), String> {
        compiling::hang()?;
        let device = cudnn::device();
        let input = device.compile(&Input::source(problem.element));
        input.and_then(|()| device.compile(&source(problem, configuration))).map_err(|error| error.to_string())
    }

    /// Returns true if all kernels are on disk, compiled for the calling thread's device, so that loading is quick.
    pub fn is_compiled(problem: &Problem, configuration: &Configuration) -> bool {
        let device = cudnn::device();
        device.is_compiled(&source(problem, configuration)) && Input::is_compiled(device, problem.element)
    }

    fn new(problem: &Problem, configuration: Configuration) -> Result<Self, String> {
        compiling::hang()?;
        let device = cudnn::device();
        let text = |error: Error| error.to_string();
        let input = input(problem.element)?;
        let source = source(problem, &configuration);
        let recurrence =
            device.load(&source).and_then(|module| module.function(configuration.kernel(problem))).map_err(text)?;
        let mut launch = launch(problem, &configuration);
        let Launch { grid, block: [threads, ..], shared_bytes: shared, .. } = launch;
        recurrence.allow_shared(shared).map_err(text)?;
        if launch.cluster != [1; 3] {
            recurrence.allow_large_clusters().map_err(text)?;
        }
        let spilled = recurrence.resources().map_err(text)?.local_bytes;
        if spilled > 0 {
            return Err(format!("{configuration}: {spilled} bytes of a thread do not fit into registers"));
        }
        let resident = recurrence.resident_blocks(threads, shared).map_err(text)? as usize * problem.multiprocessors;
        let count = grid.into_iter().product::<u32>() as usize;
        if resident == 0 || (launch.cooperative && resident < count) {
            return Err(format!("{configuration}: {count} blocks, and the device holds {resident} at once"));
        }
        if launch.cluster != [1; 3] {
            let clusters = recurrence.resident_clusters(&launch).map_err(text)?;
            if clusters == 0 {
                return Err(format!("{configuration}: the device holds no cluster of {} blocks", launch.cluster[0]));
            }
            // The resident clusters share out the tiles: more clusters would begin only after these end.
            let [_, groups, at_once] = &mut launch.grid;
            *groups = (*groups).min((clusters / *at_once).max(1));
        }
        let exchange_bytes = configuration.exchange_bytes(problem);
        Ok(Self { configuration, recurrence, launch, exchange_bytes, input })
    }

    /// Recurrences of a launch.
    pub fn at_once(&self) -> usize {
        self.launch.grid[2] as usize
    }

    /// Launches the gradients of [`Self::at_once`] of a layer's recurrences, or fewer, in one launch. Nothing waits or
    /// allocates.
    ///
    /// # Safety
    /// The kernel is one of backward's. Each recurrence has an exchange of its own. All memory is on the stream's device,
    /// with the network's sizes and type.
    pub unsafe fn launch_back(&self, stream: Stream, recurrences: &[BackRecurrence]) -> Result<(), Error> {
        let [x, y, _] = self.launch.grid;
        let mut parameters = BackRecurrences { of: [recurrences[0]; MOST_BACK_RECURRENCES] };
        parameters.of[..recurrences.len()].copy_from_slice(recurrences);
        let launch = Launch { grid: [x, y, recurrences.len() as u32], ..self.launch };
        // SAFETY: the kernel takes one parameter, a `BackRecurrences`. The caller promises that its memory is valid.
        unsafe { self.recurrence.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }
    }

    /// The configuration that it was compiled for.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }
}

impl Recurrent for Engine {
    fn input(&self) -> &Input {
        &self.input
    }

    fn exchange_bytes(&self) -> usize {
        self.exchange_bytes
    }

    fn layers(&self) -> usize {
        self.configuration.layers()
    }

    fn multiplies_input(&self) -> bool {
        self.configuration.multiplies_input()
    }

    unsafe fn launch(&self, stream: Stream, recurrences: &[Recurrence], early: bool) -> Result<(), Error> {
        let [x, y, at_once] = self.launch.grid;
        let mut early = early && may_be_early(&self.configuration);
        for part in recurrences.chunks(at_once as usize) {
            let mut parameters = Recurrences { of: [part[0]; MOST_RECURRENCES] };
            parameters.of[..part.len()].copy_from_slice(part);
            let launch = Launch { grid: [x, y, part.len() as u32], early, ..self.launch };
            early = false;
            let mut arguments = [(&raw mut parameters).cast()];
            // SAFETY: the kernel takes one parameter, a `Recurrences`. The caller promises that its memory is valid.
            unsafe { self.recurrence.launch(stream, &launch, &mut arguments) }?;
        }
        Ok(())
    }
}
