//! Forward and backward data as one operation: every element of a destination is a sum of filter taps times source elements.
//!
//! Backward data with strides falls into phases: destination positions with the same remainder modulo the stride meet
//! the same taps, and source positions one apart. So each phase is a dense correlation that writes every stride-th element.

use super::element::{Real, Storage};
use super::memory::Shared;
use super::{Direction, Problem};

/// One spatial dimension of a correlation.
///
/// Destination position `start + i·step` (`i < count`) is the sum over taps `t < taps` of filter element
/// `tap_first + t·tap_step` times source element `i·source_step + offset + t·offset_step`, where that lies in the source.
/// Taps ascend in the filter's memory, so `tap_step` is positive.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub count: usize,
    pub start: usize,
    pub step: usize,
    pub taps: usize,
    pub tap_first: usize,
    pub tap_step: usize,
    pub source_extent: usize,
    pub source_step: usize,
    pub offset: isize,
    pub offset_step: isize,
}

impl Axis {
    fn forward(p: &Problem, d: usize) -> Self {
        let (pad, dilation) = (p.pad[d] as isize, p.dilation[d] as isize);
        let last = (p.filter[d] - 1) as isize;
        Self {
            count: p.output[d],
            start: 0,
            step: 1,
            taps: p.filter[d],
            tap_first: 0,
            tap_step: 1,
            source_extent: p.input[d],
            source_step: p.stride[d],
            offset: if p.flip { last * dilation - pad } else { -pad },
            offset_step: if p.flip { -dilation } else { dilation },
        }
    }

    /// The phase of positions `i ≡ phase` modulo the stride: `x[i]` meets `y[o]` at tap `r` where `o·stride − pad + r·dilation = i`.
    fn backward(p: &Problem, d: usize, phase: usize) -> Self {
        let (stride, dilation, filter) = (p.stride[d], p.dilation[d], p.filter[d]);
        let meets = |r: usize| (phase + p.pad[d]) as isize - (r * dilation) as isize;
        let mut taps = (0..filter).filter(|&r| meets(r).rem_euclid(stride as isize) == 0);
        let (first, second) = (taps.next(), taps.next());
        let between = second.map_or(filter, |s| s - first.unwrap_or(0));
        let count = first.map_or(0, |f| 1 + (filter - 1 - f) / between);
        // In the order of memory, which `flip` reverses.
        let memory = |r: usize| if p.flip { filter - 1 - r } else { r };
        let first = first.unwrap_or(0);
        let begin = if p.flip { first + count.saturating_sub(1) * between } else { first };
        let offset_step = -((between * dilation / stride) as isize);
        Self {
            count: p.input[d].saturating_sub(phase).div_ceil(stride),
            start: phase,
            step: stride,
            taps: count,
            tap_first: memory(begin),
            tap_step: between,
            source_extent: p.output[d],
            source_step: 1,
            offset: meets(begin).div_euclid(stride as isize),
            offset_step: if p.flip { -offset_step } else { offset_step },
        }
    }

    /// The position at which tap `t` reads for position 0.
    pub fn offset_of(&self, t: usize) -> isize {
        self.offset + t as isize * self.offset_step
    }

    /// The positions `low..high` for which tap `t` reads inside the source.
    pub fn inside(&self, t: usize) -> (usize, usize) {
        let offset = self.offset_of(t);
        let first_at =
            |source: isize| (source - offset).max(0).unsigned_abs().div_ceil(self.source_step).min(self.count);
        (first_at(0), first_at(self.source_extent as isize))
    }

    /// The source element of tap `t` at position `i`, if it is inside.
    pub fn source(&self, i: usize, t: usize) -> Option<usize> {
        let at = (i * self.source_step) as isize + self.offset_of(t);
        usize::try_from(at).ok().filter(|&at| at < self.source_extent)
    }
}

/// A tensor of images or feature maps: strides in elements of n, c, d, h, w.
pub struct Tensor<S> {
    pub data: Shared<S>,
    pub strides: [usize; 5],
}

impl<S> Clone for Tensor<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Tensor<S> {}

impl<S> Tensor<S> {
    pub fn new(data: *mut S, strides: [usize; 5]) -> Self {
        Self { data: Shared(data), strides }
    }

    /// Channel `c` of image `n`.
    pub fn plane(&self, n: usize, c: usize) -> *mut S {
        self.data.at(n * self.strides[0] + c * self.strides[1])
    }

    /// The one stride of all spatial positions of `extents` in row-major order, if there is one.
    pub fn pixel_stride(&self, extents: [usize; 3]) -> Option<usize> {
        let mut stride = None;
        let mut span = 1;
        for d in (0..3).rev() {
            if extents[d] > 1 {
                let first = *stride.get_or_insert(self.strides[2 + d]);
                if self.strides[2 + d] != first * span {
                    return None;
                }
                span *= extents[d];
            }
        }
        Some(stride.unwrap_or(1))
    }
}

/// The filter as a family of matrices: `rows` destination channels by `reduce` source channels, one for each tap.
pub struct Filter<S> {
    pub data: Shared<S>,
    pub group: usize,
    pub row: usize,
    pub reduce: usize,
    pub tap: [usize; 3],
}

impl<S> Clone for Filter<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Filter<S> {}

/// A correlation of `groups` groups, each of `reduce` source and `rows` destination channels.
/// `destination = alpha·correlation + beta·destination`.
pub struct Correlation<S: Storage> {
    pub batch: usize,
    pub groups: usize,
    pub rows: usize,
    pub reduce: usize,
    pub source: Tensor<S>,
    pub filter: Filter<S>,
    pub destination: Tensor<S>,
    pub alpha: S::Real,
    pub beta: S::Real,
}

/// The arguments of [`super::run`], with their types.
pub struct Operands<S: Storage> {
    pub x: *mut S,
    pub w: *mut S,
    pub y: *mut S,
    pub alpha: S::Real,
    pub beta: S::Real,
}

impl<S: Storage> Operands<S> {
    pub fn new(alpha: f64, beta: f64, x: *mut u8, w: *mut u8, y: *mut u8) -> Self {
        Self { x: x.cast(), w: w.cast(), y: y.cast(), alpha: S::Real::of(alpha), beta: S::Real::of(beta) }
    }

    /// No tensors: enough to find a method's workspace.
    pub fn none() -> Self {
        let null = std::ptr::null_mut();
        Self::new(1.0, 0.0, null, null, null)
    }
}

impl<S: Storage> Correlation<S> {
    /// Backward data for that direction; otherwise forward, which for backward filter only names the tensors' roles.
    pub fn new(p: &Problem, operands: &Operands<S>) -> Self {
        let (channels, maps) = (p.in_channels / p.groups, p.out_channels / p.groups);
        let [k, c, d, h, w] = p.w_strides;
        let x = Tensor::new(operands.x, p.x_strides);
        let y = Tensor::new(operands.y, p.y_strides);
        let forward = p.direction != Direction::BackwardData;
        let (row, reduce) = if forward { (k, c) } else { (c, k) };
        Self {
            batch: p.batch,
            groups: p.groups,
            rows: if forward { maps } else { channels },
            reduce: if forward { channels } else { maps },
            source: if forward { x } else { y },
            filter: Filter { data: Shared(operands.w), group: maps * k, row, reduce, tap: [d, h, w] },
            destination: if forward { y } else { x },
            alpha: operands.alpha,
            beta: operands.beta,
        }
    }
}

/// The phases of a problem; every destination element belongs to one. Forward (also its geometry for backward filter) has one.
pub fn phases(p: &Problem) -> Vec<[Axis; 3]> {
    if p.direction != Direction::BackwardData {
        return vec![[0, 1, 2].map(|d| Axis::forward(p, d))];
    }
    let mut phases = Vec::new();
    let count = |d: usize| p.stride[d].min(p.input[d]);
    for d in 0..count(0) {
        for h in 0..count(1) {
            for w in 0..count(2) {
                phases.push([Axis::backward(p, 0, d), Axis::backward(p, 1, h), Axis::backward(p, 2, w)]);
            }
        }
    }
    phases
}

/// The geometry of the forward convolution, whatever the problem's direction.
pub fn forward_axes(p: &Problem) -> [Axis; 3] {
    [0, 1, 2].map(|d| Axis::forward(p, d))
}
