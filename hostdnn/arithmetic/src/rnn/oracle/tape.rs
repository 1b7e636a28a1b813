//! Gradients in reverse mode: a network runs on numbers that note on a tape what they were made of, and the tape is
//! read backwards.

use super::{Inputs, Outcome, Scalar, forward};
use crate::rnn::{Network, Sequences};
use std::cell::{Cell, RefCell};
use std::ops::{Add, Mul};

/// The gradients of a loss, in the layout of what they belong to.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The input's; 0 in padding.
    pub dx: Vec<f64>,
    /// The initial hidden state's, `[pseudo layers, B, P]`.
    pub dhx: Vec<f64>,
    /// The initial cell state's, `[pseudo layers, B, H]`; only for LSTM.
    pub dcx: Vec<f64>,
    /// The weight space's.
    pub dweights: Vec<f64>,
    /// The least distance of an argument from a place without a derivative: from 0 of max(0, x), or from a bound of
    /// clipping. Infinite without such places. Near one, gradients of other arithmetic may differ.
    pub distance: f64,
}

/// The gradients of a loss whose own gradients of the results are `loss`. Padding in it is not used.
pub fn gradients(
    network: &Network,
    sequences: &Sequences,
    inputs: Inputs<f64>,
    loss: &Outcome,
) -> (Outcome, Gradients) {
    let tape = Tape { nodes: RefCell::default(), distance: Cell::new(f64::INFINITY) };
    let leaves = |values: &[f64]| values.iter().map(|&value| tape.leaf(value)).collect::<Vec<_>>();
    let [x, weights] = [inputs.x, inputs.weights].map(leaves);
    // Missing states are zeros, which have gradients too.
    let [hx, cx] = [(inputs.hx, &loss.hy), (inputs.cx, &loss.cy)]
        .map(|(given, like)| given.map_or_else(|| leaves(&vec![0.0; like.len()]), leaves));
    let on_tape = Inputs { x: &x, weights: &weights, hx: Some(&hx), cx: Some(&cx), masks: inputs.masks };
    let outcome = forward(network, sequences, on_tape, f64::NAN);

    let results = [(&outcome.y, &loss.y), (&outcome.hy, &loss.hy), (&outcome.cy, &loss.cy)];
    let adjoints = tape.adjoints(results.into_iter().flat_map(|(results, loss)| results.iter().zip(loss)));
    let of = |leaves: &[Number]| leaves.iter().map(|leaf| leaf.node.map_or(0.0, |(_, at)| adjoints[at])).collect();
    let values = |results: &[Number]| results.iter().map(|result| result.value).collect();
    let gradients =
        Gradients { dx: of(&x), dhx: of(&hx), dcx: of(&cx), dweights: of(&weights), distance: tape.distance.get() };
    (Outcome { y: values(&outcome.y), hy: values(&outcome.hy), cy: values(&outcome.cy) }, gradients)
}

/// A number that another one was made of, by its place on the tape, and the derivative by it.
type Part = (usize, f64);

/// All numbers that depend on a leaf, in the order in which they were made, with up to two that each was made of.
struct Tape {
    nodes: RefCell<Vec<[Option<Part>; 2]>>,
    distance: Cell<f64>,
}

/// A number, and its place on a tape unless it is a constant.
#[derive(Clone, Copy)]
struct Number<'t> {
    value: f64,
    node: Option<(&'t Tape, usize)>,
}

impl Tape {
    fn leaf(&self, value: f64) -> Number<'_> {
        self.push(value, [None; 2])
    }

    fn push(&self, value: f64, made_of: [Option<Part>; 2]) -> Number<'_> {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(made_of);
        Number { value, node: Some((self, nodes.len() - 1)) }
    }

    /// The derivatives by all numbers of the sum of results, each times its factor.
    fn adjoints<'a>(&self, results: impl Iterator<Item = (&'a Number<'a>, &'a f64)>) -> Vec<f64> {
        let nodes = self.nodes.borrow();
        let mut adjoints = vec![0.0; nodes.len()];
        for (result, factor) in results {
            if let Some((_, at)) = result.node {
                adjoints[at] += factor;
            }
        }
        for (at, made_of) in nodes.iter().enumerate().rev() {
            for (from, derivative) in made_of.iter().flatten() {
                adjoints[*from] += adjoints[at] * derivative;
            }
        }
        adjoints
    }
}

impl Number<'_> {
    /// A function's value, with the derivatives by its arguments.
    fn function(value: f64, [first, second]: [(Self, f64); 2]) -> Self {
        let Some((tape, _)) = first.0.node.or(second.0.node) else { return value.into() };
        let part = |(number, derivative): (Self, f64)| number.node.map(|(_, at)| (at, derivative));
        tape.push(value, [part(first), part(second)])
    }

    /// A function of this number alone.
    fn apply(self, value: f64, derivative: f64) -> Self {
        Self::function(value, [(self, derivative), (0.0.into(), 0.0)])
    }

    fn note_distance(self, from: f64) {
        if let Some((tape, _)) = self.node {
            tape.distance.set(tape.distance.get().min((self.value - from).abs()));
        }
    }
}

impl From<f64> for Number<'_> {
    fn from(value: f64) -> Self {
        Self { value, node: None }
    }
}

impl Add for Number<'_> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::function(self.value + other.value, [(self, 1.0), (other, 1.0)])
    }
}

impl Mul for Number<'_> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::function(self.value * other.value, [(self, other.value), (other, self.value)])
    }
}

impl Scalar for Number<'_> {
    fn relu(self) -> Self {
        self.note_distance(0.0);
        self.apply(self.value.relu(), f64::from(u8::from(self.value > 0.0)))
    }

    fn tanh(self) -> Self {
        self.apply(self.value.tanh(), 1.0 - self.value.tanh().powi(2))
    }

    fn logistic(self) -> Self {
        let value = self.value.logistic();
        self.apply(value, value * (1.0 - value))
    }

    fn clamp(self, least: f64, most: f64) -> Self {
        self.note_distance(least);
        self.note_distance(most);
        let inside = (least..=most).contains(&self.value);
        self.apply(self.value.clamp(least, most), f64::from(u8::from(inside)))
    }
}
