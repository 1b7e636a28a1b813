//! Training against the oracle: forward, then both backward calls, in all types. Results are poisoned, inputs' padding
//! is NaN, and the masks of dropout are those that `cudnnDropoutForward` draws.

use super::call::{Shape, describe, made, sound};
use super::computes::{network, random_shape, sequences};
use cudnn_abi::*;
use half::{bf16, f16};
use hostdnn::abi::*;
use hostdnn::rnn::{Clip, Network, Number, STATES_BYTES, Sequences, Stored, oracle};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

const NETWORKS: usize = 300;
/// The contents of temporary spaces at their ends, before and after.
const CANARY: u8 = 0x5A;
const DROPOUT_SEED: u64 = 99;

/// A network, and which of the arguments that may be null are not.
#[derive(Debug)]
struct Case {
    shape: Shape,
    lengths: Vec<i32>,
    clip: Option<f64>,
    dropout: f32,
    /// hx, cx, dhy, dcy, dhx, dcx.
    there: [bool; 6],
}

/// The types' names, and their largest errors relative to the norm. A result is rounded once: 2^-11 and 2^-8.
const BOUNDS: [(&str, f64); 4] = [("double", 1e-13), ("float", 1e-5), ("half", 2e-3), ("bfloat16", 1.6e-2)];

fn random_case(rng: &mut StdRng) -> Case {
    let (shape, lengths) = random_shape(rng);
    let clip = (shape.cell == CUDNN_LSTM && rng.random_bool(0.2)).then(|| rng.random_range(0.05..0.5));
    let dropout = if rng.random_bool(0.5) { rng.random_range(0.1..0.9) } else { 0.0 };
    Case { shape, lengths, clip, dropout, there: [(); 6].map(|()| rng.random_bool(0.7)) }
}

/// A dropout descriptor that begins with the same states each time.
fn dropout_descriptor(
    handle: cudnnHandle_t,
    probability: f32,
    states: &mut [u8; STATES_BYTES],
) -> cudnnDropoutDescriptor_t {
    let descriptor = made(cudnnCreateDropoutDescriptor);
    let place = states.as_mut_ptr().cast();
    // SAFETY: the states are as long as said, and outlive the descriptor's use.
    sound(unsafe { cudnnSetDropoutDescriptor(descriptor, handle, probability, place, STATES_BYTES, DROPOUT_SEED) });
    descriptor
}

/// The results of `cudnnDropoutForward` on ones: for each pseudo layer above the first layer, a call on `[rows, D·P]`.
fn masks(case: &Case, network: &Network, sequences: &Sequences) -> Vec<f64> {
    let handle = made(cudnnCreate);
    let mut states = [0; STATES_BYTES];
    let dropout = dropout_descriptor(handle, case.dropout, &mut states);
    let (tensor, mut size) = (made(cudnnCreateTensorDescriptor), 0);
    let shape = [sequences.rows().max(1), network.output(), 1].map(|dim| dim as i32);
    let calls = if sequences.rows() == 0 { 0 } else { network.pseudo_layers() - network.directions };
    let count = sequences.rows() * network.output();
    let mut masks = vec![1.0f64; calls * count];
    // SAFETY: descriptors are live, and the memory is as long as they say.
    unsafe {
        sound(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 3, shape.as_ptr()));
        sound(cudnnDropoutGetReserveSpaceSize(tensor, &mut size));
        for mask in masks.chunks_exact_mut(count.max(1)) {
            let mut reserve = vec![0u8; size];
            let (data, reserve) = (mask.as_mut_ptr().cast::<c_void>(), reserve.as_mut_ptr().cast());
            sound(cudnnDropoutForward(handle, dropout, tensor, data, tensor, data, reserve, size));
        }
    }
    masks
}

/// The errors of dx, dhx, dcx and the weights' gradients relative to their norms; `None` near a place without a
/// derivative.
fn errors<S: Stored + Into<f64>>(case: &Case, data_type: cudnnDataType_t, seed: u64) -> Option<[f64; 4]> {
    let mut rng = StdRng::seed_from_u64(seed);
    let Case { shape, lengths, clip, dropout, there } = case;
    let range = clip.map(|most| Clip { least: -most, most, keep_nan: true });
    let network = Network { clip: range, ..network(shape) };
    let sequences = sequences(shape, lengths);
    let narrow = |value: f64| S::store(convert(value));
    let wide = |values: &[S]| values.iter().map(|&value| value.into()).collect::<Vec<f64>>();
    let scale = 1.0 / (network.hidden as f64).sqrt();
    let mut random = |count: usize, scale: f64| -> Vec<S> {
        (0..count).map(|_| narrow(rng.random_range(-1.0..1.0) * scale)).collect()
    };
    let poisoned = |count: usize| vec![narrow(f64::NAN); count];
    let states = network.pseudo_layers() * lengths.len();
    let (h_len, c_len) =
        (states * network.projection, if shape.cell == CUDNN_LSTM { states * network.hidden } else { 0 });
    let rows = sequences.memory_rows();
    let weights = random(network.weight_count().unwrap(), scale);
    let before = random(weights.len(), 1.0);
    let [mut x, mut dy] = [network.input, network.output()].map(|width| random(rows * width, 1.0));
    let padded = if shape.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED { 0 } else { sequences.batch() };
    for sequence in 0..padded {
        for step in sequences.length(sequence)..sequences.steps() {
            let row = sequences.memory_row(step, sequence);
            x[row * network.input..][..network.input].fill(narrow(f64::NAN));
            dy[row * network.output()..][..network.output()].fill(narrow(f64::NAN));
        }
    }
    // Inputs that are null are zeros for the oracle.
    let [hx, cx, dhy, dcy] = [0, 1, 2, 3].map(|i| {
        let values = random([h_len, c_len][i % 2], 1.0);
        if there[i] { values } else { vec![narrow(0.0); values.len()] }
    });
    let (mut y, mut dx) = (poisoned(rows * network.output()), poisoned(x.len()));
    let (mut dhx, mut dcx, mut dweights) = (poisoned(h_len), poisoned(c_len), before.clone());

    let mut random_states = [0; STATES_BYTES];
    let handle = made(cudnnCreate);
    let descriptor = dropout_descriptor(handle, *dropout, &mut random_states);
    let mut fill = 0.0;
    let shape = Shape { data_type, dropout: descriptor, ..*shape };
    let mut call = describe(&shape, lengths, CUDNN_FWD_MODE_TRAINING, &mut fill);
    if let Some(most) = clip {
        // SAFETY: the descriptor is live.
        sound(unsafe { cudnnRNNSetClip_v9(call.rnn, CUDNN_RNN_CLIP_MINMAX, -most, *most) });
    }
    let place =
        |memory: &mut Vec<S>, there: bool| if there { memory.as_mut_ptr().cast() } else { null_mut::<c_void>() };
    let given = |memory: &[S], there: bool| if there { memory.as_ptr().cast() } else { null::<c_void>() };
    (call.x, call.weights, call.dy) = (x.as_ptr().cast(), weights.as_ptr().cast(), dy.as_ptr().cast());
    (call.hx, call.cx, call.dhy, call.dcy) =
        (given(&hx, there[0]), given(&cx, there[1]), given(&dhy, there[2]), given(&dcy, there[3]));
    (call.dhx, call.dcx) = (place(&mut dhx, there[4]), place(&mut dcx, there[5]));
    (call.y, call.dx, call.dweights) = (place(&mut y, true), place(&mut dx, true), place(&mut dweights, true));
    let mut spaces = [call.workspace_bytes, call.reserve_bytes].map(|bytes| vec![CANARY; bytes + 16]);
    let [workspace, reserve] = spaces.each_mut().map(|space| space[8..].as_mut_ptr());
    (call.workspace, call.reserve) = (workspace.cast(), reserve.cast());
    let poison_workspace = || {
        // SAFETY: the workspace is as long as the library asked for. All bits set are NaN.
        unsafe { workspace.write_bytes(0xFF, call.workspace_bytes) };
    };
    poison_workspace();
    sound(call.run());
    poison_workspace();
    sound(call.backward_data());
    poison_workspace();
    sound(call.backward_weights());
    for space in &spaces {
        let (first, last) = (&space[..8], &space[space.len() - 8..]);
        assert!(first.iter().chain(last).all(|&byte| byte == CANARY), "outside of a temporary space");
    }

    let masks = (*dropout > 0.0).then(|| masks(case, &network, &sequences));
    let [x, weights, hx, cx] = [&x, &weights, &hx, &cx].map(|values| wide(values));
    let inputs = oracle::Inputs { x: &x, weights: &weights, hx: Some(&hx), cx: Some(&cx), masks: masks.as_deref() };
    let loss = oracle::Outcome { y: wide(&dy), hy: wide(&dhy), cy: wide(&dcy) };
    let (_, want) = oracle::gradients(&network, &sequences, inputs, &loss);
    let sums: Vec<f64> = want.dweights.iter().zip(wide(&before)).map(|(gradient, before)| gradient + before).collect();
    let pairs = [(&dx, want.dx, true), (&dhx, want.dhx, there[4]), (&dcx, want.dcx, there[5]), (&dweights, sums, true)];
    let errors = pairs.map(|(got, want, there)| if there { relative_error(&wide(got), &want) } else { 0.0 });
    (want.distance > 1e-4).then_some(errors)
}

fn convert<N: Number>(value: f64) -> N {
    N::of(value)
}

fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(want).map(|(g, w)| g - w));
    error / norm(&mut want.iter().copied()).max(1e-3)
}

#[test]
fn gradients_agree_with_the_oracle() {
    let mut worst = [0.0f64; 4];
    let mut compared = 0;
    for seed in 0.. {
        let case = random_case(&mut StdRng::seed_from_u64(seed));
        let errors = [
            errors::<f64>(&case, CUDNN_DATA_DOUBLE, seed),
            errors::<f32>(&case, CUDNN_DATA_FLOAT, seed),
            errors::<f16>(&case, CUDNN_DATA_HALF, seed),
            errors::<bf16>(&case, CUDNN_DATA_BFLOAT16, seed),
        ];
        let [Some(double), Some(float), Some(half), Some(bfloat16)] = errors else { continue };
        for (i, errors) in [double, float, half, bfloat16].into_iter().enumerate() {
            let (name, bound) = BOUNDS[i];
            // Not `>`: NaN must not pass.
            let close = errors.iter().all(|&error| error <= bound);
            assert!(close, "seed {seed}, {name}: dx, dhx, dcx, dw {errors:?} above {bound}: {case:?}");
            worst[i] = errors.into_iter().fold(worst[i], f64::max);
        }
        compared += 1;
        if compared == NETWORKS {
            eprintln!("{NETWORKS} of {} networks, worst errors {worst:?}", seed + 1);
            return;
        }
    }
}
