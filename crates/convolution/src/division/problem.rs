//! The convolution problem of a layer and its plan, as far as the legacy API and the graph API share them.

use std::fmt;
use std::sync::Arc;

use cudnn_abi::*;
use serde_json::{Value, json};

use crate::plans::graph::plan as graph;
use crate::plans::graph::state::State;
use crate::plans::legacy::plan as legacy;
use crate::problem::Problem;
use crate::problem::algorithm::Algorithm;
use crate::problem::graph::EngineConfiguration;
use cudnn::Direction;
use planner::Configuration;
use tuning::report::merged;
use tuning::report::part;

/// A layer's convolution problem.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum LayerProblem {
    /// A convolution of the legacy API.
    Convolution(Problem),
    /// An operation graph in a numerical class.
    Graph(Arc<State>),
}

/// A layer's configuration.
#[derive(Clone)]
pub enum LayerConfiguration {
    /// A configuration of a legacy convolution.
    Convolution(Configuration<Algorithm>),
    /// A configuration of an operation graph.
    Graph(Configuration<EngineConfiguration>),
}

/// A configuration that is ready to run.
pub enum LayerPlan {
    /// The plan of a legacy convolution.
    Convolution(legacy::Plan),
    /// The plan of an operation graph.
    Graph(graph::Plan),
}

impl LayerProblem {
    /// The derivative of the convolution that the problem computes.
    pub fn direction(&self) -> Direction {
        match self {
            Self::Convolution(problem) => problem.direction,
            Self::Graph(state) => state.key.problem.convolution().direction,
        }
    }

    /// The math type of the convolution descriptor; `None` for an operation graph, which has no such descriptor.
    pub fn math_type(&self) -> Option<cudnnMathType_t> {
        match self {
            Self::Convolution(problem) => Some(problem.math_type),
            Self::Graph(_) => None,
        }
    }

    /// True if the two problems differ in nothing but the math type.
    pub fn differs_in_math_type(&self, other: &Self) -> bool {
        let (Self::Convolution(a), Self::Convolution(b)) = (self, other) else { return false };
        a.math_type != b.math_type && *a == Problem { math_type: a.math_type, ..*b }
    }

    /// Makes a configuration of this problem ready to run. `Err` is cuDNN's status.
    pub fn plan(&self, configuration: &LayerConfiguration) -> Result<LayerPlan, cudnnStatus_t> {
        match (self, configuration) {
            (Self::Convolution(problem), LayerConfiguration::Convolution(configuration)) => {
                legacy::Plan::new(problem, configuration.clone()).map(LayerPlan::Convolution)
            }
            (Self::Graph(state), LayerConfiguration::Graph(configuration)) => {
                graph::Plan::new(&state.key.problem, configuration.clone(), &state.target, usize::MAX, |_, _| None)
                    .map(LayerPlan::Graph)
            }
            _ => Err(CUDNN_STATUS_INTERNAL_ERROR), // a configuration of the other API
        }
    }

    /// Adds an event's own values to the fields that identify the problem in the report.
    pub fn report(&self, event: Value) -> Value {
        match self {
            Self::Convolution(problem) => merged(problem, event),
            Self::Graph(state) => merged(&*state.key.problem, event),
        }
    }
}

impl fmt::Display for LayerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Convolution(problem) => problem.fmt(f),
            Self::Graph(state) => state.key.problem.fmt(f),
        }
    }
}

impl fmt::Debug for LayerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl LayerConfiguration {
    /// The configuration's workspace, in bytes.
    pub fn workspace(&self) -> usize {
        match self {
            Self::Convolution(configuration) => configuration.workspace(),
            Self::Graph(configuration) => configuration.workspace(),
        }
    }

    /// The configuration's fields in the report.
    pub fn report(&self) -> Value {
        fn report<A: fmt::Display>(configuration: &Configuration<A>) -> Value {
            let parts: Vec<_> = configuration.parts().iter().map(part).collect();
            json!({ "division": configuration.to_string(), "parts": parts })
        }
        match self {
            Self::Convolution(configuration) => report(configuration),
            Self::Graph(configuration) => report(configuration),
        }
    }
}

impl LayerPlan {
    /// The plan's workspace, in bytes.
    pub fn workspace(&self) -> usize {
        match self {
            Self::Convolution(plan) => plan.workspace(),
            Self::Graph(plan) => plan.workspace(),
        }
    }
}

impl fmt::Display for LayerConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Convolution(configuration) => configuration.fmt(f),
            Self::Graph(configuration) => configuration.fmt(f),
        }
    }
}
