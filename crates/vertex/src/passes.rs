//! Turns a function, or a derivative, into passes over the rows of its kind: element-wise operations fused into one pass
//! over each row, and between them products, and reductions over children.
//!
//! Within a pass over a row, values are in the thread's scratch memory. A value that another pass takes is stored in a
//! *frame*: memory with a row for each vertex, or each edge, of the kind.
//!
//! Executors differ in what a thread computes of a row, see [`Grain`].

use crate::batch::{Batch, Maxima};
use crate::derivative::types_of;
use crate::function::{Arity, MOST_FUNCTIONS, Net, Op, Operation, Type, Value};
use crate::stages::{Stage, Way, stages};

/// What a thread computes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// A whole row. Outputs and gradients of inputs are stored, and leave in the user's order at the end.
    Row,
    /// An element of a row. What needs a row's other elements has a pass of its own, and results leave where they are
    /// made.
    Element,
    /// Likewise, by a single operation: each has a pass of its own. This shows what fusion is worth.
    Operation,
}

/// The frames of a kind. Products and reductions read one frame and write another, so that one can be borrowed for
/// writing beside the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// What the run forward keeps for the run backward.
    Kept,
    /// What products and reductions take, of all rows.
    WholeIn,
    /// What products and reductions make, of all rows.
    WholeOut,
    /// Their inputs, of the rows of one block.
    BlockIn,
    /// Their results, of the rows of one block.
    BlockOut,
}

/// The number of frames of a kind, by vertices; as many are by edges.
pub const FRAMES: usize = 5;

/// The frame with this number among those of the kind has the rows of one block alone.
pub fn is_of_block(number: usize) -> bool {
    number % FRAMES >= Frame::BlockIn as usize
}

/// Where a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The frame.
    pub frame: Frame,
    /// The frame has a row for each edge.
    pub is_of_children: bool,
    /// The first number in a row.
    pub offset: usize,
    /// The number of numbers.
    pub width: usize,
}

impl Place {
    /// The number of the frame among those of the kind.
    pub fn number(self) -> usize {
        self.frame as usize + if self.is_of_children { FRAMES } else { 0 }
    }

    /// The frame has a row for each vertex of the kind, not of the block alone.
    pub fn is_whole(self) -> bool {
        !is_of_block(self.frame as usize)
    }
}

/// A part of a row's scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first number.
    pub first: usize,
    /// The number of numbers.
    pub width: usize,
}

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
    /// Adds a vector.
    Bias {
        /// The vector.
        parameter: usize,
        /// What it is added to.
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

/// The rows of a kind in a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// All rows.
    pub rows: usize,
    /// All edges.
    pub edges: usize,
    /// The most rows of a block.
    pub rows_of_block: usize,
    /// The most edges of a block.
    pub edges_of_block: usize,
}

impl Extent {
    /// The extent of each kind of a batch.
    pub fn of(batch: &Batch, kinds: usize) -> [Self; MOST_FUNCTIONS] {
        let mut extents = [Self::default(); MOST_FUNCTIONS];
        for (kind, extent) in extents[..kinds].iter_mut().enumerate() {
            (extent.rows, extent.edges) = batch.of_kind(kind);
        }
        for block in batch.blocks() {
            let extent = &mut extents[block.kind];
            extent.rows_of_block = extent.rows_of_block.max(block.rows);
            extent.edges_of_block = extent.edges_of_block.max(block.edges);
        }
        extents
    }

    /// The most of each kind: all vertices may be of one, as far as their slots allow.
    pub fn most(maxima: &Maxima, net: &Net) -> [Self; MOST_FUNCTIONS] {
        let mut extents = [Self::default(); MOST_FUNCTIONS];
        for (extent, function) in extents.iter_mut().zip(&net.declaration().functions) {
            let (rows, edges) = match function.children {
                Arity::Any => (maxima.vertices, maxima.children),
                Arity::Exactly(0) => (maxima.vertices, 0),
                Arity::Exactly(slots) => {
                    let rows = maxima.vertices.min(maxima.children / slots);
                    (rows, rows * slots)
                }
            };
            *extent = Self { rows, edges, rows_of_block: rows, edges_of_block: edges };
        }
        extents
    }

    /// The rows of the frame with this number.
    pub fn rows_of_frame(&self, number: usize) -> usize {
        match (number < FRAMES, is_of_block(number)) {
            (true, false) => self.rows,
            (true, true) => self.rows_of_block,
            (false, false) => self.edges,
            (false, true) => self.edges_of_block,
        }
    }
}

/// What a pass is for. A pass for nothing that is wanted is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    /// Other vertices, outputs, or the run backward.
    pub is_always: bool,
    /// Gradients of parameters, a bit each.
    pub parameters: u64,
    /// Gradients of inputs, a bit each.
    pub pulls: u64,
}

impl Purpose {
    /// A pass for this is not left out.
    pub fn is_met_by(self, wanted: Self) -> bool {
        self.is_always || self.parameters & wanted.parameters != 0 || self.pulls & wanted.pulls != 0
    }

    fn add(&mut self, other: Self) {
        self.is_always |= other.is_always;
        self.parameters |= other.parameters;
        self.pulls |= other.pulls;
    }
}

/// A pass.
#[derive(Clone, Debug)]
pub struct Pass {
    /// What it does.
    pub work: Work,
    /// What for.
    pub purpose: Purpose,
}

/// The passes of a kind in one way.
#[derive(Clone, Debug)]
pub struct Passes {
    /// The passes of each stage.
    pub stages: [Vec<Pass>; 3],
    /// The numbers of a row in each frame, without those of `Kept`.
    pub strides: [usize; 2 * FRAMES],
    /// Outputs, or gradients of inputs, that leave in the user's order at the end.
    pub results: Vec<(usize, Place)>,
    /// The stage hands something on, so it runs block by block.
    pub hands_on: [bool; 3],
}

impl Passes {
    /// The numbers of a row's scratch memory.
    pub fn scratch(&self) -> usize {
        let of = |pass: &Pass| if let Work::Rows { scratch, .. } = pass.work { scratch } else { 0 };
        self.stages.iter().flatten().map(of).max().unwrap_or(0)
    }
}

/// Makes the passes of a kind.
pub fn passes(net: &Net, kind: usize, operations: &[Operation], way: Way, grain: Grain) -> Passes {
    let types = types_of(net, net.declaration().functions[kind].children, operations);
    let mut builder = Builder {
        operations,
        grain,
        stages: stages(operations, way),
        purposes: purposes(operations),
        is_done: types.iter().map(|_| false).collect(),
        inside: vec![None; types.len()],
        outside: vec![None; types.len()],
        types,
        strides: [0; 2 * FRAMES],
    };
    let stages = Stage::ALL.map(|stage| builder.stage(stage));
    let results = operations.iter().filter(|operation| grain.leaves_at_end(operation.op)).map(|operation| {
        let place = builder.place(operation.inputs[0]).expect("a result is stored");
        (operation.arguments[0], place)
    });
    let hands_on = |passes: &Vec<Pass>| {
        let hands = |step: &Step| matches!(step, Step::Hand { .. });
        passes.iter().any(|pass| matches!(&pass.work, Work::Rows { steps, .. } if steps.iter().any(hands)))
    };
    Passes { results: results.collect(), hands_on: stages.each_ref().map(hands_on), stages, strides: builder.strides }
}

impl Grain {
    /// The result of an operation leaves at the end.
    fn leaves_at_end(self, op: Op) -> bool {
        self == Self::Row && matches!(op, Op::Push | Op::PullGradient)
    }

    /// An operation has a pass of its own.
    fn has_own_pass(self, op: Op) -> bool {
        use Op::*;
        matches!(op, Matmul | MatmulTransposed | SumChildren | MeanChildren | MaxChildren | SoftmaxChildren)
            || matches!(op, MaxGradient | Accumulate | AccumulateBias | AccumulateRow)
            || (self != Self::Row && matches!(op, Softmax | Sum))
    }
}

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

struct Builder<'a> {
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
    strides: [usize; 2 * FRAMES],
}

impl Builder<'_> {
    fn stage(&mut self, stage: Stage) -> Vec<Pass> {
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
                let of_its = |input: &Value| self.inside[*input].is_some() || self.types[*input] == Type::Index;
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
    fn place(&self, value: Value) -> Option<Place> {
        self.inside[value].or(self.outside[value])
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
                    self.inside[*input].is_none() && (is_load || self.outside[*input].is_some())
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
        let input = |number: usize| self.inside[operation.inputs[number]].expect("what a pass takes is stored");
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
            Op::Bias => Step::Bias { parameter: first, x, to },
            op if inputs.len() == 2 => Step::Binary { op, x, y: inputs[1], to },
            op => Step::Unary { op, x, to, constant: operation.constant },
        });
    }
}
