//! A time step of a recurrence in double precision, with the expected error of float arithmetic. Tests compare kernels
//! with this reference, whose loops follow the definitions.
//!
//! The result of an operation is off by a rounding error between 0 and u times the result. The rounding errors of
//! different operations are assumed to be independent (Higham and Mary, "A New Approach to Probabilistic Rounding Error
//! Analysis", 2019), so their variances add up. The same loops compute values and, to first order, variances. So a
//! small difference of large numbers may be as inexact as rounding makes it, but no other result may.

use std::fmt::{self, Display, Formatter};
use std::ops::{Add, Mul};

use crate::configuration::{Cell, Element, Math};

/// Half the distance between 1 and the next number: of float, in which kernels compute, and of TF32.
const FLOAT: f64 = 1.0 / (1 << 24) as f64;
const TF32: f64 = 1.0 / (1 << 11) as f64;
/// The same for the hyperbolic tangent and the logistic function, whose results are off by up to a float's last digit.
const FUNCTION: f64 = 2.0 * FLOAT;

/// The most standard deviations that a result may be off. If all of its errors are one, a result exceeds this once in
/// 16,000 times; if they are many, never.
const MOST_DEVIATIONS: f64 = 4.0;

/// A number, and the variance of its error in float arithmetic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounded {
    pub value: f64,
    pub variance: f64,
}

impl Rounded {
    pub fn exact(value: f64) -> Self {
        Self { value, variance: 0.0 }
    }

    /// Adds a rounding error of up to `unit` times the number, or up to `least` if that is more.
    fn to_within(self, unit: f64, least: f64) -> Self {
        let most = least.max(unit * self.value.abs());
        Self { variance: self.variance + most * most / 3.0, ..self }
    }

    fn to_float(self) -> Self {
        self.to_within(FLOAT, 0.0)
    }

    /// Applies a function, given its value and its derivative at this number.
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

    /// max(self, 0). Around 0 the result is as inexact as elsewhere.
    fn not_negative(self) -> Self {
        Self { value: self.value.max(0.0), ..self }
    }

    /// (1 - self) new + self old.
    fn between(self, new: Self, old: Self) -> Self {
        let (z, n, h) = (self.value, new.value, old.value);
        let parts = [(h - n, self), (1.0 - z, new), (z, old)];
        let of_parts: f64 = parts.into_iter().map(|(derivative, part)| derivative.powi(2) * part.variance).sum();
        // The rounding of both products, or of h - n and its product in kernels that compute n + z (h - n).
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

/// The roundings beside those of float arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    element: Element,
    /// The relative rounding of products' factors; 0 if they stay exact.
    factor: f64,
}

impl Arithmetic {
    pub fn of(element: Element, math: Math) -> Self {
        let is_tf32 = (element, math) == (Element::Float, Math::TensorCores);
        Self { element, factor: if is_tf32 { TF32 } else { 0.0 } }
    }

    /// Rounds a number to the type in which kernels store it.
    pub fn stored(&self, number: Rounded) -> Rounded {
        match self.element {
            Element::Float => number,
            // Below 2^-14 the distance between halves is constant.
            Element::Half => number.to_within(1.0 / (1 << 11) as f64, 1.0 / (1 << 25) as f64),
            Element::Bfloat16 => number.to_within(1.0 / (1 << 8) as f64, 0.0),
        }
    }

    /// An element of the product of a matrix, `[outputs][inputs]`, and a vector.
    pub fn product(&self, matrix: &[f64], output: usize, vector: &[Rounded]) -> Rounded {
        let factor = 2.0 * self.factor.powi(2) / 3.0;
        let row = &matrix[output * vector.len()..];
        row.iter().zip(vector).fold(Rounded::default(), |sum, (weight, element)| {
            let variance = weight.powi(2) * (element.variance + factor * element.value.powi(2));
            let product = Rounded { value: weight * element.value, variance };
            sum + product
        })
    }

    /// Advances a row of the batch by a step: h and c, `[hidden]` each, become those of the next step. `x(gate, unit)` is
    /// W x with its biases; `r(gate, unit, h)` is R h, with the bias inside of GRU's reset product.
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

/// How far the numbers of a result are from the reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distance {
    error: f64,
    norm: f64,
    variance: f64,
}

impl FromIterator<(f64, Rounded)> for Distance {
    /// Collects computed numbers, each with its reference.
    fn from_iter<I: IntoIterator<Item = (f64, Rounded)>>(numbers: I) -> Self {
        let mut distance = Self::default();
        numbers.into_iter().for_each(|(computed, right)| distance.count(computed, right));
        distance
    }
}

impl Display for Distance {
    /// The relative error, and the error in standard deviations.
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        let relative = if self.error == 0.0 { 0.0 } else { (self.error / self.norm).sqrt() };
        write!(formatter, "off by {relative:.2e}, {:.2} times what rounding makes of it", self.deviations())
    }
}

impl Add for Distance {
    type Output = Self;

    /// Combines two results.
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

    /// Returns true if rounding can explain the distance; false if it is not a number.
    pub fn is_of_rounding(&self) -> bool {
        self.deviations() <= MOST_DEVIATIONS
    }

    /// The error's norm, in standard deviations: at most 1 over many results.
    pub fn deviations(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { (self.error / self.variance).sqrt() }
    }
}
