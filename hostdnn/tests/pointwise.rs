//! Element-wise functions against double precision: types, layouts, broadcasting, alpha and beta, NaN.

use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ffi::c_void;
use std::ptr::null_mut;

const TYPES: [cudnnDataType_t; 4] = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];

fn dims(dice: &mut StdRng) -> Vec<usize> {
    // Sometimes large enough to be split among threads.
    let most = if dice.random_bool(0.05) { 24 } else { 6 };
    (0..dice.random_range(4..6)).map(|_| dice.random_range(1..most)).collect()
}

fn strides(dims: &[usize], dice: &mut StdRng) -> Vec<usize> {
    match dice.random_range(0..3) {
        0 => packed(dims),
        1 => channels_last(dims),
        _ => gapped(dims),
    }
}

fn alpha_beta(dice: &mut StdRng) -> (f64, f64) {
    (*[1.0, 0.5, -2.0].choose(dice).unwrap(), *[0.0, 0.0, 1.0, -0.5].choose(dice).unwrap())
}

/// The output's old contents, NaN if `beta` prevents reading them; and their values for the reference.
fn output(ty: cudnnDataType_t, dims: &[usize], beta: f64, dice: &mut StdRng) -> (Operand, Vec<f64>) {
    let strides = strides(dims, dice);
    if beta == 0.0 {
        let out = Operand::poisoned(ty, dims, strides);
        let zeros = vec![0.0; out.count()];
        return (out, zeros);
    }
    let out = Operand::random(ty, dims, strides, dice);
    let before = out.values();
    (out, before)
}

/// `input`, with dimensions of 1 repeated to `out`'s extents.
fn broadcast(input: &Operand, out: &[usize]) -> Vec<f64> {
    let (values, strides) = (input.values(), packed(&input.dims));
    let mut at = vec![0];
    for (i, &dim) in out.iter().enumerate() {
        let stride = if input.dims[i] == 1 { 0 } else { strides[i] };
        at = at.iter().flat_map(|&base| (0..dim).map(move |j| base + j * stride)).collect();
    }
    at.into_iter().map(|i| values[i]).collect()
}

fn check(out: &Operand, want: &[f64], case: &str) {
    let error = relative_error(&out.values(), want);
    assert!(error <= 2.0 * precision(out.data_type), "{case}: error {error:e}");
    out.check_gaps();
}

fn cases(test: impl Fn(&mut StdRng, cudnnDataType_t, &str)) {
    for seed in 0..300 {
        let mut dice = StdRng::seed_from_u64(seed);
        let ty = TYPES[seed as usize % 3];
        test(&mut dice, ty, &format!("seed {seed}, type {ty}"));
    }
}

#[test]
fn add_transform_set_and_scale() {
    let handle = Handle::new();
    cases(|dice, ty, case| {
        let (dims, (alpha, beta)) = (dims(dice), alpha_beta(dice));
        let scales = (Scale::new(alpha, ty), Scale::new(beta, ty));
        let narrow: Vec<usize> = dims.iter().map(|&dim| if dice.random_bool(0.5) { 1 } else { dim }).collect();
        for in_dims in [&narrow, &dims] {
            let a = Operand::random(ty, in_dims, strides(in_dims, dice), dice);
            let (mut c, before) = output(ty, &dims, beta, dice);
            let run = if in_dims == &dims { cudnnTransformTensor } else { cudnnAddTensor };
            // SAFETY: the operands are as long as their descriptors say.
            let status = unsafe {
                run(handle.0, scales.0.pointer(), a.desc, a.pointer(), scales.1.pointer(), c.desc, c.pointer_mut())
            };
            assert_eq!(status, CUDNN_STATUS_SUCCESS, "{case}");
            let want: Vec<f64> = broadcast(&a, &dims).iter().zip(&before).map(|(a, c)| alpha * a + beta * c).collect();
            check(&c, &want, case);
        }

        let mut y = Operand::poisoned(ty, &dims, strides(&dims, dice));
        let value = Operand::random(ty, &[1, 1, 1, 1], vec![1; 4], dice);
        // SAFETY: the tensor is as long as its descriptor says, and the value has the tensor's type.
        unsafe {
            assert_eq!(cudnnSetTensor(handle.0, y.desc, y.pointer_mut(), value.pointer()), CUDNN_STATUS_SUCCESS);
            check(&y, &vec![value.values()[0]; y.count()], case);
            let status = cudnnScaleTensor(handle.0, y.desc, y.pointer_mut(), scales.0.pointer());
            assert_eq!(status, CUDNN_STATUS_SUCCESS);
        }
        check(&y, &vec![alpha * value.values()[0]; y.count()], case);
    });
}

#[test]
fn operations_on_two_tensors() {
    const F: cudnnDataType_t = CUDNN_DATA_FLOAT;
    const D: cudnnDataType_t = CUDNN_DATA_DOUBLE;
    const H: cudnnDataType_t = CUDNN_DATA_HALF;
    const B: cudnnDataType_t = CUDNN_DATA_BFLOAT16;
    let handle = Handle::new();
    let mut op = null_mut();
    // SAFETY: the place is valid for a write.
    assert_eq!(unsafe { cudnnCreateOpTensorDescriptor(&mut op) }, CUDNN_STATUS_SUCCESS);
    // The types of A and B, of C, and of the computation.
    let types = [(F, F, F), (D, D, D), (H, H, F), (H, H, H), (H, F, F), (F, H, F), (B, B, F), (B, F, F), (F, B, F)];
    cases(|dice, _, case| {
        let &(of_inputs, of_output, compute) = types.choose(dice).unwrap();
        let (which, (alpha, beta)) = (dice.random_range(0..6), alpha_beta(dice));
        let alpha2: f64 = *[1.0, -1.0, 0.25].choose(dice).unwrap();
        let dims = dims(dice);
        let narrow: Vec<usize> = dims.iter().map(|&dim| if dice.random_bool(0.5) { 1 } else { dim }).collect();
        let mut a = Operand::random(of_inputs, &dims, strides(&dims, dice), dice);
        if which == CUDNN_OP_TENSOR_SQRT {
            let positive: Vec<f64> = a.values().iter().map(|v| v * alpha.signum() * v.signum()).collect();
            a.fill(&positive);
        }
        let b = Operand::random(of_inputs, &narrow, strides(&narrow, dice), dice);
        let (mut c, before) = output(of_output, &dims, beta, dice);
        let (s1, s2, s3) = (Scale::new(alpha, compute), Scale::new(alpha2, compute), Scale::new(beta, compute));
        // SAFETY: the operands are as long as their descriptors say.
        let statuses = unsafe {
            let set = cudnnSetOpTensorDescriptor(op, which, compute, CUDNN_PROPAGATE_NAN);
            let (a_data, b_data, c_data) = (a.pointer(), b.pointer(), c.pointer_mut());
            let (s1, s2, s3) = (s1.pointer(), s2.pointer(), s3.pointer());
            [set, cudnnOpTensor(handle.0, op, s1, a.desc, a_data, s2, b.desc, b_data, s3, c.desc, c_data)]
        };
        assert_eq!(statuses, [CUDNN_STATUS_SUCCESS; 2], "{case}");
        let f = |a: f64, b: f64| match which {
            CUDNN_OP_TENSOR_ADD => a + b,
            CUDNN_OP_TENSOR_MUL => a * b,
            CUDNN_OP_TENSOR_MIN => a.min(b),
            CUDNN_OP_TENSOR_MAX => a.max(b),
            CUDNN_OP_TENSOR_SQRT => a.sqrt(),
            _ => 1.0 - a,
        };
        let want: Vec<f64> = (a.values().iter().zip(broadcast(&b, &dims)).zip(&before))
            .map(|((a, b), c)| f(alpha * a, alpha2 * b) + beta * c)
            .collect();
        check(&c, &want, &format!("{case}, operation {which}, {of_inputs} to {of_output}"));
    });
    // SAFETY: the operands are as long as their descriptors say.
    unsafe {
        let one = Scale::new(1.0, F);
        let half = Operand::poisoned(H, &[1, 1, 2, 2], packed(&[1, 1, 2, 2]));
        let mut double = Operand::poisoned(D, &[1, 1, 2, 2], packed(&[1, 1, 2, 2]));
        assert_eq!(cudnnSetOpTensorDescriptor(op, 0, F, 0), CUDNN_STATUS_SUCCESS);
        let (h, s, d) = (half.pointer(), one.pointer(), double.pointer_mut());
        let status = cudnnOpTensor(handle.0, op, s, half.desc, h, s, half.desc, h, s, double.desc, d);
        assert_eq!(status, CUDNN_STATUS_NOT_SUPPORTED, "half to double");
        cudnnDestroyOpTensorDescriptor(op);
    }
}

/// The function and its derivative at `x`, from their definitions.
fn activation(mode: cudnnActivationMode_t, coef: f64, beta: f64, x: f64) -> (f64, f64) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match mode {
        CUDNN_ACTIVATION_SIGMOID => (sigmoid(x), sigmoid(x) * (1.0 - sigmoid(x))),
        CUDNN_ACTIVATION_RELU => (x.max(0.0), if x > 0.0 { 1.0 } else { 0.0 }),
        CUDNN_ACTIVATION_TANH => (x.tanh(), 1.0 - x.tanh().powi(2)),
        CUDNN_ACTIVATION_CLIPPED_RELU => (x.clamp(0.0, coef), if x > 0.0 && x < coef { 1.0 } else { 0.0 }),
        CUDNN_ACTIVATION_ELU if x > 0.0 => (x, 1.0),
        CUDNN_ACTIVATION_ELU => (coef * (x.exp() - 1.0), coef * x.exp()),
        CUDNN_ACTIVATION_SWISH => {
            let s = sigmoid(beta * x);
            (x * s, s + beta * x * s * (1.0 - s))
        }
        _ => unreachable!(),
    }
}

#[test]
fn activations_and_their_gradients() {
    let handle = Handle::new();
    let mut desc = null_mut();
    // SAFETY: the place is valid for a write.
    assert_eq!(unsafe { cudnnCreateActivationDescriptor(&mut desc) }, CUDNN_STATUS_SUCCESS);
    cases(|dice, ty, case| {
        let mode = *[0, 1, 2, 3, 4, 6].choose(dice).unwrap();
        let (coef, swish) = (dice.random_range(0.2..0.9), dice.random_range(0.5..2.0));
        let (dims, (alpha, beta)) = (dims(dice), alpha_beta(dice));
        let (one, zero) = (Scale::new(1.0, ty), Scale::new(0.0, ty));
        let scales = (Scale::new(alpha, ty), Scale::new(beta, ty));
        let x = Operand::random(ty, &dims, strides(&dims, dice), dice);
        let (mut out, before) = output(ty, &dims, beta, dice);
        // SAFETY: the operands are as long as their descriptors say.
        let run = |alpha: &Scale, beta: &Scale, y: cudnnTensorDescriptor_t, data: *mut c_void| unsafe {
            assert_eq!(cudnnSetActivationDescriptor(desc, mode, CUDNN_PROPAGATE_NAN, coef), CUDNN_STATUS_SUCCESS);
            assert_eq!(cudnnSetActivationDescriptorSwishBeta(desc, swish), CUDNN_STATUS_SUCCESS);
            let (alpha, beta) = (alpha.pointer(), beta.pointer());
            cudnnActivationForward(handle.0, desc, alpha, x.desc, x.pointer(), beta, y, data)
        };
        assert_eq!(run(&scales.0, &scales.1, out.desc, out.pointer_mut()), CUDNN_STATUS_SUCCESS, "{case}");
        let pairs: Vec<(f64, f64)> = x.values().iter().map(|&x| activation(mode, coef, swish, x)).collect();
        let want: Vec<f64> = pairs.iter().zip(&before).map(|((y, _), out)| alpha * y + beta * out).collect();
        check(&out, &want, &format!("{case}, forward mode {mode}"));

        let mut y = Operand::poisoned(ty, &dims, strides(&dims, dice));
        assert_eq!(run(&one, &zero, y.desc, y.pointer_mut()), CUDNN_STATUS_SUCCESS, "{case}");
        let dy = Operand::random(ty, &dims, strides(&dims, dice), dice);
        let (mut dx, before) = output(ty, &dims, beta, dice);
        let (s, t) = (scales.0.pointer(), scales.1.pointer());
        let (out, into) = (dx.pointer_mut(), dx.desc);
        // SAFETY: the operands are as long as their descriptors say.
        let status = unsafe {
            let (y_data, dy_data, x_data) = (y.pointer(), dy.pointer(), x.pointer());
            cudnnActivationBackward(handle.0, desc, s, y.desc, y_data, dy.desc, dy_data, x.desc, x_data, t, into, out)
        };
        assert_eq!(status, CUDNN_STATUS_SUCCESS, "{case}");
        let want: Vec<f64> =
            pairs.iter().zip(dy.values()).zip(&before).map(|(((_, d), dy), dx)| alpha * d * dy + beta * dx).collect();
        let error = relative_error(&dx.values(), &want);
        // The derivative is computed from the stored, rounded y.
        assert!(error <= 16.0 * precision(ty), "{case}, backward mode {mode}: error {error:e}");
        dx.check_gaps();
    });
    // SAFETY: the descriptor was made above, and is used no more.
    unsafe { cudnnDestroyActivationDescriptor(desc) };
}

#[test]
fn relu_hands_nan_on_if_told_to() {
    let handle = Handle::new();
    let one = Scale::new(1.0, CUDNN_DATA_FLOAT);
    let zero = Scale::new(0.0, CUDNN_DATA_FLOAT);
    let mut desc = null_mut();
    let mut x = Operand::poisoned(CUDNN_DATA_FLOAT, &[1, 1, 1, 2], packed(&[1, 1, 1, 2]));
    x.fill(&[f64::NAN, -1.0]);
    // SAFETY: the operands are as long as their descriptors say.
    let relu = |desc, nan| unsafe {
        assert_eq!(cudnnSetActivationDescriptor(desc, CUDNN_ACTIVATION_RELU, nan, 0.0), CUDNN_STATUS_SUCCESS);
        let mut y = Operand::poisoned(CUDNN_DATA_FLOAT, &[1, 1, 1, 2], packed(&[1, 1, 1, 2]));
        let (s, t, data) = (one.pointer(), zero.pointer(), y.pointer_mut());
        let status = cudnnActivationForward(handle.0, desc, s, x.desc, x.pointer(), t, y.desc, data);
        assert_eq!(status, CUDNN_STATUS_SUCCESS);
        y.values()
    };
    // SAFETY: the place is valid for a write, and the descriptor is destroyed once.
    unsafe {
        assert_eq!(cudnnCreateActivationDescriptor(&mut desc), CUDNN_STATUS_SUCCESS);
        assert_eq!(relu(desc, CUDNN_NOT_PROPAGATE_NAN), [0.0, 0.0]);
        assert!(relu(desc, CUDNN_PROPAGATE_NAN)[0].is_nan());
        cudnnDestroyActivationDescriptor(desc);
    }
}

#[test]
fn the_bias_gradient_sums_all_but_channels() {
    let handle = Handle::new();
    cases(|dice, ty, case| {
        let (dims, (alpha, beta)) = (dims(dice), alpha_beta(dice));
        let bias_dims: Vec<usize> = (0..dims.len()).map(|i| if i == 1 { dims[1] } else { 1 }).collect();
        let scales = (Scale::new(alpha, ty), Scale::new(beta, ty));
        let dy = Operand::random(ty, &dims, strides(&dims, dice), dice);
        let (mut db, before) = output(ty, &bias_dims, beta, dice);
        let (s, t, data) = (scales.0.pointer(), scales.1.pointer(), db.pointer_mut());
        // SAFETY: the operands are as long as their descriptors say.
        let status = unsafe { cudnnConvolutionBackwardBias(handle.0, s, dy.desc, dy.pointer(), t, db.desc, data) };
        assert_eq!(status, CUDNN_STATUS_SUCCESS, "{case}");
        let image: usize = dims[2..].iter().product();
        let mut want: Vec<f64> = before.iter().map(|b| beta * b).collect();
        for (i, value) in dy.values().iter().enumerate() {
            want[i / image % dims[1]] += alpha * value;
        }
        let error = relative_error(&db.values(), &want);
        // Both sums are in double precision, in different orders.
        let sums = (dims[0] * image) as f64 * precision(CUDNN_DATA_DOUBLE);
        assert!(error <= 2.0 * precision(ty) + sums, "{case}: error {error:e}");
        db.check_gaps();
    });
}
