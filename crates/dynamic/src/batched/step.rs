//! A step of training in one call: forward, the loss, backward, and gradient descent.

use std::ffi::c_void;

use gpu::Stream;
use gpu::jit::Error;
use vertex::batch::Batch;
use vertex::function::{MOST_PARAMETERS, MOST_PULLS_AND_PUSHES};

use super::batch::DeviceBatch;
use super::net::Net;
use super::run::{Gradients, Inputs, Left, OfStep};
use super::tasks::{Descent, DescentOfRows, Losses, Scores, Task};
use crate::memory::{APART, Bytes};

/// The loss of a step, and its update. The pointers are the device's.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The output with the scores of the classes.
    pub push: usize,
    /// The class of each vertex; one that is no class is not in the loss.
    pub labels: *const i32,
    /// The place for the loss, or null.
    pub loss: *mut f32,
    /// The step's length.
    pub learning_rate: f32,
    /// The part of a parameter that is added to its gradient.
    pub weight_decay: f32,
}

/// Where a step's own parts of the workspace lie, in bytes.
struct Parts {
    /// The scores, and later their gradients.
    scores: usize,
    /// The loss of each vertex, and behind them the share of a vertex in the mean.
    losses: usize,
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
        let mut gradients = [0; MOST_PARAMETERS];
        for (gradient, size) in gradients.iter_mut().zip(&declaration.parameters) {
            *gradient = take(size.elements() * size_of::<f32>());
        }
        Parts { scores, losses, gradients, end }
    }

    /// The memory of a step of a batch of `vertices`, if a run takes `bytes`.
    pub fn with_step(&self, bytes: Bytes, push: usize, vertices: usize) -> Bytes {
        Bytes { workspace: self.parts(bytes.workspace, push, vertices).end, ..bytes }
    }

    /// Launches a step: a run forward, the mean over the labelled vertices of the cross-entropy of softmax(scores) and
    /// label, a run backward by it, and one step of gradient descent: each parameter p becomes p - rate (gradient + decay
    /// p). `inputs` has no outputs; its parameters are written.
    ///
    /// # Safety
    /// As for [`Self::forward`], with the memory of [`Self::with_step`]. The net was made for training.
    pub unsafe fn step(
        &self,
        batch: &Batch,
        arrays: &DeviceBatch,
        inputs: Inputs,
        step: Step,
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
        // Without decay, only the rows of an embedding that the batch has change.
        let by_rows = if step.weight_decay == 0.0 { self.tables_of_rows() } else { 0 };
        let inputs = Inputs { pushes: &pushes[..outputs], ..inputs };
        let losses: *mut f32 = at(parts.losses).cast();
        let share = losses.wrapping_add(vertices);
        let (rows, columns) = (vertices as i32, declaration.pushes[step.push] as i32);
        let (kinds, kind_count) = (arrays.kind_in_script(0), self.kinds() as i32);
        let labels = step.labels;
        let scores = Scores { scores: at(parts.scores), labels, losses, kinds, kind_count, rows, columns };
        let of_mean = Losses { losses, labels, kinds, loss: step.loss, share, kind_count, rows, columns };
        self.launch(stream, |stream| {
            let of_step = OfStep { scores: Task::Scores(scores), losses: Task::Losses(of_mean), by_rows };
            // SAFETY: the caller's promise, for the workspace's parts too.
            unsafe {
                self.run_forward(batch, arrays, inputs, false, stream)?;
                let left = self.run_backward(batch, arrays, inputs, gradients, Some(of_step), stream)?;
                let rate = step.learning_rate;
                let descents = left.into_iter().zip(inputs.parameters).filter_map(|(left, to)| {
                    let to = to.cast_mut();
                    Some(match left? {
                        Left::Parts(gradient) => {
                            Task::Descent(Descent { gradient, to, share, rate, decay: step.weight_decay })
                        }
                        Left::Rows(its) => Task::DescentOfRows(DescentOfRows { its, to, share, rate }),
                    })
                });
                self.library.run(stream, &descents.collect::<Vec<_>>(), self.tf32)
            }
        })
    }
}
