//! A recurrence's gradients, back in time, one step after the other: an element-wise kernel, and one product of the
//! gates' gradients with R. Twin of the struct in `kernels/recurrent/back_step.cu`.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use crate::configuration::{Cell, Element};
use crate::network::parts::Parts;
use crate::recurrence::BackRecurrence;
use crate::steps::options;
use crate::training::compute::kernels::{Kernels, split_bytes};
use gpu::Stream;
use gpu::cublaslt::{Factor, Product};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Launch, Source};

const THREADS: usize = 256;

/// The kernels' parameters.
#[repr(C)]
#[derive(Clone, Copy)]
struct BackStep {
    of: BackRecurrence,
    factors: *mut c_void,
    products: *const f32,
    dh: *mut f32,
    dc: *mut f32,
    hidden: i32,
    step: i32,
}

/// The kernels between the products, on one device.
pub struct BackKernels {
    start: Function,
    step: Function,
    finish: Function,
}

pub fn source(cell: Cell, element: Element) -> Source {
    Source::new(&kernels::recurrent::BACK_STEP, options(cell, element))
}

impl BackKernels {
    /// Finds the kernels of the calling thread's device, or compiles and loads them.
    pub fn load(cell: Cell, element: Element) -> Result<Arc<Self>, Error> {
        static LOADED: Loaded<(Cell, Element), BackKernels> = Loaded::while_used();
        let device = cudnn::device();
        LOADED.get(device, (cell, element), || {
            let module = device.load(&source(cell, element))?;
            let function = |name| module.function(name);
            Ok(Self {
                start: function(c"start_back_steps")?,
                step: function(c"back_step")?,
                finish: function(c"finish_back_steps")?,
            })
        })
    }

    /// Keeps the kernels loaded for good.
    pub fn keep_loaded(&self) {
        self.start.keep_loaded();
    }

    /// # Safety
    /// The step's memory is the stream's device's, with the sizes that it gives.
    unsafe fn each(&self, function: &Function, stream: Stream, step: &BackStep) -> Result<(), Error> {
        let elements = step.of.batch as usize * step.hidden as usize;
        let grid = [elements.div_ceil(THREADS) as u32, 1, 1];
        let launch = Launch { grid, block: [THREADS as u32, 1, 1], ..Launch::default() };
        let mut arguments = [ptr::from_ref(step).cast_mut().cast()];
        // SAFETY: the kernels take one parameter, a `BackStep`. The caller promises that its memory is valid.
        unsafe { function.launch(stream, &launch, &mut arguments) }
    }
}

/// Offsets of the parts in a recurrence's scratch memory, in bytes.
pub struct Scratch {
    factors: usize,
    products: usize,
    dh: usize,
    dc: usize,
    /// The products' own workspace, and its bytes.
    split: (usize, usize),
    pub bytes: usize,
}

impl Scratch {
    /// The parts for recurrences of such states. `None` if they exceed the address space.
    pub fn of(cell: Cell, element: Element, hidden: usize, batch: usize) -> Option<Self> {
        let mut parts = Parts::default();
        let split = split_bytes(batch.checked_mul(hidden)?);
        Some(Self {
            factors: parts.add(&[batch, cell.gates(), hidden, element.bytes()])?,
            products: parts.add(&[batch, hidden, size_of::<f32>()])?,
            dh: parts.add(&[batch, hidden, size_of::<f32>()])?,
            dc: parts.add(&[batch, hidden, size_of::<f32>()])?,
            split: (parts.add(&[split])?, split),
            bytes: parts.bytes,
        })
    }
}

/// The recurrences of a network, for batches of one size.
pub struct BackSteps<'a> {
    pub kernels: &'a BackKernels,
    pub around: &'a Kernels,
    pub cell: Cell,
    pub hidden: usize,
    /// The sequences' lengths by rank, the longest first.
    pub lengths: &'a [i32],
    pub scratch: &'a Scratch,
    pub allows_tf32: bool,
}

impl BackSteps<'_> {
    /// Launches a recurrence's gradients, whose weights are R itself. Nothing waits or allocates.
    ///
    /// # Safety
    /// All memory is the stream's device's, with the network's sizes and type; `scratch` has the bytes of [`Scratch`].
    pub unsafe fn launch(&self, stream: Stream, of: &BackRecurrence, scratch: *mut c_void) -> Result<(), Error> {
        let Self { hidden, lengths, .. } = *self;
        let (columns, places) = (self.cell.gates() * hidden, self.scratch);
        let part = |place: usize| scratch.wrapping_byte_add(place);
        let mut step = BackStep {
            of: *of,
            factors: part(places.factors),
            products: part(places.products).cast(),
            dh: part(places.dh).cast(),
            dc: part(places.dc).cast(),
            hidden: hidden as i32,
            step: 0,
        };
        let product = |rows| Product {
            left: Factor { data: part(places.factors), stride: columns, is_transposed: false },
            right: Factor { data: of.weights, stride: hidden, is_transposed: false },
            products: part(places.products),
            output: Element::Float,
            beta: 0.0,
            rows,
            columns: hidden,
            depth: columns,
            workspace: (part(places.split.0), places.split.1),
        };
        // SAFETY: the caller promises all memory, and the scratch memory has room for all parts.
        unsafe {
            self.kernels.each(&self.kernels.start, stream, &step)?;
            for index in (0..of.steps).rev() {
                step.step = index;
                self.kernels.each(&self.kernels.step, stream, &step)?;
                // The sequences that have this step are the first ones.
                let rows = lengths.partition_point(|&length| length > index);
                self.around.multiply(stream, &product(rows), self.allows_tf32)?;
            }
            self.kernels.each(&self.kernels.finish, stream, &step)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::testing::resources::{LDL, STL, compile, nvrtc};

    /// Needs `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.
    #[test]
    fn compiles_for_all_gpus_without_spills() {
        let Some(nvrtc) = nvrtc() else { return };
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for cell in [Cell::Gru, Cell::Lstm, Cell::Relu, Cell::Tanh] {
                for capability in [80, 89, 90, 100] {
                    let resources = compile(nvrtc, &source(cell, element), capability);
                    assert!(!resources.has(STL) && !resources.has(LDL), "{cell:?} {element:?}, sm_{capability}");
                }
            }
        }
    }
}
