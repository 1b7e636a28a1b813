//! The gradients of weights, from the gradients of gates that the gradients of data left in the reserve.

use std::ffi::c_void;
use std::ptr;

use cudnn_abi::*;

use crate::training::compute::forward::dropped;
use crate::training::compute::kernels::{ColumnSums, PreviousStates};
use crate::training::compute::known::Engine;
use crate::training::compute::pass::{Pass, Running, Spaces};
use crate::training::compute::projected::Trained;
use crate::training::owner::reserve::State;
use cudnn::arguments::RnnBackwardWeights;
use cudnn::rnn::Weights;
use gpu::cublaslt::{Factor, Product};

/// The spaces of a call.
pub fn spaces(call: &RnnBackwardWeights) -> Spaces {
    Spaces {
        weights: call.dweights.cast_const(),
        weights_size: call.weight_space_size,
        workspace: call.workspace,
        workspace_size: call.workspace_size,
        reserve: call.reserve,
        reserve_size: call.reserve_size,
    }
}

/// Launches the gradients of weights, which are added to the program's. Nothing waits or allocates.
///
/// # Safety
/// All memory is the stream's device's, as large as the pass says.
pub unsafe fn run(pass: &Pass, engine: &Engine, call: &RnnBackwardWeights, weights: &[Weights]) -> Result<(), String> {
    let (network, packing, stream, places) = (&pass.network, &pass.packing, pass.stream, &pass.weights);
    let text = |error: gpu::jit::Error| error.to_string();
    // SAFETY: the caller promises all memory; each part lies in the workspace or the reserve.
    unsafe {
        let running = Running::begin(pass, engine, call.workspace, call.reserve, &places.order, (0, 0))?;
        running.claim(State::Gradients, State::Gradients)?;
        let mut input = running.packed(call.x, places.x, network.input)?;
        let y = running.packed(call.y, places.y, pass.output())?;
        let [width, _] = pass.state_widths();
        let hx = running.ranked(call.hx, places.hx, width)?;
        let (lengths, starts) = running.lengths();
        for layer in 0..network.layers {
            let output = running.layer_output(layer, y.cast_mut());
            for direction in 0..network.directions() {
                let pseudo_layer = layer * network.directions() + direction;
                let x = dropped(&running, pseudo_layer, input, places.dropped, false)?;
                let states = PreviousStates {
                    y: output.wrapping_byte_add(direction * width * network.element()),
                    h0: running.state_of(hx, width, pseudo_layer),
                    to: running.part(places.previous),
                    lengths,
                    starts,
                    y_stride: pass.output() as i32,
                    width: width as i32,
                    steps: packing.steps as i32,
                    batch: packing.batch() as i32,
                    reverse: direction as i32,
                };
                engine.around.previous_states(stream, &states).map_err(text)?;
                let factors = [x, states.to.cast_const()];
                matrices(&running, layer, pseudo_layer, call.dweights, &weights[pseudo_layer], factors)?;
                let projection = Trained::of(&running, pseudo_layer, call.dweights, &weights[pseudo_layer])?;
                if let Some(projection) = projection {
                    projection.add_to_matrix(places.split)?;
                }
                biases(&running, pseudo_layer, call.dweights, &weights[pseudo_layer], places.sums)?;
            }
            input = output;
        }
        let nothing = (ptr::null_mut(), 0);
        let count = call.weight_space_size / pass.element.bytes();
        engine.around.spoil(stream, running.is_wrong, [(call.dweights, count), nothing, nothing]).map_err(text)
    }
}

/// Adds dgatesᵀ x to the gradient of W, and dgatesᵀ h of the steps before to that of R.
///
/// # Safety
/// As for [`run`].
unsafe fn matrices(
    running: &Running,
    layer: usize,
    pseudo_layer: usize,
    dweights: *mut c_void,
    weights: &Weights,
    [x, h]: [*const c_void; 2],
) -> Result<(), String> {
    let Running { pass, engine, .. } = running;
    let (network, element, places) = (&pass.network, pass.element, &pass.weights);
    let (hidden, gates) = (network.hidden, network.gates());
    let dgates = running.saved(pass.layout.saved[pseudo_layer].gates);
    // The gradients of some gates, times an input. `from` counts gates in the reserve, `to` in the weights.
    let add = |place: usize, [from, to, count]: [usize; 3], (right, width): (*const c_void, usize)| {
        let product = Product {
            left: Factor {
                data: dgates.wrapping_byte_add(from * hidden * element.bytes()),
                stride: pass.saved_columns(),
                is_transposed: true,
            },
            right: Factor { data: right, stride: width, is_transposed: false },
            products: dweights.wrapping_byte_add(place + to * hidden * width * element.bytes()),
            output: element,
            beta: 1.0,
            rows: count * hidden,
            columns: width,
            depth: pass.packing.rows,
            workspace: (running.part(places.split.0), places.split.1),
        };
        let (copies, tf32) = (running.part(places.copies), pass.allows_tf32());
        // SAFETY: the caller's promise.
        let multiplied = unsafe { engine.around.multiply_large(pass.stream, &product, copies, tf32) };
        multiplied.map_err(|error| error.to_string())
    };
    add(weights.input, [0, 0, gates], (x, network.layer_input(layer)))?;
    let [width, _] = pass.state_widths();
    if network.cell == CUDNN_GRU {
        // R_n's sum is scaled by r: its gradient is saved behind n's own.
        add(weights.recurrent, [0, 0, gates - 1], (h, width))?;
        return add(weights.recurrent, [gates, gates - 1, 1], (h, width));
    }
    add(weights.recurrent, [0, 0, gates], (h, width))
}

/// Adds the sums of the gates' gradients to those of the biases.
///
/// # Safety
/// As for [`run`].
unsafe fn biases(
    running: &Running,
    pseudo_layer: usize,
    dweights: *mut c_void,
    weights: &Weights,
    place: usize,
) -> Result<(), String> {
    let Running { pass, engine, .. } = running;
    if weights.input_bias.is_none() && weights.recurrent_bias.is_none() {
        return Ok(());
    }
    let bias = |place: Option<usize>| place.map_or(ptr::null_mut(), |place| dweights.wrapping_byte_add(place));
    let sums = ColumnSums {
        rows: running.saved(pass.layout.saved[pseudo_layer].gates),
        sums: running.part(place).cast(),
        count: pass.packing.rows as i32,
        columns: pass.saved_columns() as i32,
        parts: ColumnSums::parts(pass.packing.rows) as i32,
        input_bias: bias(weights.input_bias),
        recurrent_bias: bias(weights.recurrent_bias),
        hidden: pass.network.hidden as i32,
        input_gates: pass.network.gates() as i32,
    };
    // SAFETY: the caller's promise.
    unsafe { engine.around.add_column_sums(pass.stream, &sums) }.map_err(|error| error.to_string())
}
