//! Algorithms, and the numerical classes that follow from a program's choice.

use std::ffi::c_int;
use std::fmt;

use cudnn_abi::*;

use super::Problem;
use super::graph::{self, EngineConfiguration};
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::Direction;
use guest::settings::Numerics;

/// A way to compute a micro-batch: one of cuDNN's algorithms under a math type, or an engine of the graph API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm {
    /// The direction that the algorithm computes.
    pub direction: Direction,
    /// cuDNN's number for the algorithm, in the direction's enumeration; [`ENGINE`] for an engine.
    pub id: c_int,
    /// The math type in the convolution's descriptor; of an engine the strictest one that allows its arithmetic.
    pub math_type: cudnnMathType_t,
    /// True if equal calls give equal bits.
    pub deterministic: bool,
    /// The engine, if it is one.
    pub engine: Option<EngineConfiguration>,
}

/// The id of all engines: no algorithm of cuDNN's has it.
pub const ENGINE: c_int = -1;

impl Algorithm {
    /// The algorithm in a query's result.
    pub fn of(direction: Direction, result: &AlgoPerf) -> Self {
        Self {
            direction,
            id: result.algo,
            math_type: result.mathType,
            deterministic: result.determinism == CUDNN_DETERMINISTIC,
            engine: None,
        }
    }

    /// An engine for a problem.
    pub fn of_engine(problem: &Problem, engine: EngineConfiguration) -> Self {
        let has = |note| engine.numerics.contains(note);
        let math_type = match problem.x.data_type {
            _ if has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) => CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION,
            _ if !has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) => CUDNN_FMA_MATH,
            CUDNN_DATA_FLOAT => CUDNN_DEFAULT_MATH, // TF32
            _ => CUDNN_TENSOR_OP_MATH,
        };
        let deterministic = !has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
        Self { direction: problem.direction, id: ENGINE, math_type, deterministic, engine: Some(engine) }
    }

    /// Returns true for Winograd's transforms.
    pub fn is_winograd(&self) -> bool {
        match self.engine {
            Some(engine) => graph::WINOGRAD.into_iter().any(|note| engine.numerics.contains(note)),
            None => self.name().starts_with("WINOGRAD"),
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
        if let Some(engine) = &self.engine {
            return engine.fmt(f);
        }
        f.write_str(self.name())?;
        match self.math_type {
            CUDNN_TENSOR_OP_MATH => f.write_str(" tensor-op"),
            CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION => f.write_str(" tensor-op-conversion"),
            _ => Ok(()),
        }
    }
}

/// What cuDNN runs without us.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    chosen: AlgoPerf,
    direction: Direction,
    /// Whether it rounds floats to TF32.
    is_tf32: bool,
    /// Whether it computes floats, and does not round them although its math type lets it.
    is_exact: bool,
}

impl Plain {
    /// The chosen algorithm of a problem. `rounds` says whether it rounds floats to TF32 where its math type lets it.
    pub fn new(problem: &Problem, chosen: &AlgoPerf, rounds: bool) -> Self {
        Self::of(problem.direction, problem.x.data_type, chosen, rounds)
    }

    /// Returns whether it rounds floats as far as its math type lets it.
    pub fn rounds(&self) -> bool {
        !self.is_exact
    }

    fn of(direction: Direction, data_type: cudnnDataType_t, chosen: &AlgoPerf, rounds: bool) -> Self {
        let may_round = data_type == CUDNN_DATA_FLOAT && chosen.mathType != CUDNN_FMA_MATH;
        Self { chosen: *chosen, direction, is_tf32: may_round && rounds, is_exact: may_round && !rounds }
    }
}

/// Which of Winograd's transforms may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Winograd {
    None,
    /// Those whose products are not rounded: they round less than TF32 does. In TF32 they were off by ten times as much
    /// as other algorithms (`WINOGRAD_NONFUSED` of AlexNet's conv2 for the filter's gradient, on an H200).
    Exact,
    All,
}

/// The algorithms that a plan may use in place of the chosen one, so that no result loses accuracy or determinism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Only deterministic algorithms.
    pub deterministic: bool,
    /// The loosest math type; `None` allows all of cuDNN's.
    pub math_type: Option<cudnnMathType_t>,
    /// Winograd's transforms.
    pub winograd: Winograd,
    /// The only algorithm allowed, if any: some fused calls take no other.
    pub only: Option<c_int>,
    /// Whether engines of the graph API may run. They compute no fused calls.
    pub engines: bool,
}

impl Class {
    /// The class of what cuDNN runs, as strict as `numerics` requires.
    pub fn of(plain: &Plain, numerics: Numerics) -> Self {
        let Plain { chosen, direction, is_tf32, is_exact } = plain;
        let is_deterministic = chosen.determinism == CUDNN_DETERMINISTIC;
        let allowed = Self {
            deterministic: is_deterministic || numerics == Numerics::Deterministic,
            math_type: Some(chosen.mathType),
            winograd: Winograd::All,
            only: None,
            engines: true,
        };
        match numerics {
            Numerics::Any => Self { deterministic: false, math_type: None, ..allowed },
            Numerics::Allowed => allowed,
            Numerics::Match | Numerics::Deterministic => Self {
                math_type: Some(if *is_exact { CUDNN_FMA_MATH } else { chosen.mathType }),
                winograd: match Algorithm::of(*direction, chosen).is_winograd() {
                    true => Winograd::All,
                    false if *is_tf32 => Winograd::Exact,
                    false => Winograd::None,
                },
                ..allowed
            },
        }
    }

    /// The class of one algorithm alone, under its own math type: what it rounds does not count.
    pub fn alone(self, result: &AlgoPerf) -> Self {
        Self { math_type: Some(result.mathType), winograd: Winograd::All, only: Some(result.algo), ..self }
    }

    /// Returns true if the class allows `algorithm`, which was timed before.
    pub fn admits_algorithm(&self, algorithm: &Algorithm) -> bool {
        (!self.deterministic || algorithm.deterministic)
            && (self.engines || algorithm.engine.is_none())
            && self.math_type.is_none_or(|loosest| looseness(algorithm.math_type) <= looseness(loosest))
            && (!algorithm.is_winograd() || self.admits_winograd(algorithm))
            && self.only.is_none_or(|only| algorithm.id == only)
    }

    fn admits_winograd(&self, algorithm: &Algorithm) -> bool {
        match self.winograd {
            Winograd::None => false,
            Winograd::Exact => algorithm.math_type == CUDNN_FMA_MATH,
            Winograd::All => true,
        }
    }

    /// Returns true if a query's result succeeded and the class allows its algorithm.
    pub fn admits(&self, direction: Direction, result: &AlgoPerf) -> bool {
        result.status == CUDNN_STATUS_SUCCESS && self.admits_algorithm(&Algorithm::of(direction, result))
    }
}

impl Class {
    /// The class of engines for a problem: the notes that the math type allows. No engine may sum in less than the
    /// problem's compute type.
    pub fn of_engines(&self, problem: &Problem) -> graph::Class {
        let allows = |math_type| self.math_type.is_none_or(|loosest| looseness(math_type) <= looseness(loosest));
        let tensor_cores = match problem.x.data_type {
            CUDNN_DATA_FLOAT => CUDNN_DEFAULT_MATH,
            _ => CUDNN_TENSOR_OP_MATH,
        };
        let class = graph::Class::allowing(|note| match note {
            CUDNN_NUMERICAL_NOTE_TENSOR_CORE => allows(tensor_cores),
            CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS => allows(CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION),
            CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC => !self.deterministic,
            CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION => false,
            _ => self.winograd != Winograd::None,
        });
        if self.winograd == Winograd::Exact { class.without_rounded_transforms() } else { class }
    }
}

/// Writes `deterministic, math 0, algorithm any, no Winograd`, in cuDNN's numbers. A class with all of Winograd's transforms
/// has no words for them.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deterministic, math_type, winograd, only, engines } = self;
        let number = |number: &Option<c_int>| number.map_or("any".to_owned(), |number| number.to_string());
        let deterministic = if *deterministic { "deterministic, " } else { "" };
        let engines = if *engines { " or engine" } else { "" };
        let winograd = match winograd {
            Winograd::None => ", no Winograd",
            Winograd::Exact => ", Winograd without TF32",
            Winograd::All => "",
        };
        write!(f, "{deterministic}math {}, algorithm {}{engines}{winograd}", number(math_type), number(only))
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
        AlgoPerf { algo, status: CUDNN_STATUS_SUCCESS, determinism, mathType: math_type, ..Default::default() }
    }

    fn class(chosen: &AlgoPerf, rounds: bool, numerics: Numerics) -> Class {
        Class::of(&Plain::of(Direction::Forward, CUDNN_DATA_FLOAT, chosen, rounds), numerics)
    }

    #[test]
    fn a_class_admits_nothing_looser() {
        let admits = |class: &Class, result: &AlgoPerf| class.admits(Direction::Forward, result);
        let strict = class(&result(1, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH), true, Numerics::Match);
        assert!(admits(&strict, &result(2, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH)));
        assert!(!admits(&strict, &result(2, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH)));
        assert!(!admits(&strict, &result(2, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH)));
        let loose = class(&result(1, CUDNN_NON_DETERMINISTIC, CUDNN_TENSOR_OP_MATH), true, Numerics::Match);
        for math_type in [CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH] {
            assert!(admits(&loose, &result(0, CUDNN_NON_DETERMINISTIC, math_type)));
        }
        assert!(!admits(&loose, &result(0, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)));
    }

    /// The math type allows TF32. Winograd's transforms round less than that, unless their products are rounded too.
    #[test]
    fn a_class_rounds_as_cudnn_does() {
        let chosen = result(1, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH);
        let winograd = result(6, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH);
        for (numerics, rounds, allows) in [
            (Numerics::Match, true, [true, true]),
            (Numerics::Match, false, [false, false]),
            (Numerics::Deterministic, false, [false, false]),
            (Numerics::Allowed, false, [true, true]),
        ] {
            let class = class(&chosen, rounds, numerics);
            let admitted = [chosen, winograd].map(|result| class.admits(Direction::Forward, &result));
            assert_eq!(admitted, allows, "{numerics:?} {rounds}: {class}");
            let rounded = AlgoPerf { mathType: CUDNN_DEFAULT_MATH, ..winograd };
            assert_eq!(class.admits(Direction::Forward, &rounded), numerics == Numerics::Allowed, "{class}");
        }
        let of_winograd = class(&AlgoPerf { mathType: CUDNN_DEFAULT_MATH, ..winograd }, false, Numerics::Match);
        assert!(of_winograd.admits(Direction::Forward, &winograd) && !of_winograd.admits(Direction::Forward, &chosen));
    }

    #[test]
    fn settings_widen_or_narrow_the_class() {
        let chosen = result(0, CUDNN_NON_DETERMINISTIC, CUDNN_DEFAULT_MATH);
        let admits = |class: Class, result: &AlgoPerf| class.admits(Direction::Forward, result);
        assert!(admits(class(&chosen, true, Numerics::Any), &result(7, CUDNN_NON_DETERMINISTIC, 77)));
        assert!(!admits(class(&chosen, true, Numerics::Deterministic), &chosen));
        let failed = AlgoPerf { status: CUDNN_STATUS_NOT_SUPPORTED, ..chosen };
        assert!(!admits(class(&chosen, true, Numerics::Any), &failed));
    }

    #[test]
    fn names_are_cudnns() {
        let algorithm = |direction, id| Algorithm { direction, id, math_type: 0, deterministic: true, engine: None };
        assert_eq!(algorithm(Direction::Forward, 7).to_string(), "WINOGRAD_NONFUSED");
        assert_eq!(algorithm(Direction::BackwardFilter, 3).name(), "ALGO_3");
        assert_eq!(algorithm(Direction::BackwardData, 99).name(), "UNKNOWN");
    }
}
