//! The operations of vertex functions and of their derivatives, from the rows of [`table`](super::table).

use super::table::operations;

/// A value of a function: the place of the operation that makes it.
pub type Value = usize;

/// What an operation takes, in the order of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// An earlier value, by the name that messages give it.
    Value(&'static str),
    /// The number of a parameter.
    Parameter,
    /// The number of a state.
    State,
    /// The number of an input.
    Input,
    /// The number of an output.
    Output,
    /// The number of a slot, a place or a width.
    Number(&'static str),
    /// A constant.
    Constant,
}

use Operand::{Constant, Input, Number, Output, Parameter, State};

const X: Operand = Operand::Value("x");
const Y: Operand = Operand::Value("y");
const DY: Operand = Operand::Value("dy");
const INDEX: Operand = Operand::Value("index");

/// A sort of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Reads numbers that are there before the vertex runs, and computes next to nothing: whoever needs the result
    /// reads it again.
    Load,
    /// Each element of the result comes from one element of each input, or from nothing but a constant.
    Element,
    /// A product with a matrix.
    Product,
    /// Over the children of a vertex.
    OverChildren,
    /// Over the elements of a value.
    OverWidth,
    /// Puts values side by side, or cuts one.
    Part,
    /// Hands a value out of the function.
    HandOn,
    /// Adds to the gradient of a parameter.
    Accumulate,
}

struct Row {
    op: Op,
    name: &'static str,
    operands: &'static [Operand],
    sort: Sort,
    /// Of a function of x: the operation that makes dx of the result and dy.
    dx: Option<Op>,
}

macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $op:ident $name:literal [$($operand:expr),*] $sort:ident
        $(, one: $one:expr)? $(, dx: $dx:ident)? $(, two: $two:expr)?;
    )*) => {
        /// What an operation does. P, Q: the parameters; x, y: earlier values; dx, dy: gradients of the loss by them.
        ///
        /// A value belongs to the vertex, or to each of its children. A value of the vertex that meets a child's is
        /// used for every child, and a width of 1 that meets a larger one is used for every element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $($(#[$doc])* $op,)*
        }

        /// Each operation at its number.
        const OPERATIONS: &[Row] = &[$(Row {
            op: Op::$op,
            name: $name,
            operands: &[$($operand),*],
            sort: Sort::$sort,
            dx: [$(Some(Op::$dx),)? None][0],
        }),*];
    };
}

operations!(rows);

// An [`Operation`] has room for what each takes.
const _: () = {
    let mut number = 0;
    while number < OPERATIONS.len() {
        let operands = OPERATIONS[number].operands;
        let [mut values, mut constants, mut at] = [0; 3];
        while at < operands.len() {
            match operands[at] {
                Operand::Value(_) => values += 1,
                Constant => constants += 1,
                _ => {}
            }
            at += 1;
        }
        assert!(values <= 3 && constants <= 1 && operands.len() - values - constants <= 2);
        number += 1;
    }
};

/// The number of operations that a user writes; those behind them are in derivatives alone.
pub const USER_OPERATIONS: usize = Op::Take as usize;

impl Op {
    /// The operation that a user writes with this number, from 0 on.
    pub fn of_user(number: usize) -> Option<Self> {
        OPERATIONS[..USER_OPERATIONS].get(number).map(|row| row.op)
    }

    /// The operation of this name.
    pub fn named(name: &str) -> Option<Self> {
        OPERATIONS.iter().find(|row| row.name == name).map(|row| row.op)
    }

    /// The name in the canonical text.
    pub fn name(self) -> &'static str {
        OPERATIONS[self as usize].name
    }

    /// Only derivatives have it.
    pub fn is_of_derivatives(self) -> bool {
        self as usize >= USER_OPERATIONS
    }

    pub(crate) fn operands(self) -> &'static [Operand] {
        OPERATIONS[self as usize].operands
    }

    pub(crate) fn sort(self) -> Sort {
        OPERATIONS[self as usize].sort
    }

    /// Of a function of x, element by element: the operation that makes dx of the result and dy.
    pub fn dx(self) -> Option<Self> {
        OPERATIONS[self as usize].dx
    }

    /// It takes a constant.
    pub fn has_constant(self) -> bool {
        self.operands().contains(&Constant)
    }

    /// Numbers near those of the children may give it a result that is not finite. An empty slot then has zeros as
    /// results: else a product with a gradient of 0 would be no number.
    pub fn may_not_be_finite(self) -> bool {
        matches!(self, Self::Div | Self::Exp | Self::Log | Self::Power | Self::Sqrt | Self::SqrtGradient)
    }

    /// It makes no value: it hands one out of the function.
    pub fn is_sink(self) -> bool {
        matches!(self.sort(), Sort::HandOn | Sort::Accumulate)
    }

    /// It reads numbers that are there before the vertex runs.
    pub fn is_load(self) -> bool {
        self.sort() == Sort::Load
    }
}

/// An operation of a function, with the earlier values that it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// The operation.
    pub op: Op,
    /// The earlier values that it takes, in the order of its text; the others are 0.
    pub inputs: [Value; 3],
    /// Numbers of parameters, states, inputs, outputs, slots and widths, in the order of its text; the others are 0.
    pub arguments: [usize; 2],
    /// The constant of `Scale`, `Shift` and `Power`; else 0.
    pub constant: f64,
}

impl Operation {
    /// An operation without a constant. `inputs` and `arguments` have no more than it takes.
    pub fn new(op: Op, inputs: &[Value], arguments: &[usize]) -> Self {
        let mut made = Self { op, inputs: [0; 3], arguments: [0; 2], constant: 0.0 };
        made.inputs[..inputs.len()].copy_from_slice(inputs);
        made.arguments[..arguments.len()].copy_from_slice(arguments);
        made
    }

    /// `Scale`, `Shift` or `Power`.
    pub fn with_constant(op: Op, x: Value, constant: f64) -> Self {
        Self { constant, ..Self::new(op, &[x], &[]) }
    }

    /// The values that it takes.
    pub fn inputs(&self) -> &[Value] {
        &self.inputs[..self.op.operands().iter().filter(|operand| matches!(operand, Operand::Value(_))).count()]
    }

    /// The numbers that it takes.
    pub fn arguments(&self) -> &[usize] {
        let is_argument = |operand: &&Operand| !matches!(operand, Operand::Value(_) | Operand::Constant);
        &self.arguments[..self.op.operands().iter().filter(is_argument).count()]
    }

    /// The same with other inputs.
    pub fn renumbered(mut self, number: impl Fn(Value) -> Value) -> Self {
        for place in 0..self.inputs().len() {
            self.inputs[place] = number(self.inputs[place]);
        }
        self
    }
}
