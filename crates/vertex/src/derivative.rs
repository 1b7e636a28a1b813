//! Differentiates a vertex function once, by reverse mode over its operations (Cavs, section 3.4).
//!
//! The derivative is a function in the same operations and a few more: it *takes* the gradients of the states that the
//! vertex handed on, *gives* those of the states that it gathered, and *accumulates* those of parameters and inputs.
//!
//! The run forward keeps the values that the derivative reads, unless they are at hand otherwise: states are in memory,
//! pulled and gathered values are read again, and up to four element-wise operations on such values are computed again.

use crate::function::{Arity, Net, Op, Operation, Sort, Type, Value, type_of};

/// The most element-wise operations that are computed again instead of keeping their result.
const MOST_AGAIN: usize = 4;

/// A vertex function as it runs in training, and its derivative.
#[derive(Clone, Debug, PartialEq)]
pub struct Derivative {
    /// The function's operations, and behind them those that keep values.
    pub forward: Vec<Operation>,
    /// The derivative. It has values of its own.
    pub backward: Vec<Operation>,
    /// The numbers that a vertex keeps.
    pub kept: usize,
    /// The numbers that it keeps for each child.
    pub kept_of_children: usize,
}

/// Differentiates a function of a net.
pub fn differentiate(net: &Net, kind: usize) -> Derivative {
    let function = &net.declaration().functions[kind];
    let mut reverse = Reverse {
        net,
        children: function.children,
        operations: function.operations.clone(),
        types: net.types(kind).to_vec(),
        gradients: vec![vec![]; function.operations.len()],
    };
    let is_taken = states_taken(net);
    for place in (0..function.operations.len()).rev() {
        reverse.differentiate(place, &is_taken);
    }
    let count = function.operations.len();
    let (types, mut operations) = (reverse.types, reverse.operations);
    let derivative = operations.split_off(count);
    let sources = sources(net, kind, &derivative);
    assemble(function.operations.clone(), &types, &derivative, &sources)
}

/// Which states some function takes from children: the others have no gradients.
fn states_taken(net: &Net) -> Vec<bool> {
    let mut taken = vec![false; net.declaration().states.len()];
    for operation in net.declaration().functions.iter().flat_map(|function| &function.operations) {
        match operation.op {
            Op::Gather => taken[operation.arguments[1]] = true,
            Op::Children => taken[operation.arguments[0]] = true,
            _ => {}
        }
    }
    taken
}

/// A part of a value's gradient.
#[derive(Clone, Copy)]
enum Part {
    Whole(Value),
    /// Of the elements from the first on, as many as the value has.
    From(usize, Value),
}

struct Reverse<'a> {
    net: &'a Net,
    children: Arity,
    /// The function's operations, and behind them the derivative's.
    operations: Vec<Operation>,
    types: Vec<Type>,
    /// The parts that are known of the gradient of each value of the function.
    gradients: Vec<Vec<Part>>,
}

impl Reverse<'_> {
    fn push(&mut self, operation: Operation) -> Value {
        let its = type_of(self.net.declaration(), self.children, &self.types, &operation);
        self.types.push(its.unwrap_or_else(|why| panic!("`{operation}` in a derivative: {why}")));
        self.operations.push(operation);
        self.operations.len() - 1
    }

    fn add(&mut self, op: Op, inputs: &[Value], arguments: &[usize]) -> Value {
        self.push(Operation::new(op, inputs, arguments))
    }

    /// dy is the gradient by a result for which x was used; where x was used for several elements or children, their
    /// gradients are summed.
    fn contribute(&mut self, x: Value, mut dy: Value) {
        if self.types[x].width() == 1 && self.types[dy].width() > 1 {
            dy = self.add(Op::Sum, &[dy], &[]);
        }
        if self.types[dy].is_of_children() && !self.types[x].is_of_children() {
            dy = self.add(Op::SumChildren, &[dy], &[]);
        }
        self.gradients[x].push(Part::Whole(dy));
    }

    /// The gradient of a value: the sum of its parts. `None` if the loss does not depend on it.
    fn gradient(&mut self, value: Value) -> Option<Value> {
        let parts = std::mem::take(&mut self.gradients[value]);
        let mut slices = vec![];
        let mut sum = None;
        for part in parts {
            match part {
                Part::Whole(dy) => sum = Some(sum.map_or(dy, |sum| self.add(Op::Add, &[sum, dy], &[]))),
                Part::From(first, dy) => slices.push((first, dy)),
            }
        }
        slices.sort_by_key(|(first, _)| *first);
        while !slices.is_empty() {
            let layer = self.layer(&mut slices, self.types[value].width());
            sum = Some(sum.map_or(layer, |sum| self.add(Op::Add, &[sum, layer], &[])));
        }
        sum
    }

    /// Puts slices that do not overlap side by side, with zeros between them, and takes them out.
    fn layer(&mut self, slices: &mut Vec<(usize, Value)>, width: usize) -> Value {
        let (mut end, mut rest) = (0, vec![]);
        let mut side_by_side: Vec<Value> = vec![];
        for (first, dy) in slices.drain(..) {
            if first < end {
                rest.push((first, dy));
                continue;
            }
            if first > end {
                side_by_side.push(self.add(Op::Zeros, &[], &[first - end]));
            }
            side_by_side.push(dy);
            end = first + self.types[dy].width();
        }
        if end < width {
            side_by_side.push(self.add(Op::Zeros, &[], &[width - end]));
        }
        *slices = rest;
        let mut parts = side_by_side.into_iter();
        let first = parts.next().expect("a layer has a slice");
        parts.fold(first, |left, right| self.add(Op::Concat, &[left, right], &[]))
    }

    /// A pull or a gather that stands twice has one gradient: the first one's.
    fn first_of(&self, place: usize) -> Option<usize> {
        let operation = &self.operations[place];
        let is_read = matches!(operation.op, Op::Pull | Op::Gather | Op::Children);
        let is_same = |other: &Operation| (other.op, other.arguments()) == (operation.op, operation.arguments());
        self.operations[..place].iter().position(|other| is_read && is_same(other))
    }

    fn differentiate(&mut self, place: usize, is_taken: &[bool]) {
        let operation = self.operations[place];
        let [x, y, _] = operation.inputs;
        let [first, second] = operation.arguments;
        match operation.op {
            Op::Scatter if is_taken[first] => {
                let dy = self.add(Op::Take, &[], &[first]);
                return self.contribute(x, dy);
            }
            Op::Push => {
                let dy = self.add(Op::PushGradient, &[], &[first]);
                return self.contribute(x, dy);
            }
            _ => {}
        }
        if let Some(same) = self.first_of(place) {
            let parts = std::mem::take(&mut self.gradients[place]);
            return self.gradients[same].extend(parts);
        }
        let Some(dy) = self.gradient(place) else { return };
        match operation.op {
            Op::Scatter | Op::Push | Op::PullIndex => {}
            Op::Pull => _ = self.add(Op::PullGradient, &[dy], &[first]),
            Op::Lookup => _ = self.add(Op::AccumulateRow, &[x, dy], &[first]),
            Op::Gather => _ = self.add(Op::Give, &[dy], &[first, second]),
            Op::Children => _ = self.add(Op::GiveChildren, &[dy], &[first]),
            Op::Matmul => {
                self.add(Op::Accumulate, &[dy, x], &[first]);
                let dx = self.add(Op::MatmulTransposed, &[dy], &[first]);
                self.contribute(x, dx);
            }
            Op::Bias => {
                self.add(Op::AccumulateBias, &[dy], &[first]);
                self.contribute(x, dy);
            }
            Op::Gain => {
                let dp = self.add(Op::Mul, &[dy, x], &[]);
                self.add(Op::AccumulateBias, &[dp], &[first]);
                let dx = self.add(Op::Gain, &[dy], &[first]);
                self.contribute(x, dx);
            }
            Op::Add | Op::Sub => {
                self.contribute(x, dy);
                let of_y = if operation.op == Op::Sub { self.scaled(dy, -1.0) } else { dy };
                self.contribute(y, of_y);
            }
            Op::Mul => {
                for (of, other) in [(x, y), (y, x)] {
                    let part = self.add(Op::Mul, &[dy, other], &[]);
                    self.contribute(of, part);
                }
            }
            Op::Div => {
                // Of z = x / y: dx = dz / y, and dy = -dx z.
                let dx = self.add(Op::Div, &[dy, y], &[]);
                self.contribute(x, dx);
                let product = self.add(Op::Mul, &[dx, place], &[]);
                let of_y = self.scaled(product, -1.0);
                self.contribute(y, of_y);
            }
            Op::Maximum | Op::Minimum => {
                for (of, other) in [(x, y), (y, x)] {
                    let both = if operation.op == Op::Maximum { [of, other] } else { [other, of] };
                    let share = self.add(Op::MaximumShare, &both, &[]);
                    let product = self.add(Op::Mul, &[dy, share], &[]);
                    // An infinite dy is none of the lesser number's.
                    let part = self.add(Op::ReluGradient, &[share, product], &[]);
                    self.contribute(of, part);
                }
            }
            Op::Log => {
                let dx = self.add(Op::Div, &[dy, x], &[]);
                self.contribute(x, dx);
            }
            Op::Power => {
                // Of x^c: dx = c x^(c - 1) dy. x^0 has no gradient, not even at 0.
                let constant = operation.constant;
                if constant != 0.0 {
                    let power = self.push(Operation::with_constant(Op::Power, x, constant - 1.0));
                    let product = self.add(Op::Mul, &[dy, power], &[]);
                    let dx = self.scaled(product, constant);
                    self.contribute(x, dx);
                }
            }
            Op::Scale => {
                let dx = self.scaled(dy, operation.constant);
                self.contribute(x, dx);
            }
            Op::Shift => self.contribute(x, dy),
            Op::SumChildren | Op::MeanChildren | Op::MaxChildren => {
                let dx = match operation.op {
                    Op::SumChildren => self.add(Op::Spread, &[dy], &[]),
                    Op::MeanChildren => self.add(Op::MeanGradient, &[dy], &[]),
                    _ => self.add(Op::MaxGradient, &[x, dy], &[]),
                };
                self.contribute(x, dx);
            }
            Op::SoftmaxChildren | Op::Softmax => {
                // dx = y (dy - sum(dy y)), the sum over what the softmax is over.
                let product = self.add(Op::Mul, &[dy, place], &[]);
                let over = if operation.op == Op::Softmax { Op::Sum } else { Op::SumChildren };
                let sum = self.add(over, &[product], &[]);
                let rest = self.add(Op::Sub, &[dy, sum], &[]);
                let dx = self.add(Op::Mul, &[place, rest], &[]);
                self.contribute(x, dx);
            }
            Op::Sum => {
                let dx = self.add(Op::Widen, &[dy], &[self.types[x].width()]);
                self.gradients[x].push(Part::Whole(dx));
            }
            Op::Concat => {
                let before = self.types[x].width();
                for (of, first) in [(x, 0), (y, before)] {
                    let width = self.types[of].width();
                    let mut part = self.add(Op::Slice, &[dy], &[first, width]);
                    if self.types[part].is_of_children() && !self.types[of].is_of_children() {
                        part = self.add(Op::SumChildren, &[part], &[]);
                    }
                    self.gradients[of].push(Part::Whole(part));
                }
            }
            Op::Slice => self.gradients[x].push(Part::From(first, dy)),
            op => {
                let dx = op.dx().expect("a function of x, or an operation from above");
                let dx = self.add(dx, &[place, dy], &[]);
                self.contribute(x, dx);
            }
        }
    }

    fn scaled(&mut self, x: Value, constant: f64) -> Value {
        self.push(Operation::with_constant(Op::Scale, x, constant))
    }
}

/// How the derivative comes by a value of the function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    /// It does not need it.
    Unused,
    /// The run forward keeps it.
    Kept,
    /// It is the state that the vertex handed on.
    Own(usize),
    /// Its operation runs again.
    Again,
}

/// Decides how the derivative comes by each value of the function.
fn sources(net: &Net, kind: usize, derivative: &[Operation]) -> Vec<Source> {
    let operations = &net.declaration().functions[kind].operations;
    let mut sources = vec![Source::Unused; operations.len()];
    let mut is_needed = vec![false; operations.len()];
    for operation in derivative {
        operation.inputs().iter().filter(|input| **input < operations.len()).for_each(|input| is_needed[*input] = true);
    }
    for (value, _) in is_needed.iter().enumerate().filter(|(_, is_needed)| **is_needed) {
        find_source(operations, value, &mut sources);
    }
    sources
}

fn find_source(operations: &[Operation], value: Value, sources: &mut [Source]) {
    if sources[value] != Source::Unused {
        return;
    }
    let scatters = |operation: &&Operation| operation.op == Op::Scatter && operation.inputs[0] == value;
    if let Some(scatter) = operations.iter().find(scatters) {
        sources[value] = Source::Own(scatter.arguments[0]);
    } else if is_cheap(operations, value, sources) {
        sources[value] = Source::Again;
        for input in operations[value].inputs() {
            find_source(operations, *input, sources);
        }
    } else {
        sources[value] = Source::Kept;
    }
}

/// Says if computing a value again takes at most [`MOST_AGAIN`] element-wise operations, and no others.
fn is_cheap(operations: &[Operation], value: Value, sources: &[Source]) -> bool {
    let (mut operations_again, mut is_found) = (0, vec![false; operations.len()]);
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        let op = operations[value].op;
        let is_at_hand = matches!(sources[value], Source::Kept | Source::Own(_)) || op.is_load();
        if std::mem::replace(&mut is_found[value], true) || is_at_hand {
            continue;
        }
        match op {
            Op::Slice | Op::Concat => {}
            op if op.sort() == Sort::Element && operations_again < MOST_AGAIN => operations_again += 1,
            _ => return false,
        }
        open.extend(operations[value].inputs());
    }
    true
}

/// Adds operations that keep values to the function, and operations that find them to the derivative.
fn assemble(function: Vec<Operation>, types: &[Type], derivative: &[Operation], sources: &[Source]) -> Derivative {
    let count = function.len();
    let mut made = Derivative { forward: function, backward: vec![], kept: 0, kept_of_children: 0 };
    // The number in the derivative of each value, of the function and behind them of the derivative itself.
    let mut numbers = vec![usize::MAX; count];
    for (value, source) in sources.iter().enumerate() {
        let operation = match source {
            Source::Unused => continue,
            Source::Own(state) => Operation::new(Op::Own, &[], &[*state]),
            Source::Again => made.forward[value].renumbered(|input| numbers[input]),
            Source::Kept => {
                let (width, is_of_children) = (types[value].width(), types[value].is_of_children());
                let end = if is_of_children { &mut made.kept_of_children } else { &mut made.kept };
                made.forward.push(Operation::new(Op::Keep, &[value], &[*end]));
                let op = if is_of_children { Op::KeptOfChildren } else { Op::Kept };
                let kept = Operation::new(op, &[], &[*end, width]);
                *end += width;
                kept
            }
        };
        numbers[value] = made.backward.len();
        made.backward.push(operation);
    }
    for operation in derivative {
        numbers.push(made.backward.len());
        made.backward.push(operation.renumbered(|input| numbers[input]));
    }
    drop_unused(&mut made.backward);
    made
}

/// Drops operations whose results nobody takes.
fn drop_unused(operations: &mut Vec<Operation>) {
    let mut used = vec![false; operations.len()];
    for place in (0..operations.len()).rev() {
        used[place] |= operations[place].op.is_sink();
        if used[place] {
            operations[place].inputs().iter().for_each(|input| used[*input] = true);
        }
    }
    let mut numbers = Vec::with_capacity(used.len());
    let mut next = 0;
    for is_used in &used {
        numbers.push(next);
        next += usize::from(*is_used);
    }
    let mut place = 0;
    operations.retain(|_| {
        place += 1;
        used[place - 1]
    });
    operations.iter_mut().for_each(|operation| *operation = operation.renumbered(|input| numbers[input]));
}

/// The types of the values of a run forward in training or of a derivative.
pub(crate) fn types_of(net: &Net, children: Arity, operations: &[Operation]) -> Vec<Type> {
    let mut types: Vec<Type> = vec![];
    for operation in operations {
        let its = type_of(net.declaration(), children, &types, operation);
        types.push(its.unwrap_or_else(|why| panic!("`{operation}`: {why}")));
    }
    types
}
