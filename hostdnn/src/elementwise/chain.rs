//! A few functions of each element, one after the other, from operands of several types to one result.

use super::{Element, Walk};
use cudnn_abi::*;
use half::{bf16, f16};
use hostdnn_arithmetic::tasks;

/// The function of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// a + b
    Add,
    /// a · b
    Multiply,
    /// a
    Identity,
    /// a, limited to `upper`; below `lower`, the distance to `lower` is scaled by `slope`.
    Relu {
        /// The lower limit.
        lower: f64,
        /// The upper limit.
        upper: f64,
        /// The slope below `lower`.
        slope: f64,
        /// Whether NaN stays NaN; otherwise it becomes `lower`.
        keeps_nan: bool,
    },
}

/// The source of a value.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// One of the operands.
    Operand(usize),
    /// The result of an earlier step.
    Step(usize),
}

/// One function of scaled values.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The function.
    pub function: Function,
    /// The first value, and its factor.
    pub a: (Source, f64),
    /// The second, for functions of two.
    pub b: Option<(Source, f64)>,
}

/// A tensor's type, and its strides along the result's dimensions (0 where it repeats).
#[derive(Clone, Debug)]
pub struct Operand {
    /// Float, double, half or bfloat16.
    pub data_type: cudnnDataType_t,
    /// In elements.
    pub strides: Vec<isize>,
}

const MOST: usize = 8;
/// Elements in one block, which stays in the innermost cache.
const BLOCK: usize = 256;

/// Steps over tensors of one shape. Stores the last step's result; computes everything in double precision.
#[derive(Clone, Debug)]
pub struct Chain {
    walk: Walk<MOST>,
    types: Vec<cudnnDataType_t>,
    steps: Vec<Step>,
    out: cudnnDataType_t,
}

/// An address that tasks share.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: an address alone does nothing; `Chain::run` says why its uses are sound.
unsafe impl Send for Address {}
// SAFETY: a shared address alone does nothing either; `Chain::run` says why its uses are sound.
unsafe impl Sync for Address {}

impl Chain {
    /// The largest number of tensors, including the result.
    pub const OPERANDS_MAX: usize = MOST;

    /// Fewer than [`Self::OPERANDS_MAX`] operands; at least one step.
    pub fn new(dims: &[usize], operands: Vec<Operand>, steps: Vec<Step>, out: Operand) -> Self {
        let stride = |m: usize, i: usize| match m {
            0 => out.strides[i],
            _ => operands.get(m - 1).map_or(0, |operand| operand.strides[i]),
        };
        let strides: Vec<[isize; MOST]> = (0..dims.len()).map(|i| std::array::from_fn(|m| stride(m, i))).collect();
        let types = operands.iter().map(|operand| operand.data_type).collect();
        Self { walk: Walk::new(dims, &strides), types, steps, out: out.data_type }
    }

    /// Computes all elements of `out`.
    ///
    /// # Safety
    /// Operands and `out` are valid for what their strides reach, and nobody else writes them meanwhile. No two indices
    /// name one element of `out`; an operand may be `out` itself with the same strides, and overlaps it in no other way.
    pub unsafe fn run(&self, operands: &[*const u8], out: *mut u8) {
        let operands: Vec<Address> = operands.iter().map(|&operand| Address(operand.cast_mut())).collect();
        let out = Address(out);
        let piece = |index: usize| {
            // SAFETY: the caller promises valid operands; each piece belongs to one task.
            unsafe { self.piece(index, &operands, out) }
        };
        tasks::spread(self.walk.pieces(), self.walk.pieces_a_task(), &piece);
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn piece(&self, index: usize, operands: &[Address], out: Address) {
        let (mut at, length) = self.walk.piece(index);
        let pace = self.walk.pace();
        let mut values = vec![[0.0; BLOCK]; operands.len() + self.steps.len()];
        for start in (0..length).step_by(BLOCK) {
            let count = BLOCK.min(length - start);
            for (i, (operand, &data_type)) in operands.iter().zip(&self.types).enumerate() {
                // SAFETY: the caller's promise.
                unsafe { load_any(data_type, operand.0, at[i + 1], pace[i + 1], &mut values[i][..count]) };
            }
            for (i, step) in self.steps.iter().enumerate() {
                let (known, rest) = values.split_at_mut(operands.len() + i);
                step.compute(known, operands.len(), &mut rest[0][..count]);
            }
            if let Some(result) = values.last() {
                // SAFETY: the caller's promise.
                unsafe { store_any(self.out, out.0, at[0], pace[0], &result[..count]) };
            }
            for (at, pace) in at.iter_mut().zip(pace) {
                *at += pace * count as isize;
            }
        }
    }
}

impl Step {
    fn compute(&self, known: &[[f64; BLOCK]], operands: usize, to: &mut [f64]) {
        let value = |source| match source {
            Source::Operand(i) => &known[i],
            Source::Step(i) => &known[operands + i],
        };
        let (a, alpha) = (value(self.a.0), self.a.1);
        let (b, beta) = self.b.map_or((a, 0.0), |(source, factor)| (value(source), factor));
        let pairs = to.iter_mut().zip(a.iter().zip(b));
        match self.function {
            Function::Add => pairs.for_each(|(to, (a, b))| *to = alpha * a + beta * b),
            Function::Multiply => pairs.for_each(|(to, (a, b))| *to = (alpha * a) * (beta * b)),
            Function::Identity => pairs.for_each(|(to, (a, _))| *to = alpha * a),
            Function::Relu { lower, upper, slope, keeps_nan } => pairs.for_each(|(to, (a, _))| {
                let a = alpha * a;
                *to = if a > lower {
                    a.min(upper)
                } else if a.is_nan() {
                    if keeps_nan { a } else { lower }
                } else if slope == 0.0 {
                    lower
                } else {
                    lower + slope * (a - lower)
                }
            }),
        }
    }
}

/// # Safety
/// The elements `at, at + step, …` are in bounds and initialised.
unsafe fn load_any(data_type: cudnnDataType_t, from: *const u8, at: isize, step: isize, to: &mut [f64]) {
    // SAFETY: the caller's promise.
    unsafe {
        match data_type {
            CUDNN_DATA_HALF => load::<f16>(from.cast(), at, step, to),
            CUDNN_DATA_BFLOAT16 => load::<bf16>(from.cast(), at, step, to),
            CUDNN_DATA_DOUBLE => load::<f64>(from.cast(), at, step, to),
            _ => load::<f32>(from.cast(), at, step, to),
        }
    }
}

/// # Safety
/// The promises of [`load_any`]; elements may be unaligned in memory from C.
unsafe fn load<T: Element>(from: *const T, at: isize, step: isize, to: &mut [f64]) {
    for (i, to) in to.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *to = unsafe { from.offset(at + i as isize * step).read_unaligned() }.to_f64();
    }
}

/// # Safety
/// The elements `at, at + step, …` are in bounds, and nobody else uses them.
unsafe fn store_any(data_type: cudnnDataType_t, to: *mut u8, at: isize, step: isize, from: &[f64]) {
    // SAFETY: the caller's promise.
    unsafe {
        match data_type {
            CUDNN_DATA_HALF => store::<f16>(to.cast(), at, step, from),
            CUDNN_DATA_BFLOAT16 => store::<bf16>(to.cast(), at, step, from),
            CUDNN_DATA_DOUBLE => store::<f64>(to.cast(), at, step, from),
            _ => store::<f32>(to.cast(), at, step, from),
        }
    }
}

/// # Safety
/// As for [`store_any`].
unsafe fn store<T: Element>(to: *mut T, at: isize, step: isize, from: &[f64]) {
    for (i, &value) in from.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.offset(at + i as isize * step).write_unaligned(T::from_f64(value)) };
    }
}
