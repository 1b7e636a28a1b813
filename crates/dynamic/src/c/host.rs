//! Runs a batch on the host.

use std::ffi::{c_int, c_void};
use std::slice;

use cudnn_abi::*;
use guest::refusal::Refusal;
use vertex::batch::{Batch, Maxima};
use vertex::function::{MOST_PARAMETERS, MOST_PULLS_AND_PUSHES};
use vertex::host::{Element, Executor, Gradients, Inputs, Memory, Moments, Pull, Step};

use super::arrays::{Call, Sizes, checked};
use super::given::bad;
use super::types::ucudnnVertexNetArguments_t;

/// The type of a net's tensors.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
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
pub fn bytes(kind: Kind, executor: &Executor, memory: Memory) -> [usize; 2] {
    let [workspace, reserve] = [memory.workspace, memory.reserve].map(|numbers| numbers.saturating_mul(kind.bytes()));
    [workspace, if executor.is_training() { reserve.saturating_add(OF_GRAPHS) } else { reserve }]
}

/// Runs a batch, whose graphs have this number, on the host in the memory that the arguments name. `memory` is what the
/// run takes.
///
/// # Safety
/// Each pointer of the arguments that is neither null nor misaligned leads to memory of the size that
/// [`ucudnnVertexNetArguments_t`] states, and nobody else writes to it meanwhile, or reads results.
pub unsafe fn run(
    kind: Kind,
    executor: &Executor,
    batch: (&Batch, u64),
    given: &ucudnnVertexNetArguments_t,
    memory: Memory,
    call: Call<'_>,
) -> Result<(), Refusal> {
    let sizes = bytes(kind, executor, memory);
    // SAFETY: the caller's promise.
    unsafe { of_kind!(kind, E => run_as::<E>(executor, batch, given, (memory, sizes), call)) }
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

/// The sizes of the arrays of a sort, as the net and the batch have them.
fn sizes<const MOST: usize>(sizes: impl Iterator<Item = usize>) -> ([usize; MOST], usize) {
    let (mut all, mut count) = ([0; MOST], 0);
    for (to, size) in all.iter_mut().zip(sizes) {
        *to = size;
        count += 1;
    }
    (all, count)
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
    call: Call<'_>,
) -> Result<(), Refusal> {
    let declaration = executor.net().declaration();
    let (rows, vertices) = (batch.pulled_rows(), batch.vertices());
    let (element, sum) = (size_of::<E>(), size_of::<E::Real>());
    let of_run = Sizes { element, sum, rows, vertices, workspace, reserve, alignment: 8 };
    // SAFETY: the caller's promise.
    let its = unsafe { checked(declaration, given, of_run, call) }?;
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
        if let Call::Step(push, optimizer) = call {
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
            let mut moments: [[&mut [E::Real]; MOST_PARAMETERS]; 2] =
                std::array::from_fn(|_| std::array::from_fn(|_| [].as_mut_slice()));
            for (to, pointers) in moments.iter_mut().zip(its.moments) {
                for ((to, pointer), size) in to.iter_mut().zip(pointers).zip(parameter_sizes) {
                    *to = write(pointer.cast(), size);
                }
            }
            let [first, second] = &mut moments;
            let mut no_powers = [1.0; 2];
            let moments = optimizer.map(|(rule, given)| Moments {
                rule,
                first: &mut first[..parameters],
                second: &mut second[..parameters],
                powers: if rule.moments() > 1 { &mut *given.betaPowers.cast() } else { &mut no_powers },
            });
            let memory = (workspace, reserve);
            let loss =
                executor.step(batch, &mut written[..parameters], read_pulls, &step, moments, memory).map_err(bad)?;
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

const _: () = assert!(size_of::<c_int>() == 4, "labels are c_int");
