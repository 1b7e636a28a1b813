//! Vertex functions: their operations, their checks and their canonical text.

mod check;
mod declaration;
mod operation;
mod table;
mod text;

pub(crate) use check::type_of;
pub use check::{
    Domain, MOST_FUNCTIONS, MOST_OPERATIONS, MOST_PARAMETERS, MOST_PULLS_AND_PUSHES, MOST_STATES, MOST_WIDTH, Net,
    Refused, Type,
};
pub use declaration::{Arity, Declaration, Function, ParameterSize};
pub(crate) use operation::Sort;
pub use operation::{Op, Operation, USER_OPERATIONS, Value};
pub(crate) use table::operations;
