//! Turns a function, or a derivative, into passes over the rows of its kind: element-wise operations fused into one pass
//! over each row, and between them products, and reductions over children.
//!
//! Within a pass over a row, values are in the thread's scratch memory. A value that another pass takes is stored in a
//! *frame*: memory with a row for each vertex, or each edge, of the kind.
//!
//! Executors differ in what a thread computes of a row, see [`Grain`].

mod builder;
mod extent;
mod place;
mod work;

pub use extent::Extent;
pub use place::{FRAMES, Frame, Place, Span, is_of_block};
pub use work::{Step, Work};

use crate::function::{Net, Op, Operation, Sort};
use crate::stages::{Stage, Way};
use builder::Builder;

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
    /// The passes of all stages.
    pub fn all(&self) -> impl Iterator<Item = &Pass> {
        self.stages.iter().flatten()
    }

    /// The numbers of a row's scratch memory.
    pub fn scratch(&self) -> usize {
        let of = |pass: &Pass| if let Work::Rows { scratch, .. } = pass.work { scratch } else { 0 };
        self.all().map(of).max().unwrap_or(0)
    }
}

/// Makes the passes of a kind.
pub fn passes(net: &Net, kind: usize, operations: &[Operation], way: Way, grain: Grain) -> Passes {
    let mut builder = Builder::new(net, kind, operations, way, grain);
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
        match op.sort() {
            Sort::Product | Sort::OverChildren | Sort::Accumulate => true,
            Sort::OverWidth => self != Self::Row,
            Sort::Load | Sort::Element | Sort::Part | Sort::HandOn => false,
        }
    }
}
