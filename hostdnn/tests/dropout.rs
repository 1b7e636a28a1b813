//! Dropout of single tensors: results, the reserve, and refusals.

use crate::rnn::{made, sound};
use cudnn_abi::*;
use hostdnn::abi::*;
use hostdnn::rnn::STATES_BYTES;
use std::ffi::c_void;
use std::ptr::null_mut;

const PROBABILITY: f32 = 0.375; // exact in float, unlike its scale
const DIMS: [i32; 3] = [7, 5, 9];
const COUNT: usize = 7 * 5 * 9;
/// Strides of a tensor with gaps, and the elements that it spans.
const STRIDES: [i32; 3] = [1, 100, 8];
const SPAN: usize = 6 + 4 * 100 + 8 * 8 + 1;

/// The arguments of both calls: `cudnnDropoutForward`'s, in its order.
#[derive(Clone, Copy)]
struct Call {
    handle: cudnnHandle_t,
    dropout: cudnnDropoutDescriptor_t,
    x_tensor: cudnnTensorDescriptor_t,
    x: *mut c_void,
    y_tensor: cudnnTensorDescriptor_t,
    y: *mut c_void,
    reserve: *mut c_void,
    size: usize,
}

// SAFETY of all unsafe blocks below: descriptors are live, and each pointer is null or valid for its data.
impl Call {
    fn forward(&self) -> cudnnStatus_t {
        let c = *self;
        // SAFETY: see above.
        unsafe { cudnnDropoutForward(c.handle, c.dropout, c.x_tensor, c.x, c.y_tensor, c.y, c.reserve, c.size) }
    }

    fn backward(&self) -> cudnnStatus_t {
        let c = *self;
        // SAFETY: see above.
        unsafe { cudnnDropoutBackward(c.handle, c.dropout, c.x_tensor, c.x, c.y_tensor, c.y, c.reserve, c.size) }
    }
}

fn tensor(data_type: cudnnDataType_t, dims: &[i32], strides: Option<&[i32]>) -> cudnnTensorDescriptor_t {
    let (tensor, rank) = (made(cudnnCreateTensorDescriptor), dims.len() as i32);
    // SAFETY: see above.
    sound(unsafe {
        match strides {
            Some(strides) => cudnnSetTensorNdDescriptor(tensor, data_type, rank, dims.as_ptr(), strides.as_ptr()),
            None => cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NCHW, data_type, rank, dims.as_ptr()),
        }
    });
    tensor
}

/// A call on two packed tensors of floats.
fn call(x: &mut [f32], y: &mut [f32], reserve: &mut [u8], states: &mut [u8; STATES_BYTES]) -> Call {
    let (handle, dropout) = (made(cudnnCreate), made(cudnnCreateDropoutDescriptor));
    let [x_tensor, y_tensor] = [(); 2].map(|()| tensor(CUDNN_DATA_FLOAT, &DIMS, None));
    // SAFETY: see above.
    unsafe {
        let states = states.as_mut_ptr().cast();
        sound(cudnnSetDropoutDescriptor(dropout, handle, PROBABILITY, states, STATES_BYTES, 11));
    }
    Call {
        handle,
        dropout,
        x_tensor,
        x: x.as_mut_ptr().cast(),
        y_tensor,
        y: y.as_mut_ptr().cast(),
        reserve: reserve.as_mut_ptr().cast(),
        size: reserve.len(),
    }
}

/// Bytes of the reserve of all tensors here: a bit for each element, in words of 4 bytes.
const RESERVE: usize = COUNT.div_ceil(32) * 4;

#[test]
fn elements_are_dropped_or_scaled_and_gradients_alike() {
    let (mut x, mut y, mut reserve) = (vec![2.0f32; COUNT], vec![f32::NAN; COUNT], vec![0xFFu8; RESERVE]);
    let mut states = [0; STATES_BYTES];
    let call = call(&mut x, &mut y, &mut reserve, &mut states);
    let mut size = 0;
    // SAFETY: see above.
    sound(unsafe { cudnnDropoutGetReserveSpaceSize(call.x_tensor, &mut size) });
    assert_eq!(size, RESERVE);
    sound(call.forward());
    let kept = 2.0 / (1.0 - PROBABILITY);
    assert!(y.iter().all(|&y| y == 0.0 || (y - kept).abs() < 1e-6));
    let (zeros, bits) = (y.iter().filter(|&&y| y == 0.0).count(), reserve.iter().map(|byte| byte.count_ones()));
    assert_eq!(bits.sum::<u32>() as usize, COUNT - zeros, "the reserve has a bit for each kept element");
    let expected = COUNT as f64 * f64::from(PROBABILITY);
    assert!((zeros as f64 - expected).abs() < 5.0 * (expected * 0.625).sqrt(), "{zeros} of {COUNT} are dropped");

    // In place, backward, and again from new states.
    let (first, mut after) = (y.clone(), vec![2.0f32; COUNT]);
    sound(Call { x: after.as_mut_ptr().cast(), y: after.as_mut_ptr().cast(), ..call }.backward());
    assert_eq!(after, first, "gradients are dropped as elements were, also in place");
    sound(call.forward());
    assert_ne!(y, first, "states go on");

    // Strided tensors of doubles draw in the order of indices.
    let (mut x, mut y) = (vec![f64::NAN; SPAN], vec![f64::NAN; COUNT]);
    let index = |i: usize| [i / 45, i / 9 % 5, i % 9];
    let place = |i: usize| index(i).iter().zip(STRIDES).map(|(&index, stride)| index * stride as usize).sum::<usize>();
    (0..COUNT).for_each(|i| x[place(i)] = 2.0);
    // SAFETY: see above.
    sound(unsafe {
        let states = states.as_mut_ptr().cast();
        cudnnSetDropoutDescriptor(call.dropout, call.handle, PROBABILITY, states, STATES_BYTES, 11)
    });
    let (x_tensor, y_tensor) =
        (tensor(CUDNN_DATA_DOUBLE, &DIMS, Some(&STRIDES)), tensor(CUDNN_DATA_DOUBLE, &DIMS, None));
    let (x, to) = (x.as_mut_ptr().cast(), y.as_mut_ptr().cast());
    sound(Call { x_tensor, x, y_tensor, y: to, ..call }.forward());
    assert!(y.iter().zip(&first).all(|(&y, &first)| (y - f64::from(first)).abs() < 1e-6));
}

#[test]
fn a_call_with_one_thing_wrong_is_refused_and_writes_nothing() {
    let (mut x, mut y, mut reserve) = (vec![1.0f32; 2 * COUNT], vec![f32::NAN; 2 * COUNT], vec![0xAAu8; RESERVE]);
    let mut states = [0; STATES_BYTES];
    let call = call(&mut x, &mut y, &mut reserve, &mut states);
    let before = states;
    let float = |dims: &[i32], strides: Option<&[i32]>| tensor(CUDNN_DATA_FLOAT, dims, strides);
    let bad = [
        ("no handle", Call { handle: null_mut(), ..call }),
        ("no dropout descriptor", Call { dropout: null_mut(), ..call }),
        ("a dropout descriptor of another kind", Call { dropout: call.x_tensor.cast(), ..call }),
        ("no x descriptor", Call { x_tensor: null_mut(), ..call }),
        ("an unset x descriptor", Call { x_tensor: made(cudnnCreateTensorDescriptor), ..call }),
        ("no x", Call { x: null_mut(), ..call }),
        ("an odd x", Call { x: call.x.wrapping_byte_add(1), ..call }),
        ("no y descriptor", Call { y_tensor: null_mut(), ..call }),
        ("no y", Call { y: null_mut(), ..call }),
        ("an odd y", Call { y: call.y.wrapping_byte_add(1), ..call }),
        ("another number of elements", Call { y_tensor: float(&[7, 5, 8], None), ..call }),
        ("another type", Call { y_tensor: tensor(CUDNN_DATA_HALF, &DIMS, None), ..call }),
        ("overlapping elements", Call { y_tensor: float(&DIMS, Some(&[1, 1, 1])), ..call }),
        ("a negative stride", Call { y_tensor: float(&DIMS, Some(&[-45, 9, 1])), ..call }),
        ("other places in the same memory", Call { y_tensor: float(&DIMS, Some(&STRIDES)), y: call.x, ..call }),
        ("no reserve", Call { reserve: null_mut(), ..call }),
        ("too little reserve", Call { size: RESERVE - 1, ..call }),
    ];
    let integers = tensor(CUDNN_DATA_INT32, &DIMS, None);
    let unsupported = Call { x_tensor: integers, y_tensor: integers, ..call };
    for run in [Call::forward, Call::backward] {
        for (what, call) in &bad {
            assert_eq!(run(call), CUDNN_STATUS_BAD_PARAM, "{what}");
        }
        assert_eq!(run(&unsupported), CUDNN_STATUS_NOT_SUPPORTED);
        for probability in [-0.5, 1.5, f32::NAN] {
            // SAFETY: see above.
            sound(unsafe { cudnnSetDropoutDescriptor(call.dropout, call.handle, probability, null_mut(), 0, 1) });
            assert_eq!(run(&call), CUDNN_STATUS_BAD_PARAM, "{probability}");
        }
        // SAFETY: see above.
        sound(unsafe { cudnnSetDropoutDescriptor(call.dropout, call.handle, PROBABILITY, null_mut(), 0, 1) });
    }
    let unset = Call { dropout: made(cudnnCreateDropoutDescriptor), ..call };
    assert_eq!(unset.forward(), CUDNN_STATUS_BAD_PARAM, "no states");
    assert!(y.iter().all(|y| y.is_nan()) && reserve.iter().all(|&byte| byte == 0xAA) && states == before);
    sound(unset.backward()); // which draws nothing
    sound(call.forward());

    let mut size = 77;
    // SAFETY: see above.
    unsafe {
        assert_eq!(cudnnDropoutGetReserveSpaceSize(null_mut(), &mut size), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(cudnnDropoutGetReserveSpaceSize(call.x_tensor, null_mut()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(size, 77);
        sound(cudnnDropoutGetReserveSpaceSize(made(cudnnCreateTensorDescriptor), &mut size));
    }
    assert_eq!(size, 4, "as in cuDNN, a descriptor that is not set has one element");
}
