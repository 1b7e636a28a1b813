//! Runs a recurrence one time step after the other, for weights that do not fit on chip, and for training. A step is one
//! product of all gates' weights with h, and one element-wise kernel; canonical GRU has two of each. GRNN falls back to
//! the same method. Twin of the struct in `kernels/recurrent/step.cu`.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use crate::configuration::{Cell, Problem};
use crate::input::Input;
use crate::kernels::input;
use crate::recurrence::{Recurrence, Recurrent};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Launch, Source};
use gpu::products::Products;
use gpu::{Element, Stream};

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

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub cell: Cell,
    pub element: Element,
    /// True if each step saves the values that gradients need.
    pub saves: bool,
}

/// The kernels between the products, on one device.
pub struct StepKernels {
    start: Function,
    /// Only for canonical GRU.
    reset: Option<Function>,
    finish: Function,
}

impl StepKernels {
    /// Finds the kernels of the calling thread's device, or compiles and loads them.
    pub fn load(kind: Kind) -> Result<Arc<Self>, Error> {
        static LOADED: Loaded<Kind, StepKernels> = Loaded::while_used();
        let device = cudnn::device();
        LOADED.get(device, kind, || {
            let module = device.load(&source(kind))?;
            let is_canonical = kind.cell == Cell::CanonicalGru;
            let reset = is_canonical.then(|| module.function(c"reset_step")).transpose()?;
            Ok(Self { start: module.function(c"start_steps")?, reset, finish: module.function(c"finish_step")? })
        })
    }

    /// Keeps the kernels loaded for good.
    pub fn keep_loaded(&self) {
        self.start.keep_loaded();
    }
}

/// The recurrences of a network, for batches of one size.
pub struct Steps {
    pub cell: Cell,
    pub element: Element,
    pub hidden: usize,
    pub batch: usize,
    pub allows_tf32: bool,
    pub input: Arc<Input>,
    pub kernels: Arc<StepKernels>,
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
    fn of(cell: Cell, element: Element, hidden: usize, batch: usize) -> Self {
        let mut bytes = 0;
        let mut part = |columns: usize, element: usize| {
            let start = bytes;
            bytes += (batch * columns * element).next_multiple_of(ALIGNMENT);
            start
        };
        Self {
            products: part(cell.gates() * hidden, size_of::<f32>()),
            candidates: part(hidden, size_of::<f32>()),
            h: part(hidden, element.bytes()),
            reset: part(hidden, element.bytes()),
            c: part(hidden, size_of::<f32>()),
            bytes,
        }
    }
}

/// The options of a source for cells and elements of a kind.
pub fn options(cell: Cell, element: Element) -> Vec<String> {
    let cell = match cell {
        Cell::CanonicalGru => "-DCELL_CANONICAL_GRU",
        Cell::Gru => "-DCELL_GRU",
        Cell::Lstm => "-DCELL_LSTM",
        Cell::Tanh => "-DCELL_TANH",
        Cell::Relu => "-DCELL_RELU",
    };
    vec![cell.into(), element.option().into()]
}

pub fn source(kind: Kind) -> Source {
    let save = kind.saves.then(|| "-DSAVE".into());
    Source::new(&kernels::recurrent::STEP, options(kind.cell, kind.element).into_iter().chain(save).collect())
}

impl Steps {
    /// The recurrences of a problem, for inference. Compiles and loads on the calling thread's device.
    pub fn load(problem: &Problem, allows_tf32: bool) -> Result<Self, String> {
        let Problem { cell, element, hidden, batch, .. } = *problem;
        let kernels = StepKernels::load(Kind { cell, element, saves: false }).map_err(|error| error.to_string())?;
        Ok(Self { cell, element, hidden, batch, allows_tf32, input: input(element)?, kernels })
    }

    /// Bytes of exchange of such recurrences.
    pub fn exchange_bytes_of(cell: Cell, element: Element, hidden: usize, batch: usize) -> usize {
        Places::of(cell, element, hidden, batch).bytes
    }

    fn places(&self) -> Places {
        Places::of(self.cell, self.element, self.hidden, self.batch)
    }

    /// # Safety
    /// As for [`Recurrent::launch`].
    unsafe fn each(&self, function: &Function, stream: Stream, step: &Step) -> Result<(), Error> {
        let elements = step.recurrence.batch as usize * self.hidden;
        let grid = [elements.div_ceil(THREADS) as u32, 1, 1];
        let launch = Launch { grid, block: [THREADS as u32, 1, 1], ..Launch::default() };
        let mut arguments = [ptr::from_ref(step).cast_mut().cast()];
        // SAFETY: the kernels take one parameter, a `Step`. The caller promises that its memory is valid.
        unsafe { function.launch(stream, &launch, &mut arguments) }
    }

    /// # Safety
    /// As for [`Recurrent::launch`].
    unsafe fn launch_one(&self, stream: Stream, recurrence: &Recurrence) -> Result<(), Error> {
        let Self { hidden, ref kernels, .. } = *self;
        let (gates, places) = (self.cell.gates(), self.places());
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
        let first_gates = if kernels.reset.is_some() { gates - 1 } else { gates };
        let products = Products {
            x: step.h,
            weights: recurrence.weights,
            products: step.products.cast_mut(),
            rows: recurrence.batch,
            columns: (first_gates * hidden) as i32,
            depth: hidden as i32,
        };
        let last = first_gates * hidden * hidden * self.element.bytes();
        let candidates = Products {
            x: step.reset,
            weights: recurrence.weights.wrapping_byte_add(last),
            products: step.candidates.cast_mut(),
            columns: hidden as i32,
            ..products
        };
        // SAFETY: the caller promises the recurrence's memory; `exchange` is large enough for all `Places`.
        unsafe {
            self.each(&kernels.start, stream, &step)?;
            for index in 0..recurrence.steps {
                step.step = index;
                self.input.products.multiply(stream, &products, self.allows_tf32)?;
                if let Some(reset) = &kernels.reset {
                    self.each(reset, stream, &step)?;
                    self.input.products.multiply(stream, &candidates, self.allows_tf32)?;
                }
                self.each(&kernels.finish, stream, &step)?;
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
        self.places().bytes
    }

    unsafe fn launch(&self, stream: Stream, recurrences: &[Recurrence], _: bool) -> Result<(), Error> {
        // SAFETY: the caller promises valid memory for every recurrence (see `Recurrent::launch`).
        recurrences.iter().try_for_each(|recurrence| unsafe { self.launch_one(stream, recurrence) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::testing::resources;

    /// Needs `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.
    #[test]
    fn compiles_for_all_gpus() {
        let Some(nvrtc) = resources::nvrtc() else { return };
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for cell in [Cell::CanonicalGru, Cell::Gru, Cell::Lstm, Cell::Relu, Cell::Tanh] {
                for capability in [80, 89, 90, 100] {
                    let architecture = nvrtc.architecture(capability).unwrap();
                    for saves in [false, cell != Cell::CanonicalGru] {
                        let compiled = nvrtc.compile(&source(Kind { cell, element, saves }), &architecture);
                        compiled.unwrap_or_else(|error| panic!("{cell:?} {element:?}, saves {saves}: {error}"));
                    }
                }
            }
        }
    }
}
