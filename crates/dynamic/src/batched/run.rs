//! Runs forward and backward: launches on a stream.

mod ends;
mod passes;
mod products;

use std::ffi::c_void;

use gpu::Stream;
use gpu::jit::Error;
use gpu::products::Products;
use vertex::batch::Batch;
use vertex::function::{Arity, MOST_FUNCTIONS, MOST_PARAMETERS, ParameterSize};
use vertex::passes::{Extent, Frame, Place, Purpose};
use vertex::stages::{Stage, Way};

use super::batch::{DeviceBatch, InOneLaunch, Range};
use super::net::{BatchSizes, Net, OneWay};
use super::path::Path;
use super::tasks::{Parts, RowsOfTable, Task};
use crate::emit::{MOST_POINTERS, Pointer, TILE_ROWS};
use crate::memory::Layout;
use crate::options::Without;
use products::Pending;

/// What a run reads and writes, all of it on the device, and its memory, aligned to 256 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Each parameter.
    pub parameters: &'a [*const c_void],
    /// Each input.
    pub pulls: &'a [*const c_void],
    /// Forward: each output, or null.
    pub pushes: &'a [*mut c_void],
    /// As many bytes as [`Net::memory`] says.
    pub workspace: *mut c_void,
    /// Likewise.
    pub reserve: *mut c_void,
}

/// What a run backward reads and writes besides.
#[derive(Clone, Copy, Debug)]
pub struct Gradients<'a> {
    /// The gradient of each output, or null for zeros.
    pub pushes: &'a [*const c_void],
    /// The place for the gradient of each input, or null.
    pub pulls: &'a [*mut c_void],
    /// The place for the gradient of each parameter, or null.
    pub parameters: &'a [*mut c_void],
    /// Adds to the parameters' gradients, in place of writing them.
    pub accumulates: bool,
    /// The parameters' gradients are floats, whatever the type of tensors is.
    pub are_in_float: bool,
}

/// The rows of a launch.
#[derive(Clone, Copy)]
struct At {
    /// Of a static batch, the most that there may be.
    range: Range,
    /// The range in a static batch's script, or null.
    script: *const c_void,
    /// They are all rows of the kind.
    is_all: bool,
    /// The rows and edges that the launch is made for.
    expected: [usize; 2],
}

impl At {
    /// A level of a static batch. Only its script counts its rows.
    fn is_counted_by_script(&self) -> bool {
        !self.script.is_null() && !self.is_all
    }

    /// The rows, or edges, for which a launch has blocks. Blocks take turns where there are more; those without rows cost
    /// more than that.
    fn launched(&self, is_of_children: bool) -> usize {
        let most = if is_of_children { self.range.edge_count } else { self.range.row_count } as usize;
        let expected = self.expected[usize::from(is_of_children)];
        if self.is_counted_by_script() { most.min(2 * expected + TILE_ROWS) } else { most }
    }
}

/// One run of a batch.
struct Run<'a> {
    net: &'a Net,
    way: Way,
    its: &'a OneWay,
    batch: &'a Batch,
    arrays: &'a DeviceBatch,
    inputs: Inputs<'a>,
    gradients: Gradients<'a>,
    wanted: Purpose,
    /// Of a static batch, those of the largest one.
    extents: [Extent; MOST_FUNCTIONS],
    sizes: BatchSizes,
    layout: Layout,
    stream: Stream,
    /// Backward: the matrices whose transposes the run reads from copies. See [`Run::copied_matrices`].
    copied: u64,
    /// The gradients of parameters that were written already.
    is_there: [bool; MOST_PARAMETERS],
    /// The products of a turn that need no script.
    products: Vec<Products>,
    /// What is added up at the end, all together.
    pending: Pending,
    /// The run is one of a step, for which it leaves the parameters' gradients.
    step: Option<OfStep>,
    left: Vec<Option<Left>>,
}

/// What a step adds to a run backward.
pub(super) struct OfStep {
    /// The gradient of the loss.
    pub scores: Task,
    /// The loss, and what else comes before the update.
    pub losses: Vec<Task>,
    /// A bit for each of [`Net::tables_of_rows`] whose gradient is not wanted, but the rows of which it is the sum.
    pub by_rows: u64,
}

/// A parameter's gradient as a run leaves it for a step. It stays in the workspace until the next run.
pub(super) enum Left {
    /// It is the sum of these.
    Parts(Parts),
    /// It is the sum of rows of one pass.
    Rows(RowsOfTable),
}

impl Net {
    /// Launches a run forward on a stream of the net's device.
    ///
    /// # Safety
    /// The memory is there, as long as the net and the batch say, until the run has ended; and nobody else writes to it.
    pub unsafe fn forward(
        &self,
        batch: &Batch,
        arrays: &DeviceBatch,
        inputs: Inputs,
        stream: Stream,
    ) -> Result<(), Error> {
        let ways = &[Way::Forward];
        // SAFETY: the caller's promise.
        self.launch(arrays, ways, stream, |stream| unsafe { self.run_forward(batch, arrays, inputs, true, stream) })
    }

    /// The launches of a run forward. `has_rest` asks for zeros behind the last vertex of a static batch.
    ///
    /// # Safety
    /// As for [`Self::forward`].
    pub(super) unsafe fn run_forward(
        &self,
        batch: &Batch,
        arrays: &DeviceBatch,
        inputs: Inputs,
        has_rest: bool,
        stream: Stream,
    ) -> Result<(), Error> {
        let none = Gradients { pushes: &[], pulls: &[], parameters: &[], accumulates: false, are_in_float: false };
        let mut run = Run::new(self, Way::Forward, batch, arrays, inputs, none, stream);
        // SAFETY: the caller's promise.
        unsafe {
            run.clear_outputs(has_rest)?;
            run.stages()
        }
    }

    /// Launches a run backward on a stream of the net's device, behind the run forward of the same batch.
    ///
    /// # Safety
    /// As for [`Self::forward`]. The net was made for training.
    pub unsafe fn backward(
        &self,
        batch: &Batch,
        arrays: &DeviceBatch,
        inputs: Inputs,
        gradients: Gradients,
        stream: Stream,
    ) -> Result<(), Error> {
        self.launch(arrays, &[Way::Backward], stream, |stream| {
            // SAFETY: the caller's promise.
            unsafe { self.run_backward(batch, arrays, inputs, gradients, None, stream) }.map(drop)
        })
    }

    /// The launches of a run backward. Returns what it leaves for a step, by parameters: `None` for a table that is wanted by
    /// rows and has none.
    ///
    /// # Safety
    /// As for [`Self::backward`].
    pub(super) unsafe fn run_backward(
        &self,
        batch: &Batch,
        arrays: &DeviceBatch,
        inputs: Inputs,
        gradients: Gradients,
        step: Option<OfStep>,
        stream: Stream,
    ) -> Result<Vec<Option<Left>>, Error> {
        let mut run = Run::new(self, Way::Backward, batch, arrays, inputs, gradients, stream);
        run.step = step;
        if run.step.is_some() {
            let parameters = self.net.declaration().parameters.iter().zip(gradients.parameters).enumerate();
            let whole = |(parameter, (size, to)): (usize, (&ParameterSize, &*mut c_void))| {
                let parts = Parts { sums: to.cast_const().cast(), count: size.elements(), part_count: 1 };
                (!run.is_by_rows(parameter)).then_some(Left::Parts(parts))
            };
            run.left = parameters.map(whole).collect();
        }
        // SAFETY: the caller's promise.
        unsafe {
            run.begin_backward()?;
            run.stages()?;
            run.finish_backward()?;
        }
        Ok(run.left)
    }

    /// Launches all of a run these ways: together where levels have launches and it can be recorded, else one by one. A run
    /// whose paths are one launch each has few launches. The device begins the first one while the host makes the others.
    /// A graph of them would take the host longer.
    pub(super) fn launch(
        &self,
        arrays: &DeviceBatch,
        ways: &[Way],
        stream: Stream,
        launches: impl Fn(Stream) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.is_static && self.device.is_capturing(stream) {
            self.keep_loaded();
            return launches(stream);
        }
        // Two threads may run one net on one stream: no run's launches come between those of another.
        let _in_turn = self.in_turn.lock();
        let has_path = |path: &InOneLaunch| {
            ways.iter().all(|way| self.way(*way).path(path.configuration).is_some_and(Path::is_ready))
        };
        match &self.recorder {
            Some(recorder) if !arrays.path().as_ref().is_some_and(has_path) && recorder.run(stream, &launches)? => {
                Ok(())
            }
            _ => launches(stream),
        }
    }
}

impl<'a> Run<'a> {
    fn new(
        net: &'a Net,
        way: Way,
        batch: &'a Batch,
        arrays: &'a DeviceBatch,
        inputs: Inputs<'a>,
        gradients: Gradients<'a>,
        stream: Stream,
    ) -> Self {
        let its = net.way(way);
        let bits = |wanted: &[*mut c_void]| {
            wanted.iter().enumerate().filter(|(_, its)| !its.is_null()).fold(0, |bits, (place, _)| bits | 1 << place)
        };
        let wanted = Purpose { is_always: true, parameters: bits(gradients.parameters), pulls: bits(gradients.pulls) };
        let (extents, sizes) = net.sizes(batch);
        let layout = net.layout(&extents, sizes, way);
        let are_sums = gradients.are_in_float || net.element.bytes() == size_of::<f32>();
        let is_there = [gradients.accumulates && are_sums; MOST_PARAMETERS];
        Self {
            net,
            way,
            its,
            batch,
            arrays,
            inputs,
            gradients,
            wanted,
            extents,
            sizes,
            layout,
            stream,
            copied: 0,
            is_there,
            products: vec![],
            pending: Pending::default(),
            step: None,
            left: vec![],
        }
    }

    fn workspace(&self, place: usize) -> *mut c_void {
        self.inputs.workspace.wrapping_byte_add(place)
    }

    fn element(&self) -> usize {
        self.net.element.bytes()
    }

    /// Runs tasks that need nothing of each other.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    unsafe fn tasks(&self, tasks: &[Task]) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.net.library.run(self.stream, tasks, self.net.tf32) }
    }

    /// The parameter's gradient is wanted by rows.
    fn is_by_rows(&self, parameter: usize) -> bool {
        self.step.as_ref().is_some_and(|step| step.by_rows & 1 << parameter != 0)
    }

    /// The bytes of a number of a parameter's gradient.
    fn gradient_bytes(&self) -> usize {
        if self.gradients.are_in_float { size_of::<f32>() } else { self.element() }
    }

    /// All stages, one behind the other. Only the path goes level by level: the others need nothing of other vertices, or
    /// all of it is there.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    unsafe fn stages(&mut self) -> Result<(), Error> {
        if self.net.without == Without::Batching && !self.net.is_static {
            // SAFETY: the caller's promise.
            return unsafe { self.blocks(&Stage::ALL) };
        }
        for stage in Stage::ALL {
            if stage == Stage::Path {
                // SAFETY: the caller's promise.
                unsafe {
                    match self.path() {
                        true => {}
                        false if self.net.is_static => self.all_levels()?,
                        false => self.blocks(&[stage])?,
                    }
                }
                continue;
            }
            let all: Vec<_> = (0..self.its.passes.len()).map(|kind| Some(self.all_of(kind))).collect();
            // SAFETY: the caller's promise.
            unsafe { self.stage(stage, &all) }?;
        }
        Ok(())
    }

    /// Some stages, block by block.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    unsafe fn blocks(&mut self, stages: &[Stage]) -> Result<(), Error> {
        let batch = self.batch;
        let count = batch.blocks().len();
        for place in 0..count {
            let block = &batch.blocks()[if self.way == Way::Forward { place } else { count - 1 - place }];
            let expected = [block.rows, block.edges];
            let at = At { range: Range::of_block(block), script: std::ptr::null(), is_all: false, expected };
            for stage in stages {
                // SAFETY: the caller's promise.
                unsafe { self.range(*stage, block.kind, at) }?;
            }
        }
        Ok(())
    }

    /// The path in one launch, if the net and the batch have one.
    fn path_in_one_launch(&self) -> Option<(InOneLaunch, &Path)> {
        let chosen = self.arrays.path()?;
        let path = self.its.path(chosen.configuration)?;
        Some((chosen, path))
    }

    /// Launches the path in one launch, if there is one. Returns whether it was launched.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    unsafe fn path(&self) -> bool {
        let Some((InOneLaunch { configuration, steps, of_group, exchange }, path)) = self.path_in_one_launch() else {
            return false;
        };
        let most = Extent::most(&self.batch.maxima(), &self.net.net);
        let place = self.net.exchange_of(configuration, self.way, &most);
        let at = |bytes: usize| exchange.wrapping_byte_add(bytes).cast_const();
        let mut pointers: [*const c_void; MOST_POINTERS] = [std::ptr::null(); MOST_POINTERS];
        let of_kinds = path.emitted.pointers.iter().map(|(kind, pointer)| match pointer {
            Pointer::Packets(product) => at(path.packets(place, *product, &most)),
            pointer => self.pointer(*kind, *pointer),
        });
        let own = [steps, at(place.epochs), std::ptr::without_provenance(of_group)];
        for (to, pointer) in pointers.iter_mut().zip(own.into_iter().chain(of_kinds)) {
            *to = pointer;
        }
        // SAFETY: these are the kernel's parameters; the caller promises the memory.
        unsafe { path.launch(self.stream, pointers) }
    }

    /// The path, for all levels and kinds that a batch may have. A launch for one that it does not have does nothing.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    unsafe fn all_levels(&mut self) -> Result<(), Error> {
        let (kinds, levels) = (self.its.passes.len(), self.batch.maxima().levels);
        for place in 0..levels * kinds {
            let place = if self.way == Way::Forward { place } else { levels * kinds - 1 - place };
            let (level, kind) = (place / kinds, place % kinds);
            if level > 0 && self.net.net.declaration().functions[kind].children == Arity::Exactly(0) {
                continue;
            }
            let Extent { rows_of_block, edges_of_block, .. } = self.extents[kind];
            let (range, expected) = (Range::first(rows_of_block, edges_of_block), self.arrays.expected(level, kind));
            let at = At { range, script: self.arrays.level_in_script(level, kind), is_all: false, expected };
            // SAFETY: the caller's promise.
            unsafe { self.range(Stage::Path, kind, at) }?;
        }
        Ok(())
    }

    /// All rows of a kind.
    fn all_of(&self, kind: usize) -> At {
        let Extent { rows, edges, .. } = self.extents[kind];
        let range = match self.batch.blocks_of(kind) {
            _ if self.net.is_static => Range::first(rows, edges),
            [block] => Range::of_block(block),
            _ => self.arrays.all_of(self.batch, kind),
        };
        At { range, script: self.arrays.kind_in_script(kind), is_all: true, expected: [rows, edges] }
    }

    fn pointer(&self, kind: usize, pointer: Pointer) -> *const c_void {
        let of = |all: &[*mut c_void], place: usize| all.get(place).copied().unwrap_or_default().cast_const();
        match pointer {
            Pointer::Parameter(parameter) | Pointer::Matrix(parameter, false) => self.inputs.parameters[parameter],
            Pointer::Matrix(parameter, true) => self.workspace(self.layout.transposed[parameter]),
            Pointer::Pull(input) | Pointer::Indices(input) => self.inputs.pulls[input],
            Pointer::Push(output) => of(self.inputs.pushes, output),
            Pointer::PushGradient(output) => self.gradients.pushes.get(output).copied().unwrap_or_default(),
            Pointer::PullGradient(input) if self.wanted.pulls & 1 << input == 0 => std::ptr::null(),
            Pointer::PullGradient(input) => self.workspace(self.layout.pull_gradients[input]),
            Pointer::State(state) => {
                let memory = if self.net.is_training() { self.inputs.reserve } else { self.inputs.workspace };
                memory.wrapping_byte_add(self.layout.states[state])
            }
            Pointer::Given(state) => self.workspace(self.layout.given[state]),
            Pointer::Frame(place) => self.place(kind, place, 0),
            Pointer::Graph(array) => self.arrays.array(array),
            Pointer::Packets(_) => unreachable!("they are the path's alone"),
        }
    }

    /// A row of a place, counted from the frame's first.
    fn place(&self, kind: usize, place: Place, row: usize) -> *mut c_void {
        let memory = if place.frame == Frame::Kept { self.inputs.reserve } else { self.inputs.workspace };
        memory.wrapping_byte_add(self.layout.of_row(kind, place, row, self.element()))
    }

    /// The first row of a range in a place, and how many there are.
    fn rows(&self, kind: usize, place: Place, range: &Range) -> (*mut c_void, usize) {
        let (first, count) = match place.is_of_children {
            true => (range.edge_of_kind, range.edge_count),
            false => (range.row_of_kind, range.row_count),
        };
        let first = if place.is_whole() { first as usize } else { 0 };
        (self.place(kind, place, first), count as usize)
    }
}
