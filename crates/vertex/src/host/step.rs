//! A step of training in one call: forward, loss, backward, update.

use super::elements::Space;
use super::real::Real;
use super::update::{Moments, update};
use super::{Element, Executor, Gradients, Inputs, Memory, Pull, Refused};
use crate::batch::{Batch, Maxima};
use crate::function::{MOST_PARAMETERS, MOST_PULLS_AND_PUSHES};

/// The loss of a step, and its update.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The output with the scores of the classes.
    pub push: usize,
    /// The class of each vertex; -1 for one that is not in the loss.
    pub labels: &'a [i32],
    /// The step's length.
    pub learning_rate: f64,
    /// The part of a parameter that is added to its gradient; see [`Rule`](super::Rule) for AdamW's.
    pub weight_decay: f64,
}

impl Executor {
    /// The memory of a step, where runs take `memory`.
    pub fn with_step(&self, memory: Memory, push: usize, vertices: usize) -> Memory {
        let declaration = self.net().declaration();
        let of_parameters: usize = declaration.parameters.iter().map(|size| size.elements()).sum();
        let of_scores = declaration.pushes[push].saturating_mul(vertices);
        Memory { workspace: memory.workspace.saturating_add(of_parameters).saturating_add(of_scores), ..memory }
    }

    /// The memory of a step of any batch within these maxima.
    pub fn most_memory_with_step<E: Element>(&self, maxima: &Maxima, push: usize) -> Memory {
        self.with_step(self.most_memory::<E>(maxima), push, maxima.vertices)
    }

    /// Runs a batch forward and backward by the mean over its labelled vertices of the cross-entropy of softmax(scores)
    /// and label, and updates the parameters: each p becomes p - rate (gradient + decay p), or changes by the rule of
    /// `moments`. Returns the loss; 0 without labels.
    pub fn step<E: Element>(
        &self,
        batch: &Batch,
        parameters: &mut [&mut [E]],
        pulls: &[Pull<E>],
        step: &Step,
        moments: Option<Moments<E::Real>>,
        (workspace, reserve): (&mut [E::Real], &mut [E::Real]),
    ) -> Result<f64, Refused> {
        let declaration = self.net().declaration();
        let Some(width) = declaration.pushes.get(step.push).copied() else {
            return Err(Refused(format!("output {} of {}", step.push, declaration.pushes.len())));
        };
        if step.labels.len() != batch.vertices() {
            return Err(Refused(format!("{} labels for {} vertices", step.labels.len(), batch.vertices())));
        }
        if let Some(place) = step.labels.iter().position(|label| !(-1..width as i64).contains(&i64::from(*label))) {
            let why = format!("vertex {place} has the label {}; -1 to {} are accepted", step.labels[place], width - 1);
            return Err(Refused(why));
        }
        check_rates(step.learning_rate, step.weight_decay)?;
        check_moments(moments.as_ref(), parameters)?;
        let mut space = Space(workspace);
        let scores = space.take(width * batch.vertices())?;
        let mut gradients: [Option<&mut [E::Real]>; MOST_PARAMETERS] = [const { None }; MOST_PARAMETERS];
        for (gradient, parameter) in gradients.iter_mut().zip(&*parameters) {
            *gradient = Some(space.take(parameter.len())?);
        }
        let count = parameters.len().min(MOST_PARAMETERS);
        let mut loss = 0.0;
        {
            let mut read: [&[E]; MOST_PARAMETERS] = [&[]; MOST_PARAMETERS];
            read.iter_mut().zip(&*parameters).for_each(|(read, parameter)| *read = parameter);
            let inputs = super::elements::Widened::new(Inputs { parameters: &read[..count], pulls }, &mut space)?;
            let mut pushes: [Option<&mut [E::Real]>; MOST_PULLS_AND_PUSHES] = [const { None }; MOST_PULLS_AND_PUSHES];
            pushes[step.push] = Some(&mut *scores);
            let pushes = &mut pushes[..declaration.pushes.len()];
            let round = super::elements::round::<E>;
            self.run_forward(batch, inputs.inputs(), pushes, (&mut *space.0, &mut *reserve), round)?;
            cross_entropy(scores, width, step.labels, &mut loss);
            let mut of_pushes: [&[E::Real]; MOST_PULLS_AND_PUSHES] = [&[]; MOST_PULLS_AND_PUSHES];
            of_pushes[step.push] = scores;
            let mut none: [Option<&mut [E::Real]>; MOST_PULLS_AND_PUSHES] = [const { None }; MOST_PULLS_AND_PUSHES];
            let all = Gradients {
                pushes: &of_pushes[..declaration.pushes.len()],
                pulls: &mut none[..declaration.pulls.len()],
                parameters: &mut gradients[..count],
                accumulates: false,
            };
            self.run_backward(batch, inputs.inputs(), all, (space.0, reserve))?;
        }
        update(parameters, &gradients, [step.learning_rate, step.weight_decay], moments);
        Ok(loss)
    }
}

/// Refuses rates of a step that are no numbers.
pub fn check_rates(learning_rate: f64, weight_decay: f64) -> Result<(), Refused> {
    for (what, number) in [("learning rate", learning_rate), ("weight decay", weight_decay)] {
        if !number.is_finite() {
            return Err(Refused(format!("the {what} is {number}; a finite number is accepted")));
        }
    }
    Ok(())
}

/// Refuses moments that are not as many as the parameters' elements, and their rule.
fn check_moments<E: Element>(moments: Option<&Moments<E::Real>>, parameters: &[&mut [E]]) -> Result<(), Refused> {
    let Some(moments) = moments else { return Ok(()) };
    moments.rule.check()?;
    for (which, its) in [&moments.first, &moments.second].into_iter().enumerate().take(moments.rule.moments()) {
        let fit = its.len() == parameters.len() && its.iter().zip(parameters).all(|(its, of)| its.len() == of.len());
        if !fit {
            return Err(Refused(format!("moments {which} are not as many as the parameters' elements")));
        }
    }
    Ok(())
}

/// Turns scores into the gradient of the mean cross-entropy, and computes it.
fn cross_entropy<C: Real>(scores: &mut [C], width: usize, labels: &[i32], loss: &mut f64) {
    let count = labels.iter().filter(|label| **label >= 0).count();
    let share = C::of(1.0 / count.max(1) as f64);
    for (scores, label) in scores.chunks_exact_mut(width).zip(labels) {
        let Ok(label) = usize::try_from(*label) else {
            scores.fill(C::ZERO);
            continue;
        };
        let greatest = scores.iter().fold(scores[0], |greatest, score| greatest.greater(*score));
        let of_label = scores[label] - greatest;
        scores.iter_mut().for_each(|score| *score = (*score - greatest).exp());
        let sum = scores.iter().fold(C::ZERO, |sum, score| sum + *score);
        *loss += (sum.to_f64().ln() - of_label.to_f64()) / count as f64;
        scores.iter_mut().for_each(|score| *score = *score / sum * share);
        scores[label] = scores[label] - share;
    }
}
