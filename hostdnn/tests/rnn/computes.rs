//! Calls against the oracle: null tensors are skipped, states may be changed in place, and temporary spaces have the
//! library's sizes and any alignment.

use super::call::{Shape, describe};
use cudnn_abi::*;
use hostdnn::rnn::{Cell, Layout, Network, Sequences, oracle};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::ptr::null_mut;

/// The contents of temporary spaces at their ends, before and after.
const CANARY: u8 = 0x5A;

pub fn network(shape: &Shape) -> Network {
    let [input, hidden, projection, layers] = shape.sizes.map(|size| size as usize);
    Network {
        cell: [Cell::Relu, Cell::Tanh, Cell::Lstm, Cell::Gru][shape.cell as usize],
        input_bias: matches!(shape.bias, CUDNN_RNN_SINGLE_INP_BIAS | CUDNN_RNN_DOUBLE_BIAS),
        recurrent_bias: matches!(shape.bias, CUDNN_RNN_SINGLE_REC_BIAS | CUDNN_RNN_DOUBLE_BIAS),
        directions: shape.direction as usize + 1,
        layers,
        input,
        hidden,
        projection,
        skip_input: shape.input_mode == CUDNN_SKIP_INPUT,
        clip: None,
    }
}

pub fn sequences(shape: &Shape, lengths: &[i32]) -> Sequences {
    let layouts = [Layout::SequenceMajor, Layout::Packed, Layout::BatchMajor];
    let lengths = lengths.iter().map(|&length| length as usize).collect();
    Sequences::new(layouts[shape.layout as usize], shape.steps as usize, lengths)
}

/// A network of doubles without dropout, and the lengths of its sequences.
pub fn random_shape(rng: &mut StdRng) -> (Shape, Vec<i32>) {
    let (cell, hidden) = (rng.random_range(0..4), rng.random_range(1..20));
    let projection = if cell == CUDNN_LSTM && rng.random_bool(0.3) { rng.random_range(1..=hidden) } else { hidden };
    let layout = rng.random_range(0..3);
    let packed = layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    let mut lengths: Vec<i32> = (0..rng.random_range(1..6)).map(|_| rng.random_range(i32::from(packed)..7)).collect();
    if packed {
        lengths.sort_unstable_by(|a, b| b.cmp(a));
    }
    let input_mode = if rng.random_bool(0.2) { CUDNN_SKIP_INPUT } else { CUDNN_LINEAR_INPUT };
    let input = if input_mode == CUDNN_SKIP_INPUT { hidden } else { rng.random_range(1..12) };
    let shape = Shape {
        cell,
        bias: rng.random_range(0..4),
        direction: rng.random_range(0..2),
        data_type: CUDNN_DATA_DOUBLE,
        sizes: [input, hidden, projection, rng.random_range(1..4)],
        layout,
        steps: if packed { lengths[0] } else { 7 },
        input_mode,
        dropout: null_mut(),
    };
    (shape, lengths)
}

/// Makes a random call and checks its results.
fn check(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (shape, lengths) = random_shape(&mut rng);
    let cell = shape.cell;
    let mode = rng.random_range(0..2);
    let mut fill = 0.25;
    let mut call = describe(&shape, &lengths, mode, &mut fill);
    let network = network(&shape);
    let sequences = sequences(&shape, &lengths);

    let mut random = |count: usize| -> Vec<f64> { (0..count).map(|_| rng.random_range(-0.5..0.5)).collect() };
    let (weights, x) = (random(call.weight_bytes / 8), random(sequences.memory_rows() * network.input));
    let states = network.pseudo_layers() * lengths.len();
    let cells = if cell == CUDNN_LSTM { states * network.hidden } else { 0 };
    let initial = [random(states * network.projection), random(cells)];
    // For each state: the initial one is given or null; the last one is wanted, perhaps in place, or null.
    let [given, wanted, in_place] = [(); 3].map(|()| [(); 2].map(|()| rng.random_bool(0.6)));
    let mut last = initial.each_ref().map(|state| vec![f64::NAN; state.len()]);
    let mut first = initial.clone();
    for i in 0..2 {
        if in_place[i] && given[i] {
            last[i].clone_from(&first[i]);
        }
    }
    let place = |i: usize, first: &mut [Vec<f64>; 2], last: &mut [Vec<f64>; 2]| {
        let to = if wanted[i] { last[i].as_mut_ptr() } else { null_mut() };
        let from = match (given[i], in_place[i] && wanted[i]) {
            (false, _) => null_mut(),
            (true, true) => to,
            (true, false) => first[i].as_mut_ptr(),
        };
        (from.cast_const().cast(), to.cast())
    };
    (call.hx, call.hy) = place(0, &mut first, &mut last);
    if cell == CUDNN_LSTM {
        (call.cx, call.cy) = place(1, &mut first, &mut last);
    }
    let mut y = vec![f64::NAN; sequences.memory_rows() * network.output()];
    (call.x, call.y, call.weights) = (x.as_ptr().cast(), y.as_mut_ptr().cast(), weights.as_ptr().cast());
    let odd = [rng.random_range(0..16), rng.random_range(0..16)];
    let mut spaces = [call.workspace_bytes, call.reserve_bytes].map(|bytes| vec![CANARY; bytes + 32]);
    let [workspace, reserve] = &mut spaces;
    (call.workspace, call.reserve) = (workspace[odd[0]..].as_mut_ptr().cast(), reserve[odd[1]..].as_mut_ptr().cast());

    assert_eq!(call.run(), CUDNN_STATUS_SUCCESS, "seed {seed}: {shape:?}");
    let [hx, cx] = [0, 1].map(|i| given[i].then_some(&*initial[i]));
    let inputs = oracle::Inputs { x: &x, weights: &weights, hx, cx, masks: None };
    let want = oracle::forward(&network, &sequences, inputs, fill);
    for (name, got, want, there) in
        [("y", &y, &want.y, true), ("hy", &last[0], &want.hy, wanted[0]), ("cy", &last[1], &want.cy, wanted[1])]
    {
        assert_eq!(got.len(), want.len());
        let close = got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-12);
        assert!(close || !there, "seed {seed}: {name} of {shape:?}, lengths {lengths:?}");
    }
    for ((space, odd), bytes) in spaces.iter().zip(odd).zip([call.workspace_bytes, call.reserve_bytes]) {
        let (before, after) = (&space[..odd], &space[odd + bytes..]);
        assert!(before.iter().chain(after).all(|&byte| byte == CANARY), "seed {seed}: outside of a temporary space");
    }
    assert_eq!(call.reserve_bytes == 0, mode == CUDNN_FWD_MODE_INFERENCE);
}

#[test]
fn calls_agree_with_the_oracle() {
    (0..400).for_each(check);
}
