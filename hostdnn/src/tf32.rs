//! Engines on tensor cores that are not there: they round floats to TF32 as tensor cores do, and a clock that counts work
//! counts little for them. `HOSTDNN_TENSOR_CORES=tf32` has heuristics propose such an engine first. With `claimed` one
//! comes before it that has the same note and does not round, as some of cuDNN's do. With `few` that one rounds a few
//! images and no more: cuDNN chooses kernels by their number, too. Then so do legacy algorithms. With `workspace`, legacy
//! algorithms round if they need a workspace, as most of cuDNN's do.

use std::sync::LazyLock;

use crate::convolution::{Direction, Element, Problem};
use crate::select;
use cudnn_abi::{CUDNN_FMA_MATH, cudnnMathType_t};

/// What an engine on tensor cores takes of the time of the same algorithm elsewhere.
pub const SHARE: f64 = 0.1;

/// The most images that what rounds a few rounds.
pub const FEW_IMAGES: usize = 4;

/// The engines that are offered.
#[derive(PartialEq)]
pub enum Offers {
    Nothing,
    Tf32,
    Claimed,
    Few,
    Workspace,
}

pub static OFFERS: LazyLock<Offers> = LazyLock::new(|| match std::env::var("HOSTDNN_TENSOR_CORES").as_deref() {
    Err(_) | Ok("") => Offers::Nothing,
    Ok("tf32") => Offers::Tf32,
    Ok("claimed") => Offers::Claimed,
    Ok("few") => Offers::Few,
    Ok("workspace") => Offers::Workspace,
    Ok(other) => {
        eprintln!(
            "hostdnn: HOSTDNN_TENSOR_CORES={other:?} is not understood: it takes tf32, claimed, few or workspace; \
             there are none"
        );
        Offers::Nothing
    }
});

/// Whether a legacy algorithm that needs a workspace of some bytes rounds the floats that it multiplies, if the math type
/// lets it.
pub fn legacy_rounds(problem: &Problem, workspace: usize, math_type: cudnnMathType_t) -> bool {
    let rounds = match *OFFERS {
        Offers::Few => problem.batch <= FEW_IMAGES,
        Offers::Workspace => workspace > 0,
        Offers::Nothing | Offers::Tf32 | Offers::Claimed => false,
    };
    rounds && problem.element == Element::Float && math_type != CUDNN_FMA_MATH
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
