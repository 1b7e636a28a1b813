//! The projection of LSTM in training ([`crate::projection`]): its parts of the workspace and the reserve, and its
//! gradients.

use std::ffi::c_void;

use crate::projection::{Projected, Projection, Sequences};
use crate::training::compute::pass::Running;
use crate::training::compute::projection_places::{DataProjection, ForwardProjection};
use cudnn::rnn::Weights;
use gpu::Element;
use gpu::cublaslt::{Factor, Product};
use gpu::jit::Error;

fn text(error: Error) -> String {
    error.to_string()
}

/// The projection of a pseudo layer that trains.
pub struct Trained<'a> {
    running: &'a Running<'a>,
    direction: usize,
    /// Its m is in the reserve.
    pub of: Projection<'a>,
    /// The gradient of h, in the place of c in the reserve.
    gradients: *mut c_void,
}

impl<'a> Trained<'a> {
    /// `None` without a projection. `weight_space` has the weights, or their gradients.
    pub fn of(
        running: &'a Running,
        pseudo_layer: usize,
        weight_space: *const c_void,
        weights: &Weights,
    ) -> Result<Option<Self>, String> {
        let Running { pass, engine, .. } = running;
        let (network, packing) = (&pass.network, &pass.packing);
        let saved = &pass.layout.saved[pseudo_layer];
        let Some((matrix, unprojected)) = weights.projection.zip(saved.unprojected) else { return Ok(None) };
        let direction = pseudo_layer % network.directions();
        let (lengths, starts) = running.lengths();
        let of = Projection {
            kernels: engine.projection.as_deref().ok_or("a projection's kernels are not there")?,
            around: &engine.around,
            stream: pass.stream,
            allows_tf32: pass.allows_tf32(),
            network,
            sequences: Sequences {
                lengths,
                starts,
                steps: packing.steps as i32,
                batch: packing.batch() as i32,
                time_stride: packing.batch() as i32,
                batch_stride: 1,
                reverse: direction as i32,
            },
            rows: packing.rows,
            recurrent: weight_space.wrapping_byte_add(weights.recurrent),
            matrix: weight_space.wrapping_byte_add(matrix),
            outputs: running.saved(unprojected),
        };
        let gradients = running.saved(saved.cells.ok_or("a projection's cells have no place")?);
        Ok(Some(Self { running, direction, of, gradients }))
    }

    /// Writes R W_p for the recurrence, and adds R h0 to W x of each sequence's first step. Returns the place of R W_p.
    ///
    /// # Safety
    /// The memory is as large as the pass says.
    pub unsafe fn begin_forward(
        &self,
        parts: &ForwardProjection,
        h0: *const c_void,
        products: *mut f32,
    ) -> Result<*const c_void, String> {
        let part = |place| self.running.part(place);
        let folded = part(parts.folded.of(self.direction));
        // SAFETY: the caller's promise.
        let begun =
            unsafe { self.of.fold(folded).and_then(|()| self.of.add_first_states(part(parts.first), h0, products)) };
        begun.map(|()| folded.cast_const()).map_err(text)
    }

    /// Writes R W_p, the gradients W_p^T dy of m and those of the last m, for the recurrence. Returns their places.
    ///
    /// # Safety
    /// As for [`Self::begin_forward`].
    pub unsafe fn begin_backward(
        &self,
        parts: &DataProjection,
        dy: *const c_void,
        dhy: *const c_void,
    ) -> Result<[*const c_void; 3], String> {
        let pass = self.running.pass;
        let (network, packing, element) = (&pass.network, &pass.packing, pass.element);
        let (hidden, width) = (network.hidden, network.projection);
        let [folded, rows, last] = [parts.folded, parts.gradients, parts.last];
        let [folded, rows, last] = [folded, rows, last].map(|each| self.running.part(each.of(self.direction)));
        let by_matrix = |count: usize, left, to| {
            // SAFETY: the caller's promise.
            unsafe { self.of.multiply([count, hidden, width], left, (self.of.matrix, false), (to, element)) }
        };
        by_matrix(packing.rows, (dy, network.output()), rows).map_err(text)?;
        if !dhy.is_null() {
            by_matrix(packing.batch(), (dhy, width), last).map_err(text)?;
        }
        // SAFETY: the caller's promise.
        unsafe { self.of.fold(folded) }.map_err(text)?;
        let last = if dhy.is_null() { dhy } else { last.cast_const() };
        Ok([folded.cast_const(), rows.cast_const(), last])
    }

    /// Writes the gradients of h, given those of the gates, to the reserve, and those of h0. The recurrence has ended.
    ///
    /// # Safety
    /// As for [`Self::begin_forward`].
    pub unsafe fn end_backward(
        &self,
        parts: &DataProjection,
        dgates: *const c_void,
        dy: *const c_void,
        [dhy, dhx]: [*const c_void; 2],
    ) -> Result<(), String> {
        let pass = self.running.pass;
        let (network, packing, stream) = (&pass.network, &pass.packing, pass.stream);
        let products = self.running.part(parts.products);
        let depth = network.gates() * network.hidden;
        let projected = Projected {
            rows: dy.cast_mut(),
            gradients: self.gradients,
            given: dhy,
            states: dhx.cast_mut(),
            ..self.of.projected(products)
        };
        let sizes = [packing.rows, network.projection, depth];
        let (left, right) = ((dgates, depth), (self.of.recurrent, false));
        // SAFETY: the caller's promise.
        unsafe {
            self.of.multiply(sizes, left, right, (products, Element::Float)).map_err(text)?;
            self.of.kernels.write_gradients(stream, &projected).map_err(text)
        }
    }

    /// Adds dh^T m to the gradient of W_p. `split` is the place of sums of parts of the rows, and its bytes.
    ///
    /// # Safety
    /// As for [`Self::begin_forward`]; the weight space has the weights' gradients.
    pub unsafe fn add_to_matrix(&self, split: (usize, usize)) -> Result<(), String> {
        let pass = self.running.pass;
        let (network, packing, stream) = (&pass.network, &pass.packing, pass.stream);
        let product = Product {
            left: Factor { data: self.gradients, stride: network.projection, is_transposed: true },
            right: Factor { data: self.of.outputs, stride: network.hidden, is_transposed: false },
            products: self.of.matrix.cast_mut(),
            output: pass.element,
            beta: 1.0,
            rows: network.projection,
            columns: network.hidden,
            depth: packing.rows,
            workspace: (self.running.part(split.0), split.1),
        };
        // SAFETY: the caller's promise.
        unsafe { self.of.around.multiply(stream, &product, self.of.allows_tf32) }.map_err(text)
    }
}
