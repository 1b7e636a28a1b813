//! Convolutions by their definition, in double precision: the reference for every algorithm.

use super::{Direction, Problem};

/// The output of `problem` by direct loops: `alpha·convolution + beta·old`.
///
/// `x`, `w` and `y` hold the tensors with the problem's strides. The tensor that `problem.direction` computes holds the
/// old output; a copy of it with the new values is returned. With `beta` 0 old values are not read; elements between
/// the strides are returned unchanged.
pub fn convolution(p: &Problem, alpha: f64, beta: f64, x: &[f64], w: &[f64], y: &[f64]) -> Vec<f64> {
    let mut out = match p.direction {
        Direction::Forward => y,
        Direction::BackwardData => x,
        Direction::BackwardFilter => w,
    }
    .to_vec();
    let (channels, maps) = (p.in_channels / p.groups, p.out_channels / p.groups);
    match p.direction {
        Direction::Forward => {
            each([p.batch, p.out_channels], p.output, |[n, k], o| scale(&mut out[at(p.y_strides, [n, k], o)], beta))
        }
        Direction::BackwardData => {
            each([p.batch, p.in_channels], p.input, |[n, c], i| scale(&mut out[at(p.x_strides, [n, c], i)], beta))
        }
        Direction::BackwardFilter => {
            each([p.out_channels, channels], p.filter, |[k, c], r| scale(&mut out[at(p.w_strides, [k, c], r)], beta))
        }
    }
    each([p.batch, p.out_channels], p.output, |[n, k], o| {
        let group = k / maps;
        each([1, channels], p.filter, |[_, c], r| {
            let tap: [usize; 3] = std::array::from_fn(|d| if p.flip { p.filter[d] - 1 - r[d] } else { r[d] });
            let padded: [usize; 3] = std::array::from_fn(|d| o[d] * p.stride[d] + tap[d] * p.dilation[d]);
            if (0..3).any(|d| padded[d] < p.pad[d] || padded[d] - p.pad[d] >= p.input[d]) {
                return;
            }
            let i: [usize; 3] = std::array::from_fn(|d| padded[d] - p.pad[d]);
            let ix = at(p.x_strides, [n, group * channels + c], i);
            let iw = at(p.w_strides, [k, c], r);
            let iy = at(p.y_strides, [n, k], o);
            match p.direction {
                Direction::Forward => out[iy] += alpha * x[ix] * w[iw],
                Direction::BackwardData => out[ix] += alpha * y[iy] * w[iw],
                Direction::BackwardFilter => out[iw] += alpha * x[ix] * y[iy],
            }
        });
    });
    out
}

fn scale(old: &mut f64, beta: f64) {
    *old = if beta == 0.0 { 0.0 } else { beta * *old };
}

fn at(strides: [usize; 5], outer: [usize; 2], inner: [usize; 3]) -> usize {
    outer.iter().chain(&inner).zip(strides).map(|(i, s)| i * s).sum()
}

fn each(outer: [usize; 2], inner: [usize; 3], mut visit: impl FnMut([usize; 2], [usize; 3])) {
    for a in 0..outer[0] {
        for b in 0..outer[1] {
            for d in 0..inner[0] {
                for h in 0..inner[1] {
                    for w in 0..inner[2] {
                        visit([a, b], [d, h, w]);
                    }
                }
            }
        }
    }
}
