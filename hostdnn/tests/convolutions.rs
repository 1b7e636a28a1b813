//! Convolutions as C calls them, against loops in double precision: every direction and algorithm, types, layouts, groups,
//! dilation, both modes, alpha and beta, two and three dimensions. The workspace ends in canaries; outputs start as NaN.

mod operand;

use cudnn_abi::*;
use hostdnn::abi::*;
use operand::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ffi::c_void;
use std::ptr::null_mut;

/// One random convolution with all its descriptors. Filters are operands too: their layout is a tensor's.
struct Case {
    data_type: cudnnDataType_t,
    spatial: usize,
    groups: usize,
    pad: Vec<i32>,
    stride: Vec<i32>,
    dilation: Vec<i32>,
    flip: bool,
    x: Operand,
    w: Operand,
    y: Operand,
    filter: cudnnFilterDescriptor_t,
    conv: cudnnConvolutionDescriptor_t,
}

const CANARY: u8 = 0xa5;

impl Case {
    /// `None` where the filter does not fit.
    fn random(data_type: cudnnDataType_t, dice: &mut StdRng) -> Option<Self> {
        let spatial = if dice.random_bool(0.7) { 2 } else { 3 };
        let groups = *[1, 1, 1, 2, 3].choose(dice).unwrap();
        // Steps of 1 often enough that FFT and Winograd have work.
        let plain = dice.random_bool(0.5);
        let mut some = |from: i32, to: i32| -> Vec<i32> { (0..spatial).map(|_| dice.random_range(from..to)).collect() };
        let (pad, stride, dilation) =
            if plain { (some(0, 3), vec![1; spatial], vec![1; spatial]) } else { (some(0, 3), some(1, 4), some(1, 3)) };
        let window = if plain { vec![*[1, 3, 3, 5].choose(dice).unwrap(); spatial] } else { some(1, 5) };
        let extents: Vec<i32> = (0..spatial).map(|_| dice.random_range(3..12)).collect();
        let (n, c, k) = (dice.random_range(1..4), dice.random_range(1..5), groups * dice.random_range(1..5));
        let with = |outer: [usize; 2], spatial: &[i32]| -> Vec<usize> {
            outer.into_iter().chain(spatial.iter().map(|&extent| extent as usize)).collect()
        };
        let x_dims = with([n, c * groups], &extents);
        let w_dims = with([k, c], &window);
        let format = dice.random_range(0..2);
        let mut layout = |dims: &[usize]| match dice.random_range(0..3) {
            0 => packed(dims),
            1 => channels_last(dims),
            _ => gapped(dims),
        };
        let (x_strides, w_strides) =
            (layout(&x_dims), if format == CUDNN_TENSOR_NHWC { channels_last(&w_dims) } else { packed(&w_dims) });
        let (mut filter, mut conv) = (null_mut(), null_mut());
        let mut y_dims = vec![0i32; spatial + 2];
        let flip = groups == 1 && plain;
        let x = Operand::random(data_type, &x_dims, x_strides, &mut StdRng::seed_from_u64(n as u64 + 7));
        // SAFETY: arrays are as long as the ranks.
        let status = unsafe {
            assert_eq!(cudnnCreateFilterDescriptor(&mut filter), 0);
            assert_eq!(cudnnCreateConvolutionDescriptor(&mut conv), 0);
            let dims: Vec<i32> = w_dims.iter().map(|&dim| dim as i32).collect();
            assert_eq!(cudnnSetFilterNdDescriptor(filter, data_type, format, dims.len() as i32, dims.as_ptr()), 0);
            let compute = if data_type == CUDNN_DATA_DOUBLE { CUDNN_DATA_DOUBLE } else { CUDNN_DATA_FLOAT };
            let mode = if flip { CUDNN_CONVOLUTION } else { CUDNN_CROSS_CORRELATION };
            let (p, s, d) = (pad.as_ptr(), stride.as_ptr(), dilation.as_ptr());
            assert_eq!(cudnnSetConvolutionNdDescriptor(conv, spatial as i32, p, s, d, mode, compute), 0);
            assert_eq!(cudnnSetConvolutionGroupCount(conv, groups as i32), 0);
            cudnnGetConvolutionNdForwardOutputDim(conv, x.desc, filter, spatial as i32 + 2, y_dims.as_mut_ptr())
        };
        if status != CUDNN_STATUS_SUCCESS {
            // SAFETY: made above, and used no more.
            unsafe {
                cudnnDestroyFilterDescriptor(filter);
                cudnnDestroyConvolutionDescriptor(conv);
            }
            return None;
        }
        let y_dims: Vec<usize> = y_dims.into_iter().map(|dim| dim as usize).collect();
        let y_strides = layout(&y_dims);
        let w = Operand::random(data_type, &w_dims, w_strides, dice);
        let y = Operand::random(data_type, &y_dims, y_strides, dice);
        Some(Self { data_type, spatial, groups, pad, stride, dilation, flip, x, w, y, filter, conv })
    }

    /// Calls `visit` with the flat indices of x, w and y of every product.
    fn products(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (x, w, y) = (&self.x.dims, &self.w.dims, &self.y.dims);
        let (sx, sw, sy) = (packed(x), packed(w), packed(y));
        let positions = |dims: &[usize]| {
            let mut all = vec![vec![]];
            for &dim in dims {
                all = all.iter().flat_map(|at: &Vec<usize>| (0..dim).map(|i| [&at[..], &[i]].concat())).collect();
            }
            all
        };
        for out in positions(&y[2..]) {
            for tap in positions(&w[2..]) {
                let at: Option<Vec<usize>> = (0..self.spatial)
                    .map(|i| {
                        let at = out[i] as i32 * self.stride[i] - self.pad[i] + tap[i] as i32 * self.dilation[i];
                        usize::try_from(at).ok().filter(|&at| at < x[i + 2])
                    })
                    .collect();
                let Some(at) = at else { continue };
                let read = |i: usize| if self.flip { w[i + 2] - 1 - tap[i] } else { tap[i] };
                let inner = |at: &dyn Fn(usize) -> usize, strides: &[usize]| -> usize {
                    (0..self.spatial).map(|i| at(i) * strides[i + 2]).sum()
                };
                let (ix, iw, iy) = (inner(&|i| at[i], &sx), inner(&read, &sw), inner(&|i| out[i], &sy));
                for n in 0..x[0] {
                    for k in 0..y[1] {
                        for c in 0..w[1] {
                            let channel = k / (y[1] / self.groups) * w[1] + c;
                            let (x, w) = (n * sx[0] + channel * sx[1] + ix, k * sw[0] + c * sw[1] + iw);
                            visit(x, w, n * sy[0] + k * sy[1] + iy);
                        }
                    }
                }
            }
        }
    }

    fn label(&self) -> String {
        let (x, w, y) = (&self.x.dims, &self.w.dims, &self.y.dims);
        let Self { data_type, groups, pad, stride, dilation, flip, .. } = self;
        format!("type {data_type} x {x:?} w {w:?} y {y:?} groups {groups} {pad:?} {stride:?} {dilation:?} flip {flip}")
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        // SAFETY: made in `random`, and used no more.
        unsafe {
            cudnnDestroyFilterDescriptor(self.filter);
            cudnnDestroyConvolutionDescriptor(self.conv);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Forward,
    BackwardData,
    BackwardFilter,
}

/// What an algorithm may be off by: its own error in the type it computes in, and one rounding to the stored type.
fn tolerance(data_type: cudnnDataType_t) -> f64 {
    match data_type {
        CUDNN_DATA_HALF => 2e-3,
        CUDNN_DATA_FLOAT => 1e-5,
        _ => 1e-13,
    }
}

/// Runs `algo` into a copy of the output; the workspace is exactly as long as asked for, and canaries follow it.
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
    // SAFETY: descriptors are live; the operands are as long as their descriptors say.
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
        let data_type = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF][seed as usize % 3];
        let Some(case) = Case::random(data_type, &mut dice) else { continue };
        let alpha = *[1.0, 0.5, -2.0].choose(&mut dice).unwrap();
        let beta = *[0.0, 0.0, 1.0, -0.5].choose(&mut dice).unwrap();
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
            let (out, algorithms) = match direction {
                Direction::Forward => (&case.y, CUDNN_CONVOLUTION_FWD_ALGO_COUNT),
                Direction::BackwardData => (&case.x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT),
                Direction::BackwardFilter => (&case.w, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT),
            };
            let (x, w, y) = (case.x.values(), case.w.values(), case.y.values());
            let before = out.values();
            let mut want: Vec<f64> = before.iter().map(|v| beta * v).collect();
            case.products(|ix, iw, iy| match direction {
                Direction::Forward => want[iy] += alpha * x[ix] * w[iw],
                Direction::BackwardData => want[ix] += alpha * w[iw] * y[iy],
                Direction::BackwardFilter => want[iw] += alpha * x[ix] * y[iy],
            });
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
    // Everything that cuDNN implements itself; Winograd has the fewest shapes to run on.
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
    // SAFETY: valid for a write.
    assert_eq!(unsafe { cudnnCreateActivationDescriptor(&mut activation) }, CUDNN_STATUS_SUCCESS);
    for seed in 0..150 {
        let mut dice = StdRng::seed_from_u64(seed);
        let data_type = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF][seed as usize % 3];
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
