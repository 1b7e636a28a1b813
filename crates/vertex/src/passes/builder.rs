//! Puts the operations of a stage into passes.

use super::place::{FRAMES, Frame, Place, Span};
use super::work::{Step, Work};
use super::{Grain, Pass, Purpose};
use crate::derivative::types_of;
use crate::function::{Net, Op, Operation, Type, Value};
use crate::stages::{Stage, Way, stages};

/// What each operation is for.
fn purposes(operations: &[Operation]) -> Vec<Purpose> {
    let mut purposes = vec![Purpose::default(); operations.len()];
    for (place, operation) in operations.iter().enumerate().rev() {
        let bit = 1 << operation.arguments[0].min(63);
        match operation.op {
            Op::Accumulate | Op::AccumulateBias | Op::AccumulateRow => purposes[place].parameters |= bit,
            Op::PullGradient => purposes[place].pulls |= bit,
            op if op.is_sink() => purposes[place].is_always = true,
            _ => {}
        }
        let its = purposes[place];
        operation.inputs().iter().for_each(|input| purposes[*input].add(its));
    }
    purposes
}

pub(super) struct Builder<'a> {
    grain: Grain,
    operations: &'a [Operation],
    types: Vec<Type>,
    stages: Vec<Option<Stage>>,
    purposes: Vec<Purpose>,
    is_done: Vec<bool>,
    /// Where products and reductions find a value.
    inside: Vec<Option<Place>>,
    /// Where they left it.
    outside: Vec<Option<Place>>,
    /// The numbers of a row in each frame so far.
    pub strides: [usize; 2 * FRAMES],
}

impl<'a> Builder<'a> {
    pub fn new(net: &Net, kind: usize, operations: &'a [Operation], way: Way, grain: Grain) -> Self {
        let types = types_of(net, net.declaration().functions[kind].children, operations);
        Self {
            operations,
            grain,
            stages: stages(operations, way),
            purposes: purposes(operations),
            is_done: vec![false; types.len()],
            inside: vec![None; types.len()],
            outside: vec![None; types.len()],
            types,
            strides: [0; 2 * FRAMES],
        }
    }

    /// The passes of a stage.
    pub fn stage(&mut self, stage: Stage) -> Vec<Pass> {
        let is_of_stage =
            |place: &usize| self.stages[*place] == Some(stage) && !self.grain.leaves_at_end(self.operations[*place].op);
        let mut rest: Vec<_> = (0..self.operations.len()).filter(is_of_stage).collect();
        let mut passes = vec![];
        loop {
            let before = rest.len();
            for is_of_children in [false, true] {
                passes.extend(self.rows(stage, is_of_children, &mut rest));
            }
            let is_ready = |place: &usize| {
                let of_its =
                    |input: &Value| self.taken(stage, *place, *input).is_some() || self.types[*input] == Type::Index;
                self.grain.has_own_pass(self.operations[*place].op)
                    && self.operations[*place].inputs().iter().all(of_its)
            };
            let ready: Vec<_> = rest.iter().copied().filter(is_ready).collect();
            rest.retain(|place| !ready.contains(place));
            passes.extend(ready.into_iter().map(|place| self.own_pass(stage, place)));
            if rest.is_empty() {
                return passes;
            }
            assert!(rest.len() < before, "operations of a function wait for each other");
        }
    }

    /// Where passes over rows find a value.
    pub fn place(&self, value: Value) -> Option<Place> {
        self.inside[value].or(self.outside[value])
    }

    /// Where a product, or a reduction, or a sum into a gradient finds an input. Rows that are added to those of a table are
    /// read once: they need not be copied from where a product of the same stage left them.
    fn taken(&self, stage: Stage, taker: usize, input: Value) -> Option<Place> {
        let may_be_outside = self.operations[taker].op == Op::AccumulateRow && self.stages[input] == Some(stage);
        self.inside[input].or(self.outside[input].filter(|_| may_be_outside))
    }

    /// Makes a place for a value.
    fn store(&mut self, value: Value, is_inside: bool, is_whole: bool) -> Place {
        let frame = match (is_inside, is_whole) {
            (true, true) => Frame::WholeIn,
            (true, false) => Frame::BlockIn,
            (false, true) => Frame::WholeOut,
            (false, false) => Frame::BlockOut,
        };
        let (is_of_children, width) = (self.types[value].is_of_children(), self.types[value].width());
        let mut place = Place { frame, is_of_children, offset: 0, width };
        let stride = &mut self.strides[place.number()];
        place.offset = *stride;
        *stride += width;
        if is_inside {
            self.inside[value] = Some(place)
        } else {
            self.outside[value] = Some(place)
        }
        place
    }

    fn consumers(&self, value: Value) -> impl Iterator<Item = usize> {
        (0..self.operations.len()).filter(move |place| self.operations[*place].inputs().contains(&value))
    }

    /// All rows of a value are kept until a later stage.
    fn is_whole(&self, stage: Stage, value: Value) -> bool {
        let is_load = self.operations[value].op.is_load();
        let is_later = |consumer: usize| {
            // Passes over rows read a load again.
            let stores = !is_load || self.grain.has_own_pass(self.operations[consumer].op);
            self.grain.leaves_at_end(self.operations[consumer].op) || (stores && self.stages[consumer] != Some(stage))
        };
        stage != Stage::Path || self.consumers(value).any(is_later)
    }

    /// The values of a domain that products and reductions of a stage take and that are not stored for them: loads, and
    /// what others of them made. Results likewise.
    fn to_copy(&self, stage: Stage, is_of_children: bool, rest: &[usize]) -> Vec<Value> {
        let mut values = vec![];
        let takers = (0..self.operations.len()).filter(|place| {
            let op = self.operations[*place].op;
            (self.grain.has_own_pass(op) && rest.contains(place))
                || (self.grain.leaves_at_end(op) && self.stages[*place] == Some(stage))
        });
        for taker in takers {
            for input in self.operations[taker].inputs() {
                let is_load = self.operations[*input].op.is_load();
                let is_missing = if self.grain.leaves_at_end(self.operations[taker].op) {
                    is_load && self.place(*input).is_none()
                } else {
                    self.taken(stage, taker, *input).is_none() && (is_load || self.outside[*input].is_some())
                };
                let is_of_domain =
                    self.types[*input] != Type::Index && self.types[*input].is_of_children() == is_of_children;
                if is_missing && is_of_domain && !values.contains(input) {
                    values.push(*input);
                }
            }
        }
        values
    }

    /// Takes out of `rest` all that can run in a pass over rows now.
    fn rows(&mut self, stage: Stage, is_of_children: bool, rest: &mut Vec<usize>) -> Option<Pass> {
        let to_copy = self.to_copy(stage, is_of_children, rest);
        let mut members: Vec<usize> = vec![];
        for place in rest.iter().copied() {
            let operation = &self.operations[place];
            let is_of_domain = match operation.op {
                Op::Keep | Op::GiveChildren => self.types[operation.inputs[0]].is_of_children() == is_of_children,
                op if op.is_sink() => !is_of_children,
                _ => self.types[place].is_of_children() == is_of_children,
            };
            let is_there =
                |input: &Value| self.is_done[*input] || self.operations[*input].op.is_load() || members.contains(input);
            if is_of_domain && !self.grain.has_own_pass(operation.op) && operation.inputs().iter().all(is_there) {
                members.push(place);
                if self.grain == Grain::Operation {
                    break;
                }
            }
        }
        if members.is_empty() && to_copy.is_empty() {
            return None;
        }
        rest.retain(|place| !members.contains(place));
        let mut row = Row { steps: vec![], scratch: 0, spans: vec![None; self.operations.len()] };
        let mut purpose = Purpose::default();
        for member in &members {
            row.add(self, *member);
            self.is_done[*member] = true;
            purpose.add(self.purposes[*member]);
        }
        for value in members.iter().copied().filter(|value| !self.operations[*value].op.is_sink()) {
            if self.consumers(value).any(|consumer| !members.contains(&consumer)) {
                let from = row.operand(self, value);
                let to = self.store(value, true, self.is_whole(stage, value));
                row.steps.push(Step::Store { from, to });
            }
        }
        for value in to_copy {
            let from = row.operand(self, value);
            let to = self.store(value, true, self.is_whole(stage, value));
            row.steps.push(Step::Store { from, to });
            purpose.add(self.purposes[value]);
        }
        Some(Pass { work: Work::Rows { is_of_children, steps: row.steps, scratch: row.scratch }, purpose })
    }

    fn own_pass(&mut self, stage: Stage, place: usize) -> Pass {
        let operation = self.operations[place];
        let parameter = operation.arguments[0];
        let input =
            |number: usize| self.taken(stage, place, operation.inputs[number]).expect("what a pass takes is stored");
        let work = match operation.op {
            Op::Accumulate => Work::Accumulate { parameter, dy: input(0), x: input(1) },
            Op::AccumulateBias => Work::AccumulateBias { parameter, dy: input(0) },
            Op::AccumulateRow => {
                let of_index = self.operations[operation.inputs[0]].arguments[0];
                Work::AccumulateRow { parameter, input: of_index, dy: input(1) }
            }
            op => {
                let inputs = [input(0), if op == Op::MaxGradient { input(1) } else { input(0) }];
                let whole = self.is_whole(stage, place);
                let y = self.store(place, false, whole);
                let x = inputs[0];
                match op {
                    Op::Matmul | Op::MatmulTransposed => {
                        Work::Product { parameter, is_transposed: op == Op::MatmulTransposed, x, y }
                    }
                    Op::MaxGradient => Work::MaxGradient { x, dy: inputs[1], dx: y },
                    _ => Work::Reduce { op, x, y },
                }
            }
        };
        self.is_done[place] = true;
        Pass { work, purpose: self.purposes[place] }
    }
}

/// The steps of a pass over rows, while they are made.
struct Row {
    steps: Vec<Step>,
    scratch: usize,
    spans: Vec<Option<Span>>,
}

impl Row {
    fn new_span(&mut self, width: usize) -> Span {
        let first = self.scratch;
        self.scratch += width;
        Span { first, width }
    }

    /// Where a value is in the scratch memory; it is loaded if it is not there yet.
    fn operand(&mut self, builder: &Builder, value: Value) -> Span {
        if let Some(span) = self.spans[value] {
            return span;
        }
        let to = self.new_span(builder.types[value].width());
        let operation = &builder.operations[value];
        self.steps.push(if operation.op.is_load() {
            let mut arguments = operation.arguments;
            if operation.op == Op::Lookup {
                arguments[1] = builder.operations[operation.inputs[0]].arguments[0];
            }
            Step::Read { op: operation.op, arguments, to }
        } else {
            Step::Load { from: builder.place(value).expect("what another pass made is stored"), to }
        });
        self.spans[value] = Some(to);
        to
    }

    fn add(&mut self, builder: &Builder, place: usize) {
        let operation = &builder.operations[place];
        let [first, second] = operation.arguments;
        let inputs: Vec<_> = operation.inputs().iter().map(|input| self.operand(builder, *input)).collect();
        let x = inputs.first().copied().unwrap_or(Span { first: 0, width: 0 });
        match operation.op {
            Op::Slice => return self.spans[place] = Some(Span { first: x.first + first, width: second }),
            Op::Keep => {
                let is_of_children = builder.types[operation.inputs[0]].is_of_children();
                let to = Place { frame: Frame::Kept, is_of_children, offset: first, width: x.width };
                return self.steps.push(Step::Store { from: x, to });
            }
            op if op.is_sink() => {
                return self.steps.push(Step::Hand { op, arguments: operation.arguments, from: x });
            }
            _ => {}
        }
        let to = self.new_span(builder.types[place].width());
        self.spans[place] = Some(to);
        if operation.op == Op::Concat {
            let (left, right) = (x, inputs[1]);
            self.steps.push(Step::Copy { from: left, to: Span { first: to.first, width: left.width } });
            let behind = Span { first: to.first + left.width, width: right.width };
            return self.steps.push(Step::Copy { from: right, to: behind });
        }
        self.steps.push(match operation.op {
            op @ (Op::Bias | Op::Gain) => Step::OfVector { op, parameter: first, x, to },
            op if inputs.len() == 2 => Step::Binary { op, x, y: inputs[1], to },
            op => Step::Unary { op, x, to, constant: operation.constant },
        });
    }
}
