//! The launches that run a network: input products and recurrences, layer by layer. Calls of cuDNN's API and direct
//! calls look the same here.

use std::ffi::c_void;
use std::ptr;

use cudnn_abi::*;

use crate::inference::contestant::Projecting;
use crate::input::Preparation;
use crate::network::memory::Memory;
use crate::network::temporary::Temporary;
use crate::projection::{Projection, Sequences};
use crate::recurrence::{Recurrence, Recurrent};
use cudnn::rnn::{Data, Network, Weights};
use gpu::Stream;
use gpu::jit::Error;
use gpu::products::Products;

/// A network and its data, for our kernels to run.
pub struct Work<'a> {
    pub network: &'a Network,
    pub data: &'a Data,
    /// The value of y's rows behind the ends of their sequences: an element in the first bytes.
    pub padding_fill: [u8; 8],
    pub memory: Memory,
    /// One for each pseudo layer.
    pub weights: &'a [Weights],
    pub temporary: &'a Temporary,
    pub engine: &'a dyn Recurrent,
    /// With a projection alone. Then the engine runs one layer at a time, whose input is in products.
    pub projecting: Option<&'a Projecting>,
    pub stream: Stream,
}

impl Work<'_> {
    /// Launches the whole network, in the stream's order. Nothing waits or allocates. After an error the results are
    /// invalid, and the inputs are unchanged.
    ///
    /// # Safety
    /// The memory is the stream's device's, as large as the network and the data say, and the workspace has
    /// `temporary.bytes` bytes.
    pub unsafe fn launch(&self) -> Result<(), String> {
        // SAFETY: the caller promises all memory (see `# Safety`); `prepare` and `layers` require nothing else.
        let launched = unsafe { self.prepare().and_then(|rows| self.layers(&rows)) };
        launched.map_err(|error| error.to_string())
    }

    /// Prepares the exchange, lengths and starts.
    ///
    /// # Safety
    /// As for [`Self::launch`].
    unsafe fn prepare(&self) -> Result<Rows, Error> {
        let Self { network, data, temporary, .. } = *self;
        let lengths = self.part(temporary.lengths).cast();
        let starts = self.part(temporary.starts).cast();
        let preparation = Preparation {
            zeroed: (self.part(temporary.exchange), network.directions() * temporary.exchange_bytes),
            lengths: (!data.is_full()).then_some((&data.lengths, lengths)),
            starts: (!data.is_full() && data.is_packed()).then_some((starts, data.steps)),
        };
        // SAFETY: the caller promises `temporary.bytes` bytes of workspace, which include these parts.
        unsafe { self.engine.input().prepare(self.stream, &preparation) }?;
        let or_null = |is_there: bool, place: *mut i32| if is_there { place.cast_const() } else { ptr::null() };
        let (has_lengths, has_starts) = (preparation.lengths.is_some(), preparation.starts.is_some());
        Ok(Rows { lengths: or_null(has_lengths, lengths), starts: or_null(has_starts, starts) })
    }

    /// # Safety
    /// As for [`Self::launch`].
    unsafe fn layers(&self, rows: &Rows) -> Result<(), Error> {
        let Self { network, data, engine, memory, .. } = *self;
        let (element, hidden) = (network.element(), network.hidden);
        let columns = network.gates() * hidden;
        let [h_bytes, c_bytes] = [network.projection, hidden].map(|width| data.batch() * width * element);
        let [time_stride, batch_stride] = match data.layout {
            CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED => [1, data.steps],
            _ => [data.batch(), 1],
        };
        let mut x = memory.x;
        for first in (0..network.layers).step_by(engine.layers()) {
            let last = network.layers.min(first + engine.layers()) - 1;
            let y = self.output(last);
            let of = |layer: usize, direction: usize| {
                let pseudo_layer = layer * network.directions() + direction;
                let weights = &self.weights[pseudo_layer];
                let products: *mut f32 = self.part(self.temporary.products).cast();
                let products = Products {
                    x,
                    weights: self.weight(weights.input),
                    products: products.wrapping_add(direction * data.rows() * columns),
                    rows: data.rows() as i32,
                    columns: columns as i32,
                    depth: network.layer_input(layer) as i32,
                };
                let (input, x, input_weights) = match (layer == first, engine.multiplies_input()) {
                    (true, false) => (products.products.cast_const(), ptr::null(), ptr::null()),
                    (true, true) => (ptr::null(), products.x, products.weights),
                    (false, _) => (ptr::null(), ptr::null(), products.weights),
                };
                let biases = |place: Option<usize>| place.map_or(ptr::null(), |place| self.weight(place));
                let state = |base: *const c_void, bytes: usize, there: bool| match there && !base.is_null() {
                    true => base.wrapping_byte_add(pseudo_layer * bytes),
                    false => ptr::null(),
                };
                let has_c = network.cell == CUDNN_LSTM;
                let column = direction * network.projection * element;
                let recurrence = Recurrence {
                    input,
                    weights: self.weight(weights.recurrent),
                    x,
                    input_weights,
                    input_biases: biases(weights.input_bias),
                    recurrent_biases: biases(weights.recurrent_bias),
                    h0: state(memory.hx, h_bytes, true),
                    c0: state(memory.cx, c_bytes, has_c),
                    y: if layer == last { y.wrapping_byte_add(column) } else { ptr::null_mut() },
                    hy: state(memory.hy, h_bytes, true).cast_mut(),
                    cy: state(memory.cy, c_bytes, has_c).cast_mut(),
                    gates: ptr::null_mut(),
                    cells: ptr::null_mut(),
                    lengths: rows.lengths,
                    starts: rows.starts,
                    y_stride: network.output() as i64,
                    time_stride: time_stride as i64,
                    batch_stride: batch_stride as i64,
                    fill: self.padding_fill[..4].try_into().unwrap_or_default(),
                    steps: data.steps as i32,
                    batch: data.batch() as i32,
                    reverse: direction as i32,
                    exchange: self.part(self.temporary.exchange + direction * self.temporary.exchange_bytes),
                };
                (products, recurrence)
            };
            let pseudo_layers = (first..=last).flat_map(|layer| (0..network.directions()).map(move |d| (layer, d)));
            let (products, recurrences): (Vec<_>, Vec<_>) = pseudo_layers.map(|(layer, d)| of(layer, d)).unzip();
            let ahead = if engine.multiplies_input() { 0 } else { network.directions() };
            let mut early = false;
            for products in &products[..ahead] {
                let tf32 = network.math_type != CUDNN_FMA_MATH;
                // SAFETY: the caller promises x and the weights; the workspace has room for the products.
                early = unsafe { engine.input().products.multiply(self.stream, products, tf32) }?;
            }
            match self.projecting {
                // SAFETY: the caller promises all buffers.
                Some(projecting) => unsafe { self.projected(projecting, first, &recurrences) }?,
                // SAFETY: the caller promises all buffers. `early` is true only behind our products, which are not early.
                None => unsafe { engine.launch(self.stream, &recurrences, early) }?,
            }
            x = y;
        }
        Ok(())
    }

    /// Launches a layer's recurrences with their projections, behind the products of the input.
    ///
    /// # Safety
    /// As for [`Self::launch`].
    unsafe fn projected(&self, projecting: &Projecting, layer: usize, recurrences: &[Recurrence]) -> Result<(), Error> {
        let Self { network, data, temporary, .. } = *self;
        let projection = |(direction, recurrence): (usize, &Recurrence)| {
            let weights = &self.weights[layer * network.directions() + direction];
            Projection {
                kernels: &projecting.kernels,
                around: &projecting.around,
                stream: self.stream,
                allows_tf32: network.math_type != CUDNN_FMA_MATH,
                network,
                sequences: Sequences {
                    lengths: recurrence.lengths,
                    starts: recurrence.starts,
                    steps: recurrence.steps,
                    batch: recurrence.batch,
                    time_stride: recurrence.time_stride as i32,
                    batch_stride: recurrence.batch_stride as i32,
                    reverse: recurrence.reverse,
                },
                rows: data.rows(),
                recurrent: recurrence.weights,
                matrix: weights.projection.map_or(ptr::null(), |place| self.weight(place)),
                outputs: self.part(temporary.unprojected.of(direction)),
            }
        };
        let projections: Vec<_> = recurrences.iter().enumerate().map(projection).collect();
        let mut unprojected = Vec::with_capacity(recurrences.len());
        // SAFETY: the caller promises all buffers; the workspace has room for all parts. A direction's products are of
        // no more use once its recurrence has run.
        unsafe {
            for (direction, (projection, recurrence)) in projections.iter().zip(recurrences).enumerate() {
                let folded = self.part(temporary.folded.of(direction));
                projection.fold(folded)?;
                let products = recurrence.input.cast_mut();
                projection.add_first_states(self.part(temporary.first), recurrence.h0, products)?;
                unprojected.push(recurrence.unprojected(folded, projection.outputs, network.hidden));
            }
            self.engine.launch(self.stream, &unprojected, false)?;
            for (projection, recurrence) in projections.iter().zip(recurrences) {
                let Recurrence { input, y, h0, hy, fill, .. } = *recurrence;
                projection.write_outputs(input.cast_mut().cast(), y, [h0, hy.cast_const()], fill)?;
            }
        }
        Ok(())
    }

    /// The output of a layer. The last layer writes y. The others write y too, if their input is in products by then.
    /// But with two directions, or W x within the steps, blocks still read the input while others write. Then layers
    /// alternate between y and another place: `between`, or the unused memory of the products.
    fn output(&self, layer: usize) -> *mut c_void {
        let Self { network, temporary, engine, .. } = *self;
        let (both, within) = (network.directions() > 1, engine.multiplies_input());
        let is_elsewhere = (both || within) && (network.layers - 1 - layer) % 2 == 1;
        match is_elsewhere {
            true => self.part(if within { temporary.products } else { temporary.between }),
            false => self.memory.y,
        }
    }

    fn part(&self, place: usize) -> *mut c_void {
        Temporary::first(self.memory.workspace.cast()).wrapping_add(place).cast()
    }

    fn weight(&self, place: usize) -> *const c_void {
        self.memory.weight_space.wrapping_byte_add(place)
    }
}

/// Where the sequences' rows are; null where all sequences are equally long.
struct Rows {
    lengths: *const i32,
    starts: *const i32,
}
