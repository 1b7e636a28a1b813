//! Axes: the pixel of each value, and the places of grid lines.

use crate::quantity;

/// An axis over a range of values.
pub struct Scale {
    /// Pixels at the axis's start and end.
    pixels: (f64, f64),
    kind: Kind,
}

enum Kind {
    /// Between two values.
    Linear(f64, f64),
    /// Powers of two `(least, most, zero)`: the exponents of the ends, and the share of the axis that sizes of 0 take
    /// before the first.
    Binary(f64, f64, f64),
}

/// The share of a binary axis that the place of 0 takes.
const ZERO: f64 = 0.12;

impl Scale {
    /// An axis for times in milliseconds, which starts at 0 unless all values are far from 0.
    pub fn times(values: impl Iterator<Item = f64> + Clone, pixels: (f64, f64)) -> Self {
        let most = values.clone().fold(0.0, f64::max).max(1e-6);
        let least = values.fold(most, f64::min);
        let from = if least > 0.7 * most { (least - 0.35 * (most - least).max(0.02 * most)).max(0.0) } else { 0.0 };
        let step = step(most - from, 6);
        let (from, to) = ((from / step).floor() * step, (most / step).ceil() * step);
        Self { pixels, kind: Kind::Linear(from, to) }
    }

    /// An axis for values from 0.
    pub fn from_zero(most: f64, pixels: (f64, f64)) -> Self {
        Self { pixels, kind: Kind::Linear(0.0, most.max(1e-6)) }
    }

    /// An axis for sizes in bytes, by powers of two.
    pub fn sizes(values: impl Iterator<Item = usize> + Clone, pixels: (f64, f64)) -> Self {
        let positive = || values.clone().filter(|value| *value > 0).map(|value| value as f64);
        // An axis is needed even if nothing takes any workspace.
        let most = positive().fold(0.0, f64::max).max(1024.0);
        let positive = positive().fold(most, f64::min);
        let with_zero = values.clone().any(|value| value == 0);
        let (mut least, mut last) = (positive.log2().floor(), most.log2().ceil());
        if last - least < 1.0 {
            (least, last) = (least - 1.0, last + 1.0);
        }
        Self { pixels, kind: Kind::Binary(least, last, if with_zero { ZERO } else { 0.0 }) }
    }

    /// The pixel of a value.
    pub fn at(&self, value: f64) -> f64 {
        let (from, to) = self.pixels;
        let share = match self.kind {
            Kind::Linear(least, most) => (value - least) / (most - least),
            Kind::Binary(..) if value < 1.0 => 0.0,
            Kind::Binary(least, most, zero) => zero + (1.0 - zero) * (value.log2() - least) / (most - least),
        };
        from + share * (to - from)
    }

    /// The places of the axis's lines, with labels: milliseconds on a linear axis, sizes on a binary one.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        match self.kind {
            Kind::Linear(least, most) => {
                let step = step(most - least, count);
                let first = (least / step).ceil() as i64;
                let last = (most / step + 1e-9).floor() as i64;
                let decimals = (-step.log10().floor()).max(0.0) as usize;
                let tick = |n| {
                    let value = n as f64 * step;
                    (value, format!("{value:.decimals$}"))
                };
                (first..=last).map(tick).collect()
            }
            Kind::Binary(least, most, zero) => {
                let exponents = (most - least) as usize;
                let step = exponents.div_ceil(count.max(1)).max(1);
                let ticks = (0..=exponents).step_by(step).map(|n| 2f64.powf(least + n as f64));
                let mut ticks: Vec<_> = ticks.map(|size| (size, quantity::chosen_bytes(size as usize))).collect();
                if zero > 0.0 {
                    ticks.insert(0, (0.0, "0".into()));
                }
                ticks
            }
        }
    }
}

/// A round distance between lines, for at most `count` lines over `span`.
fn step(span: f64, count: usize) -> f64 {
    let rough = span / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks(6).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn times_have_round_lines() {
        let scale = Scale::times([3.0, 47.0].into_iter(), (0.0, 100.0));
        assert_eq!(labels(&scale), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!((scale.at(0.0), scale.at(50.0)), (0.0, 100.0));
        let close = Scale::times([0.095, 0.1].into_iter(), (0.0, 100.0));
        assert!(close.at(0.095) < close.at(0.1) && close.at(0.095) > 0.0, "{:?}", labels(&close));
    }

    #[test]
    fn sizes_have_binary_lines_and_a_place_for_none() {
        let scale = Scale::sizes([0, 3 << 20, 100 << 20].into_iter(), (0.0, 100.0));
        assert_eq!(
            labels(&scale),
            ["0", "2 MiB", "4 MiB", "8 MiB", "16 MiB", "32 MiB", "64 MiB", "128 MiB"][..].to_vec()
        );
        assert_eq!((scale.at(0.0), scale.at((2 << 20) as f64), scale.at((128 << 20) as f64)), (0.0, 12.0, 100.0));
        let one = Scale::sizes([4096].into_iter(), (0.0, 100.0));
        assert!((0.0..=100.0).contains(&one.at(4096.0)));
        let none = Scale::sizes([0].into_iter(), (0.0, 100.0));
        assert_eq!(none.at(0.0), 0.0);
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([step(10.0, 5), step(11.0, 5), step(0.6, 6), step(1000.0, 6)], [2.0, 5.0, 0.1, 200.0]);
    }
}
