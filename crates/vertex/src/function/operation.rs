//! The operations of vertex functions and of their derivatives.

/// A value of a function: the place of the operation that makes it.
pub type Value = usize;

/// What an operation does. P, Q: the parameters; x, y: earlier values; dx, dy: gradients of the loss by them.
///
/// A value belongs to the vertex, or to each of its children. A value of the vertex that meets a child's is used for
/// every child, and a width of 1 that meets a larger one is used for every element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The vertex's row of input k; zeros where it has none.
    Pull,
    /// The vertex's number in input k, whose numbers are indices.
    PullIndex,
    /// The row of P with this index.
    Lookup,
    /// State s of the child in this slot; zeros where there is none.
    Gather,
    /// State s of each child.
    Children,
    /// P x.
    Matmul,
    /// x + P.
    Bias,
    /// x + y.
    Add,
    /// x - y.
    Sub,
    /// x y, element by element.
    Mul,
    /// x times a constant.
    Scale,
    /// x plus a constant.
    Shift,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// tanh(x).
    Tanh,
    /// max(x, 0).
    Relu,
    /// exp(x).
    Exp,
    /// The sum over the children; zeros without children.
    SumChildren,
    /// The mean over the children; zeros without children.
    MeanChildren,
    /// The greatest over the children, element by element; zeros without children.
    MaxChildren,
    /// exp(x) over its sum over the children, element by element.
    SoftmaxChildren,
    /// exp(x) over its sum over the width.
    Softmax,
    /// The sum over the width: a value of width 1.
    Sum,
    /// x, then y.
    Concat,
    /// So many elements of x from the first on.
    Slice,
    /// Hands x on to the parents, as state s.
    Scatter,
    /// The vertex's row of output k is x.
    Push,

    /// The gradient of state s: the sum of what the parents give.
    Take,
    /// State s as the vertex handed it on.
    Own,
    /// So many numbers of what the vertex kept when it ran forward, from the first on.
    Kept,
    /// Numbers that it kept for each child, from the first on.
    KeptOfChildren,
    /// The vertex's row of the gradient of output k.
    PushGradient,
    /// The transpose of P times x.
    MatmulTransposed,
    /// dx of y = sigmoid(x), from y and dy.
    SigmoidGradient,
    /// dx of y = tanh(x), from y and dy.
    TanhGradient,
    /// dx of y = relu(x), from y and dy.
    ReluGradient,
    /// dx of the mean of x over the children, from dy: dy over their number, for each child.
    MeanGradient,
    /// dx of the greatest of x over the children, from x and dy: dy for the first child that has the greatest.
    MaxGradient,
    /// x for each child.
    Spread,
    /// x, of width 1, repeated to a width.
    Widen,
    /// So many zeros.
    Zeros,
    /// Adds x to the gradient of state s of the child in this slot.
    Give,
    /// Adds x to the gradient of state s of each child.
    GiveChildren,
    /// Adds x to the vertex's row of the gradient of input k.
    PullGradient,
    /// Adds the product of the column dy and the row x to the gradient of P.
    Accumulate,
    /// Adds dy to the gradient of P, a vector.
    AccumulateBias,
    /// Adds dy to the row with this index of the gradient of P.
    AccumulateRow,
    /// Keeps x, from this place on, for the run backward.
    Keep,
}

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

/// Each operation with its name and operands. Those from `Take` on are in derivatives alone.
const OPERATIONS: &[(Op, &str, &[Operand])] = &[
    (Op::Pull, "pull", &[Input]),
    (Op::PullIndex, "pullIndex", &[Input]),
    (Op::Lookup, "lookup", &[Parameter, INDEX]),
    (Op::Gather, "gather", &[Number("slot"), State]),
    (Op::Children, "children", &[State]),
    (Op::Matmul, "matmul", &[Parameter, X]),
    (Op::Bias, "bias", &[Parameter, X]),
    (Op::Add, "add", &[X, Y]),
    (Op::Sub, "sub", &[X, Y]),
    (Op::Mul, "mul", &[X, Y]),
    (Op::Scale, "scale", &[X, Constant]),
    (Op::Shift, "shift", &[X, Constant]),
    (Op::Sigmoid, "sigmoid", &[X]),
    (Op::Tanh, "tanh", &[X]),
    (Op::Relu, "relu", &[X]),
    (Op::Exp, "exp", &[X]),
    (Op::SumChildren, "sumChildren", &[X]),
    (Op::MeanChildren, "meanChildren", &[X]),
    (Op::MaxChildren, "maxChildren", &[X]),
    (Op::SoftmaxChildren, "softmaxChildren", &[X]),
    (Op::Softmax, "softmax", &[X]),
    (Op::Sum, "sum", &[X]),
    (Op::Concat, "concat", &[X, Y]),
    (Op::Slice, "slice", &[X, Number("first"), Number("width")]),
    (Op::Scatter, "scatter", &[State, X]),
    (Op::Push, "push", &[Output, X]),
    (Op::Take, "take", &[State]),
    (Op::Own, "own", &[State]),
    (Op::Kept, "kept", &[Number("first"), Number("width")]),
    (Op::KeptOfChildren, "keptOfChildren", &[Number("first"), Number("width")]),
    (Op::PushGradient, "pushGradient", &[Output]),
    (Op::MatmulTransposed, "matmulTransposed", &[Parameter, X]),
    (Op::SigmoidGradient, "sigmoidGradient", &[Y, DY]),
    (Op::TanhGradient, "tanhGradient", &[Y, DY]),
    (Op::ReluGradient, "reluGradient", &[Y, DY]),
    (Op::MeanGradient, "meanGradient", &[DY]),
    (Op::MaxGradient, "maxGradient", &[X, DY]),
    (Op::Spread, "spread", &[X]),
    (Op::Widen, "widen", &[X, Number("width")]),
    (Op::Zeros, "zeros", &[Number("width")]),
    (Op::Give, "give", &[Number("slot"), State, X]),
    (Op::GiveChildren, "giveChildren", &[State, X]),
    (Op::PullGradient, "pullGradient", &[Input, X]),
    (Op::Accumulate, "accumulate", &[Parameter, DY, X]),
    (Op::AccumulateBias, "accumulateBias", &[Parameter, DY]),
    (Op::AccumulateRow, "accumulateRow", &[Parameter, INDEX, DY]),
    (Op::Keep, "keep", &[Number("first"), X]),
];

/// The number of operations that a user writes; those behind them are in derivatives alone.
pub const USER_OPERATIONS: usize = Op::Take as usize;

impl Op {
    /// The operation that a user writes with this number, from 0 on.
    pub fn of_user(number: usize) -> Option<Self> {
        OPERATIONS[..USER_OPERATIONS].get(number).map(|(op, ..)| *op)
    }

    /// The operation of this name.
    pub fn named(name: &str) -> Option<Self> {
        OPERATIONS.iter().find(|(_, its, _)| *its == name).map(|(op, ..)| *op)
    }

    /// The name in the canonical text.
    pub fn name(self) -> &'static str {
        OPERATIONS[self as usize].1
    }

    /// Only derivatives have it.
    pub fn is_of_derivatives(self) -> bool {
        self as usize >= USER_OPERATIONS
    }

    pub(crate) fn operands(self) -> &'static [Operand] {
        OPERATIONS[self as usize].2
    }

    /// It makes no value: it hands one out of the function.
    pub fn is_sink(self) -> bool {
        matches!(
            self,
            Op::Scatter
                | Op::Push
                | Op::Give
                | Op::GiveChildren
                | Op::PullGradient
                | Op::Accumulate
                | Op::AccumulateBias
                | Op::AccumulateRow
                | Op::Keep
        )
    }

    /// It reads numbers that are there before the vertex runs, and computes next to nothing: whoever needs its result
    /// reads it again.
    pub fn is_load(self) -> bool {
        use Op::*;
        matches!(self, Pull | PullIndex | Lookup | Gather | Children)
            || matches!(self, Take | Own | Kept | KeptOfChildren | PushGradient | Zeros)
    }

    /// Each element of its result comes from one element of each input, or from nothing but a constant.
    pub fn is_element_wise(self) -> bool {
        use Op::*;
        matches!(
            self,
            Bias | Add
                | Sub
                | Mul
                | Scale
                | Shift
                | Sigmoid
                | Tanh
                | Relu
                | Exp
                | SigmoidGradient
                | TanhGradient
                | ReluGradient
                | MeanGradient
                | Spread
                | Widen
                | Zeros
        )
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
    /// The constant of `Scale` and `Shift`; else 0.
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

    /// `Scale` or `Shift`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_operation_at_its_number() {
        for (number, (op, name, operands)) in OPERATIONS.iter().enumerate() {
            assert_eq!((*op as usize, Op::named(name)), (number, Some(*op)));
            assert_eq!(Op::of_user(number).is_some(), !op.is_of_derivatives());
            let values = operands.iter().filter(|operand| matches!(operand, Operand::Value(_))).count();
            let constants = operands.iter().filter(|operand| matches!(operand, Constant)).count();
            assert!(values <= 3 && constants <= 1 && operands.len() - values - constants <= 2);
        }
    }
}
