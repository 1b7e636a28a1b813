//! Algorithms, and the numerical classes that follow from a program's choice.

use std::ffi::c_int;
use std::fmt;

use cudnn_abi::*;

use cudnn::calls::query::AlgoPerf;
use cudnn::convolution::Direction;
use guest::settings::Numerics;

/// One of cuDNN's algorithms under a math type: a way to compute a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm {
    /// The direction that the algorithm computes.
    pub direction: Direction,
    /// cuDNN's number for the algorithm, in the direction's enumeration.
    pub id: c_int,
    /// The math type in the convolution's descriptor.
    pub math_type: cudnnMathType_t,
    /// True if equal calls give equal bits.
    pub deterministic: bool,
}

impl Algorithm {
    /// The algorithm in a query's result.
    pub fn of(direction: Direction, result: &AlgoPerf) -> Self {
        Self {
            direction,
            id: result.algo,
            math_type: result.mathType,
            deterministic: result.determinism == CUDNN_DETERMINISTIC,
        }
    }

    /// cuDNN's name for the algorithm, without the prefix that all names share.
    pub fn name(&self) -> &'static str {
        const FORWARD: [&str; 8] = [
            "IMPLICIT_GEMM",
            "IMPLICIT_PRECOMP_GEMM",
            "GEMM",
            "DIRECT",
            "FFT",
            "FFT_TILING",
            "WINOGRAD",
            "WINOGRAD_NONFUSED",
        ];
        const BACKWARD_DATA: [&str; 6] = ["ALGO_0", "ALGO_1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"];
        const BACKWARD_FILTER: [&str; 7] =
            ["ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING"];
        let names: &[&'static str] = match self.direction {
            Direction::Forward => &FORWARD,
            Direction::BackwardData => &BACKWARD_DATA,
            Direction::BackwardFilter => &BACKWARD_FILTER,
        };
        usize::try_from(self.id).ok().and_then(|id| names.get(id).copied()).unwrap_or("UNKNOWN")
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.math_type {
            CUDNN_TENSOR_OP_MATH => f.write_str(" tensor-op"),
            CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION => f.write_str(" tensor-op-conversion"),
            _ => Ok(()),
        }
    }
}

/// The algorithms that a plan may use in place of the chosen one, so that no result loses accuracy or determinism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Only deterministic algorithms.
    pub deterministic: bool,
    /// The loosest math type; `None` allows all of cuDNN's.
    pub math_type: Option<cudnnMathType_t>,
    /// The only algorithm allowed, if any: some fused calls take no other.
    pub only: Option<c_int>,
}

impl Class {
    /// The class of a chosen algorithm, as strict as `numerics` requires.
    pub fn of(chosen: &AlgoPerf, numerics: Numerics) -> Self {
        let chosen_deterministic = chosen.determinism == CUDNN_DETERMINISTIC;
        match numerics {
            Numerics::Any => Self { deterministic: false, math_type: None, only: None },
            Numerics::Match => {
                Self { deterministic: chosen_deterministic, math_type: Some(chosen.mathType), only: None }
            }
            Numerics::Deterministic => Self { deterministic: true, math_type: Some(chosen.mathType), only: None },
        }
    }

    /// Returns true if the class allows `algorithm`, which was timed before.
    pub fn admits_algorithm(&self, algorithm: &Algorithm) -> bool {
        (!self.deterministic || algorithm.deterministic)
            && self.math_type.is_none_or(|loosest| looseness(algorithm.math_type) <= looseness(loosest))
            && self.only.is_none_or(|only| algorithm.id == only)
    }

    /// Returns true if a query's result succeeded and the class allows its algorithm.
    pub fn admits(&self, result: &AlgoPerf) -> bool {
        result.status == CUDNN_STATUS_SUCCESS
            // the class ignores the direction
            && self.admits_algorithm(&Algorithm::of(Direction::Forward, result))
    }
}

/// Writes `deterministic, math 0, algorithm any`, in cuDNN's numbers.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deterministic, math_type, only } = self;
        let number = |number: &Option<c_int>| number.map_or("any".to_owned(), |number| number.to_string());
        let deterministic = if *deterministic { "deterministic, " } else { "" };
        write!(f, "{deterministic}math {}, algorithm {}", number(math_type), number(only))
    }
}

/// The loosest of some math types.
pub fn loosest(math_types: impl Iterator<Item = cudnnMathType_t>) -> Option<cudnnMathType_t> {
    math_types.max_by_key(|&math_type| looseness(math_type))
}

/// Orders math types by the arithmetic that they allow: plain multiply-adds, TF32 as cuDNN sees fit, tensor cores on
/// the tensors' own types, conversion to smaller types.
fn looseness(math_type: cudnnMathType_t) -> u8 {
    match math_type {
        CUDNN_FMA_MATH => 0,
        CUDNN_DEFAULT_MATH => 1,
        CUDNN_TENSOR_OP_MATH => 2,
        CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION => 3,
        _ => u8::MAX, // unknown: allowed only where every type is, or where the program chose this very type
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(algo: c_int, determinism: c_int, math_type: c_int) -> AlgoPerf {
        AlgoPerf {
            algo,
            status: CUDNN_STATUS_SUCCESS,
            time: -1.0,
            memory: 0,
            determinism,
            mathType: math_type,
            reserved: [0; 3],
        }
    }

    #[test]
    fn a_class_admits_nothing_looser() {
        let strict = Class::of(&result(1, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH), Numerics::Match);
        assert!(strict.admits(&result(2, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH)));
        assert!(!strict.admits(&result(2, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH)));
        assert!(!strict.admits(&result(2, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH)));
        let loose = Class::of(&result(1, CUDNN_NON_DETERMINISTIC, CUDNN_TENSOR_OP_MATH), Numerics::Match);
        for math_type in [CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH] {
            assert!(loose.admits(&result(0, CUDNN_NON_DETERMINISTIC, math_type)));
        }
        assert!(!loose.admits(&result(0, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)));
    }

    #[test]
    fn settings_widen_or_narrow_the_class() {
        let chosen = result(0, CUDNN_NON_DETERMINISTIC, CUDNN_DEFAULT_MATH);
        assert!(Class::of(&chosen, Numerics::Any).admits(&result(7, CUDNN_NON_DETERMINISTIC, 77)));
        assert!(!Class::of(&chosen, Numerics::Deterministic).admits(&chosen));
        let failed = AlgoPerf { status: CUDNN_STATUS_NOT_SUPPORTED, ..chosen };
        assert!(!Class::of(&chosen, Numerics::Any).admits(&failed));
    }

    #[test]
    fn names_are_cudnns() {
        let algorithm = |direction, id| Algorithm { direction, id, math_type: 0, deterministic: true };
        assert_eq!(algorithm(Direction::Forward, 7).to_string(), "WINOGRAD_NONFUSED");
        assert_eq!(algorithm(Direction::BackwardFilter, 3).name(), "ALGO_3");
        assert_eq!(algorithm(Direction::BackwardData, 99).name(), "UNKNOWN");
    }
}
