//! An operation graph of a program that we plan.

use std::sync::Arc;

use crate::problem::graph::Problem;

/// An operation graph that we plan.
pub struct Graph {
    /// The graph as a problem.
    pub problem: Arc<Problem>,
    /// The program's ids of the tensors, by place in the problem.
    pub ids: Vec<i64>,
}
