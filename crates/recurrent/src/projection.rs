//! The work around the recurrences of LSTM with a projection, h = W_p m with m = o ∘ tanh(c). A recurrence takes R W_p
//! for its R, and m for its h: R h = (R W_p) m. Twin of the structs in `kernels/recurrent/projection.cu`.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use crate::training::compute::kernels::{Kernels as Around, blocks, launch};
use cudnn::rnn::Network;
use gpu::cublaslt::{Factor, Product};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Source};
use gpu::{Element, Stream};

/// The rows of sequences, as the recurrence takes them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sequences {
    pub lengths: *const i32,
    pub starts: *const i32,
    pub steps: i32,
    pub batch: i32,
    pub time_stride: i32,
    pub batch_stride: i32,
    pub reverse: i32,
}

/// R h0, to be added to W x of each sequence's first step.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FirstStates {
    pub sequences: Sequences,
    /// `[batch][columns]`
    pub from: *const f32,
    /// `[rows][columns]`
    pub to: *mut f32,
    pub columns: i32,
}

/// The products W_p m and their results, or the gradients of h by R and theirs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Projected {
    pub sequences: Sequences,
    /// `[rows][width]`
    pub products: *const f32,
    /// y, or dy, which is only read: unit j of row r is at r · stride + j.
    pub rows: *mut c_void,
    /// The gradients of h: `[rows][width]`.
    pub gradients: *mut c_void,
    /// h0, or the gradients of the last states: `[batch][width]`, or null for zeros.
    pub given: *const c_void,
    /// The last states, or the gradients of h0: `[batch][width]`, or null if they are not wanted.
    pub states: *mut c_void,
    pub width: i32,
    pub stride: i32,
    /// The bits of the element behind the ends of sequences in y.
    pub fill: u32,
}

/// The kernels for elements of one type, on one device.
pub struct Kernels {
    add_first_states: Function,
    write_projected: Function,
    write_gradients: Function,
    write_first_gradients: Function,
}

pub fn source(element: Element) -> Source {
    Source::new(&kernels::recurrent::PROJECTION, vec![element.option().into()])
}

impl Kernels {
    /// Finds the kernels of the calling thread's device, or compiles and loads them.
    pub fn load(element: Element) -> Result<Arc<Self>, Error> {
        static LOADED: Loaded<Element, Kernels> = Loaded::while_used();
        let device = cudnn::device();
        LOADED.get(device, element, || {
            let module = device.load(&source(element))?;
            let function = |name| module.function(name);
            Ok(Self {
                add_first_states: function(c"add_first_states")?,
                write_projected: function(c"write_projected")?,
                write_gradients: function(c"write_gradients")?,
                write_first_gradients: function(c"write_first_gradients")?,
            })
        })
    }

    /// Adds R h0 to W x of each sequence's first step.
    ///
    /// # Safety
    /// All memory is the stream's device's, as large as the sizes say.
    pub unsafe fn add_first_states(&self, stream: Stream, states: &FirstStates) -> Result<(), Error> {
        let count = states.sequences.batch as usize * states.columns as usize;
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.add_first_states, stream, blocks(count), *states) }
    }

    /// Rounds W_p m to y and the last states.
    ///
    /// # Safety
    /// As for [`Self::add_first_states`].
    pub unsafe fn write_projected(&self, stream: Stream, projected: &Projected) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.write_projected, stream, blocks(projected.count()), *projected) }
    }

    /// Writes the gradients of h, and those of h0 if they are wanted. The latter may take the memory of the given ones.
    ///
    /// # Safety
    /// As for [`Self::add_first_states`].
    pub unsafe fn write_gradients(&self, stream: Stream, projected: &Projected) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernels' own struct.
        unsafe {
            launch(&self.write_gradients, stream, blocks(projected.count()), *projected)?;
            if projected.states.is_null() {
                return Ok(());
            }
            launch(&self.write_first_gradients, stream, blocks(projected.count()), *projected)
        }
    }
}

/// The projection of a pseudo layer, in a call that runs.
pub struct Projection<'a> {
    pub kernels: &'a Kernels,
    pub around: &'a Around,
    pub stream: Stream,
    pub allows_tf32: bool,
    pub network: &'a Network,
    pub sequences: Sequences,
    /// Rows of memory.
    pub rows: usize,
    /// R and W_p, or their gradients.
    pub recurrent: *const c_void,
    pub matrix: *const c_void,
    /// m of each row: [rows, H].
    pub outputs: *mut c_void,
}

impl Projection<'_> {
    /// Multiplies matrices of [rows, depth] and [depth, columns]; the right one may be stored transposed.
    ///
    /// # Safety
    /// The memory is the stream's device's, as large as the sizes say.
    pub unsafe fn multiply(
        &self,
        [rows, columns, depth]: [usize; 3],
        (left, stride): (*const c_void, usize),
        (right, is_transposed): (*const c_void, bool),
        (products, output): (*mut c_void, Element),
    ) -> Result<(), Error> {
        let product = Product {
            left: Factor { data: left, stride, is_transposed: false },
            right: Factor { data: right, stride: if is_transposed { depth } else { columns }, is_transposed },
            products,
            output,
            beta: 0.0,
            rows,
            columns,
            depth,
            workspace: (ptr::null_mut(), 0),
        };
        // SAFETY: the caller's promise.
        unsafe { self.around.multiply(self.stream, &product, self.allows_tf32) }
    }

    /// Writes R W_p, for the recurrence: [G·H, H].
    ///
    /// # Safety
    /// All memory is the stream's device's, as large as the network and the rows say.
    pub unsafe fn fold(&self, to: *mut c_void) -> Result<(), Error> {
        let Network { hidden, projection, .. } = *self.network;
        let sizes = [self.network.gates() * hidden, hidden, projection];
        let onto = (to, self.around.element());
        // SAFETY: the caller's promise.
        unsafe { self.multiply(sizes, (self.recurrent, projection), (self.matrix, false), onto) }
    }

    /// Adds R h0, if there is an h0, to W x of each sequence's first step. `scratch` has [B, G·H] floats.
    ///
    /// # Safety
    /// As for [`Self::fold`].
    pub unsafe fn add_first_states(
        &self,
        scratch: *mut c_void,
        h0: *const c_void,
        products: *mut f32,
    ) -> Result<(), Error> {
        if h0.is_null() {
            return Ok(());
        }
        let (columns, width) = (self.network.gates() * self.network.hidden, self.network.projection);
        let sequences = self.sequences;
        let states =
            FirstStates { sequences, from: scratch.cast_const().cast(), to: products, columns: columns as i32 };
        let sizes = [sequences.batch as usize, columns, width];
        // SAFETY: the caller's promise.
        unsafe {
            self.multiply(sizes, (h0, width), (self.recurrent, true), (scratch, Element::Float))?;
            self.kernels.add_first_states(self.stream, &states)
        }
    }

    /// Writes y = W_p m to the direction's columns of a layer's output, and the last states. `scratch` has [rows, P]
    /// floats.
    ///
    /// # Safety
    /// As for [`Self::fold`].
    pub unsafe fn write_outputs(
        &self,
        scratch: *mut c_void,
        y: *mut c_void,
        [h0, hy]: [*const c_void; 2],
        fill: [u8; 4],
    ) -> Result<(), Error> {
        let fill = u32::from_ne_bytes(fill);
        let projected = Projected { rows: y, given: h0, states: hy.cast_mut(), fill, ..self.projected(scratch) };
        let Network { hidden, projection, .. } = *self.network;
        let left = (self.outputs.cast_const(), hidden);
        // SAFETY: the caller's promise.
        unsafe {
            self.multiply([self.rows, projection, hidden], left, (self.matrix, true), (scratch, Element::Float))?;
            self.kernels.write_projected(self.stream, &projected)
        }
    }

    /// The parameters of kernels behind products.
    pub fn projected(&self, products: *mut c_void) -> Projected {
        let nothing = ptr::null_mut();
        Projected {
            sequences: self.sequences,
            products: products.cast_const().cast(),
            rows: nothing,
            gradients: nothing,
            given: nothing,
            states: nothing,
            width: self.network.projection as i32,
            stride: self.network.output() as i32,
            fill: 0,
        }
    }
}

impl Projected {
    fn count(&self) -> usize {
        [self.sequences.steps, self.sequences.batch, self.width].map(|count| count as usize).into_iter().product()
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
            for capability in [80, 89, 90, 100] {
                let resources = compile(nvrtc, &source(element), capability);
                assert!(!resources.has(STL) && !resources.has(LDL), "{element:?}, sm_{capability}");
            }
        }
    }
}
