//! Convolutions followed by pointwise operations, and pointwise operations alone, by the graph API, against double
//! precision: additions of a tensor and of a bias, multiplications and ReLU in any order, of several types.

use crate::backend::*;
use crate::case::{Case, Direction, tolerance};
use crate::operand::*;
use cudnn_abi::*;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

/// The next function of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    AddTensor,
    AddBias,
    MultiplyBias,
    Relu,
    Identity,
}

fn compute(data_type: cudnnDataType_t) -> cudnnDataType_t {
    if data_type == CUDNN_DATA_DOUBLE { CUDNN_DATA_DOUBLE } else { CUDNN_DATA_FLOAT }
}

#[test]
fn chains_behind_convolutions() {
    let handle = Handle::new();
    let mut runs = 0;
    for seed in 0..160 {
        let mut dice = StdRng::seed_from_u64(seed);
        let types = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];
        let data_type = types[seed as usize % 4];
        let Some(case) = Case::random(data_type, &mut dice) else { continue };
        // Every other time in PyTorch's order; otherwise in any order.
        let mut links = vec![Link::AddTensor, Link::AddBias, Link::Relu];
        if dice.random_bool(0.5) {
            links.extend([Link::MultiplyBias, Link::Identity]);
            links.shuffle(&mut dice);
            links.truncate(dice.random_range(1..6));
        }
        let out_dims = case.y.dims.clone();
        let bias_dims: Vec<usize> = (0..out_dims.len()).map(|i| if i == 1 { out_dims[1] } else { 1 }).collect();
        let in_place = links[0] == Link::AddTensor && dice.random_bool(0.4);
        let z_strides = if in_place { case.y.strides.clone() } else { gapped(&out_dims) };
        // A two-byte result may get a float operand added, in its own memory.
        let z_type = match data_type {
            CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16 if !in_place && dice.random_bool(0.3) => CUDNN_DATA_FLOAT,
            other => other,
        };
        let z = Operand::random(z_type, &out_dims, z_strides, &mut dice);
        let bias = Operand::random(data_type, &bias_dims, packed(&bias_dims), &mut dice);
        let scale = Operand::random(data_type, &bias_dims, packed(&bias_dims), &mut dice);
        let alpha = *[1.0, -0.5].choose(&mut dice).unwrap();

        let [x, w] = [tensor(1, &case.x), tensor(2, &case.w)];
        let [z_tensor, bias_tensor, scale_tensor] = [tensor(3, &z), tensor(4, &bias), tensor(5, &scale)];
        let mut current = virtual_tensor(100, compute(data_type), &case.y);
        let geometry = convolution(&case.pad, &case.stride, &case.dilation, case.flip, data_type);
        let mut operations = vec![convolve(&FORWARD, [&x, &w, &current], &geometry, alpha, 0.0)];
        let mut want = case.expected(Direction::Forward, alpha, 0.0);
        let (zs, biases, scales) = (z.values(), bias.values(), scale.values());
        let image: usize = out_dims[2..].iter().product();
        for (i, &link) in links.iter().enumerate() {
            let last = i + 1 == links.len();
            let next =
                if last { tensor(9, &case.y) } else { virtual_tensor(101 + i as i64, compute(data_type), &case.y) };
            let factors = *[[1.0f32, 1.0], [2.0, -0.5]].choose(&mut dice).unwrap();
            let (mode, b) = match link {
                Link::AddTensor => (CUDNN_POINTWISE_ADD, Some(&z_tensor)),
                Link::AddBias => (CUDNN_POINTWISE_ADD, Some(&bias_tensor)),
                Link::MultiplyBias => (CUDNN_POINTWISE_MUL, Some(&scale_tensor)),
                Link::Relu => (CUDNN_POINTWISE_RELU_FWD, None),
                Link::Identity => (CUDNN_POINTWISE_IDENTITY, None),
            };
            // Either operand may be the computed one.
            let swapped = b.is_some() && dice.random_bool(0.3);
            let operation = match b {
                Some(b) if swapped => {
                    pointwise(mode, b, Some(&current), &next, [factors[1], factors[0]], compute(data_type))
                }
                b => pointwise(mode, &current, b, &next, factors, compute(data_type)),
            };
            operations.push(operation);
            current = next;
            let [one, two] = factors.map(f64::from);
            for (at, value) in want.iter_mut().enumerate() {
                let channel = at / image % out_dims[1];
                *value = match link {
                    Link::AddTensor => one * *value + two * zs[at],
                    Link::AddBias => one * *value + two * biases[channel],
                    Link::MultiplyBias => one * *value * two * scales[channel],
                    Link::Relu => (one * *value).max(0.0),
                    Link::Identity => one * *value,
                };
            }
        }
        operations.shuffle(&mut dice);
        let graph = graph(&operations.iter().collect::<Vec<_>>());
        drop(operations);
        let offered = heuristics(&graph, CUDNN_HEUR_MODE_A);
        assert!(!offered.is_empty(), "seed {seed}: {links:?}");
        for configuration in &offered {
            let what =
                format!("seed {seed}: {links:?} in place {in_place}, {:?}, {}", choice(configuration), case.label());
            let plan = plan(configuration).unwrap_or_else(|status| panic!("{what}: {status}"));
            let mut out = Operand::poisoned(data_type, &out_dims, case.y.strides.clone());
            if in_place {
                out.fill(&zs);
            }
            let to = out.pointer_mut().cast_const();
            let z_data = if in_place { to } else { z.pointer() };
            let tensors = [
                (1, case.x.pointer()),
                (2, case.w.pointer()),
                (3, z_data),
                (4, bias.pointer()),
                (5, scale.pointer()),
                (9, to),
            ];
            assert_eq!(execute(handle.0, &plan, &tensors), CUDNN_STATUS_SUCCESS, "{what}: {}", last_error());
            let error = relative_error(&out.values(), &want);
            assert!(error <= tolerance(data_type), "{what}: error {error:e}");
            out.check_gaps();
            runs += 1;
        }
    }
    assert!(runs > 400, "{runs}");
}

#[test]
fn pointwise_operations_alone() {
    let handle = Handle::new();
    let types = [CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_DOUBLE];
    for seed in 0..300 {
        let mut dice = StdRng::seed_from_u64(seed);
        let rank = dice.random_range(3..6);
        let dims: Vec<usize> = (0..rank).map(|_| dice.random_range(1..9)).collect();
        let mode = *[CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_MUL, CUDNN_POINTWISE_IDENTITY, CUDNN_POINTWISE_RELU_FWD]
            .choose(&mut dice)
            .unwrap();
        let mut operand = |dims: &[usize]| {
            let strides = match dice.random_range(0..3) {
                0 => packed(dims),
                1 => channels_last(dims),
                _ => gapped(dims),
            };
            Operand::random(*types.choose(&mut dice).unwrap(), dims, strides, &mut StdRng::seed_from_u64(seed ^ 77))
        };
        let bias_dims: Vec<usize> = (0..rank).map(|i| if i == 1 { dims[1] } else { 1 }).collect();
        let (x, b) = (operand(&dims), operand(if seed % 2 == 0 { &dims } else { &bias_dims }));
        let mut y = {
            let like = operand(&dims);
            Operand::poisoned(like.data_type, &dims, like.strides.clone())
        };
        let factors = *[[1.0f32, 1.0], [-0.5, 2.0]].choose(&mut dice).unwrap();
        let binary = matches!(mode, CUDNN_POINTWISE_ADD | CUDNN_POINTWISE_MUL);
        let [x_tensor, b_tensor, y_tensor] = [tensor(1, &x), tensor(2, &b), tensor(3, &y)];
        let operation =
            pointwise(mode, &x_tensor, binary.then_some(&b_tensor), &y_tensor, factors, compute(y.data_type));
        let graph = graph(&[&operation]);
        let offered = heuristics(&graph, CUDNN_HEUR_MODE_A);
        assert_eq!(offered.len(), 1);
        let plan = plan(&offered[0]).unwrap();
        assert_eq!(workspace_size(&plan), 0);
        let tensors = [(1, x.pointer()), (2, b.pointer()), (3, y.pointer_mut().cast_const())];
        assert_eq!(execute(handle.0, &plan, &tensors), CUDNN_STATUS_SUCCESS, "seed {seed}: {}", last_error());
        let (xs, bs) = (x.values(), b.values());
        let image: usize = dims[2..].iter().product();
        let [one, two] = factors.map(f64::from);
        let want: Vec<f64> = (0..xs.len())
            .map(|i| {
                let other = if bs.len() == xs.len() { bs[i] } else { bs[i / image % dims[1]] };
                match mode {
                    CUDNN_POINTWISE_ADD => one * xs[i] + two * other,
                    CUDNN_POINTWISE_MUL => one * xs[i] * two * other,
                    CUDNN_POINTWISE_IDENTITY => one * xs[i],
                    _ => (one * xs[i]).max(0.0),
                }
            })
            .collect();
        let error = relative_error(&y.values(), &want);
        assert!(error <= precision(y.data_type), "seed {seed}: mode {mode}, error {error:e}");
        y.check_gaps();
    }
}

#[test]
fn relu_clips_where_it_is_told() {
    let handle = Handle::new();
    let x_values = [-3.0, -1.0, 0.5, 2.0, 9.0, f64::NAN];
    let dims = [1, 6, 1];
    for (keeps_nan, at_nan) in [(CUDNN_PROPAGATE_NAN, f64::NAN), (CUDNN_NOT_PROPAGATE_NAN, -1.0)] {
        let mut x = Operand::poisoned(CUDNN_DATA_FLOAT, &dims, packed(&dims));
        x.fill(&x_values);
        let mut y = Operand::poisoned(CUDNN_DATA_FLOAT, &dims, packed(&dims));
        let function = Backend::new(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
            .with(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &[CUDNN_POINTWISE_RELU_FWD])
            .with(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, &[-1.0f64])
            .with(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, &[6.0f64])
            .with(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_FLOAT, &[0.25f32])
            .with(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, &[keeps_nan])
            .finalized();
        let operation = Backend::new(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            .with_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&function])
            .with_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[&tensor(1, &x)])
            .with_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[&tensor(2, &y)])
            .finalized();
        let plan = plan(&heuristics(&graph(&[&operation]), CUDNN_HEUR_MODE_FALLBACK)[0]).unwrap();
        let tensors = [(1, x.pointer()), (2, y.pointer_mut().cast_const())];
        assert_eq!(execute(handle.0, &plan, &tensors), CUDNN_STATUS_SUCCESS);
        let (got, want) = (y.values(), [-1.5, -1.0, 0.5, 2.0, 6.0, at_nan]);
        assert_eq!(got[..5], want[..5]);
        assert_eq!(got[5].to_bits(), (at_nan as f32 as f64).to_bits(), "{} for NaN", got[5]);
    }
}
