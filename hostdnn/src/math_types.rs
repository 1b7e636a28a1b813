//! The math types of convolutions. There are no tensor cores: whatever a math type allows, the arithmetic is ordinary.
//!
//! `HOSTDNN_MATH_TYPES=both` lists each algorithm under tensor operations and under the default, as cuDNN does. Of these
//! an even id needs a quarter more workspace under tensor operations, and an odd one under the default.

use crate::select::Candidate;
use cudnn_abi::*;
use std::sync::LazyLock;

static BOTH: LazyLock<bool> = LazyLock::new(|| match std::env::var("HOSTDNN_MATH_TYPES").as_deref() {
    Ok("both") => true,
    Ok(other) => {
        eprintln!("hostdnn: HOSTDNN_MATH_TYPES={other:?} is not understood: it takes both; there is one");
        false
    }
    Err(_) => false,
});

/// The most math types under which an algorithm is listed.
pub fn most() -> i32 {
    1 + i32::from(*BOTH)
}

/// The math type that stands for a descriptor's.
pub fn reported(math_type: cudnnMathType_t) -> cudnnMathType_t {
    match math_type {
        CUDNN_FMA_MATH => CUDNN_FMA_MATH,
        CUDNN_TENSOR_OP_MATH | CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION if *BOTH => CUDNN_TENSOR_OP_MATH,
        _ => CUDNN_DEFAULT_MATH,
    }
}

/// The bytes that an algorithm needs under a math type, if its arithmetic needs `bytes`.
pub fn need(bytes: usize, algo: i32, math_type: cudnnMathType_t) -> usize {
    let is_larger = *BOTH && math_type != CUDNN_FMA_MATH && (algo % 2 == 0) == (math_type == CUDNN_TENSOR_OP_MATH);
    if is_larger { bytes + bytes / 4 } else { bytes }
}

/// The candidates under each math type that a descriptor's math type allows. Those that need more than a given
/// `workspace` fail, as in `cudnnFindConvolution*AlgorithmEx`.
pub fn listed(
    candidates: Vec<Candidate>,
    math_type: cudnnMathType_t,
    workspace: Option<usize>,
) -> Vec<(Candidate, cudnnMathType_t)> {
    let both = [CUDNN_TENSOR_OP_MATH, CUDNN_DEFAULT_MATH];
    let math_types = if *BOTH && math_type != CUDNN_FMA_MATH { &both[..] } else { &[math_type][..] };
    let under = |candidate: &Candidate, math_type| {
        let memory = need(candidate.memory, candidate.algo, math_type);
        let fits = candidate.status != CUDNN_STATUS_SUCCESS || workspace.is_none_or(|bytes| memory <= bytes);
        let (status, time) = if fits { (candidate.status, candidate.time) } else { (CUDNN_STATUS_ALLOC_FAILED, -1.0) };
        (Candidate { memory, status, time, ..*candidate }, math_type)
    };
    let all = candidates.iter().flat_map(|candidate| math_types.iter().map(|math_type| under(candidate, *math_type)));
    let (mut ran, failed): (Vec<_>, Vec<_>) = all.partition(|(candidate, _)| candidate.status == CUDNN_STATUS_SUCCESS);
    ran.extend(failed);
    ran
}
