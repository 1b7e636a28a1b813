//! Convolutions by the C functions, against loops in double precision: every direction and algorithm, types, layouts,
//! groups, dilation, both modes, alpha and beta, 2-D and 3-D. Canaries follow the workspace; outputs start as NaN.

use crate::case::{Case, Direction, tolerance};
use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ffi::c_void;
use std::ptr::null_mut;

const CANARY: u8 = 0xa5;

/// Runs `algo` into a copy of the output; the workspace has exactly the reported size, and canaries follow it.
fn run(
    handle: &Handle,
    case: &Case,
    direction: Direction,
    algo: i32,
    alpha: f64,
    beta: f64,
    out: &mut Operand,
) -> cudnnStatus_t {
    let Case { data_type, x, w, y, filter, conv, .. } = case;
    let (filter, conv, h) = (*filter, *conv, handle.0);
    let mut size = 0;
    // SAFETY: descriptors are live, and the operands are as long as their descriptors say.
    unsafe {
        let status = match direction {
            Direction::Forward => {
                cudnnGetConvolutionForwardWorkspaceSize(h, x.desc, filter, conv, y.desc, algo, &mut size)
            }
            Direction::BackwardData => {
                cudnnGetConvolutionBackwardDataWorkspaceSize(h, filter, y.desc, conv, x.desc, algo, &mut size)
            }
            Direction::BackwardFilter => {
                cudnnGetConvolutionBackwardFilterWorkspaceSize(h, x.desc, y.desc, conv, filter, algo, &mut size)
            }
        };
        if status != CUDNN_STATUS_SUCCESS {
            return status;
        }
        let mut workspace = vec![CANARY; size + 256];
        let scales = (Scale::new(alpha, *data_type), Scale::new(beta, *data_type));
        let (s, t) = (scales.0.pointer(), scales.1.pointer());
        let scratch: *mut c_void = workspace.as_mut_ptr().cast();
        let (px, pw, py, po) = (x.pointer(), w.pointer(), y.pointer(), out.pointer_mut());
        let status = match direction {
            Direction::Forward => {
                cudnnConvolutionForward(h, s, x.desc, px, filter, pw, conv, algo, scratch, size, t, out.desc, po)
            }
            Direction::BackwardData => {
                cudnnConvolutionBackwardData(h, s, filter, pw, y.desc, py, conv, algo, scratch, size, t, out.desc, po)
            }
            Direction::BackwardFilter => {
                cudnnConvolutionBackwardFilter(h, s, x.desc, px, y.desc, py, conv, algo, scratch, size, t, filter, po)
            }
        };
        assert!(workspace[size..].iter().all(|&byte| byte == CANARY), "written behind the workspace");
        status
    }
}

#[test]
fn all_algorithms_agree_with_double_precision() {
    let handle = Handle::new();
    let mut runs = std::collections::BTreeMap::new();
    for seed in 0..400 {
        let mut dice = StdRng::seed_from_u64(seed);
        let types = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];
        let data_type = types[seed as usize % 4];
        let Some(case) = Case::random(data_type, &mut dice) else { continue };
        let alpha = *[1.0, 0.5, -2.0].choose(&mut dice).unwrap();
        let beta = *[0.0, 0.0, 1.0, -0.5].choose(&mut dice).unwrap();
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
            let (out, algorithms) = match direction {
                Direction::Forward => (&case.y, CUDNN_CONVOLUTION_FWD_ALGO_COUNT),
                Direction::BackwardData => (&case.x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT),
                Direction::BackwardFilter => (&case.w, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT),
            };
            let before = out.values();
            let want = case.expected(direction, alpha, beta);
            for algo in 0..algorithms {
                let mut got = Operand::poisoned(data_type, &out.dims, out.strides.clone());
                if beta != 0.0 {
                    got.fill(&before);
                }
                let status = run(&handle, &case, direction, algo, alpha, beta, &mut got);
                if status == CUDNN_STATUS_NOT_SUPPORTED {
                    continue;
                }
                let what = format!("seed {seed}: {direction:?} {algo}, alpha {alpha} beta {beta}, {}", case.label());
                assert_eq!(status, CUDNN_STATUS_SUCCESS, "{what}");
                let error = relative_error(&got.values(), &want);
                assert!(error <= tolerance(data_type), "{what}: error {error:e}");
                got.check_gaps();
                *runs.entry((direction as i32, algo)).or_insert(0) += 1;
            }
        }
    }
    eprintln!("runs of each (direction, algorithm): {runs:?}");
    // Every algorithm that cuDNN implements has run; Winograd has the fewest shapes to run on.
    let forward = [0, 1, 2, 4, 5, 6, 7].map(|algo| (0, algo));
    let backward_data = [0, 1, 2, 3, 4, 5].map(|algo| (1, algo));
    let backward_filter = [0, 1, 2, 3, 5, 6].map(|algo| (2, algo));
    for kernel in [&forward[..], &backward_data[..], &backward_filter[..]].concat() {
        assert!(runs.get(&kernel).is_some_and(|&count| count > 30), "{kernel:?}: {runs:?}");
    }
}

#[test]
fn bias_and_activation_in_one_go() {
    let handle = Handle::new();
    let mut activation = null_mut();
    // SAFETY: the place is valid for a write.
    assert_eq!(unsafe { cudnnCreateActivationDescriptor(&mut activation) }, CUDNN_STATUS_SUCCESS);
    for seed in 0..150 {
        let mut dice = StdRng::seed_from_u64(seed);
        let types = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];
        let data_type = types[seed as usize % 4];
        let Some(case) = Case::random(data_type, &mut dice) else { continue };
        let (mode, algo) = *[
            (CUDNN_ACTIVATION_RELU, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM),
            (CUDNN_ACTIVATION_RELU, CUDNN_CONVOLUTION_FWD_ALGO_GEMM),
            (CUDNN_ACTIVATION_IDENTITY, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM),
            (CUDNN_ACTIVATION_IDENTITY, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM),
            (CUDNN_ACTIVATION_TANH, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM),
        ]
        .choose(&mut dice)
        .unwrap();
        let (alpha, alpha2) = (*[1.0, -0.5].choose(&mut dice).unwrap(), *[0.0, 1.0, 0.5].choose(&mut dice).unwrap());
        let in_place = dice.random_bool(0.5);
        let dims = &case.y.dims;
        let bias_dims: Vec<usize> = (0..dims.len()).map(|i| if i == 1 { dims[1] } else { 1 }).collect();
        let bias = Operand::random(data_type, &bias_dims, packed(&bias_dims), &mut dice);
        let z =
            Operand::random(data_type, dims, if in_place { case.y.strides.clone() } else { gapped(dims) }, &mut dice);
        let mut out = Operand::poisoned(data_type, dims, case.y.strides.clone());
        if in_place {
            out.fill(&z.values());
        }
        let mut size = 0;
        let Case { x, w, filter, conv, .. } = &case;
        let (s, t) = (Scale::new(alpha, data_type), Scale::new(alpha2, data_type));
        // SAFETY: the operands and the workspace are as long as their descriptors and sizes say.
        let status = unsafe {
            assert_eq!(cudnnSetActivationDescriptor(activation, mode, CUDNN_PROPAGATE_NAN, 0.0), 0);
            let h = handle.0;
            assert_eq!(
                cudnnGetConvolutionForwardWorkspaceSize(h, x.desc, *filter, *conv, out.desc, algo, &mut size),
                0
            );
            let mut workspace = vec![CANARY; size];
            let out_data = out.pointer_mut();
            let z_data = if in_place { out_data.cast_const() } else { z.pointer() };
            let z_desc = if in_place { out.desc } else { z.desc };
            cudnnConvolutionBiasActivationForward(
                h,
                s.pointer(),
                x.desc,
                x.pointer(),
                *filter,
                w.pointer(),
                *conv,
                algo,
                workspace.as_mut_ptr().cast(),
                size,
                t.pointer(),
                z_desc,
                z_data,
                bias.desc,
                bias.pointer(),
                activation,
                out.desc,
                out_data,
            )
        };
        let supported = mode == CUDNN_ACTIVATION_RELU
            || (mode == CUDNN_ACTIVATION_IDENTITY && algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
        let what = format!("seed {seed}: mode {mode} algorithm {algo}, {}", case.label());
        if !supported {
            assert_eq!(status, CUDNN_STATUS_NOT_SUPPORTED, "{what}");
            continue;
        }
        assert_eq!(status, CUDNN_STATUS_SUCCESS, "{what}");
        let (xs, ws, biases) = (x.values(), w.values(), bias.values());
        let image: usize = dims[2..].iter().product();
        let mut want: Vec<f64> = z.values().iter().map(|z| alpha2 * z).collect();
        case.products(|ix, iw, iy| want[iy] += alpha * xs[ix] * ws[iw]);
        for (i, value) in want.iter_mut().enumerate() {
            *value += biases[i / image % dims[1]];
            if mode == CUDNN_ACTIVATION_RELU {
                *value = value.max(0.0);
            }
        }
        let error = relative_error(&out.values(), &want);
        assert!(error <= tolerance(data_type), "{what}: error {error:e}");
        out.check_gaps();
    }
    // SAFETY: made above, and used no more.
    unsafe { cudnnDestroyActivationDescriptor(activation) };
}
