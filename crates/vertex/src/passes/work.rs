//! What a pass does.

use super::place::{Place, Span};
use crate::function::Op;

/// A step of a pass over rows. It reads scratch memory that lies before `to`.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Reads a frame; of a vertex where the row is an edge.
    Load {
        /// The place in the frame.
        from: Place,
        /// The part of the scratch memory.
        to: Span,
    },
    /// An operation that reads other memory.
    Read {
        /// The operation.
        op: Op,
        /// Its arguments; behind that of a lookup the input of its index.
        arguments: [usize; 2],
        /// The result.
        to: Span,
    },
    /// An operation with one input.
    Unary {
        /// The operation.
        op: Op,
        /// Its input.
        x: Span,
        /// The result.
        to: Span,
        /// Its constant.
        constant: f64,
    },
    /// An operation with two inputs.
    Binary {
        /// The operation.
        op: Op,
        /// The first input.
        x: Span,
        /// The second one.
        y: Span,
        /// The result.
        to: Span,
    },
    /// An operation with a vector, element by element.
    OfVector {
        /// `Bias` or `Gain`.
        op: Op,
        /// The vector.
        parameter: usize,
        /// What meets it.
        x: Span,
        /// The result.
        to: Span,
    },
    /// Copies within the scratch memory.
    Copy {
        /// The original.
        from: Span,
        /// The copy.
        to: Span,
    },
    /// Writes a frame.
    Store {
        /// The part of the scratch memory.
        from: Span,
        /// The place in the frame.
        to: Place,
    },
    /// An operation that hands on.
    Hand {
        /// The operation.
        op: Op,
        /// Its arguments.
        arguments: [usize; 2],
        /// What is handed on.
        from: Span,
    },
}

/// One pass over rows.
#[derive(Clone, Debug)]
pub enum Work {
    /// Steps for each row.
    Rows {
        /// The rows are those of edges.
        is_of_children: bool,
        /// The steps.
        steps: Vec<Step>,
        /// The numbers of scratch memory.
        scratch: usize,
    },
    /// y = P x, or Pᵀ x.
    Product {
        /// P.
        parameter: usize,
        /// It is Pᵀ.
        is_transposed: bool,
        /// x.
        x: Place,
        /// y.
        y: Place,
    },
    /// A reduction over the children of each vertex, or a softmax over them; over the width for a sum and a softmax.
    Reduce {
        /// The operation.
        op: Op,
        /// What is reduced.
        x: Place,
        /// The result.
        y: Place,
    },
    /// The gradient of the greatest over the children.
    MaxGradient {
        /// Of what the greatest was found.
        x: Place,
        /// Its gradient.
        dy: Place,
        /// The gradient by x.
        dx: Place,
    },
    /// Adds the products of the columns dy and the rows x to a gradient.
    Accumulate {
        /// The parameter.
        parameter: usize,
        /// The columns.
        dy: Place,
        /// The rows.
        x: Place,
    },
    /// Adds all dy to the gradient of a vector.
    AccumulateBias {
        /// The vector.
        parameter: usize,
        /// What is added.
        dy: Place,
    },
    /// Adds each dy to the row of a gradient that an index names.
    AccumulateRow {
        /// The parameter.
        parameter: usize,
        /// The input with the indices.
        input: usize,
        /// What is added.
        dy: Place,
    },
}
