//! The products around the recurrences of LSTM with a projection ([`crate::projection`]).

use std::ffi::c_void;
use std::ptr;

use crate::projection::{FirstStates, Kernels, Projected, Sequences};
use crate::training::compute::pass::{Pass, Running};
use crate::training::compute::projection_places::{DataProjection, Each, ForwardProjection};
use cudnn::rnn::Weights;
use gpu::Element;
use gpu::cublaslt::{Factor, Product};

/// The projection of a pseudo layer, in a call that runs.
pub struct Projection<'a> {
    running: &'a Running<'a>,
    kernels: &'a Kernels,
    direction: usize,
    /// R and W_p, or their gradients.
    recurrent: *const c_void,
    matrix: *const c_void,
    /// m of each row, and the gradient of h, in the reserve.
    pub outputs: *mut c_void,
    gradients: *mut c_void,
}

impl<'a> Projection<'a> {
    /// `None` without a projection. `weight_space` has the weights, or their gradients.
    pub fn of(
        running: &'a Running,
        pseudo_layer: usize,
        weight_space: *const c_void,
        weights: &Weights,
    ) -> Result<Option<Self>, String> {
        let Running { pass, engine, .. } = running;
        let saved = &pass.layout.saved[pseudo_layer];
        let Some((matrix, places)) = weights.projection.zip(saved.projection) else { return Ok(None) };
        Ok(Some(Self {
            running,
            kernels: engine.projection.as_deref().ok_or("a projection's kernels are not there")?,
            direction: pseudo_layer % pass.network.directions(),
            recurrent: weight_space.wrapping_byte_add(weights.recurrent),
            matrix: weight_space.wrapping_byte_add(matrix),
            outputs: running.saved(places.outputs),
            gradients: running.saved(places.gradients),
        }))
    }

    fn sequences(&self) -> Sequences {
        let packing = &self.running.pass.packing;
        let (lengths, starts) = self.running.lengths();
        let (steps, batch) = (packing.steps as i32, packing.batch() as i32);
        Sequences { lengths, starts, steps, batch, reverse: self.direction as i32 }
    }

    /// Multiplies two matrices, of which the right one may be transposed: [rows, depth] by [depth, columns].
    ///
    /// # Safety
    /// The memory is as large as the sizes say.
    unsafe fn multiply(
        &self,
        [rows, columns, depth]: [usize; 3],
        (left, stride): (*const c_void, usize),
        (right, is_transposed): (*const c_void, bool),
        (products, output): (*mut c_void, Element),
    ) -> Result<(), String> {
        let Running { pass, engine, .. } = self.running;
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
        unsafe { engine.around.multiply(pass.stream, &product, pass.allows_tf32()) }.map_err(|error| error.to_string())
    }

    /// Writes R W_p to a part of the workspace, where the recurrence finds it.
    ///
    /// # Safety
    /// The weights and the workspace are as large as the pass says.
    unsafe fn fold(&self, parts: &Each) -> Result<*const c_void, String> {
        let (network, to) = (&self.running.pass.network, self.running.part(parts.of(self.direction)));
        let sizes = [network.gates() * network.hidden, network.hidden, network.projection];
        let onto = (to, self.running.pass.element);
        // SAFETY: the caller's promise.
        unsafe { self.multiply(sizes, (self.recurrent, network.projection), (self.matrix, false), onto) }?;
        Ok(to.cast_const())
    }

    /// Writes R W_p, for the recurrence.
    ///
    /// # Safety
    /// The memory is as large as the pass says.
    pub unsafe fn forward_weights(&self, parts: &ForwardProjection) -> Result<*const c_void, String> {
        // SAFETY: the caller's promise.
        unsafe { self.fold(&parts.folded) }
    }

    /// Adds R h0, if there is an h0, to W x of each sequence's first step.
    ///
    /// # Safety
    /// As for [`Self::forward_weights`].
    pub unsafe fn add_first_states(
        &self,
        parts: &ForwardProjection,
        h0: *const c_void,
        products: *mut f32,
    ) -> Result<(), String> {
        if h0.is_null() {
            return Ok(());
        }
        let Pass { network, packing, stream, .. } = self.running.pass;
        let columns = network.gates() * network.hidden;
        let from = self.running.part(parts.first);
        let states =
            FirstStates { sequences: self.sequences(), from: from.cast(), to: products, columns: columns as i32 };
        let sizes = [packing.batch(), columns, network.projection];
        // SAFETY: the caller's promise.
        unsafe {
            self.multiply(sizes, (h0, network.projection), (self.recurrent, true), (from, Element::Float))?;
            self.kernels.add_first_states(*stream, &states).map_err(|error| error.to_string())
        }
    }

    /// Writes y = W_p m to the direction's columns of a layer's output, and the last states. `scratch` has [R, P] floats.
    ///
    /// # Safety
    /// As for [`Self::forward_weights`].
    pub unsafe fn write_outputs(
        &self,
        scratch: *mut c_void,
        y: *mut c_void,
        [h0, hy]: [*const c_void; 2],
    ) -> Result<(), String> {
        let Pass { network, packing, stream, .. } = self.running.pass;
        let projected = Projected {
            rows: y,
            gradients: ptr::null_mut(),
            given: h0,
            states: hy.cast_mut(),
            ..self.projected(scratch)
        };
        let sizes = [packing.rows, network.projection, network.hidden];
        let left = (self.outputs.cast_const(), network.hidden);
        // SAFETY: the caller's promise.
        unsafe {
            self.multiply(sizes, left, (self.matrix, true), (scratch, Element::Float))?;
            self.kernels.write_projected(*stream, &projected).map_err(|error| error.to_string())
        }
    }

    /// Writes R W_p, the gradients W_p^T dy of m and those of the last m, for the recurrence.
    ///
    /// # Safety
    /// As for [`Self::forward_weights`].
    pub unsafe fn back_through_outputs(
        &self,
        parts: &DataProjection,
        dy: *const c_void,
        dhy: *const c_void,
    ) -> Result<[*const c_void; 3], String> {
        let Pass { network, packing, element, .. } = self.running.pass;
        let (hidden, width) = (network.hidden, network.projection);
        let part = |each: &Each| self.running.part(each.of(self.direction));
        let (rows, last) = (part(&parts.gradients), part(&parts.last));
        let by_matrix = |count: usize, left, to| {
            // SAFETY: the caller's promise.
            unsafe { self.multiply([count, hidden, width], left, (self.matrix, false), (to, *element)) }
        };
        by_matrix(packing.rows, (dy, network.output()), rows)?;
        if !dhy.is_null() {
            by_matrix(packing.batch(), (dhy, width), last)?;
        }
        let last = if dhy.is_null() { dhy } else { last.cast_const() };
        // SAFETY: the caller's promise.
        Ok([unsafe { self.fold(&parts.folded) }?, rows.cast_const(), last])
    }

    /// Writes the gradients of h, given those of the gates, to the reserve, and those of h0.
    ///
    /// # Safety
    /// As for [`Self::forward_weights`].
    pub unsafe fn write_gradients(
        &self,
        parts: &DataProjection,
        dgates: *const c_void,
        dy: *const c_void,
        [dhy, dhx]: [*const c_void; 2],
    ) -> Result<(), String> {
        let Pass { network, packing, stream, .. } = self.running.pass;
        let products = self.running.part(parts.products);
        let depth = network.gates() * network.hidden;
        let projected = Projected {
            rows: dy.cast_mut(),
            gradients: self.gradients,
            given: dhy,
            states: dhx.cast_mut(),
            ..self.projected(products)
        };
        let sizes = [packing.rows, network.projection, depth];
        // SAFETY: the caller's promise.
        unsafe {
            self.multiply(sizes, (dgates, depth), (self.recurrent, false), (products, Element::Float))?;
            self.kernels.write_gradients(*stream, &projected).map_err(|error| error.to_string())
        }
    }

    fn projected(&self, products: *mut c_void) -> Projected {
        let network = &self.running.pass.network;
        let nothing = ptr::null_mut();
        Projected {
            sequences: self.sequences(),
            products: products.cast_const().cast(),
            rows: nothing,
            gradients: nothing,
            given: nothing,
            states: nothing,
            width: network.projection as i32,
            stride: network.output() as i32,
        }
    }

    /// Adds dh^T m to the gradient of W_p. `split` is the place of sums of parts of the rows, and its bytes.
    ///
    /// # Safety
    /// The weights' gradients, the workspace and the reserve are as large as the pass says.
    pub unsafe fn add_to_matrix(&self, split: (usize, usize)) -> Result<(), String> {
        let Running { pass, engine, .. } = self.running;
        let network = &pass.network;
        let product = Product {
            left: Factor { data: self.gradients, stride: network.projection, is_transposed: true },
            right: Factor { data: self.outputs, stride: network.hidden, is_transposed: false },
            products: self.matrix.cast_mut(),
            output: pass.element,
            beta: 1.0,
            rows: network.projection,
            columns: network.hidden,
            depth: pass.packing.rows,
            workspace: (self.running.part(split.0), split.1),
        };
        // SAFETY: the caller's promise.
        unsafe { engine.around.multiply(pass.stream, &product, pass.allows_tf32()) }.map_err(|error| error.to_string())
    }
}
