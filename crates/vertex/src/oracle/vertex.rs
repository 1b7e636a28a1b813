//! The computation of one vertex.

use super::tape::{Number, Tape};
use super::{Graph, Handed, Pulled, Run};
use crate::function::{Op, Operation};

/// A function of one number, with its derivative.
pub fn function(op: Op, x: f64, constant: f64) -> (f64, f64) {
    match op {
        Op::Scale => (x * constant, constant),
        Op::Shift => (x + constant, 1.0),
        Op::Sigmoid => {
            let y = 1.0 / (1.0 + (-x).exp());
            (y, y * (1.0 - y))
        }
        Op::Tanh => (x.tanh(), 1.0 - x.tanh() * x.tanh()),
        Op::Relu if x > 0.0 => (x, 1.0),
        Op::Relu => (0.0, 0.0),
        Op::Exp => (x.exp(), x.exp()),
        Op::Log => (x.ln(), 1.0 / x),
        Op::Sqrt => (x.sqrt(), 0.5 / x.sqrt()),
        Op::Power if constant == 0.0 => (1.0, 0.0),
        Op::Power => (x.powf(constant), constant * x.powf(constant - 1.0)),
        op => panic!("{} is no function of one number", op.name()),
    }
}

/// A value of each child.
#[derive(Clone)]
struct OfChildren {
    /// Also where there is no child.
    width: usize,
    /// By slots; `None` where the slot is empty.
    of_slots: Vec<Option<Vec<Number>>>,
}

/// The value of an operation.
#[derive(Clone)]
enum Value {
    /// It makes none.
    Nothing,
    /// `None`: the vertex pulls no row.
    Index(Option<usize>),
    OfVertex(Vec<Number>),
    OfChildren(OfChildren),
}

impl Value {
    fn of_vertex(self) -> Vec<Number> {
        let Value::OfVertex(numbers) = self else { panic!("a value of the vertex is expected") };
        numbers
    }

    fn of_children(self) -> OfChildren {
        let Value::OfChildren(of_children) = self else { panic!("a value of each child is expected") };
        of_children
    }
}

impl Run<'_> {
    /// Runs a vertex whose children are done.
    pub(super) fn vertex(&mut self, graph: &Graph, vertex: usize, done: &[Option<Handed>]) -> Handed {
        let declaration = self.declaration;
        let (states, pushes) = (vec![vec![]; declaration.states.len()], vec![None; declaration.pushes.len()]);
        let mut handed = Handed { states, pushes };
        let slots = graph.slots(vertex);
        let state_of = |child: i32, state: usize| {
            let child = done.get(usize::try_from(child).ok()?)?.as_ref()?;
            Some(child.states[state].clone())
        };
        let mut values: Vec<Value> = vec![];
        for operation in &declaration.functions[graph.kind(vertex, declaration)].operations {
            let [first, second] = operation.arguments;
            let input = |number: usize| values[operation.inputs[number]].clone();
            let made = match operation.op {
                Op::Pull => Value::OfVertex(self.pull(first, graph.row(vertex))),
                Op::PullIndex => Value::Index(self.index(first, graph.row(vertex))),
                Op::Lookup => Value::OfVertex(self.lookup(first, input(0))),
                Op::Gather => {
                    let zeros = || self.tape.constants(declaration.states[second]);
                    Value::OfVertex(state_of(slots[first], second).unwrap_or_else(zeros))
                }
                Op::Children => {
                    let of_slots = slots.iter().map(|child| state_of(*child, first)).collect();
                    Value::OfChildren(OfChildren { width: declaration.states[first], of_slots })
                }
                Op::Scatter => {
                    handed.states[first] = input(0).of_vertex();
                    Value::Nothing
                }
                Op::Push => {
                    handed.pushes[first] = Some(input(0).of_vertex());
                    Value::Nothing
                }
                Op::SumChildren | Op::MeanChildren | Op::MaxChildren => {
                    Value::OfVertex(self.tape.reduce(operation.op, input(0).of_children()))
                }
                Op::SoftmaxChildren => Value::OfChildren(self.tape.softmax_children(input(0).of_children())),
                _ if operation.inputs().len() == 1 => self.unary(operation, input(0)),
                op => self.tape.binary(op, input(0), input(1)),
            };
            values.push(made);
        }
        handed
    }

    fn pull(&mut self, input: usize, row: Option<usize>) -> Vec<Number> {
        let width = self.declaration.pulls[input];
        match (&self.pulls[input], row) {
            (Pulled::Rows(rows), Some(row)) => rows[row * width..][..width].to_vec(),
            _ => self.tape.constants(width),
        }
    }

    fn index(&self, input: usize, row: Option<usize>) -> Option<usize> {
        let Pulled::Indices(indices) = &self.pulls[input] else { panic!("input {input} has indices") };
        row.map(|row| usize::try_from(indices[row]).expect("an index is not negative"))
    }

    fn lookup(&mut self, parameter: usize, index: Value) -> Vec<Number> {
        let columns = self.declaration.parameters[parameter].columns;
        match index {
            Value::Index(Some(row)) => self.parameters[parameter][row * columns..][..columns].to_vec(),
            _ => self.tape.constants(columns),
        }
    }

    fn unary(&mut self, operation: &Operation, x: Value) -> Value {
        let OfChildren { width, of_slots } = match x {
            Value::OfChildren(x) => x,
            x => return Value::OfVertex(self.of_one(operation, &x.of_vertex())),
        };
        let width = match operation.op {
            Op::Matmul => self.declaration.parameters[operation.arguments[0]].rows,
            Op::Slice => operation.arguments[1],
            Op::Sum => 1,
            _ => width,
        };
        let of_slots = of_slots.into_iter().map(|x| x.map(|x| self.of_one(operation, &x))).collect();
        Value::OfChildren(OfChildren { width, of_slots })
    }

    /// An operation with one input, of the vertex or of one child.
    fn of_one(&mut self, operation: &Operation, x: &[Number]) -> Vec<Number> {
        let ([first, second], constant) = (operation.arguments, operation.constant);
        let parameter = self.parameters.get(first).map(Vec::as_slice).unwrap_or_default();
        let tape = &mut self.tape;
        match operation.op {
            Op::Matmul => parameter.chunks(x.len()).map(|row| tape.dot(row, x)).collect(),
            Op::Bias => x.iter().zip(parameter).map(|(x, bias)| tape.sum(&[*x, *bias])).collect(),
            Op::Gain => x.iter().zip(parameter).map(|(x, gain)| tape.dot(&[*x], &[*gain])).collect(),
            Op::Softmax => tape.softmax(x),
            Op::Sum => vec![tape.sum(x)],
            Op::Slice => x[first..first + second].to_vec(),
            op => {
                let each = |x: &Number| {
                    let (value, slope) = function(op, tape.value(*x), constant);
                    tape.add(value, [(*x, slope)])
                };
                x.iter().map(each).collect()
            }
        }
    }
}

impl Tape {
    fn constants(&mut self, count: usize) -> Vec<Number> {
        (0..count).map(|_| self.constant(0.0)).collect()
    }

    fn sum(&mut self, x: &[Number]) -> Number {
        let sum = x.iter().map(|x| self.value(*x)).sum();
        self.add(sum, x.iter().map(|x| (*x, 1.0)))
    }

    fn dot(&mut self, x: &[Number], y: &[Number]) -> Number {
        let product = |(x, y): (&Number, &Number)| self.value(*x) * self.value(*y);
        let sum = x.iter().zip(y).map(product).sum();
        let slopes = |(x, y): (&Number, &Number)| [(*x, self.value(*y)), (*y, self.value(*x))];
        let slopes: Vec<_> = x.iter().zip(y).flat_map(slopes).collect();
        self.add(sum, slopes)
    }

    fn softmax(&mut self, x: &[Number]) -> Vec<Number> {
        // A number that is taken off all of them changes nothing.
        let greatest = x.iter().map(|x| self.value(*x)).fold(f64::NEG_INFINITY, f64::max);
        let exp = |x: &Number| {
            let exp = (self.value(*x) - greatest).exp();
            self.add(exp, [(*x, exp)])
        };
        let exps: Vec<_> = x.iter().map(exp).collect();
        let sum = self.sum(&exps);
        let share = |exp: &Number| {
            let (exp_value, whole) = (self.value(*exp), self.value(sum));
            self.add(exp_value / whole, [(*exp, 1.0 / whole), (sum, -exp_value / (whole * whole))])
        };
        exps.iter().map(share).collect()
    }

    fn softmax_children(&mut self, x: OfChildren) -> OfChildren {
        let mut of_slots = x.of_slots;
        for column in 0..x.width {
            let of_column: Vec<_> = of_slots.iter().flatten().map(|of_child| of_child[column]).collect();
            let shares = self.softmax(&of_column);
            of_slots.iter_mut().flatten().zip(shares).for_each(|(of_child, share)| of_child[column] = share);
        }
        OfChildren { of_slots, ..x }
    }

    fn reduce(&mut self, op: Op, x: OfChildren) -> Vec<Number> {
        let of_children: Vec<_> = x.of_slots.into_iter().flatten().collect();
        if of_children.is_empty() {
            return self.constants(x.width);
        }
        let reduce = |column: usize| {
            let of_column: Vec<_> = of_children.iter().map(|of_child| of_child[column]).collect();
            match op {
                Op::SumChildren => self.sum(&of_column),
                Op::MeanChildren => {
                    let sum = self.sum(&of_column);
                    let count = of_column.len() as f64;
                    self.add(self.value(sum) / count, [(sum, 1.0 / count)])
                }
                _ => {
                    let greater =
                        |best: Number, other: Number| if self.value(other) > self.value(best) { other } else { best };
                    of_column.into_iter().reduce(greater).expect("a child is there")
                }
            }
        };
        (0..x.width).map(reduce).collect()
    }

    fn binary(&mut self, op: Op, x: Value, y: Value) -> Value {
        let (width, of_slots) = match (x, y) {
            (Value::OfVertex(x), Value::OfVertex(y)) => return Value::OfVertex(self.of_two(op, &x, &y)),
            (Value::OfChildren(x), Value::OfVertex(y)) => {
                let of_slots = x.of_slots.iter().map(|x| Some(self.of_two(op, x.as_ref()?, &y))).collect();
                ((x.width, y.len()), of_slots)
            }
            (Value::OfVertex(x), Value::OfChildren(y)) => {
                let of_slots = y.of_slots.iter().map(|y| Some(self.of_two(op, &x, y.as_ref()?))).collect();
                ((x.len(), y.width), of_slots)
            }
            (x, y) => {
                let (x, y) = (x.of_children(), y.of_children());
                let both = x.of_slots.iter().zip(&y.of_slots);
                let of_slots = both.map(|(x, y)| Some(self.of_two(op, x.as_ref()?, y.as_ref()?))).collect();
                ((x.width, y.width), of_slots)
            }
        };
        let width = if op == Op::Concat { width.0 + width.1 } else { width.0.max(width.1) };
        Value::OfChildren(OfChildren { width, of_slots })
    }

    /// An operation with two inputs, of the vertex or of one child. A single number meets each of several.
    fn of_two(&mut self, op: Op, x: &[Number], y: &[Number]) -> Vec<Number> {
        if op == Op::Concat {
            return [x, y].concat();
        }
        let one = |place: usize| {
            let [x, y] = [x, y].map(|numbers| numbers[if numbers.len() == 1 { 0 } else { place }]);
            let (x_value, y_value) = (self.value(x), self.value(y));
            match op {
                Op::Add => self.add(x_value + y_value, [(x, 1.0), (y, 1.0)]),
                Op::Sub => self.add(x_value - y_value, [(x, 1.0), (y, -1.0)]),
                Op::Mul => self.add(x_value * y_value, [(x, y_value), (y, x_value)]),
                Op::Div => self.add(x_value / y_value, [(x, 1.0 / y_value), (y, -x_value / (y_value * y_value))]),
                Op::Maximum | Op::Minimum => {
                    let is_x = if op == Op::Maximum { x_value > y_value } else { x_value < y_value };
                    let of_x = if x_value == y_value { 0.5 } else { f64::from(is_x) };
                    self.add(if is_x { x_value } else { y_value }, [(x, of_x), (y, 1.0 - of_x)])
                }
                op => panic!("{} has not two inputs", op.name()),
            }
        };
        (0..x.len().max(y.len())).map(one).collect()
    }
}
