//! Reverse-mode differentiation of single numbers: each number knows its partial derivatives by the numbers that it was
//! computed of.

/// A number on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(usize);

/// Numbers in the order in which they were computed.
#[derive(Default)]
pub(super) struct Tape {
    values: Vec<f64>,
    /// The end of each number's part of `slopes`.
    ends: Vec<usize>,
    /// What a number was computed of, and its partial derivative by that.
    slopes: Vec<(Number, f64)>,
}

impl Tape {
    /// A number that was computed of these, with its partial derivatives by them.
    pub fn add(&mut self, value: f64, slopes: impl IntoIterator<Item = (Number, f64)>) -> Number {
        self.values.push(value);
        self.slopes.extend(slopes);
        self.ends.push(self.slopes.len());
        Number(self.values.len() - 1)
    }

    /// A number that was computed of nothing.
    pub fn constant(&mut self, value: f64) -> Number {
        self.add(value, [])
    }

    pub fn value(&self, number: Number) -> f64 {
        self.values[number.0]
    }

    /// The derivatives by all numbers of the sum of some numbers, each times a weight.
    pub fn derivatives(&self, weighted: impl IntoIterator<Item = (Number, f64)>) -> Derivatives {
        let mut derivatives = vec![0.0; self.values.len()];
        weighted.into_iter().for_each(|(number, weight)| derivatives[number.0] += weight);
        for place in (0..self.values.len()).rev() {
            let first = if place == 0 { 0 } else { self.ends[place - 1] };
            for (number, slope) in &self.slopes[first..self.ends[place]] {
                derivatives[number.0] += slope * derivatives[place];
            }
        }
        Derivatives(derivatives)
    }
}

/// The derivatives by all numbers of a tape.
pub(super) struct Derivatives(Vec<f64>);

impl Derivatives {
    pub fn by(&self, number: Number) -> f64 {
        self.0[number.0]
    }
}
