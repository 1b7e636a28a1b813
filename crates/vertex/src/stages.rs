//! When the operations of a function run (Cavs, section 3.4, propositions 1 and 2): *eager* ones for all vertices before
//! the first level, those on the *path* level by level, *lazy* ones for all vertices after the last level.
//!
//! Only products gain by running for all vertices at once. The others run where their inputs are made, so that those
//! need no memory.

use crate::function::{Op, Operation, Sort};

/// The way in which a batch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From children to parents.
    Forward,
    /// From parents to children: the operations are a derivative's.
    Backward,
}

/// When an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Before the first level: it depends on nothing that vertices hand on.
    Eager,
    /// Level by level.
    Path,
    /// After the last level: nothing that is handed on depends on it.
    Lazy,
}

impl Stage {
    /// All, in the order in which they run.
    pub const ALL: [Self; 3] = [Stage::Eager, Stage::Path, Stage::Lazy];
}

/// The stage of each operation of a function, or of a derivative. `None` for loads, which run wherever their results
/// are needed.
pub fn stages(operations: &[Operation], way: Way) -> Vec<Option<Stage>> {
    let depends = depends_on_others(operations, way);
    let is_handed_on =
        needed_by(operations, |place| matches!(operations[place].op, Op::Scatter | Op::Give | Op::GiveChildren));
    let is_product = |place: usize| operations[place].op.sort() == Sort::Product;
    let feeds_eager = needed_by(operations, |place| is_product(place) && !depends[place]);
    let has_path = (0..operations.len()).any(|place| depends[place] && !operations[place].op.is_load());
    let mut stages: Vec<Option<Stage>> = vec![];
    for (place, operation) in operations.iter().enumerate() {
        let of_inputs = || operation.inputs().iter().filter_map(|input| stages[*input]).max();
        stages.push(match operation.op {
            op if op.is_load() => None,
            op if op.sort() == Sort::Accumulate => Some(Stage::Lazy),
            Op::Keep | Op::Push | Op::PullGradient => Some(of_inputs().unwrap_or(Stage::Lazy)),
            _ if is_product(place) && !depends[place] => Some(Stage::Eager),
            _ if is_product(place) && !is_handed_on[place] => Some(Stage::Lazy),
            _ if is_product(place) => Some(Stage::Path),
            _ if !depends[place] && (feeds_eager[place] || (!has_path && is_handed_on[place])) => Some(Stage::Eager),
            _ if !is_handed_on[place] && of_inputs() != Some(Stage::Path) => Some(Stage::Lazy),
            _ => Some(Stage::Path),
        });
    }
    // What the path takes cannot wait for the end.
    for (place, operation) in operations.iter().enumerate().rev() {
        for input in operation.inputs() {
            if stages[place] < stages[*input] && stages[*input].is_some() && stages[place].is_some() {
                stages[*input] = stages[place];
            }
        }
    }
    // Forward, a product that only the end takes waits for it, so that it runs beside the like of other kinds, and with what
    // follows it. Backward, other kinds need the like of it on the path.
    for place in (0..operations.len()).filter(|place| is_product(*place)) {
        let mut takers = operations.iter().zip(&stages).filter(|(operation, _)| operation.inputs().contains(&place));
        let is_eager = way == Way::Forward && stages[place] == Some(Stage::Eager);
        if is_eager && takers.all(|(_, stage)| *stage == Some(Stage::Lazy)) {
            stages[place] = Some(Stage::Lazy);
        }
    }
    stages
}

/// Vertices of a function wait for each other with more than loads.
pub fn is_on_path(function: &[Operation]) -> bool {
    stages(function, Way::Forward).contains(&Some(Stage::Path))
}

/// Which values depend on what other vertices hand on.
fn depends_on_others(operations: &[Operation], way: Way) -> Vec<bool> {
    let mut depends: Vec<bool> = vec![];
    for operation in operations {
        let waits = match operation.op {
            // A run backward finds all states; it waits for their gradients.
            Op::Gather | Op::Children => way == Way::Forward,
            Op::Take => true,
            _ => false,
        };
        depends.push(waits || operation.inputs().iter().any(|input| depends[*input]));
    }
    depends
}

/// Which operations lead to a wanted one.
fn needed_by(operations: &[Operation], is_wanted: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut needed: Vec<_> = (0..operations.len()).map(is_wanted).collect();
    for place in (0..operations.len()).rev() {
        if needed[place] {
            operations[place].inputs().iter().for_each(|input| needed[*input] = true);
        }
    }
    needed
}
