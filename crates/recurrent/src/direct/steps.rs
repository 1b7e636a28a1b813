//! Runs a recurrence one time step after the other, for weights that do not fit on chip. A step is one product of all
//! gates' weights with h, and one element-wise kernel; canonical GRU has two of each. GRNN falls back to the same
//! method. Twin of the struct in `kernels/recurrent/step.cu`.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use crate::configuration::{Cell, Problem};
use crate::input::Input;
use crate::kernels::input;
use crate::recurrence::{Recurrence, Recurrent};
use gpu::Stream;
use gpu::jit::{Error, Function, Launch, Source};
use gpu::products::Products;

/// The name of this method among the configurations of `ucudnn.h`.
pub const NAME: &str = "step";

const THREADS: usize = 256;
/// Each part of the exchange memory begins at a multiple of this many bytes.
const ALIGNMENT: usize = 256;

/// The kernels' parameters.
#[repr(C)]
struct Step {
    recurrence: Recurrence,
    products: *const f32,
    candidates: *const f32,
    h: *mut c_void,
    reset: *mut c_void,
    c: *mut f32,
    hidden: i32,
    step: i32,
}

/// The kernels of a recurrence, loaded on the device that was current then.
pub struct Steps {
    problem: Problem,
    allows_tf32: bool,
    input: Arc<Input>,
    start: Function,
    /// Only for canonical GRU.
    reset: Option<Function>,
    finish: Function,
}

/// Offsets of the parts in a recurrence's exchange memory, in bytes.
struct Places {
    products: usize,
    candidates: usize,
    h: usize,
    reset: usize,
    c: usize,
    bytes: usize,
}

impl Places {
    fn of(problem: &Problem) -> Self {
        let mut bytes = 0;
        let mut part = |columns: usize, element: usize| {
            let start = bytes;
            bytes += (problem.batch * columns * element).next_multiple_of(ALIGNMENT);
            start
        };
        let hidden = problem.hidden;
        Self {
            products: part(problem.cell.gates() * hidden, size_of::<f32>()),
            candidates: part(hidden, size_of::<f32>()),
            h: part(hidden, problem.element.bytes()),
            reset: part(hidden, problem.element.bytes()),
            c: part(hidden, size_of::<f32>()),
            bytes,
        }
    }
}

/// The source of a cell's kernels.
pub fn source(problem: &Problem) -> Source {
    let cell = match problem.cell {
        Cell::CanonicalGru => "-DCELL_CANONICAL_GRU",
        Cell::Gru => "-DCELL_GRU",
        Cell::Lstm => "-DCELL_LSTM",
        Cell::Tanh => "-DCELL_TANH",
        Cell::Relu => "-DCELL_RELU",
    };
    Source::new(&kernels::recurrent::STEP, vec![cell.into(), problem.element.option().into()])
}

impl Steps {
    /// Compiles and loads on the calling thread's device.
    pub fn load(problem: &Problem, allows_tf32: bool) -> Result<Self, String> {
        let load = || {
            let module = cudnn::device().load(&source(problem))?;
            let is_canonical = problem.cell == Cell::CanonicalGru;
            let reset = is_canonical.then(|| module.function(c"reset_step")).transpose()?;
            Ok((module.function(c"start_steps")?, reset, module.function(c"finish_step")?))
        };
        let (start, reset, finish) = load().map_err(|error: Error| error.to_string())?;
        Ok(Self { problem: *problem, allows_tf32, input: input(problem.element)?, start, reset, finish })
    }

    /// # Safety
    /// As for [`Recurrent::launch`].
    unsafe fn each(&self, function: &Function, stream: Stream, step: &Step) -> Result<(), Error> {
        let elements = step.recurrence.batch as usize * self.problem.hidden;
        let grid = [elements.div_ceil(THREADS) as u32, 1, 1];
        let launch = Launch { grid, block: [THREADS as u32, 1, 1], ..Launch::default() };
        let mut arguments = [ptr::from_ref(step).cast_mut().cast()];
        // SAFETY: the kernels take one parameter, a `Step`. The caller promises that its memory is valid.
        unsafe { function.launch(stream, &launch, &mut arguments) }
    }

    /// # Safety
    /// As for [`Recurrent::launch`].
    unsafe fn launch_one(&self, stream: Stream, recurrence: &Recurrence) -> Result<(), Error> {
        let (hidden, gates) = (self.problem.hidden, self.problem.cell.gates());
        let places = Places::of(&self.problem);
        let part = |place: usize| recurrence.exchange.wrapping_byte_add(place);
        let mut step = Step {
            recurrence: *recurrence,
            products: part(places.products).cast(),
            candidates: part(places.candidates).cast(),
            h: part(places.h),
            reset: part(places.reset),
            c: part(places.c).cast(),
            hidden: hidden as i32,
            step: 0,
        };
        // One product covers these gates of R; canonical GRU's last gate has a second one.
        let first_gates = if self.reset.is_some() { gates - 1 } else { gates };
        let products = Products {
            x: step.h,
            weights: recurrence.weights,
            products: step.products.cast_mut(),
            rows: recurrence.batch,
            columns: (first_gates * hidden) as i32,
            depth: hidden as i32,
        };
        let last = first_gates * hidden * hidden * self.problem.element.bytes();
        let candidates = Products {
            x: step.reset,
            weights: recurrence.weights.wrapping_byte_add(last),
            products: step.candidates.cast_mut(),
            columns: hidden as i32,
            ..products
        };
        // SAFETY: the caller promises the recurrence's memory; `exchange` is large enough for all `Places`.
        unsafe {
            self.each(&self.start, stream, &step)?;
            for index in 0..recurrence.steps {
                step.step = index;
                self.input.products.multiply(stream, &products, self.allows_tf32)?;
                if let Some(reset) = &self.reset {
                    self.each(reset, stream, &step)?;
                    self.input.products.multiply(stream, &candidates, self.allows_tf32)?;
                }
                self.each(&self.finish, stream, &step)?;
            }
        }
        Ok(())
    }
}

impl Recurrent for Steps {
    fn input(&self) -> &Input {
        &self.input
    }

    fn exchange_bytes(&self) -> usize {
        Places::of(&self.problem).bytes
    }

    unsafe fn launch(&self, stream: Stream, recurrences: &[Recurrence], _: bool) -> Result<(), Error> {
        // SAFETY: the caller promises valid memory for every recurrence (see `Recurrent::launch`).
        recurrences.iter().try_for_each(|recurrence| unsafe { self.launch_one(stream, recurrence) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::Element;
    use gpu::testing::resources;

    /// Needs `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.
    #[test]
    fn compiles_for_all_gpus() {
        let Some(nvrtc) = resources::nvrtc() else { return };
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for cell in [Cell::CanonicalGru, Cell::Gru, Cell::Lstm, Cell::Relu] {
                let problem = Problem {
                    cell,
                    element,
                    hidden: 1,
                    input: 1,
                    batch: 1,
                    layers: 1,
                    directions: 1,
                    steps: 1,
                    tensor_cores: false,
                    multiprocessors: 1,
                    shared_bytes: 0,
                    cluster_blocks: 0,
                };
                for capability in [80, 89, 90, 100] {
                    let architecture = nvrtc.architecture(capability).unwrap();
                    let compiled = nvrtc.compile(&source(&problem), &architecture);
                    compiled.unwrap_or_else(|error| panic!("{cell:?} {element:?}: {error}"));
                }
            }
        }
    }
}
