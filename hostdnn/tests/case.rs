//! Random convolutions for the tests of arithmetic, with their results by definition.

use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::Rng;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::ptr::null_mut;

/// Which of the three tensors is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Direction {
    Forward,
    BackwardData,
    BackwardFilter,
}

/// The largest allowed error: the algorithm's own in its computing type, and one rounding to the stored type.
pub fn tolerance(data_type: cudnnDataType_t) -> f64 {
    match data_type {
        CUDNN_DATA_HALF => 2e-3,
        CUDNN_DATA_BFLOAT16 => 1.6e-2,
        CUDNN_DATA_FLOAT => 1e-5,
        _ => 1e-13,
    }
}

/// One random convolution with all its descriptors. Filters are operands too: a tensor describes their layout.
pub struct Case {
    pub data_type: cudnnDataType_t,
    pub spatial: usize,
    pub groups: usize,
    pub pad: Vec<i32>,
    pub stride: Vec<i32>,
    pub dilation: Vec<i32>,
    pub flip: bool,
    pub x: Operand,
    pub w: Operand,
    pub y: Operand,
    pub filter: cudnnFilterDescriptor_t,
    pub conv: cudnnConvolutionDescriptor_t,
}

impl Case {
    /// `None` where the filter does not fit.
    pub fn random(data_type: cudnnDataType_t, dice: &mut StdRng) -> Option<Self> {
        let spatial = if dice.random_bool(0.7) { 2 } else { 3 };
        let groups = *[1, 1, 1, 2, 3].choose(dice).unwrap();
        // Strides and dilations of 1 often enough that FFT and Winograd have work.
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
        // SAFETY: the arrays are as long as the ranks.
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

    /// The tensor that a direction computes.
    pub fn output(&self, direction: Direction) -> &Operand {
        match direction {
            Direction::Forward => &self.y,
            Direction::BackwardData => &self.x,
            Direction::BackwardFilter => &self.w,
        }
    }

    /// `alpha·convolution + beta·old` in double precision, the last dimension fastest.
    pub fn expected(&self, direction: Direction, alpha: f64, beta: f64) -> Vec<f64> {
        let (x, w, y) = (self.x.values(), self.w.values(), self.y.values());
        let mut want: Vec<f64> = self.output(direction).values().iter().map(|v| beta * v).collect();
        self.products(|ix, iw, iy| match direction {
            Direction::Forward => want[iy] += alpha * x[ix] * w[iw],
            Direction::BackwardData => want[ix] += alpha * w[iw] * y[iy],
            Direction::BackwardFilter => want[iw] += alpha * x[ix] * y[iy],
        });
        want
    }

    /// Calls `visit` with the flat indices of x, w and y of every product.
    pub fn products(&self, mut visit: impl FnMut(usize, usize, usize)) {
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

    pub fn label(&self) -> String {
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
