//! Division in kernels by a number that the host knows.

/// A number of 1 or more, and what divides by it. Twin of the struct in `kernels/common/divisor.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Divisor {
    value: i32,
    inverse: u32,
    shift: i32,
}

impl Divisor {
    /// For v < 2^31 and d > 1, with 2^l the least power of two that is not less than d, v / d is
    /// v · ⌈2^(31 + l) / d⌉ / 2^(31 + l): Granlund and Montgomery, "Division by Invariant Integers using Multiplication"
    /// (PLDI 1994), theorem 4.2.
    pub fn new(value: usize) -> Self {
        let (inverse, shift) = match value.next_power_of_two().ilog2() {
            0 => (0, 0),
            l => ((1_u64 << (31 + l)).div_ceil(value as u64) as u32, l as i32 - 1),
        };
        Self { value: value as i32, inverse, shift }
    }

    #[cfg(test)]
    fn quotient(self, v: u32) -> u32 {
        if self.inverse == 0 { v } else { ((u64::from(v) * u64::from(self.inverse)) >> 32) as u32 >> self.shift }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn quotients_are_exact() {
        let mut random = StdRng::seed_from_u64(3);
        let mut below = |most: u32, count: usize| (0..count).map(|_| random.random_range(1..most)).collect::<Vec<_>>();
        let large = below(1 << 30, 300);
        for d in (1..=300).chain(large) {
            let divisor = Divisor::new(d as usize);
            let near = [0, 1, d - 1, d, (i32::MAX as u32 / d) * d, (i32::MAX as u32 / d) * d - 1, i32::MAX as u32];
            for v in near.into_iter().chain(below(1 << 31, 100)) {
                assert_eq!(divisor.quotient(v), v / d, "{v} / {d}");
            }
        }
    }
}
