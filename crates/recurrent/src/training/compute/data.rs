//! The gradients of data and first states: back through the steps of each layer, from the last one down. The gradients of
//! the gates take the gates' places in the reserve, for the gradients of weights.

use std::ffi::c_void;
use std::ptr;

use cudnn_abi::*;

use crate::configuration::Element;
use crate::kernels;
use crate::recurrence::BackRecurrence;
use crate::training::compute::back_steps::{BackSteps, Scratch};
use crate::training::compute::dropout;
use crate::training::compute::kernels::Dealt;
use crate::training::compute::known::Engine;
use crate::training::compute::pass::{Pass, Running, Spaces};
use crate::training::compute::projected::Trained;
use crate::training::compute::runner::Runner;
use crate::training::owner::reserve::State;
use cudnn::arguments::RnnBackwardData;
use cudnn::rnn::Weights;
use gpu::cublaslt::{Factor, Product};
use gpu::jit::Error;

/// The results of a call, each with its elements.
pub fn results(call: &RnnBackwardData, pass: &Pass) -> [(*mut c_void, usize); 3] {
    let [h, c] = pass.states();
    let c = if pass.network.cell == CUDNN_LSTM { c } else { 0 };
    [(call.dx, pass.data.rows() * pass.network.input), (call.dhx, h), (call.dcx, c)]
}

/// The spaces of a call.
pub fn spaces(call: &RnnBackwardData) -> Spaces {
    Spaces {
        weights: call.weight_space,
        weights_size: call.weight_space_size,
        workspace: call.workspace,
        workspace_size: call.workspace_size,
        reserve: call.reserve,
        reserve_size: call.reserve_size,
    }
}

/// Launches the gradients of data. Nothing waits or allocates. After an error the results and the reserve are invalid.
///
/// # Safety
/// All memory is the stream's device's, as large as the pass says.
pub unsafe fn run(
    pass: &Pass,
    engine: &Engine,
    call: &RnnBackwardData,
    weights: &[Weights],
    runner: &Runner,
) -> Result<(), String> {
    let (network, packing, stream, places) = (&pass.network, &pass.packing, pass.stream, &pass.back);
    let [at_hx, at_cx, at_dhy, at_dcy, at_dhx, at_dcx] = places.states;
    let (hidden, directions) = (network.hidden, network.directions());
    let scratch = Scratch::of(pass.cell, pass.element, hidden, packing.batch()).ok_or("states are too large")?;
    // SAFETY: the caller promises all memory; each part lies in the workspace or the reserve.
    unsafe {
        let exchange_bytes = runner.exchange_bytes();
        let zeroed = (places.exchange, directions * exchange_bytes);
        let running = Running::begin(pass, engine, call.workspace, call.reserve, &places.order, zeroed)?;
        running.claim(State::Forward, State::Gradients)?;
        let y = running.packed(call.y, places.y, pass.output())?;
        let mut dy = running.packed(call.dy, places.dy, pass.output())?;
        let [h_width, c_width] = pass.state_widths();
        let (hx, cx) = (running.ranked(call.hx, at_hx, h_width)?, running.ranked(call.cx, at_cx, c_width)?);
        let (dhy, dcy) = (running.ranked(call.dhy, at_dhy, h_width)?, running.ranked(call.dcy, at_dcy, c_width)?);
        let (dhx, dcx) = (running.to_rank(call.dhx, at_dhx), running.to_rank(call.dcx, at_dcx));
        let dx = places.dx.map_or(call.dx, |place| running.part(place));
        let back = BackSteps {
            kernels: &engine.back,
            around: &engine.around,
            cell: pass.cell,
            hidden,
            lengths: &packing.lengths,
            scratch: &scratch,
            allows_tf32: pass.allows_tf32(),
        };
        let (lengths, starts) = running.lengths();
        for layer in (0..network.layers).rev() {
            let output = running.layer_output(layer, y.cast_mut());
            let mut recurrences = Vec::with_capacity(directions);
            let mut projections = Vec::with_capacity(directions);
            for direction in 0..directions {
                let pseudo_layer = layer * directions + direction;
                let saved = &pass.layout.saved[pseudo_layer];
                let own_h = |states: *const c_void| running.state_of(states, h_width, pseudo_layer);
                let own_c = |states: *const c_void| running.state_of(states, c_width, pseudo_layer);
                let column = direction * h_width * network.element();
                let recurrence = BackRecurrence {
                    gates: running.saved(saved.gates),
                    cells: saved.cells.map_or(ptr::null(), |place| running.saved(place).cast_const()),
                    y: output.wrapping_byte_add(column),
                    dy: dy.wrapping_byte_add(column),
                    h0: own_h(hx),
                    c0: own_c(cx),
                    last_dh: own_h(dhy),
                    last_dc: own_c(dcy),
                    first_dh: own_h(dhx).cast_mut(),
                    first_dc: own_c(dcx).cast_mut(),
                    lengths,
                    starts,
                    weights: call.weight_space.wrapping_byte_add(weights[pseudo_layer].recurrent),
                    exchange: running.part(places.exchange + direction * exchange_bytes),
                    y_stride: pass.output() as i32,
                    steps: packing.steps as i32,
                    batch: packing.batch() as i32,
                    reverse: direction as i32,
                };
                let projection = Trained::of(&running, pseudo_layer, call.weight_space, &weights[pseudo_layer])?;
                let Some((projection, parts)) = projection.zip(places.projection) else {
                    recurrences.push(recurrence);
                    continue;
                };
                let BackRecurrence { dy, last_dh, first_dh, .. } = recurrence;
                let [weights, of_outputs, of_last] = projection.begin_backward(&parts, dy, last_dh)?;
                recurrences.push(BackRecurrence {
                    y: projection.of.outputs,
                    dy: of_outputs,
                    h0: ptr::null(),
                    last_dh: of_last,
                    first_dh: ptr::null_mut(),
                    weights,
                    y_stride: hidden as i32,
                    ..recurrence
                });
                projections.push((projection, parts, recurrence.gates, dy, [last_dh, first_dh.cast_const()]));
            }
            launch(&running, &back, &recurrences, runner).map_err(|error| error.to_string())?;
            for (projection, parts, dgates, dy, states) in &projections {
                projection.end_backward(parts, dgates.cast_const(), *dy, *states)?;
            }
            let to = if layer == 0 { Some(dx) } else { places.gradient.map(|place| running.part(place)) };
            let to = to.ok_or("a layer's gradient has no place")?;
            through_inputs(&running, layer, call.weight_space, weights, to)?;
            dy = to;
        }
        running.unpack(call.dx, places.dx, network.input, [0; 4])?;
        running.unrank(call.dhx, at_dhx, h_width)?;
        running.unrank(call.dcx, at_dcx, c_width)?;
        engine.around.spoil(stream, running.is_wrong, results(call, pass)).map_err(|error| error.to_string())
    }
}

/// Launches the gradients of a layer's recurrences, given R: by the persistent kernel, or one time step after the other.
///
/// # Safety
/// As for [`run`].
unsafe fn launch(
    running: &Running,
    back: &BackSteps,
    recurrences: &[BackRecurrence],
    runner: &Runner,
) -> Result<(), Error> {
    let Running { pass, engine, .. } = running;
    let (hidden, places) = (pass.network.hidden, &pass.back);
    let scratch = running.part(places.scratch);
    let at_once = runner.kernel.map_or(1, kernels::Engine::at_once);
    for (number, part) in recurrences.chunks(at_once).enumerate() {
        let persistent = |kernel: &kernels::Engine| {
            let mut dealt = part.to_vec();
            for (direction, recurrence) in dealt.iter_mut().enumerate() {
                let to = running.part(places.dealt + (number * at_once + direction) * places.dealt_bytes);
                let units = kernel.configuration().dealt_units(hidden);
                let [gates, hidden, units] = [pass.network.gates(), hidden, units].map(|count| count as i32);
                let columns = Dealt { from: recurrence.weights, to, gates, hidden, units };
                // SAFETY: the caller promises R. The workspace has room for R as it is dealt out.
                unsafe { engine.around.deal_columns(pass.stream, &columns) }?;
                recurrence.weights = to;
            }
            // SAFETY: the caller's promise.
            unsafe { kernel.launch_back(pass.stream, &dealt) }
        };
        if runner.launch(persistent) {
            continue;
        }
        // SAFETY: the caller's promise; a failed launch has begun nothing of this part.
        part.iter().try_for_each(|recurrence| unsafe { back.launch(pass.stream, recurrence, scratch) })?;
    }
    Ok(())
}

/// Writes the gradient of a layer's input: the sum over directions of dgates W, behind dropout.
///
/// # Safety
/// As for [`run`].
unsafe fn through_inputs(
    running: &Running,
    layer: usize,
    weight_space: *const c_void,
    weights: &[Weights],
    to: *mut c_void,
) -> Result<(), String> {
    let Running { pass, engine, .. } = running;
    let (network, packing, stream, places) = (&pass.network, &pass.packing, pass.stream, &pass.back);
    let (width, directions) = (network.layer_input(layer), network.directions());
    let count = packing.rows * width;
    let drops = layer > 0 && pass.dropout.is_some();
    let text = |error: Error| error.to_string();
    for direction in 0..directions {
        let pseudo_layer = layer * directions + direction;
        // With dropout each direction has a mask of its own, which cuDNN applies to elements.
        let (products, output, beta) = match (drops, directions) {
            (true, _) => (places.through.map(|place| running.part(place)), pass.element, 0.0),
            (false, 1) => (Some(to), pass.element, 0.0),
            (false, _) => (places.sum.map(|place| running.part(place)), Element::Float, direction as f32),
        };
        let products = products.ok_or("a product has no place")?;
        let gates = running.saved(pass.layout.saved[pseudo_layer].gates).cast_const();
        let w = weight_space.wrapping_byte_add(weights[pseudo_layer].input);
        let product = Product {
            left: Factor { data: gates, stride: pass.saved_columns(), is_transposed: false },
            right: Factor { data: w, stride: width, is_transposed: false },
            products,
            output,
            beta,
            rows: packing.rows,
            columns: width,
            depth: network.gates() * network.hidden,
            workspace: (ptr::null_mut(), 0),
        };
        // SAFETY: the caller's promise.
        unsafe {
            let copies = running.part(places.copies);
            engine.around.multiply_large(stream, &product, copies, pass.allows_tf32()).map_err(text)?;
            if drops {
                let mask = pass.layout.saved[pseudo_layer].mask.ok_or("a mask has no place")?;
                let second = places.second.map(|place| running.part(place));
                let onto = if direction == 0 { to } else { second.ok_or("a second direction has no place")? };
                let mask = running.saved(mask);
                dropout::apply(running, (products, onto), mask, false)?;
                if direction > 0 {
                    engine.around.add(stream, to, onto, count).map_err(text)?;
                }
            }
        }
    }
    match places.sum {
        // SAFETY: the caller's promise.
        Some(sum) if !drops => unsafe {
            engine.around.narrow(stream, running.part(sum).cast(), to, count).map_err(text)
        },
        _ => Ok(()),
    }
}
