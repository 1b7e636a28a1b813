//! A convolution problem of either API; its text alone tells which.

use std::fmt;

use crate::problem::{Problem, graph};
use cudnn::Direction;
use tuning::database::AnySubject;
use tuning::subject::Subject;

/// A convolution problem of either API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyProblem {
    /// A problem of the legacy API.
    Convolution(Problem),
    /// A problem of the graph API.
    Graph(graph::Problem),
}

impl AnyProblem {
    /// Parses the output of [`Self::spec`]. `Err` says what is wrong with the text.
    pub fn from_spec(spec: &str) -> Result<Self, String> {
        if spec.starts_with("graph ") {
            graph::Problem::from_spec(spec).map(Self::Graph)
        } else {
            Problem::from_spec(spec).map(Self::Convolution)
        }
    }

    /// The full problem as text.
    pub fn spec(&self) -> String {
        match self {
            Self::Convolution(problem) => problem.spec(),
            Self::Graph(problem) => problem.spec(),
        }
    }

    /// The number of images in the mini-batch.
    pub fn batch(&self) -> usize {
        match self {
            Self::Convolution(problem) => problem.batch(),
            Self::Graph(problem) => Subject::batch(problem),
        }
    }

    /// The derivative of the convolution that the problem computes.
    pub fn direction(&self) -> Direction {
        match self {
            Self::Convolution(problem) => problem.direction,
            Self::Graph(problem) => problem.convolution().direction,
        }
    }

    /// As an import of results takes it.
    pub fn into_subject(self) -> Box<dyn AnySubject> {
        match self {
            Self::Convolution(problem) => Box::new(problem),
            Self::Graph(problem) => Box::new(problem),
        }
    }

    /// The problem as an operation graph.
    pub fn graph(&self) -> graph::Problem {
        match self {
            Self::Convolution(problem) => graph::Problem::of_convolution(problem),
            Self::Graph(problem) => problem.clone(),
        }
    }
}

/// Prints as in log lines.
impl fmt::Display for AnyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Convolution(problem) => problem.fmt(f),
            Self::Graph(problem) => problem.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_tells_the_api() {
        let spec = "BF x=float:8x4x9x9@324x81x9x1 w=float:nchw:6x4x3x3 y=float:8x6x7x7@294x49x7x1 pad=0x0 \
                    stride=1x1 dilation=1x1 mode=correlation compute=float math=default groups=1";
        let legacy = AnyProblem::from_spec(spec).unwrap();
        assert!(matches!(legacy, AnyProblem::Convolution(_)));
        let graph = AnyProblem::from_spec(&legacy.graph().spec()).unwrap();
        assert_eq!(graph, AnyProblem::Graph(legacy.graph()));
        for (problem, spec) in [(&legacy, spec.to_owned()), (&graph, legacy.graph().spec())] {
            assert_eq!((problem.spec(), problem.batch(), problem.direction()), (spec, 8, Direction::BackwardFilter));
        }
        for (wrong, message) in
            [("graph of nothing", "a tensor's type:dims@strides/alignment"), ("G x=", "the direction is \"G\"")]
        {
            let error = AnyProblem::from_spec(wrong).unwrap_err();
            assert!(error.contains(message), "{wrong}: {error}");
        }
    }
}
