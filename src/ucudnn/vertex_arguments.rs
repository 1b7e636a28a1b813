//! The arguments of a vertex net's run, and the memory that they name.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::slice;

use cudnn_abi::*;

use super::refusals::{check, misaligned, null};
use guest::refusal::Refusal;
use vertex::batch::{Batch, Maxima};
use vertex::function::{Declaration, MOST_PARAMETERS, MOST_PULLS_AND_PUSHES};
use vertex::host::{Element, Executor, Gradients, Inputs, Memory, Pull, Step};

/// The arguments of a run. Unused fields are 0. Results must not overlap anything.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexNetArguments_t {
    /// [parameterCount] Each [rows][columns]. ucudnnRunVertexNetStep writes them.
    pub parameters: *const *const c_void,
    /// [pullCount] Each [rows of the batch][width], or [rows of the batch] indices.
    pub pulls: *const *const c_void,
    /// Backward: [pushCount] each [vertices][width], or null for zeros.
    pub pushGradients: *const *const c_void,
    /// Forward: [pushCount] each [vertices][width], or null if it is not wanted. A vertex whose function does not push
    /// has zeros.
    pub pushes: *const *mut c_void,
    /// Backward: [pullCount] each [rows of the batch][width], or null if it is not wanted. Null for none.
    pub pullGradients: *const *mut c_void,
    /// Backward: [parameterCount] each like its parameter, or null if it is not wanted. Null for none.
    pub parameterGradients: *const *mut c_void,
    /// Not 0: the parameters' gradients are added to the numbers there.
    pub accumulatesGradients: c_int,
    /// Step: [vertices] the class of each vertex; -1 for one that is not in the loss. Like inputs and results, on a device
    /// it is the device's, and a static net's has maxVertices rows; so is the place for the loss.
    pub labels: *const c_int,
    /// Step: the place for the loss, or null.
    pub loss: *mut f32,
    /// Step: each parameter p becomes p - learningRate * (gradient + weightDecay * p).
    pub learningRate: f32,
    /// Step: the part of a parameter that is added to its gradient.
    pub weightDecay: f32,
    /// Memory of at least the size from ucudnnGetVertexNetMemorySize, aligned to 8 bytes, and to 256 on a device. Its
    /// contents mean nothing before and after a run.
    pub workspace: *mut c_void,
    /// Likewise; carries values from the run forward of a batch to its run backward.
    pub reserve: *mut c_void,
    /// The size of the workspace in bytes.
    pub workspaceSizeInBytes: usize,
    /// The size of the reserve in bytes.
    pub reserveSizeInBytes: usize,
}

/// The type of a net's tensors.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Float,
    Double,
    Half,
    Bfloat16,
}

/// Calls a generic function for the type of a kind.
macro_rules! of_kind {
    ($kind:expr, $element:ident => $call:expr) => {
        match $kind {
            Kind::Float => {
                type $element = f32;
                $call
            }
            Kind::Double => {
                type $element = f64;
                $call
            }
            Kind::Half => {
                type $element = half::f16;
                $call
            }
            Kind::Bfloat16 => {
                type $element = half::bf16;
                $call
            }
        }
    };
}

impl Kind {
    pub fn of(data_type: cudnnDataType_t) -> Option<Self> {
        match data_type {
            CUDNN_DATA_FLOAT => Some(Self::Float),
            CUDNN_DATA_DOUBLE => Some(Self::Double),
            CUDNN_DATA_HALF => Some(Self::Half),
            CUDNN_DATA_BFLOAT16 => Some(Self::Bfloat16),
            _ => None,
        }
    }

    /// The memory that runs of a batch take, or of any batch within the maxima, in numbers of [`Self::bytes`].
    pub fn memory(self, executor: &Executor, batch: Option<&Batch>, maxima: &Maxima) -> Memory {
        of_kind!(self, E => match batch {
            Some(batch) => executor.memory::<E>(batch),
            None => executor.most_memory::<E>(maxima),
        })
    }

    /// The bytes of a number of workspace or reserve.
    pub fn bytes(self) -> usize {
        of_kind!(self, E => size_of::<<E as Element>::Real>())
    }
}

/// The bytes before the values of a reserve on the host, a line of a cache: the number of the graphs that they are of.
const OF_GRAPHS: usize = 64;

/// The bytes of workspace and reserve that runs on the host take.
pub(super) fn bytes(kind: Kind, executor: &Executor, memory: Memory) -> [usize; 2] {
    let [workspace, reserve] = [memory.workspace, memory.reserve].map(|numbers| numbers.saturating_mul(kind.bytes()));
    [workspace, if executor.is_training() { reserve.saturating_add(OF_GRAPHS) } else { reserve }]
}

/// What a call runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Forward,
    Backward,
    /// With the output that has the scores.
    Step(usize),
}

/// Runs a batch, whose graphs have this number, on the host in the memory that the arguments name. `memory` is what the
/// run takes.
///
/// # Safety
/// Each pointer of the arguments that is neither null nor misaligned leads to memory of the size that
/// [`ucudnnVertexNetArguments_t`] states, and nobody else writes to it meanwhile, or reads results.
pub(super) unsafe fn run(
    kind: Kind,
    executor: &Executor,
    batch: (&Batch, u64),
    given: &ucudnnVertexNetArguments_t,
    memory: Memory,
    call: Call,
) -> Result<(), Refusal> {
    let sizes = bytes(kind, executor, memory);
    // SAFETY: the caller's promise.
    unsafe { of_kind!(kind, E => run_as::<E>(executor, batch, given, (memory, sizes), call)) }
}

/// The pointers of a run, checked. Those that a call does not take are empty.
#[derive(Clone, Copy)]
pub(super) struct Pointers<'a> {
    pub parameters: &'a [*const c_void],
    pub pulls: &'a [*const c_void],
    pub pushes: &'a [*mut c_void],
    pub push_gradients: &'a [*const c_void],
    pub pull_gradients: &'a [*mut c_void],
    pub parameter_gradients: &'a [*mut c_void],
}

/// What the arrays of a run are checked for.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// The bytes of a tensor's element.
    pub element: usize,
    /// The rows of inputs, and of outputs.
    pub rows: usize,
    pub vertices: usize,
    /// The bytes of workspace and reserve that the run takes, and their alignment.
    pub workspace: usize,
    pub reserve: usize,
    pub alignment: usize,
}

/// An array of the caller's.
#[derive(Clone, Copy)]
struct Array {
    name: &'static str,
    /// Its place among several of the name.
    number: Option<usize>,
    first: usize,
    bytes: usize,
    is_result: bool,
}

impl std::fmt::Display for Array {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number {
            Some(number) => write!(to, "{}[{number}]", self.name),
            None => to.write_str(self.name),
        }
    }
}

const MOST_ARRAYS: usize = 2 * MOST_PARAMETERS + 4 * MOST_PULLS_AND_PUSHES + 4;

/// The arrays of a run, which are checked before the first of them is touched.
struct Arrays {
    all: [Array; MOST_ARRAYS],
    count: usize,
}

impl Arrays {
    fn new() -> Self {
        let none = Array { name: "", number: None, first: 0, bytes: 0, is_result: false };
        Self { all: [none; MOST_ARRAYS], count: 0 }
    }

    /// Notes an array of `count` elements. An empty one may be null.
    fn add<T>(
        &mut self,
        first: *const T,
        count: usize,
        (name, number): (&'static str, Option<usize>),
        is_result: bool,
    ) -> Result<(), Refusal> {
        let bytes = count * size_of::<T>();
        self.add_bytes(Array { name, number, first: first.addr(), bytes, is_result }, align_of::<T>())
    }

    /// Notes an array that is aligned to `alignment` bytes.
    fn add_bytes(&mut self, array: Array, alignment: usize) -> Result<(), Refusal> {
        if array.bytes == 0 {
            return Ok(());
        }
        if array.first == 0 {
            return Err(null(&array.to_string()));
        }
        if !array.first.is_multiple_of(alignment) {
            return Err(misaligned(&array.to_string(), alignment));
        }
        self.all[self.count] = array;
        self.count += 1;
        Ok(())
    }

    /// Refuses a result that lies in another array.
    fn check(&self) -> Result<(), Refusal> {
        let all = &self.all[..self.count];
        for (place, one) in all.iter().enumerate() {
            for other in &all[..place] {
                let end = |array: &Array| array.first.saturating_add(array.bytes);
                let meet = one.first < end(other) && other.first < end(one);
                if meet && (one.is_result || other.is_result) {
                    return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM, format!("{other} and {one} overlap")));
                }
            }
        }
        Ok(())
    }
}

/// An array that was checked.
///
/// # Safety
/// `first` leads to `count` elements, if that is not 0.
unsafe fn read<'a, T>(first: *const T, count: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(first, count) } }
}

/// Likewise.
///
/// # Safety
/// As for `read`; and nothing else leads there.
unsafe fn write<'a, T>(first: *mut T, count: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    if count == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(first, count) } }
}

/// The pointers of an array of pointers; none if it is null and may be.
///
/// # Safety
/// `first` is null or misaligned, or leads to `count` pointers.
unsafe fn pointers<'a, T>(
    first: *const T,
    count: usize,
    name: &'static str,
    may_be_null: bool,
) -> Result<&'a [T], Refusal> {
    if count == 0 || (first.is_null() && may_be_null) {
        return Ok(&[]);
    }
    check(first, name)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// The sizes of the arrays of a sort, as the net and the batch have them.
fn sizes<const MOST: usize>(sizes: impl Iterator<Item = usize>) -> ([usize; MOST], usize) {
    let (mut all, mut count) = ([0; MOST], 0);
    for (to, size) in all.iter_mut().zip(sizes) {
        *to = size;
        count += 1;
    }
    (all, count)
}

/// Checks the arrays of a run, before the first of them is touched.
///
/// # Safety
/// The arrays of pointers are null or misaligned, or as long as the net's declaration says.
pub(super) unsafe fn checked<'a>(
    declaration: &Declaration,
    batch: &Batch,
    given: &ucudnnVertexNetArguments_t,
    sizes: Sizes,
    call: Call,
) -> Result<Pointers<'a>, Refusal> {
    if batch.graphs() == 0 {
        return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM, "the batch was not set yet"));
    }
    let (parameters, pulls, pushes) = (declaration.parameters.len(), declaration.pulls.len(), declaration.pushes.len());
    let (is_backward, is_step) = (matches!(call, Call::Backward), matches!(call, Call::Step(_)));
    // SAFETY: the caller promises the arrays of pointers.
    let its = unsafe {
        Pointers {
            parameters: pointers(given.parameters, parameters, "parameters", false)?,
            pulls: pointers(given.pulls, pulls, "pulls", false)?,
            pushes: pointers(given.pushes, if matches!(call, Call::Forward) { pushes } else { 0 }, "pushes", false)?,
            push_gradients: pointers(
                given.pushGradients,
                if is_backward { pushes } else { 0 },
                "pushGradients",
                false,
            )?,
            pull_gradients: pointers(given.pullGradients, if is_backward { pulls } else { 0 }, "pullGradients", true)?,
            parameter_gradients: pointers(
                given.parameterGradients,
                if is_backward { parameters } else { 0 },
                "parameterGradients",
                true,
            )?,
        }
    };
    let Sizes { rows, vertices, element, .. } = sizes;
    let parameter_size = |number: usize| declaration.parameters[number].elements() * element;
    let pull_size = |number: usize| declaration.pulls[number] * rows * element;
    let push_size = |number: usize| declaration.pushes[number] * vertices * element;
    let mut arrays = Arrays::new();
    let mut add = |name, number, first: usize, bytes, is_result| {
        arrays.add_bytes(Array { name, number: Some(number), first, bytes, is_result }, element)
    };
    for (number, pointer) in its.parameters.iter().enumerate() {
        add("parameters", number, pointer.addr(), parameter_size(number), is_step)?;
    }
    for (number, pointer) in its.pulls.iter().enumerate().filter(|(number, _)| declaration.pulls[*number] > 0) {
        add("pulls", number, pointer.addr(), pull_size(number), false)?;
    }
    for (number, pointer) in its.pushes.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("pushes", number, pointer.addr(), push_size(number), true)?;
    }
    for (number, pointer) in its.pull_gradients.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("pullGradients", number, pointer.addr(), pull_size(number), true)?;
    }
    for (number, pointer) in its.parameter_gradients.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("parameterGradients", number, pointer.addr(), parameter_size(number), true)?;
    }
    for (number, pointer) in its.push_gradients.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("pushGradients", number, pointer.addr(), push_size(number), false)?;
    }
    for (number, pointer) in its.pulls.iter().enumerate().filter(|(number, _)| declaration.pulls[*number] == 0) {
        arrays.add(pointer.cast::<i64>(), rows, ("pulls", Some(number)), false)?;
    }
    if is_step {
        arrays.add(given.labels, vertices, ("labels", None), false)?;
        if !given.loss.is_null() {
            arrays.add(given.loss, 1, ("loss", None), true)?;
        }
    }
    let spaces = [
        ("workspace", given.workspace, given.workspaceSizeInBytes, sizes.workspace),
        ("reserve", given.reserve, given.reserveSizeInBytes, sizes.reserve),
    ];
    for (name, pointer, bytes, needed) in spaces {
        if bytes < needed {
            let why = format!("{name}SizeInBytes is {bytes}; the run needs {needed}");
            return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, why));
        }
        let array = Array { name, number: None, first: pointer.addr(), bytes: needed, is_result: true };
        arrays.add_bytes(array, sizes.alignment)?;
    }
    arrays.check()?;
    Ok(its)
}

/// Runs a batch with tensors of this type.
///
/// # Safety
/// As for [`run`].
unsafe fn run_as<E: Element>(
    executor: &Executor,
    (batch, graphs): (&Batch, u64),
    given: &ucudnnVertexNetArguments_t,
    (memory, [workspace, reserve]): (Memory, [usize; 2]),
    call: Call,
) -> Result<(), Refusal> {
    let declaration = executor.net().declaration();
    let (rows, vertices) = (batch.pulled_rows(), batch.vertices());
    let of_run = Sizes { element: size_of::<E>(), rows, vertices, workspace, reserve, alignment: 8 };
    // SAFETY: the caller's promise.
    let its = unsafe { checked(declaration, batch, given, of_run, call) }?;
    let (parameter_sizes, parameters) =
        sizes::<MOST_PARAMETERS>(declaration.parameters.iter().map(|size| size.elements()));
    let (pull_sizes, pulls) =
        sizes::<MOST_PULLS_AND_PUSHES>(declaration.pulls.iter().map(|width| width * batch.pulled_rows()));
    let (push_sizes, pushes) =
        sizes::<MOST_PULLS_AND_PUSHES>(declaration.pushes.iter().map(|width| width * batch.vertices()));
    let is_index = |pull: usize| declaration.pulls[pull] == 0;
    let is_backward = matches!(call, Call::Backward);

    // SAFETY: the arrays are neither null nor misaligned, and no result lies in another array. The caller promises the
    // rest.
    unsafe {
        let workspace = write(given.workspace.cast::<E::Real>(), memory.workspace);
        // The number of graphs that the reserve has; none without training.
        let of_graphs = executor.is_training().then(|| &mut *given.reserve.cast::<u64>());
        let before = if of_graphs.is_some() { OF_GRAPHS } else { 0 };
        let reserve = write(given.reserve.wrapping_byte_add(before).cast::<E::Real>(), memory.reserve);
        if is_backward && of_graphs.as_deref() != Some(&graphs) {
            let why = "the reserve is of no run forward of this batch with the graphs that it has now; a run backward comes \
                       before the batch is set to others";
            return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM, why));
        }
        let mut read_pulls: [Pull<E>; MOST_PULLS_AND_PUSHES] = [Pull::Rows(&[]); MOST_PULLS_AND_PUSHES];
        for (number, pointer) in its.pulls.iter().enumerate() {
            read_pulls[number] = match is_index(number) {
                true => Pull::Indices(read(pointer.cast(), batch.pulled_rows())),
                false => Pull::Rows(read(pointer.cast(), pull_sizes[number])),
            };
        }
        let read_pulls = &read_pulls[..pulls];
        let mut parts = [const { None }; MOST_PARAMETERS];
        let mut read_parameters: [&[E]; MOST_PARAMETERS] = [&[]; MOST_PARAMETERS];
        if let Call::Step(push) = call {
            let mut written: [&mut [E]; MOST_PARAMETERS] = std::array::from_fn(|_| [].as_mut_slice());
            for (number, pointer) in its.parameters.iter().enumerate() {
                written[number] = write(pointer.cast_mut().cast(), parameter_sizes[number]);
            }
            let step = Step {
                push,
                labels: read(given.labels, batch.vertices()),
                learning_rate: given.learningRate.into(),
                weight_decay: given.weightDecay.into(),
            };
            let memory = (workspace, reserve);
            let loss = executor.step(batch, &mut written[..parameters], read_pulls, &step, memory).map_err(bad)?;
            of_graphs.into_iter().for_each(|number| *number = 0); // its parameters are others now
            if !given.loss.is_null() {
                given.loss.write(loss as f32);
            }
            return Ok(());
        }
        for (number, pointer) in its.parameters.iter().enumerate() {
            read_parameters[number] = read(pointer.cast(), parameter_sizes[number]);
        }
        let inputs = Inputs { parameters: &read_parameters[..parameters], pulls: read_pulls };
        let mut results = [const { None }; MOST_PULLS_AND_PUSHES];
        if !is_backward {
            wanted_slices::<E>(its.pushes, &push_sizes, &mut results);
            executor.forward(batch, inputs, &mut results[..pushes], (workspace, reserve)).map_err(bad)?;
            of_graphs.into_iter().for_each(|number| *number = graphs);
            return Ok(());
        }
        let mut read_gradients: [&[E]; MOST_PULLS_AND_PUSHES] = [&[]; MOST_PULLS_AND_PUSHES];
        for (number, pointer) in its.push_gradients.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
            read_gradients[number] = read(pointer.cast(), push_sizes[number]);
        }
        wanted_slices::<E>(its.pull_gradients, &pull_sizes, &mut results);
        wanted_slices::<E>(its.parameter_gradients, &parameter_sizes, &mut parts);
        let gradients = Gradients {
            pushes: &read_gradients[..pushes],
            pulls: &mut results[..pulls],
            parameters: &mut parts[..parameters],
            accumulates: given.accumulatesGradients != 0,
        };
        executor.backward(batch, inputs, gradients, (workspace, reserve)).map_err(bad)
    }
}

/// The results that are wanted.
///
/// # Safety
/// Each pointer is null, or leads to an array of its size, to which nothing else leads.
unsafe fn wanted_slices<E>(pointers: &[*mut c_void], sizes: &[usize], to: &mut [Option<&mut [E]>]) {
    for ((to, pointer), size) in to.iter_mut().zip(pointers).zip(sizes) {
        // SAFETY: the caller's promise.
        *to = (!pointer.is_null()).then(|| unsafe { write(pointer.cast(), *size) });
    }
}

fn bad(why: vertex::host::Refused) -> Refusal {
    Refusal::new(CUDNN_STATUS_BAD_PARAM, why)
}

const _: () = assert!(size_of::<c_int>() == 4, "labels are c_int");
