//! Random vertex functions, made of numbers, so that shrinking the numbers shrinks the functions.

use ucudnn_vertex::function::{Arity, Declaration, Function, Op, Operation, ParameterSize, USER_OPERATIONS, Value};
use ucudnn_vertex::oracle;

/// Four numbers that decide on an operation.
pub type Choice = [u16; 4];

/// Numbers that decide on a net.
#[derive(Clone, Debug)]
pub struct Choices {
    pub states: Vec<u8>,
    pub pulls: Vec<u8>,
    pub pushes: Vec<u8>,
    /// For each function: the children, the operations, and the values that it hands on.
    pub functions: Vec<(u8, Vec<Choice>, Vec<Choice>)>,
}

/// The most children of a vertex.
pub const MOST_CHILDREN: usize = 4;
/// The rows of tables that are looked up.
pub const TABLE_ROWS: usize = 7;
const MOST_WIDTH: usize = 12;
/// Parameters are left for the values that are handed on.
const MOST_PARAMETERS: usize = 30;
/// No number becomes larger, so that errors stay near those of one rounding.
const MOST: f64 = 300.0;
/// Likewise of the states.
const MOST_OF_STATES: f64 = 2.0;

pub fn declaration(choices: &Choices) -> Declaration {
    let width = |number: &u8| 1 + usize::from(*number) % 5;
    // A number above 200 is an input of indices; the first input has numbers.
    let pulls = choices.pulls.iter().enumerate();
    let mut declaration = Declaration {
        states: choices.states.iter().map(width).collect(),
        pulls: pulls.map(|(place, number)| if place > 0 && *number > 200 { 0 } else { width(number) }).collect(),
        pushes: choices.pushes.iter().map(width).collect(),
        ..Declaration::default()
    };
    for (place, (children, operations, ends)) in choices.functions.iter().enumerate() {
        let children = match usize::from(*children) % (MOST_CHILDREN + 2) {
            0 => Arity::Any,
            slots => Arity::Exactly(slots - 1),
        };
        let mut builder = Builder { declaration: &mut declaration, children, operations: vec![], values: vec![] };
        builder.add(Operation::new(Op::Pull, &[], &[0]));
        operations.iter().for_each(|choice| builder.choose(*choice));
        builder.hand_on(ends, place + 1 == choices.functions.len());
        let operations = builder.operations;
        declaration.functions.push(Function { children, operations });
    }
    declaration
}

/// Facts about an operation's result. An index has none, nor has an operation without a result.
#[derive(Clone, Copy)]
struct Known {
    is_of_children: bool,
    width: usize,
    /// No number of it is larger.
    most: f64,
    /// No number of it is less.
    least: f64,
}

impl Known {
    /// The same with numbers up to `most`, of either sign.
    fn up_to(self, most: f64) -> Self {
        Self { most, least: -most, ..self }
    }
}

struct Builder<'a> {
    declaration: &'a mut Declaration,
    children: Arity,
    operations: Vec<Operation>,
    values: Vec<Option<Known>>,
}

impl Builder<'_> {
    /// Adds an operation if its result is neither too wide nor too large.
    fn add(&mut self, operation: Operation) -> Option<Value> {
        let known = self.known(&operation);
        if known.is_some_and(|known| known.width > MOST_WIDTH || known.most > MOST) {
            return None;
        }
        self.operations.push(operation);
        self.values.push(known);
        Some(self.operations.len() - 1)
    }

    fn known(&self, operation: &Operation) -> Option<Known> {
        let [first, second] = operation.arguments;
        let of = |number: usize| self.values[operation.inputs[number]];
        let declaration = &self.declaration;
        let (x, y) = (of_first(&self.values, operation), operation.inputs().get(1).and_then(|_| of(1)));
        let of_vertex = |width, most| Some(Known { is_of_children: false, width, most, least: -most });
        match operation.op {
            Op::Pull => of_vertex(declaration.pulls[first], 1.0),
            Op::PullIndex | Op::Scatter | Op::Push => None,
            Op::Lookup => of_vertex(declaration.parameters[first].columns, 1.0),
            Op::Gather => of_vertex(declaration.states[second], MOST_OF_STATES),
            Op::Children => of_vertex(declaration.states[first], MOST_OF_STATES)
                .map(|known| Known { is_of_children: true, ..known }),
            Op::Matmul => {
                x.map(|x| Known { width: declaration.parameters[first].rows, ..x }.up_to(x.most * x.width as f64))
            }
            Op::Bias => x.map(|x| x.up_to(x.most + 1.0)),
            Op::Gain => x.map(|x| x.up_to(x.most)),
            Op::Softmax | Op::SoftmaxChildren => x.map(|x| x.up_to(1.0)),
            Op::SumChildren => x.map(|x| Known { is_of_children: false, ..x }.up_to(x.most * MOST_CHILDREN as f64)),
            // Of no children it is 0.
            Op::MeanChildren | Op::MaxChildren => x.map(|x| Known { is_of_children: false, ..x }.up_to(x.most)),
            Op::Sum => x.map(|x| Known { width: 1, ..x }.up_to(x.most * x.width as f64)),
            Op::Slice => x.map(|x| Known { width: second, ..x }),
            Op::Add | Op::Sub | Op::Mul | Op::Concat | Op::Div | Op::Maximum | Op::Minimum => {
                let (x, y) = (x?, y?);
                let is_of_children = x.is_of_children || y.is_of_children;
                let width = if operation.op == Op::Concat { x.width + y.width } else { x.width.max(y.width) };
                let most = match operation.op {
                    Op::Concat | Op::Maximum | Op::Minimum => x.most.max(y.most),
                    Op::Mul => x.most * y.most,
                    Op::Div => x.most / y.least,
                    _ => x.most + y.most,
                };
                let known = Known { is_of_children, width, ..x }.up_to(most);
                let is_square = operation.op == Op::Mul && operation.inputs[0] == operation.inputs[1];
                Some(if is_square { Known { least: 0.0, ..known } } else { known })
            }
            // Functions of one number are greatest at an end.
            op => x.map(|x| {
                let [low, high] = [x.least, x.most].map(|end| oracle::function(op, end, operation.constant).0);
                let known = x.up_to(low.abs().max(high.abs()));
                if op == Op::Shift { Known { least: low, ..known } } else { known }
            }),
        }
    }

    /// One of the values that are accepted.
    fn value(&self, choice: u16, accepted: impl Fn(&Known) -> bool) -> Option<Value> {
        let is_accepted = |value: &Value| self.values[*value].as_ref().is_some_and(&accepted);
        let values: Vec<_> = (0..self.values.len()).filter(is_accepted).collect();
        Some(*values.get(usize::from(choice).checked_rem(values.len())?)?)
    }

    /// A parameter with `columns` columns, there already or new.
    fn parameter(&mut self, choice: u16, rows: usize, columns: usize, is_given: bool) -> usize {
        let fits = |size: &ParameterSize| size.columns == columns && (!is_given || size.rows == rows);
        let all = &mut self.declaration.parameters;
        let fitting: Vec<_> = (0..all.len()).filter(|place| fits(&all[*place])).collect();
        if !fitting.is_empty() && (!choice.is_multiple_of(3) || all.len() >= MOST_PARAMETERS) {
            return fitting[usize::from(choice) / 3 % fitting.len()];
        }
        all.push(ParameterSize { rows, columns });
        all.len() - 1
    }

    fn choose(&mut self, [op, a, b, c]: Choice) {
        let op = Op::of_user(usize::from(op) % USER_OPERATIONS).expect("a user's operation");
        let is_full = self.declaration.parameters.len() >= MOST_PARAMETERS;
        let any = |_: &Known| true;
        let among = |choice: u16, count: usize| usize::from(choice).checked_rem(count);
        let (pulls, states) = (self.declaration.pulls.clone(), self.declaration.states.len());
        match op {
            Op::Pull => {
                let numbers: Vec<_> = (0..pulls.len()).filter(|input| pulls[*input] > 0).collect();
                self.add(Operation::new(op, &[], &[numbers[usize::from(a) % numbers.len()]]));
            }
            Op::PullIndex | Op::Lookup => {
                let indices: Vec<_> = (0..pulls.len()).filter(|input| pulls[*input] == 0).collect();
                let Some(place) = among(a, indices.len()).filter(|_| !is_full) else { return };
                let index = self.add(Operation::new(Op::PullIndex, &[], &[indices[place]])).expect("an index is small");
                let table = self.parameter(b, TABLE_ROWS, 1 + usize::from(c) % 5, true);
                self.add(Operation::new(Op::Lookup, &[index], &[table]));
            }
            Op::Gather => {
                let Arity::Exactly(slots) = self.children else { return };
                if let (Some(slot), Some(state)) = (among(a, slots), among(b, states)) {
                    self.add(Operation::new(op, &[], &[slot, state]));
                }
            }
            Op::Children => {
                if let Some(state) = among(a, states) {
                    self.add(Operation::new(op, &[], &[state]));
                }
            }
            Op::Matmul | Op::Bias | Op::Gain if is_full => {}
            Op::Matmul => {
                let x = self.value(a, any).expect("the first value is there");
                let width = self.values[x].expect("it has a width").width;
                let matrix = self.parameter(b, 1 + usize::from(c) % 5, width, false);
                self.add(Operation::new(op, &[x], &[matrix]));
            }
            Op::Bias | Op::Gain => {
                let x = self.value(a, any).expect("the first value is there");
                let vector = self.parameter(b, self.values[x].expect("it has a width").width, 0, true);
                self.add(Operation::new(op, &[x], &[vector]));
            }
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Maximum | Op::Minimum => {
                let x = self.value(a, any).expect("the first value is there");
                let width = self.values[x].expect("it has a width").width;
                let meets = |y: &Known| y.width == width || y.width == 1 || width == 1;
                let y = self.value(b, meets).expect("x meets itself");
                let y = if op == Op::Div { self.positive(y) } else { Some(y) };
                if let Some(y) = y {
                    self.add(Operation::new(op, &[x, y], &[]));
                }
            }
            Op::Concat => {
                let values = [a, b].map(|choice| self.value(choice, any).expect("the first value is there"));
                self.add(Operation::new(op, &values, &[]));
            }
            Op::Scale | Op::Shift => {
                let x = self.value(a, any).expect("the first value is there");
                self.add(Operation::with_constant(op, x, f64::from(b) / 16_384.0 - 2.0));
            }
            Op::Log | Op::Sqrt | Op::Power => {
                let x = self.value(a, any).expect("the first value is there");
                if let Some(x) = self.positive(x) {
                    let constant = if op == Op::Power { f64::from(b) / 16_384.0 - 2.0 } else { 0.0 };
                    self.add(Operation::with_constant(op, x, constant));
                }
            }
            Op::Slice => {
                let x = self.value(a, any).expect("the first value is there");
                let width = self.values[x].expect("it has a width").width;
                let first = usize::from(b) % width;
                self.add(Operation::new(op, &[x], &[first, 1 + usize::from(c) % (width - first)]));
            }
            Op::SumChildren | Op::MeanChildren | Op::MaxChildren | Op::SoftmaxChildren => {
                if let Some(x) = self.value(a, |known| known.is_of_children) {
                    self.add(Operation::new(op, &[x], &[]));
                }
            }
            Op::Scatter | Op::Push => {}
            _ => {
                let x = self.value(a, any).expect("the first value is there");
                self.add(Operation::new(op, &[x], &[]));
            }
        }
    }

    /// A value that has a logarithm: x² + 1/2.
    fn positive(&mut self, x: Value) -> Option<Value> {
        let square = self.add(Operation::new(Op::Mul, &[x, x], &[]))?;
        self.add(Operation::with_constant(Op::Shift, square, 0.5))
    }

    /// Hands on each state and, at the last function, each output; other functions leave some outputs out.
    fn hand_on(&mut self, choices: &[Choice], is_last: bool) {
        let widths = [self.declaration.states.clone(), self.declaration.pushes.clone()];
        let ends = widths.iter().zip([Op::Scatter, Op::Push]);
        let ends =
            ends.flat_map(|(widths, op)| widths.iter().enumerate().map(move |(place, width)| (op, place, *width)));
        for (number, (op, place, width)) in ends.enumerate() {
            let [a, b, c, _] = choices.get(number).copied().unwrap_or_default();
            if op == Op::Push && !is_last && c % 4 == 0 {
                continue;
            }
            let found = self.value(a, |known| !known.is_of_children && known.width == width);
            let x = found.filter(|_| b % 4 > 0).unwrap_or_else(|| {
                let x = self.value(a, |known| !known.is_of_children && known.most * known.width as f64 <= MOST);
                let x = x.expect("what was pulled first is there");
                let columns = self.values[x].expect("it has a width").width;
                let matrix = self.parameter(b, width, columns, true);
                self.add(Operation::new(Op::Matmul, &[x], &[matrix])).expect("it is small")
            });
            let is_large = self.values[x].is_some_and(|known| known.most > MOST_OF_STATES);
            let x = if op == Op::Scatter && is_large {
                self.add(Operation::new(Op::Tanh, &[x], &[])).expect("it is small")
            } else {
                x
            };
            self.add(Operation::new(op, &[x], &[place]));
        }
    }
}

fn of_first(values: &[Option<Known>], operation: &Operation) -> Option<Known> {
    operation.inputs().first().and_then(|input| values[*input])
}
