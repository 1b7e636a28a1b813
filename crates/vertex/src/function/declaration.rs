//! A net as its user declares it.

use super::operation::Operation;

/// What a net takes, keeps and gives, and its vertex functions. [`Net::new`](super::Net::new) checks it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    /// The width of each state that vertices hand on to their parents.
    pub states: Vec<usize>,
    /// The size of each parameter.
    pub parameters: Vec<ParameterSize>,
    /// The width of each input; 0 for one of indices.
    pub pulls: Vec<usize>,
    /// The width of each output.
    pub pushes: Vec<usize>,
    /// A function for each kind of vertex.
    pub functions: Vec<Function>,
}

/// The size of a parameter: a matrix `[rows][columns]`, or a vector `[rows]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSize {
    /// Rows of the matrix, or elements of the vector.
    pub rows: usize,
    /// Columns; 0 for a vector.
    pub columns: usize,
}

impl ParameterSize {
    /// The number of elements.
    pub fn elements(self) -> usize {
        self.rows * self.columns.max(1)
    }
}

/// A vertex function: the computation of the vertices of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The children of its vertices.
    pub children: Arity,
    /// Its operations, each behind those that it takes from.
    pub operations: Vec<Operation>,
}

/// The children of the vertices of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// So many slots; some of them may be empty.
    Exactly(usize),
    /// Any number, with no empty slots.
    Any,
}

impl Arity {
    /// A vertex with this number of slots fits.
    pub fn takes(self, slots: usize) -> bool {
        self == Arity::Any || self == Arity::Exactly(slots)
    }
}

impl std::fmt::Display for Arity {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arity::Exactly(slots) => write!(to, "{slots}"),
            Arity::Any => to.write_str("any"),
        }
    }
}
