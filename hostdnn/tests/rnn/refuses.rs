//! Null, garbage and mismatched arguments: a status, never a crash, and nothing written.

use super::call::{Call, Shape, describe, made, sound};
use cudnn_abi::*;
use hostdnn::abi::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

const SHAPE: Shape = Shape {
    cell: CUDNN_LSTM,
    bias: CUDNN_RNN_DOUBLE_BIAS,
    direction: CUDNN_BIDIRECTIONAL,
    data_type: CUDNN_DATA_FLOAT,
    sizes: [3, 5, 5, 2],
    layout: CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
    steps: 4,
    input_mode: CUDNN_LINEAR_INPUT,
    dropout: null_mut(),
};
const LENGTHS: [i32; 2] = [4, 2];

/// Memory for every pointer; memory to be written holds NaN.
struct Memory([Vec<f32>; 16]);

impl Memory {
    /// Calls that would succeed, in training.
    fn call(&mut self, dropout: cudnnDropoutDescriptor_t) -> Call {
        let call = describe(&Shape { dropout, ..SHAPE }, &LENGTHS, CUDNN_FWD_MODE_TRAINING, &mut 0.0);
        let [weights, workspace, reserve] =
            [call.weight_bytes, call.workspace_bytes, call.reserve_bytes].map(|b| b / 4);
        let counts = [24, 24, 80, 80, 40, 40, 40, 40, 40, 40, 40, 40, weights, weights, workspace, reserve];
        self.0 = counts.map(|count| vec![f32::NAN; count]);
        let [x, dx, y, dy, hx, dhx, hy, dhy, cx, dcx, cy, dcy, weights, dweights, workspace, reserve] =
            self.0.each_mut().map(|memory| memory.as_mut_ptr().cast::<c_void>());
        let call = Call { x, y, hx, hy, cx, cy, weights, workspace, reserve, ..call };
        Call { dx, dy, dhx, dhy, dcx, dcy, dweights, ..call }
    }

    fn untouched(&self) -> bool {
        self.0.iter().flatten().all(|value| value.is_nan())
    }
}

// SAFETY of all unsafe blocks below: pointers are null, live descriptors, or valid for the size that they stand for.
#[test]
fn a_call_with_one_thing_wrong_is_refused_and_writes_nothing() {
    let mut memory = Memory(Default::default());
    let call = memory.call(null_mut());
    let other = describe(&Shape { sizes: [4, 6, 6, 1], ..SHAPE }, &LENGTHS, CUDNN_FWD_MODE_INFERENCE, &mut 0.0);
    let [unset_rnn, unset_data, unset_tensor] = [
        made(cudnnCreateRNNDescriptor).cast::<c_void>(),
        made(cudnnCreateRNNDataDescriptor).cast(),
        made(cudnnCreateTensorDescriptor).cast(),
    ];
    let odd = |pointer: *mut c_void| pointer.wrapping_byte_add(1);
    let all = [
        ("no handle", Call { handle: null_mut(), ..call }),
        ("a handle of another kind", Call { handle: call.rnn.cast(), ..call }),
        ("no RNN", Call { rnn: null_mut(), ..call }),
        ("an RNN of another kind", Call { rnn: call.x_data.cast(), ..call }),
        ("an unset RNN", Call { rnn: unset_rnn.cast(), ..call }),
        ("another RNN", Call { rnn: other.rnn, ..call }),
        ("no x descriptor", Call { x_data: null_mut(), ..call }),
        ("an x descriptor of another kind", Call { x_data: call.h.cast(), ..call }),
        ("an unset x descriptor", Call { x_data: unset_data.cast(), ..call }),
        ("another x", Call { x_data: other.x_data, ..call }),
        ("no y descriptor", Call { y_data: null_mut(), ..call }),
        ("another y", Call { y_data: other.y_data, ..call }),
        ("no y", Call { y: null_mut(), ..call }),
        ("an odd y", Call { y: odd(call.y), ..call }),
        ("no h descriptor", Call { h: null_mut(), ..call }),
        ("an unset h descriptor", Call { h: unset_tensor.cast(), ..call }),
        ("another h", Call { h: other.h, ..call }),
        ("an odd hx", Call { hx: odd(call.hx.cast_mut()), ..call }),
        ("too few weights", Call { weight_bytes: call.weight_bytes - 1, ..call }),
        ("no workspace", Call { workspace: null_mut(), ..call }),
        ("too little workspace", Call { workspace_bytes: call.workspace_bytes - 1, ..call }),
        ("no reserve", Call { reserve: null_mut(), ..call }),
        ("too little reserve", Call { reserve_bytes: call.reserve_bytes - 1, ..call }),
    ];
    let forward = [
        ("no mode", Call { mode: 2, ..call }),
        ("no x", Call { x: null(), ..call }),
        ("an odd x", Call { x: odd(call.x.cast_mut()), ..call }),
        ("no c descriptor", Call { c: null_mut(), ..call }),
        ("another c", Call { c: other.c, ..call }),
        ("an odd cy", Call { cy: odd(call.cy), ..call }),
        ("no weights", Call { weights: null(), ..call }),
        ("odd weights", Call { weights: odd(call.weights.cast_mut()), ..call }),
    ];
    let no_dh = Call { dhy: null(), dhx: null_mut(), ..call };
    let no_dc = Call { dcy: null(), dcx: null_mut(), ..call };
    let data = [
        ("no dy", Call { dy: null(), ..call }),
        ("an odd dy", Call { dy: odd(call.dy.cast_mut()), ..call }),
        ("no dx", Call { dx: null_mut(), ..call }),
        ("an odd dx", Call { dx: odd(call.dx), ..call }),
        ("no h descriptor for dhy", Call { h: null_mut(), dhx: null_mut(), ..call }),
        ("no h descriptor for dhx", Call { h: null_mut(), dhy: null(), ..call }),
        ("no c descriptor for dcy", Call { c: null_mut(), dcx: null_mut(), ..call }),
        ("no c descriptor for dcx", Call { c: null_mut(), dcy: null(), ..call }),
        ("another c", Call { c: other.c, ..call }),
        ("an odd cx", Call { cx: odd(call.cx.cast_mut()), ..call }),
        ("an odd dhy", Call { dhy: odd(call.dhy.cast_mut()), ..call }),
        ("an odd dhx", Call { dhx: odd(call.dhx), ..call }),
        ("an odd dcy", Call { dcy: odd(call.dcy.cast_mut()), ..call }),
        ("an odd dcx", Call { dcx: odd(call.dcx), ..call }),
        ("no weights", Call { weights: null(), ..call }),
        ("odd weights", Call { weights: odd(call.weights.cast_mut()), ..call }),
    ];
    let weights = [
        ("a mode below", Call { add: -1, ..call }),
        ("a mode above", Call { add: 2, ..call }),
        ("no x", Call { x: null(), ..call }),
        ("an odd x", Call { x: odd(call.x.cast_mut()), ..call }),
        ("no gradients", Call { dweights: null_mut(), ..call }),
        ("odd gradients", Call { dweights: odd(call.dweights), ..call }),
    ];
    type Run = fn(&Call) -> cudnnStatus_t;
    let runs: [(Run, &[(&str, Call)]); 3] =
        [(Call::run, &forward), (Call::backward_data, &data), (Call::backward_weights, &weights)];
    for (i, (run, own)) in runs.into_iter().enumerate() {
        for (what, call) in all.iter().chain(own) {
            assert_eq!(run(call), CUDNN_STATUS_BAD_PARAM, "{what}, call {i}");
            assert!(memory.untouched(), "{what}, call {i}");
        }
    }
    let set = Call { add: CUDNN_WGRAD_MODE_SET, ..call };
    assert_eq!(set.backward_weights(), CUDNN_STATUS_NOT_SUPPORTED);
    assert_eq!(Call { rnn: null_mut(), ..set }.backward_weights(), CUDNN_STATUS_NOT_SUPPORTED);
    assert_eq!(Call { x_data: null_mut(), ..set }.backward_weights(), CUDNN_STATUS_BAD_PARAM);
    assert!(memory.untouched());
    // A descriptor of states that are null is not looked at.
    for backward in [call, Call { h: null_mut(), ..no_dh }, Call { c: null_mut(), ..no_dc }] {
        sound(call.run());
        sound(backward.backward_data());
        sound(Call { h: null_mut(), hx: null(), ..call }.backward_weights());
    }
    assert!(!memory.untouched());
}

#[test]
fn places_of_weights_are_refused_without_a_crash() {
    let call = describe(&SHAPE, &LENGTHS, CUDNN_FWD_MODE_INFERENCE, &mut 0.0);
    let [matrix, bias] = [0; 2].map(|_| made(cudnnCreateTensorDescriptor));
    let (mut m, mut b) = (null_mut(), null_mut());
    let (space, bytes) = (0x1000 as *const c_void, call.weight_bytes);
    let (m, b) = (&raw mut m, &raw mut b);
    // SAFETY: see above.
    unsafe {
        for (what, status) in [
            ("handle", cudnnGetRNNWeightParams(null_mut(), call.rnn, 0, bytes, space, 0, matrix, m, bias, b)),
            ("RNN", cudnnGetRNNWeightParams(call.handle, null_mut(), 0, bytes, space, 0, matrix, m, bias, b)),
            ("matrix", cudnnGetRNNWeightParams(call.handle, call.rnn, 0, bytes, space, 0, null_mut(), m, bias, b)),
            ("place", cudnnGetRNNWeightParams(call.handle, call.rnn, 0, bytes, space, 0, matrix, null_mut(), bias, b)),
            ("bias", cudnnGetRNNWeightParams(call.handle, call.rnn, 0, bytes, space, 0, matrix, m, null_mut(), b)),
            (
                "its place",
                cudnnGetRNNWeightParams(call.handle, call.rnn, 0, bytes, space, 0, matrix, m, bias, null_mut()),
            ),
        ] {
            assert_eq!(status, CUDNN_STATUS_BAD_PARAM, "no {what}");
        }
        sound(cudnnGetRNNWeightParams(call.handle, call.rnn, 0, bytes, space, 0, matrix, m, bias, b));
    }
}

#[test]
fn sizes_that_overflow_are_refused() {
    let (handle, rnn) = (made(cudnnCreate), made(cudnnCreateRNNDescriptor));
    let data = made(cudnnCreateRNNDataDescriptor);
    let (most, mut size) = (i32::MAX, 77);
    // SAFETY: see above.
    unsafe {
        for [input, hidden, layers] in [[most, most, most], [1, most, most], [most, 1 << 30, 1 << 10]] {
            let none = null_mut();
            sound(cudnnSetRNNDescriptor_v8(rnn, 0, 2, 2, 1, 0, 0, 0, 0, input, hidden, hidden, layers, none, 1));
            assert_eq!(cudnnGetRNNWeightSpaceSize(handle, rnn, &mut size), CUDNN_STATUS_NOT_SUPPORTED);
            sound(cudnnSetRNNDataDescriptor(data, 0, 0, 65535, 1, input, [1].as_ptr(), null_mut()));
            let status = cudnnGetRNNTempSpaceSizes(handle, rnn, 1, data, &mut size, null_mut());
            assert_eq!(status, CUDNN_STATUS_NOT_SUPPORTED);
        }
    }
    assert_eq!(size, 77);
}

#[test]
fn dropout_needs_states_that_are_there() {
    let mut memory = Memory(Default::default());
    let (dropout, handle) = (made(cudnnCreateDropoutDescriptor), made(cudnnCreate));
    let (mut states, mut size) = ([0u8; 64], 0);
    // SAFETY: see above.
    unsafe {
        sound(cudnnDropoutGetStatesSize(handle, &mut size));
        assert!(size <= states.len());
        let place = states.as_mut_ptr().cast();
        // The reserve's size depends on the probability.
        sound(cudnnSetDropoutDescriptor(dropout, handle, 0.5, null_mut(), 0, 7));
        let call = memory.call(dropout);
        let set = |probability: f32, place: *mut c_void, size: usize| {
            let status = cudnnSetDropoutDescriptor(dropout, call.handle, probability, place, size, 7);
            let [input, hidden, projection, layers] = SHAPE.sizes;
            sound(cudnnSetRNNDescriptor_v8(
                call.rnn, 0, 2, 2, 1, 0, 0, 0, 0, input, hidden, projection, layers, dropout, 1,
            ));
            status
        };
        sound(set(0.5, null_mut(), 0));
        assert_eq!(call.run(), CUDNN_STATUS_BAD_PARAM, "no states");
        assert!(memory.untouched());
        assert_eq!(set(0.5, place, size - 1), CUDNN_STATUS_INVALID_VALUE);
        for probability in [-0.5, 1.5, f32::NAN] {
            sound(set(probability, place, size));
            assert_eq!(call.run(), CUDNN_STATUS_BAD_PARAM, "{probability}");
        }
        assert!(memory.untouched());
        sound(set(0.5, place, size));
        let before = states;
        sound(call.run());
        assert_ne!(states, before, "states go on");
        let before = states;
        sound(call.backward_data());
        sound(call.backward_weights());
        assert_eq!(states, before, "backward draws nothing");
    }
}
