//! A time step of a recurrence in double precision, and how far from it float arithmetic may come: what tests hold kernels
//! against. Loops that follow the definitions.
//!
//! What an operation answers is off by its rounding: by u of itself at most, and by anything up to there. As roundings do
//! (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019), those of different operations are
//! taken to be independent, so that their variances add up; to first order, along the same loops that say what is right.
//! So a result that is a small difference of large numbers may be as inexact as it has to be, and no other may.

use std::fmt::{self, Display, Formatter};
use std::ops::{Add, Mul};

use crate::configuration::{Cell, Element, Math};

/// Half the distance between 1 and the next number: of float, in which kernels compute, and of TF32.
const FLOAT: f64 = 1.0 / (1 << 24) as f64;
const TF32: f64 = 1.0 / (1 << 11) as f64;
/// Likewise for what the hyperbolic tangent and the logistic answer, each off by as much as a float's last digit.
const FUNCTION: f64 = 2.0 * FLOAT;

/// A result is off by more of its standard deviations once in 16,000 times where all of its errors are one, and never where
/// they are many.
const MOST_DEVIATIONS: f64 = 4.0;

/// A number, and the variance of what it is off where it is computed in float.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounded {
    pub value: f64,
    pub variance: f64,
}

impl Rounded {
    pub fn exact(value: f64) -> Self {
        Self { value, variance: 0.0 }
    }

    /// To within `unit` of itself, or to within `least`.
    fn to_within(self, unit: f64, least: f64) -> Self {
        let most = least.max(unit * self.value.abs());
        Self { variance: self.variance + most * most / 3.0, ..self }
    }

    fn to_float(self) -> Self {
        self.to_within(FLOAT, 0.0)
    }

    /// A function of it, given its value and its derivative there.
    fn through(self, value: f64, derivative: f64) -> Self {
        Self { value, variance: derivative.powi(2) * self.variance }.to_within(FUNCTION, 0.0)
    }

    fn logistic(self) -> Self {
        let value = 1.0 / (1.0 + (-self.value).exp());
        self.through(value, value * (1.0 - value))
    }

    fn tanh(self) -> Self {
        let value = self.value.tanh();
        self.through(value, 1.0 - value * value)
    }

    /// Around 0 it is as inexact as elsewhere.
    fn not_negative(self) -> Self {
        Self { value: self.value.max(0.0), ..self }
    }

    /// (1 - self) new + self old.
    fn between(self, new: Self, old: Self) -> Self {
        let (z, n, h) = (self.value, new.value, old.value);
        let parts = [(h - n, self), (1.0 - z, new), (z, old)];
        let of_parts: f64 = parts.into_iter().map(|(derivative, part)| derivative.powi(2) * part.variance).sum();
        // Of the products, or of h - n and its product.
        let rounded = FLOAT.powi(2) * (((1.0 - z) * n).powi(2) + (z * h).powi(2)) / 3.0;
        Self { value: (1.0 - z) * n + z * h, variance: of_parts + rounded }.to_float()
    }
}

impl Add for Rounded {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { value: self.value + other.value, variance: self.variance + other.variance }.to_float()
    }
}

impl Mul for Rounded {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (of_one, of_other) = (other.value.powi(2) * self.variance, self.value.powi(2) * other.variance);
        Self { value: self.value * other.value, variance: of_one + of_other }.to_float()
    }
}

/// What is rounded beside what is computed.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    element: Element,
    /// What products' factors are rounded to within.
    factor: f64,
}

impl Arithmetic {
    pub fn of(element: Element, math: Math) -> Self {
        let is_tf32 = (element, math) == (Element::Float, Math::TensorCores);
        Self { element, factor: if is_tf32 { TF32 } else { 0.0 } }
    }

    /// As which it is stored, a float or not.
    pub fn stored(&self, number: Rounded) -> Rounded {
        match self.element {
            Element::Float => number,
            // Below 2^-14 halves are equally far from each other.
            Element::Half => number.to_within(1.0 / (1 << 11) as f64, 1.0 / (1 << 25) as f64),
            Element::Bfloat16 => number.to_within(1.0 / (1 << 8) as f64, 0.0),
        }
    }

    /// An element of the product of a matrix, [outputs][inputs], and a vector.
    pub fn product(&self, matrix: &[f64], output: usize, vector: &[Rounded]) -> Rounded {
        let factor = 2.0 * self.factor.powi(2) / 3.0;
        let row = &matrix[output * vector.len()..];
        row.iter().zip(vector).fold(Rounded::default(), |sum, (weight, element)| {
            let variance = weight.powi(2) * (element.variance + factor * element.value.powi(2));
            let product = Rounded { value: weight * element.value, variance };
            sum + product
        })
    }

    /// A row of the batch, of which h and c, [hidden] each, become those of the next step. `x(gate, unit)` is W x with its
    /// biases; `r(gate, unit, h)` R h, with the bias that is inside of GRU's reset gate.
    pub fn step(
        &self,
        cell: Cell,
        x: impl Fn(usize, usize) -> Rounded,
        r: impl Fn(usize, usize, &[Rounded]) -> Rounded,
        h: &mut [Rounded],
        c: &mut [Rounded],
    ) {
        let old = h.to_vec();
        let reset_h: Vec<_> = match cell {
            Cell::CanonicalGru => {
                let reset = |unit| (x(0, unit) + r(0, unit, &old)).logistic();
                old.iter().enumerate().map(|(unit, &h)| self.stored(reset(unit) * h)).collect()
            }
            _ => vec![],
        };
        for (unit, h) in h.iter_mut().enumerate() {
            let sum = |gate| x(gate, unit) + r(gate, unit, &old);
            *h = self.stored(match cell {
                Cell::Tanh => sum(0).tanh(),
                Cell::Relu => sum(0).not_negative(),
                Cell::Lstm => {
                    c[unit] = sum(1).logistic() * c[unit] + sum(0).logistic() * sum(2).tanh();
                    sum(3).logistic() * c[unit].tanh()
                }
                Cell::Gru => {
                    let new = (x(2, unit) + sum(0).logistic() * r(2, unit, &old)).tanh();
                    sum(1).logistic().between(new, old[unit])
                }
                Cell::CanonicalGru => {
                    let new = (x(2, unit) + r(2, unit, &reset_h)).tanh();
                    sum(1).logistic().between(new, old[unit])
                }
            });
        }
    }
}

/// How far all numbers of a result are from what is right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distance {
    error: f64,
    norm: f64,
    variance: f64,
}

impl FromIterator<(f64, Rounded)> for Distance {
    /// Of numbers as they were computed, each with what is right.
    fn from_iter<I: IntoIterator<Item = (f64, Rounded)>>(numbers: I) -> Self {
        let mut distance = Self::default();
        numbers.into_iter().for_each(|(computed, right)| distance.count(computed, right));
        distance
    }
}

impl Display for Distance {
    /// Relative to what is right, and in standard deviations.
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        let relative = if self.error == 0.0 { 0.0 } else { (self.error / self.norm).sqrt() };
        write!(formatter, "off by {relative:.2e}, {:.2} times what rounding makes of it", self.deviations())
    }
}

impl Add for Distance {
    type Output = Self;

    /// Of both results together.
    fn add(self, other: Self) -> Self {
        let (error, norm) = (self.error + other.error, self.norm + other.norm);
        Self { error, norm, variance: self.variance + other.variance }
    }
}

impl Distance {
    pub fn count(&mut self, computed: f64, right: Rounded) {
        self.error += (computed - right.value).powi(2);
        self.norm += right.value.powi(2);
        self.variance += right.variance;
    }

    /// Whether it may come of rounding; not where a number is none.
    pub fn is_of_rounding(&self) -> bool {
        self.deviations() <= MOST_DEVIATIONS
    }

    /// The error's norm, in standard deviations of what it may be: of many results together at most 1.
    pub fn deviations(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { (self.error / self.variance).sqrt() }
    }
}
