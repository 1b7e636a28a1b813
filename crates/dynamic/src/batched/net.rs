//! A net on a device: its passes, its kernels and the memory of its runs.

use std::ffi::CString;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Instant;

use gpu::jit::{Function, Source};
use gpu::{Device, Element, Recorder};
use parking_lot::Mutex;
use vertex::batch::{Batch, Maxima};
use vertex::derivative::differentiate;
use vertex::function::{self, MOST_FUNCTIONS, Op, Operation};
use vertex::passes::{Extent, FRAMES, Frame, Grain, Passes, Work, passes};
use vertex::stages::{Stage, Way};

use super::library::Library;
use super::path::{Path, Place};
use crate::emit::{
    self, GraphArray, Kernel, Kernels, MOST_POINTERS, PATH_THREADS, PathShape, Pointer, emit, emit_path, turns,
};
use crate::memory::{Bytes, Layout, Sizes};
use crate::options::{Executor, Fours, Options, Without};
use crate::report::{self, Made};

/// The most bytes of a batch's memory in which blocks publish, where it is not asked for.
const MOST_EXCHANGED: usize = 64 << 20;

/// A net that cannot run on this device: why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

impl Display for Unsupported {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

/// A net on a device.
pub struct Net {
    pub(super) net: function::Net,
    pub(super) device: Device,
    ordinal: i32,
    pub(super) element: Element,
    pub(super) tf32: bool,
    /// Each run launches what the largest batch needs, so that a captured one serves any batch.
    pub(super) is_static: bool,
    pub(super) without: Without,
    pub(super) fours: Fours,
    up: OneWay,
    /// The way down; `None` without training.
    down: Option<OneWay>,
    pub(super) library: Arc<Library>,
    executor: Executor,
    /// The configurations of the path in one launch: the number of groups.
    pub(super) configurations: Vec<usize>,
    /// `None` on the host.
    pub(super) recorder: Option<Recorder>,
    /// Held while a run is launched.
    pub(super) in_turn: Mutex<()>,
}

/// The sizes of a batch, or of the largest one.
#[derive(Clone, Copy)]
pub(super) struct BatchSizes {
    pub vertices: usize,
    pub edges: usize,
    pub pulled_rows: usize,
}

/// The kernels of a pass.
pub(super) struct Launched {
    /// The kernel of the pass alone; `None` for a product.
    pub own: Option<(Kernel, Function)>,
    /// Likewise for many elements, four at once.
    pub fours: Option<(Kernel, Function)>,
    /// The kernel of the pass and the next ones, for few rows.
    pub fused: Option<(Kernel, Function)>,
}

impl Launched {
    /// All of them.
    fn all(&self) -> impl Iterator<Item = &(Kernel, Function)> {
        [&self.own, &self.fours, &self.fused].into_iter().flatten()
    }
}

/// The passes of all kinds in one way, and the kernel of each.
pub(super) struct OneWay {
    pub passes: Vec<Passes>,
    /// For each kind and stage, those of each pass.
    pub kernels: Vec<[Vec<Launched>; 3]>,
    /// The passes of each stage in the order in which they run: see [`turns`].
    pub turns: [Vec<Vec<(usize, usize)>>; 3],
    /// The outputs that each kind pushes, or the inputs whose gradients it makes: a bit each.
    pub results: Vec<u64>,
    /// The path in one launch, by each of the net's configurations; `None` where units depend on each other, or the
    /// weights do not fit.
    pub paths: Vec<Option<Path>>,
}

impl OneWay {
    fn new(passes: Vec<Passes>, kernels: Vec<[Vec<Launched>; 3]>, results: Vec<u64>, paths: Vec<Option<Path>>) -> Self {
        let turns = Stage::ALL.map(|stage| turns(&passes, stage));
        Self { passes, kernels, turns, results, paths }
    }

    /// The path by a configuration.
    pub fn path(&self, configuration: usize) -> Option<&Path> {
        self.paths.get(configuration)?.as_ref()
    }

    /// The kernels of all passes.
    fn launched(&self) -> impl Iterator<Item = &Launched> {
        self.kernels.iter().flatten().flatten()
    }
}

/// The passes of all kinds both ways, and the results that each kind makes.
struct Plans {
    forward: Vec<Passes>,
    backward: Vec<Passes>,
    pushed: Vec<u64>,
    pulled: Vec<u64>,
}

impl Plans {
    fn new(net: &function::Net, is_training: bool, without: Without) -> Self {
        let grain = if without == Without::Fusion { Grain::Operation } else { Grain::Element };
        let mut plans = Self { forward: vec![], backward: vec![], pushed: vec![], pulled: vec![] };
        for (kind, function) in net.declaration().functions.iter().enumerate() {
            let plan = |operations: &[Operation], way| passes(net, kind, operations, way, grain);
            plans.pushed.push(results(&function.operations, Op::Push));
            if !is_training {
                plans.forward.push(plan(&function.operations, Way::Forward));
                continue;
            }
            let derivative = differentiate(net, kind);
            for (to, operations, way) in [
                (&mut plans.forward, &derivative.forward, Way::Forward),
                (&mut plans.backward, &derivative.backward, Way::Backward),
            ] {
                let mut its = plan(operations, way);
                its.strides[Frame::Kept as usize] = derivative.kept;
                its.strides[Frame::Kept as usize + FRAMES] = derivative.kept_of_children;
                to.push(its);
            }
            plans.pulled.push(results(&derivative.backward, Op::PullGradient));
        }
        plans
    }
}

/// The sources of a net's kernels: its own, those that all nets share, and those of the path each way, if one launch may
/// run it. Of a kernel with several the first one runs that spills no registers. `limits` are the device's
/// multiprocessors, and the bytes of shared memory of a block.
pub fn sources(net: &function::Net, options: Options, limits: [usize; 2]) -> Vec<Vec<Source>> {
    let plans = Plans::new(net, options.is_training, options.without);
    let element = options.element;
    let emitted = emit(&[&plans.forward, &plans.backward], &net.declaration().parameters, element);
    let ways = [(Way::Forward, &plans.forward), (Way::Backward, &plans.backward)];
    let configurations = options.executor.groups();
    let all = ways.into_iter().flat_map(|way| configurations.iter().map(move |groups| (way, *groups)));
    let paths = all.map(|((way, kinds), groups)| paths(net, options, way, kinds, groups, limits));
    let paths = paths.map(|paths| paths.into_iter().map(|path| path.source).collect::<Vec<_>>());
    let own = [emitted.source, Library::source(element)].map(|source| vec![source]);
    own.into_iter().chain(paths.filter(|paths| !paths.is_empty())).collect()
}

/// The path's kernels one way, in so many groups: one for each number of threads. `limits` are the device's
/// multiprocessors, and the bytes of shared memory of a block.
fn paths(
    net: &function::Net,
    options: Options,
    way: Way,
    kinds: &[Passes],
    groups: usize,
    limits: [usize; 2],
) -> Vec<emit::Path> {
    let (Options { element, tf32, .. }, [multiprocessors, shared_bytes]) = (options, limits);
    let (name, is_backward) = if way == Way::Forward { ("path_forward", false) } else { ("path_backward", true) };
    let of_threads = |threads| {
        let shape = PathShape { is_backward, groups, threads, element, tf32, multiprocessors, shared_bytes };
        emit_path(name, &shape, kinds, net.declaration())
    };
    PATH_THREADS.into_iter().filter_map(of_threads).collect()
}

impl Net {
    /// Makes the net on the calling thread's device, where compiling its kernels takes a second or two for the first
    /// time.
    pub fn new(net: &function::Net, device: Device, options: Options) -> Result<Self, Unsupported> {
        let library = |element| Library::of_device(device, element, options.warpgroups);
        Self::with(net, device, options, library, |source| source)
    }

    /// Makes the net with other kernels: `change` takes the source of its own, and of those that all nets share. Tests
    /// leave parts out, which they must notice.
    #[doc(hidden)]
    pub fn changed(
        net: &function::Net,
        device: Device,
        options: Options,
        change: &dyn Fn(Source) -> Source,
    ) -> Result<Self, Unsupported> {
        let library = |element| Library::load(device, element, options.warpgroups, change).map(Arc::new);
        Self::with(net, device, options, library, change)
    }

    fn with(
        net: &function::Net,
        device: Device,
        options: Options,
        library: impl Fn(Element) -> Result<Arc<Library>, gpu::jit::Error>,
        change: impl Fn(Source) -> Source,
    ) -> Result<Self, Unsupported> {
        let begin = Instant::now();
        let Options { element, is_training, tf32, is_static, without, fours, executor, .. } = options;
        let Plans { forward, backward, pushed, pulled } = Plans::new(net, is_training, without);
        let failed = |error: gpu::jit::Error| Unsupported(format!("no kernels for the net: {error}"));
        let emitted = emit(&[&forward, &backward], &net.declaration().parameters, element);
        let kernels = emitted.kernels.iter().flatten().flatten().flatten();
        let kernels = kernels.flat_map(Kernels::all);
        if let Some(most) = kernels.map(|kernel| kernel.pointers.len()).max().filter(|most| *most > MOST_POINTERS) {
            let why =
                format!("a kernel of the net reads or writes {most} arrays; at most {MOST_POINTERS} are accepted");
            return Err(Unsupported(why));
        }
        let module = device.load(&change(emitted.source)).map_err(failed)?;
        let load = |kernel: Kernel| {
            let name = CString::new(kernel.name.as_str()).expect("names have no zeros");
            let function = module.function(&name)?;
            if kernel.shared_bytes > 0 {
                function.allow_shared(kernel.shared_bytes as u32)?;
            }
            Ok::<_, gpu::jit::Error>((kernel, function))
        };
        let load_all = |Kernels { own, fours, fused }: Kernels| {
            // A device with less shared memory does without.
            let fused = fused.filter(|_| without != Without::Fusion).and_then(|fused| load(fused).ok());
            let [own, fours] = [own, fours].map(|kernel| kernel.map(&load).transpose());
            Ok::<_, gpu::jit::Error>(Launched { own: own?, fours: fours?, fused })
        };
        let mut ways = emitted.kernels.into_iter().map(|kinds| {
            let stage = |stage: Vec<Kernels>| stage.into_iter().map(load_all).collect::<Result<Vec<_>, _>>();
            let kind = |[eager, path, lazy]: [Vec<Kernels>; 3]| Ok([stage(eager)?, stage(path)?, stage(lazy)?]);
            kinds.into_iter().map(kind).collect::<Result<Vec<_>, gpu::jit::Error>>()
        });
        let mut next = || ways.next().expect("two ways").map_err(failed);
        let (of_forward, of_backward) = (next()?, next()?);
        let library = library(element).map_err(failed)?;
        let ordinal = device.ordinal();
        let limits = device.multiprocessors(ordinal).zip(device.shared_bytes(ordinal));
        let of_way = |way, kinds: &[Passes]| -> Vec<Option<Path>> {
            let of_groups = |groups| {
                let (multiprocessors, shared) = limits?;
                let mut paths = paths(net, options, way, kinds, groups, [multiprocessors, shared]);
                paths.iter_mut().for_each(|path| path.source = change(path.source.clone()));
                Path::new(paths)
            };
            executor.groups().into_iter().map(of_groups).collect()
        };
        let [path_forward, path_backward] = [of_way(Way::Forward, &forward), of_way(Way::Backward, &backward)];
        let made = Self {
            net: net.clone(),
            device,
            ordinal: device.ordinal(),
            element,
            tf32,
            is_static,
            without,
            fours,
            up: OneWay::new(forward, of_forward, pushed, path_forward),
            down: is_training.then(|| OneWay::new(backward, of_backward, pulled, path_backward)),
            library,
            executor,
            configurations: executor.groups(),
            recorder: Recorder::new(device),
            in_turn: Mutex::new(()),
        };
        if executor != Executor::Auto {
            made.load_all();
        }
        report::made(&Made {
            declaration: net.declaration(),
            options,
            device: made.ordinal,
            chosen: made.configuration(),
            time: begin.elapsed(),
        });
        Ok(made)
    }

    /// Loads the kernels that a batch may need, which otherwise are loaded when one needs them first. Returns whether all of
    /// them can run.
    pub fn load_all(&self) -> bool {
        let with_paths = (0..self.configurations.len()).filter(|number| self.has_path(*number));
        let loaded: Vec<_> = with_paths.map(|number| self.load(number)).collect();
        loaded.iter().all(|can_run| *can_run)
    }

    /// The net.
    pub fn net(&self) -> &function::Net {
        &self.net
    }

    /// The number of kinds of vertices.
    pub fn kinds(&self) -> usize {
        self.up.passes.len()
    }

    /// Where it runs.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The executor, and in how many places passes are fused.
    pub fn configuration(&self) -> String {
        let fused = self.ways().flat_map(OneWay::launched).filter(|kernels| kernels.fused.is_some()).count();
        let is_static = if self.is_static { ", static" } else { "" };
        let without = match self.without {
            Without::Nothing => "",
            Without::Fusion => ", without fusion",
            Without::Batching => ", without products of whole batches",
        };
        let mut groups = self.configurations.iter().enumerate().filter(|(number, _)| self.has_path(*number)).peekable();
        let paths = match self.executor {
            _ if groups.peek().is_none() => String::new(),
            Executor::Auto => {
                let groups: Vec<_> = groups.map(|(_, groups)| groups.to_string()).collect();
                format!("persistent in groups ({}) or ", groups.join(", "))
            }
            Executor::Batched | Executor::Persistent { .. } => {
                let blocks = self.ways().filter_map(|way| way.path(0));
                let blocks: Vec<_> =
                    blocks.map(|path| (path.emitted.groups * path.emitted.blocks).to_string()).collect();
                format!("persistent on {} blocks, ", blocks.join(" and "))
            }
        };
        format!("{paths}batched, {fused} fused{is_static}{without}")
    }

    /// The arrays of a batch that kernels read, a bit each.
    pub(super) fn arrays(&self) -> u32 {
        use GraphArray::*;
        let shared = [RowsByKind, EdgesByKind, Pulled, ReadersEnd, Readers];
        let mut arrays = shared.into_iter().fold(0, |arrays, array| arrays | 1 << array as u32);
        for way in self.ways() {
            let kernels = way.launched().flat_map(Launched::all);
            let of_paths =
                way.paths.iter().flatten().flat_map(|path| &path.emitted.pointers).map(|(_, pointer)| *pointer);
            for pointer in kernels.flat_map(|(kernel, _)| kernel.pointers.iter().copied()).chain(of_paths) {
                if let Pointer::Graph(array) = pointer {
                    arrays |= 1 << array as u32;
                }
            }
        }
        arrays
    }

    /// The number of the device.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// The type of tensors.
    pub fn element(&self) -> Element {
        self.element
    }

    /// It was made for training.
    pub fn is_training(&self) -> bool {
        self.down.is_some()
    }

    /// Its runs may be captured.
    pub fn is_static(&self) -> bool {
        self.is_static
    }

    /// The rows of a run's outputs: of a static net, the most that there may be.
    pub(super) fn vertices(&self, batch: &Batch) -> usize {
        if self.is_static { batch.maxima().vertices } else { batch.vertices() }
    }

    /// The memory that runs of a batch take.
    pub fn memory(&self, batch: &Batch) -> Bytes {
        let (extents, sizes) = self.sizes(batch);
        self.bytes(&extents, sizes)
    }

    /// Likewise of any batch within these maxima.
    pub fn most_memory(&self, maxima: &Maxima) -> Bytes {
        let (extents, sizes) = self.most(maxima);
        self.bytes(&extents, sizes)
    }

    /// The most groups that graphs of a batch are dealt to: see [`Batch::deal_to`].
    pub fn most_groups(&self) -> usize {
        self.configurations.iter().copied().max().unwrap_or(1)
    }

    /// The executor of the path.
    pub(super) fn executor(&self) -> Executor {
        self.executor
    }

    /// Some way has a path by this configuration.
    pub(super) fn has_path(&self, configuration: usize) -> bool {
        self.ways().any(|way| way.path(configuration).is_some())
    }

    /// Loads the kernels of a configuration. Returns whether there are some, and all of them can run.
    pub(super) fn load(&self, configuration: usize) -> bool {
        let mut paths = self.ways().filter_map(|way| way.path(configuration));
        self.has_path(configuration) && paths.all(|path| path.load(self.device))
    }

    /// The bytes that blocks share while a path runs, for batches within these maxima. 0 if none does.
    pub(super) fn exchange_bytes(&self, maxima: &Maxima) -> usize {
        let most = Extent::most(maxima, &self.net);
        let of_configuration = |number| self.exchange_of(number, Way::Backward, &most).end;
        let bytes = (0..self.configurations.len()).map(of_configuration).max().unwrap_or(0);
        // Large batches have wide levels.
        if self.executor == Executor::Auto && bytes > MOST_EXCHANGED { 0 } else { bytes }
    }

    /// The part of these that a way has.
    pub(super) fn exchange_of(&self, configuration: usize, way: Way, most: &[Extent]) -> Place {
        let up = self.up.path(configuration).map_or_else(Place::default, |path| path.place(0, most));
        match (way, self.down.as_ref().and_then(|down| down.path(configuration))) {
            (Way::Backward, Some(path)) => path.place(up.end, most),
            _ => up,
        }
    }

    /// The sizes that a run of a batch has.
    pub(super) fn sizes(&self, batch: &Batch) -> ([Extent; MOST_FUNCTIONS], BatchSizes) {
        if self.is_static {
            return self.most(&batch.maxima());
        }
        let sizes = BatchSizes { vertices: batch.vertices(), edges: batch.edges(), pulled_rows: batch.pulled_rows() };
        (Extent::of(batch, self.up.passes.len()), sizes)
    }

    fn most(&self, maxima: &Maxima) -> ([Extent; MOST_FUNCTIONS], BatchSizes) {
        let sizes = BatchSizes { vertices: maxima.vertices, edges: maxima.children, pulled_rows: maxima.vertices };
        (Extent::most(maxima, &self.net), sizes)
    }

    fn bytes(&self, extents: &[Extent], sizes: BatchSizes) -> Bytes {
        let forward = self.layout(extents, sizes, Way::Forward).bytes;
        let backward = match self.is_training() {
            true => self.layout(extents, sizes, Way::Backward).bytes,
            false => Bytes::default(),
        };
        Bytes { workspace: forward.workspace.max(backward.workspace), reserve: forward.reserve.max(backward.reserve) }
    }

    pub(super) fn layout(&self, extents: &[Extent], sizes: BatchSizes, way: Way) -> Layout {
        let its = self.way(way);
        let mut grouped = [Extent::default(); MOST_FUNCTIONS];
        let mut extents = extents;
        if self.most_groups() > 1 {
            // Groups are at different blocks at a time.
            for (to, extent) in grouped.iter_mut().zip(extents) {
                *to = Extent { rows_of_block: extent.rows, edges_of_block: extent.edges, ..*extent };
            }
            extents = &grouped[..extents.len()];
        }
        let sizes = Sizes {
            declaration: self.net.declaration(),
            element: self.element.bytes(),
            is_training: self.is_training(),
            transposed: transposed(&its.passes),
            extents,
            vertices: sizes.vertices,
            edges: sizes.edges,
        };
        Layout::new(&sizes, &its.passes, way)
    }

    /// Keeps all kernels loaded for good: a captured graph may be replayed at any time.
    pub(super) fn keep_loaded(&self) {
        self.library.keep_loaded();
        let functions = self.ways().flat_map(OneWay::launched).flat_map(Launched::all);
        functions.for_each(|(_, function)| function.keep_loaded());
        self.ways().flat_map(|way| way.paths.iter().flatten()).for_each(Path::keep_loaded);
    }

    /// The way up, and the way down if there is one.
    pub(super) fn ways(&self) -> impl Iterator<Item = &OneWay> {
        [Some(&self.up), self.down.as_ref()].into_iter().flatten()
    }

    pub(super) fn way(&self, way: Way) -> &OneWay {
        match (way, &self.down) {
            (Way::Backward, Some(down)) => down,
            _ => &self.up,
        }
    }
}

/// The numbers that such operations name, a bit each.
fn results(operations: &[Operation], op: Op) -> u64 {
    let of_op = operations.iter().filter(|operation| operation.op == op);
    of_op.fold(0, |bits, operation| bits | 1 << operation.arguments[0])
}

/// The parameters that passes transpose, a bit each.
pub(super) fn transposed(kinds: &[Passes]) -> u64 {
    let passes = kinds.iter().flat_map(Passes::all);
    passes.fold(0, |bits, pass| match pass.work {
        Work::Product { parameter, is_transposed: true, .. } => bits | 1 << parameter,
        _ => bits,
    })
}
