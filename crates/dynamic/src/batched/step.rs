//! A step of training in one call: forward, the loss, backward, and the update of the parameters.

use std::ffi::c_void;

use gpu::Stream;
use gpu::jit::Error;
use vertex::batch::Batch;
use vertex::function::{MOST_PARAMETERS, MOST_PULLS_AND_PUSHES};
use vertex::host::Rule;
use vertex::stages::Way;

use super::batch::DeviceBatch;
use super::net::Net;
use super::run::{Gradients, Inputs, Left, OfStep};
use super::tasks::{Descent, DescentOfRows, Losses, RULE_BYTES, RuleOfStep, RuleSort, Scores, Task, Update};
use crate::memory::{APART, Bytes};

/// The loss of a step, and its update. The pointers are the device's.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The output with the scores of the classes.
    pub push: usize,
    /// The class of each vertex; one that is no class is not in the loss.
    pub labels: *const i32,
    /// The place for the loss, or null.
    pub loss: *mut f32,
    /// The step's length.
    pub learning_rate: f32,
    /// The part of a parameter that is added to its gradient; see [`Rule`] for AdamW's.
    pub weight_decay: f32,
    /// None for gradient descent.
    pub optimizer: Option<Optimizer<'a>>,
}

/// A rule with moments. The pointers are the device's.
#[derive(Clone, Copy, Debug)]
pub struct Optimizer<'a> {
    /// The rule.
    pub rule: Rule,
    /// The first moment of each parameter, as many floats as that has elements.
    pub first: &'a [*mut c_void],
    /// Adam's second moments.
    pub second: &'a [*mut c_void],
    /// `[2]` Adam's betas to the power of the steps so far. A step multiplies them.
    pub powers: *mut f64,
}

impl Optimizer<'_> {
    /// The task that writes the numbers of a step's rule to a place.
    fn of_step(&self, step: &Step, rule: *mut c_void) -> RuleOfStep {
        let (sort, [first_left, second_left], epsilon) = match self.rule {
            Rule::Momentum { momentum, is_nesterov: false } => (RuleSort::Momentum, [momentum, 0.0], 0.0),
            Rule::Momentum { momentum, is_nesterov: true } => (RuleSort::Nesterov, [momentum, 0.0], 0.0),
            Rule::Adam { betas, epsilon, is_decoupled: false } => (RuleSort::Adam, betas, epsilon),
            Rule::Adam { betas, epsilon, is_decoupled: true } => (RuleSort::AdamW, betas, epsilon),
        };
        let (rate, decay, epsilon) = (step.learning_rate, step.weight_decay, epsilon as f32);
        RuleOfStep { first_left, second_left, powers: self.powers, rule, rate, decay, epsilon, sort }
    }
}

/// Where a step's own parts of the workspace lie, in bytes.
struct Parts {
    /// The scores, and later their gradients.
    scores: usize,
    /// The loss of each vertex, and behind them the share of a vertex in the mean.
    losses: usize,
    /// The numbers of an optimizer's rule.
    rule: usize,
    /// The gradients of parameters, in float.
    gradients: [usize; MOST_PARAMETERS],
    end: usize,
}

impl Net {
    /// The parts behind a run's workspace.
    fn parts(&self, workspace: usize, push: usize, vertices: usize) -> Parts {
        let declaration = self.net().declaration();
        let mut end = workspace;
        let mut take = |bytes: usize| {
            let first = end;
            end = end.saturating_add(bytes).checked_next_multiple_of(APART).unwrap_or(usize::MAX);
            first
        };
        let scores = take(vertices.saturating_mul(declaration.pushes[push] * self.element().bytes()));
        let losses = take((vertices + 1).saturating_mul(size_of::<f32>()));
        let rule = take(RULE_BYTES);
        let mut gradients = [0; MOST_PARAMETERS];
        for (gradient, size) in gradients.iter_mut().zip(&declaration.parameters) {
            *gradient = take(size.elements() * size_of::<f32>());
        }
        Parts { scores, losses, rule, gradients, end }
    }

    /// The memory of a step of a batch of `vertices`, if a run takes `bytes`.
    pub fn with_step(&self, bytes: Bytes, push: usize, vertices: usize) -> Bytes {
        Bytes { workspace: self.parts(bytes.workspace, push, vertices).end, ..bytes }
    }

    /// Launches a step: a run forward, the mean over the labelled vertices of the cross-entropy of softmax(scores) and
    /// label, a run backward by it, and an update: each parameter p becomes p - rate (gradient + decay p), or changes by
    /// the optimizer's [`Rule`]. `inputs` has no outputs; its parameters are written.
    ///
    /// # Safety
    /// As for [`Self::forward`], with the memory of [`Self::with_step`], and the optimizer's. The net was made for training.
    pub unsafe fn step(
        &self,
        batch: &Batch,
        arrays: &DeviceBatch,
        inputs: Inputs,
        step: Step<'_>,
        stream: Stream,
    ) -> Result<(), Error> {
        let declaration = self.net().declaration();
        let (workspace, vertices) = (self.memory(batch).workspace, self.vertices(batch));
        let parts = self.parts(workspace, step.push, vertices);
        let at = |place: usize| inputs.workspace.wrapping_byte_add(place);
        let mut pushes: [*mut c_void; MOST_PULLS_AND_PUSHES] = [std::ptr::null_mut(); MOST_PULLS_AND_PUSHES];
        pushes[step.push] = at(parts.scores);
        let of_pushes = pushes.map(<*mut c_void>::cast_const);
        let of_parameters = parts.gradients.map(at);
        let outputs = declaration.pushes.len();
        let gradients = Gradients {
            pushes: &of_pushes[..outputs],
            pulls: &[],
            parameters: &of_parameters[..declaration.parameters.len()],
            accumulates: false,
            are_in_float: true,
        };
        // Without decay and moments, only the rows of an embedding that the batch has change.
        let by_rows = if step.weight_decay == 0.0 && step.optimizer.is_none() { self.tables_of_rows() } else { 0 };
        let inputs = Inputs { pushes: &pushes[..outputs], ..inputs };
        let losses: *mut f32 = at(parts.losses).cast();
        let share = losses.wrapping_add(vertices);
        let (rows, columns) = (vertices as i32, declaration.pushes[step.push] as i32);
        let (kinds, kind_count) = (arrays.kind_in_script(0), self.kinds() as i32);
        let labels = step.labels;
        let scores = Scores { scores: at(parts.scores), labels, losses, kinds, kind_count, rows, columns };
        let of_mean = Losses { losses, labels, kinds, loss: step.loss, share, kind_count, rows, columns };
        let rule = at(parts.rule);
        self.launch(arrays, &[Way::Forward, Way::Backward], stream, |stream| {
            let of_rule = step.optimizer.map(|optimizer| Task::RuleOfStep(optimizer.of_step(&step, rule)));
            let losses = [Task::Losses(of_mean)].into_iter().chain(of_rule).collect();
            let of_step = OfStep { scores: Task::Scores(scores), losses, by_rows };
            // SAFETY: the caller's promise, for the workspace's parts too.
            unsafe {
                self.run_forward(batch, arrays, inputs, false, stream)?;
                let left = self.run_backward(batch, arrays, inputs, gradients, Some(of_step), stream)?;
                let rate = step.learning_rate;
                let updates = left.into_iter().zip(inputs.parameters).enumerate().filter_map(|(number, (left, to))| {
                    let to = to.cast_mut();
                    Some(match (left?, step.optimizer) {
                        (Left::Parts(gradient), None) => {
                            Task::Descent(Descent { gradient, to, share, rate, decay: step.weight_decay })
                        }
                        (Left::Parts(gradient), Some(Optimizer { first, second, .. })) => {
                            let moment = |all: &[*mut c_void]| all.get(number).copied().unwrap_or_default().cast();
                            let [first, second] = [first, second].map(moment);
                            Task::Update(Update { gradient, to, first, second, share, rule })
                        }
                        (Left::Rows(its), _) => Task::DescentOfRows(DescentOfRows { its, to, share, rate }),
                    })
                });
                self.library.run(stream, &updates.collect::<Vec<_>>(), self.tf32)
            }
        })
    }
}
