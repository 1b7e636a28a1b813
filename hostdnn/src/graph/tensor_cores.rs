//! Engines on tensor cores that are not there: they round floats to TF32 as tensor cores do, and a clock that counts work
//! counts little for them. `HOSTDNN_TENSOR_CORES=tf32` has heuristics propose such an engine first. With `claimed` one
//! comes before it that has the same note and does not round, as some of cuDNN's do. With `few` that one rounds a few
//! images and no more: cuDNN chooses kernels by their number, too. Then so do legacy algorithms.

use std::sync::LazyLock;

use super::program::Program;
use crate::convolution::{Algorithm, Direction, Element, Problem};
use crate::select;
use cudnn_abi::{CUDNN_FMA_MATH, cudnnMathType_t};

/// The index of the engine that rounds.
const TF32: i64 = 30;
/// The index of the engine that only says so.
const CLAIMED: i64 = 31;
/// The index of the engine that rounds up to [`FEW_IMAGES`] images.
const FEW: i64 = 32;
const FEW_IMAGES: usize = 4;

/// What an engine on tensor cores takes of the time of the same algorithm elsewhere.
pub const SHARE: f64 = 0.1;

static OFFERED: LazyLock<&[i64]> = LazyLock::new(|| match std::env::var("HOSTDNN_TENSOR_CORES").as_deref() {
    Err(_) | Ok("") => &[],
    Ok("tf32") => &[TF32],
    Ok("claimed") => &[CLAIMED, TF32],
    Ok("few") => &[FEW, TF32],
    Ok(other) => {
        eprintln!(
            "hostdnn: HOSTDNN_TENSOR_CORES={other:?} is not understood: it takes tf32, claimed or few; there are none"
        );
        &[]
    }
});

/// The end of the indices of all engines of a graph, if it has `others` others.
pub fn end(others: i64) -> i64 {
    OFFERED.iter().map(|engine| engine + 1).fold(others, i64::max)
}

fn convolution_of_floats(program: &Program) -> Option<&Problem> {
    let problem = &program.convolution.as_ref()?.problem;
    (problem.element == Element::Float).then_some(problem)
}

/// The engines on tensor cores for a program, best first. They have no knobs.
pub fn ranked(program: &Program) -> &'static [i64] {
    if convolution_of_floats(program).is_some() { *OFFERED } else { &[] }
}

/// The algorithm of an engine on tensor cores, which takes no workspace; `None` for any other engine.
pub fn algorithm(program: &Program, engine: i64) -> Option<Algorithm> {
    let problem = convolution_of_floats(program).filter(|_| OFFERED.contains(&engine))?;
    Some(match problem.direction {
        Direction::Forward => Algorithm::ImplicitGemm,
        Direction::BackwardData | Direction::BackwardFilter => Algorithm::Algo1,
    })
}

/// Whether an engine rounds the floats that it multiplies.
pub fn rounds(program: &Program, engine: i64) -> bool {
    let images = |problem: &Problem| problem.batch;
    match engine {
        TF32 => algorithm(program, engine).is_some(),
        FEW => convolution_of_floats(program).map(images).is_some_and(|images| images <= FEW_IMAGES),
        _ => false,
    }
}

/// Whether a legacy algorithm rounds the floats that it multiplies: with `few`, a few images, if the math type lets it.
pub fn legacy_rounds(problem: &Problem, math_type: cudnnMathType_t) -> bool {
    let may_round = problem.element == Element::Float && math_type != CUDNN_FMA_MATH;
    may_round && OFFERED.contains(&FEW) && problem.batch <= FEW_IMAGES
}

/// Calls `run` with the tensors of a convolution, the factors as copies that are rounded to TF32.
///
/// # Safety
/// The tensors have the problem's sizes, and nobody writes to them meanwhile.
pub unsafe fn on_rounded<T>(problem: &Problem, mut tensors: [*mut u8; 3], run: impl FnOnce([*mut u8; 3]) -> T) -> T {
    let result = match problem.direction {
        Direction::Forward => 2,
        Direction::BackwardData => 0,
        Direction::BackwardFilter => 1,
    };
    // They live until the convolution has run.
    let mut copies = Vec::new();
    let sizes = select::footprints(problem);
    for (place, tensor) in tensors.iter_mut().enumerate().filter(|(place, _)| *place != result) {
        // SAFETY: the caller promises tensors of these sizes.
        let mut copy = unsafe { rounded(*tensor, sizes[place]) };
        *tensor = copy.as_mut_ptr().cast();
        copies.push(copy);
    }
    let ran = run(tensors);
    drop(copies);
    ran
}

/// A copy of `bytes` bytes of floats, rounded to TF32: to nearest, ties to even, with 10 bits of mantissa.
///
/// # Safety
/// `from` points at as many bytes, which nobody writes meanwhile.
unsafe fn rounded(from: *const u8, bytes: usize) -> Vec<f32> {
    let round = |at: usize| {
        // SAFETY: `at` is the place of a float within the bytes that the caller promises.
        let bits = unsafe { from.cast::<u32>().add(at).read_unaligned() };
        let is_number = bits >> 23 & 0xff != 0xff;
        f32::from_bits(if is_number { (bits + 0x0fff + (bits >> 13 & 1)) & !0x1fff } else { bits })
    };
    (0..bytes / 4).map(round).collect()
}
