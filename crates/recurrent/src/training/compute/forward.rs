//! Forward in training, which saves what gradients need.

use std::ffi::c_void;
use std::ptr;

use crate::kernels;
use crate::network::memory::Memory;
use crate::recurrence::{Recurrence, Recurrent};
use crate::training::compute::dropout;
use crate::training::compute::known::Engine;
use crate::training::compute::pass::{Pass, Running};
use crate::training::compute::projected::Trained;
use crate::training::compute::runner::Runner;
use crate::training::owner::reserve::State;
use cudnn::rnn::Weights;
use gpu::jit::Error;
use gpu::products::Products;

/// Launches forward. Nothing waits or allocates. After an error the results and the reserve are invalid.
///
/// # Safety
/// All memory is the stream's device's, as large as the pass says.
pub unsafe fn run(
    pass: &Pass,
    engine: &Engine,
    memory: &Memory,
    weights: &[Weights],
    reserve: *mut c_void,
    padding_fill: [u8; 8],
    runner: &Runner,
) -> Result<(), String> {
    let (network, packing, stream) = (&pass.network, &pass.packing, pass.stream);
    let places = &pass.forward;
    let text = |error: Error| error.to_string();
    let [at_hx, at_cx, at_hy, at_cy] = places.states;
    // SAFETY: the caller promises all memory; each part lies in the workspace or the reserve.
    unsafe {
        // Blocks of a persistent kernel may write last states while others still read first ones.
        let is_apart = at_hx.is_some() || !overlap(memory, pass.states().map(|count| count * network.element()));
        let runner = &if is_apart { *runner } else { runner.without_kernel() };
        let zeroed = network.directions() * runner.exchange_bytes();
        let exchange_bytes = if runner.kernel.is_some() { runner.exchange_bytes() } else { places.exchange_bytes };
        let running =
            Running::begin(pass, engine, memory.workspace, reserve, &places.order, (places.exchange, zeroed))?;
        engine.around.stamp(stream, reserve, pass.layout.header(State::Forward)).map_err(text)?;
        let mut input = running.packed(memory.x, places.x, network.input)?;
        let [h_width, c_width] = pass.state_widths();
        let (hx, cx) = (running.ranked(memory.hx, at_hx, h_width)?, running.ranked(memory.cx, at_cx, c_width)?);
        let (hy, cy) = (running.to_rank(memory.hy, at_hy), running.to_rank(memory.cy, at_cy));
        let y = places.y.map_or(memory.y, |place| running.part(place));
        let (lengths, starts) = running.lengths();
        let columns = network.gates() * network.hidden;
        for layer in 0..network.layers {
            let output = running.layer_output(layer, y);
            let mut early = false;
            let mut recurrences = Vec::with_capacity(network.directions());
            let mut projections = Vec::with_capacity(network.directions());
            for direction in 0..network.directions() {
                let pseudo_layer = layer * network.directions() + direction;
                let (weights, saved) = (&weights[pseudo_layer], &pass.layout.saved[pseudo_layer]);
                let weight = |place: usize| memory.weight_space.wrapping_byte_add(place);
                let x = dropped(&running, pseudo_layer, input, places.dropped, true)?;
                let products: *mut f32 = running.part(places.products).cast();
                let products = Products {
                    x,
                    weights: weight(weights.input),
                    products: products.wrapping_add(direction * packing.rows * columns),
                    rows: packing.rows as i32,
                    columns: columns as i32,
                    depth: network.layer_input(layer) as i32,
                };
                let (around, copies) = (&engine.around, running.part(places.copies));
                let (product, tf32) = (products.product(), pass.allows_tf32());
                early = !around.multiply_on_copies(stream, &product, copies, tf32).map_err(text)?
                    && around.input.products.multiply(stream, &products, tf32).map_err(text)?;
                let biases = |place: Option<usize>| place.map_or(ptr::null(), weight);
                let own_h = |states: *const c_void| running.state_of(states, h_width, pseudo_layer);
                let own_c = |states: *const c_void| running.state_of(states, c_width, pseudo_layer);
                let y = output.wrapping_byte_add(direction * h_width * network.element());
                let recurrence = Recurrence {
                    input: products.products,
                    weights: weight(weights.recurrent),
                    x: ptr::null(),
                    input_weights: ptr::null(),
                    input_biases: biases(weights.input_bias),
                    recurrent_biases: biases(weights.recurrent_bias),
                    h0: own_h(hx),
                    c0: own_c(cx),
                    y,
                    hy: own_h(hy).cast_mut(),
                    cy: own_c(cy).cast_mut(),
                    gates: running.saved(saved.gates),
                    cells: saved.cells.map_or(ptr::null_mut(), |place| running.saved(place)),
                    lengths,
                    starts,
                    y_stride: pass.output() as i64,
                    time_stride: packing.batch() as i64,
                    batch_stride: 1,
                    fill: [0; 4],
                    steps: packing.steps as i32,
                    batch: packing.batch() as i32,
                    reverse: direction as i32,
                    exchange: running.part(places.exchange + direction * exchange_bytes),
                };
                let projection = Trained::of(&running, pseudo_layer, memory.weight_space, weights)?;
                let Some((projection, parts)) = projection.zip(places.projection) else {
                    recurrences.push(recurrence);
                    continue;
                };
                let Recurrence { h0, hy, .. } = recurrence;
                let weights = projection.begin_forward(&parts, h0, products.products)?;
                // An early launch would not wait for these.
                early = false;
                recurrences.push(recurrence.unprojected(weights, projection.of.outputs, c_width));
                projections.push((projection, products.products, y, [h0, hy.cast_const()]));
            }
            launch(pass, engine, runner, &recurrences, early).map_err(text)?;
            for (projection, scratch, y, states) in &projections {
                projection.of.write_outputs(scratch.cast(), *y, *states, [0; 4]).map_err(text)?;
            }
            input = output;
        }
        let fill = padding_fill[..4].try_into().unwrap_or_default();
        running.unpack(memory.y, places.y, pass.output(), fill)?;
        running.unrank(memory.hy, at_hy, h_width)?;
        running.unrank(memory.cy, at_cy, c_width)
    }
}

/// Returns whether a first state overlaps its last one. h and c have this many bytes.
pub fn overlap(memory: &Memory, bytes: [usize; 2]) -> bool {
    let pairs = [(memory.hx, memory.hy.cast_const()), (memory.cx, memory.cy.cast_const())];
    let is_one = |((first, last), bytes): ((*const c_void, *const c_void), usize)| {
        !first.is_null() && !last.is_null() && first.addr().abs_diff(last.addr()) < bytes
    };
    pairs.into_iter().zip(bytes).any(is_one)
}

/// Launches a layer's recurrences by the persistent kernel, or one time step after the other.
///
/// # Safety
/// As for [`Recurrent::launch`].
unsafe fn launch(
    pass: &Pass,
    engine: &Engine,
    runner: &Runner,
    recurrences: &[Recurrence],
    early: bool,
) -> Result<(), Error> {
    // SAFETY: the caller's promise, for either. Steps compute all that a failed launch may have begun, too.
    unsafe {
        let launch = |kernel: &kernels::Engine| kernel.launch(pass.stream, recurrences, early);
        if runner.launch(launch) {
            return Ok(());
        }
        pass.steps(engine).launch(pass.stream, recurrences, false)
    }
}

/// The input of a pseudo layer: `input`, or a copy at `place` where dropout applies to it. The copy's mask is drawn anew
/// if `draws`, and else the one in the reserve.
///
/// # Safety
/// The memory is as large as the pass says.
pub unsafe fn dropped(
    running: &Running,
    pseudo_layer: usize,
    input: *const c_void,
    place: Option<usize>,
    draws: bool,
) -> Result<*const c_void, String> {
    let Some((mask, place)) = running.pass.layout.saved[pseudo_layer].mask.zip(place) else { return Ok(input) };
    let (to, mask) = (running.part(place), running.saved(mask));
    // SAFETY: the caller promises the memory; the workspace and the reserve have room for both.
    unsafe { dropout::apply(running, (input, to), mask, draws) }?;
    Ok(to)
}
