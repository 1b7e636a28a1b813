use std::{cmp::Reverse, fmt};

use super::time;

/// A measured way to run a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MicroConfiguration<A> {
    /// Images in the micro-batch.
    pub batch: usize,
    /// The algorithm that computes them.
    pub algorithm: A,
    /// Time in milliseconds.
    pub time: f64,
    /// Workspace in bytes.
    pub workspace: usize,
}

/// A way to run a mini-batch: micro-configurations with a count each, the largest micro-batches first.
///
/// Prints as `3×32[FFT]+1×4[GEMM]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration<A> {
    parts: Vec<(usize, MicroConfiguration<A>)>,
}

impl<A> Configuration<A> {
    /// The mini-batch in one piece.
    pub fn undivided(micro: MicroConfiguration<A>) -> Self {
        Self { parts: vec![(1, micro)] }
    }

    /// The configuration of merged parts, which this sorts.
    pub(super) fn from_merged(mut parts: Vec<(usize, MicroConfiguration<A>)>) -> Self {
        parts.sort_by_key(|(_, micro)| Reverse(micro.batch));
        Self { parts }
    }

    /// The parts with their counts. Counts are at least 1, micro-batch sizes descend, and no two parts are equal.
    pub fn parts(&self) -> &[(usize, MicroConfiguration<A>)] {
        &self.parts
    }

    /// The micro-batches one by one, in running order.
    pub fn micro_batches(&self) -> impl Iterator<Item = &MicroConfiguration<A>> {
        self.parts.iter().flat_map(|(count, micro)| std::iter::repeat_n(micro, *count))
    }

    /// Images in all parts.
    pub fn batch(&self) -> usize {
        self.sum(|micro| micro.batch)
    }

    /// The sum of the parts' times, in milliseconds: a prediction, exact to about a picosecond per part.
    pub fn time(&self) -> f64 {
        time::milliseconds(self.ticks().into())
    }

    /// The workspace in bytes: the maximum over the parts, since they run one after the other.
    pub fn workspace(&self) -> usize {
        self.parts.iter().map(|(_, micro)| micro.workspace).max().unwrap_or(0)
    }

    /// The number of micro-batches.
    pub fn len(&self) -> usize {
        self.parts.iter().fold(0, |sum, (count, _)| sum.saturating_add(*count))
    }

    /// Returns true for the empty mini-batch's configuration.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns true if the mini-batch runs in one piece.
    pub fn is_undivided(&self) -> bool {
        self.len() == 1
    }

    pub(super) fn ticks(&self) -> u64 {
        let part = |(count, micro): &(usize, MicroConfiguration<A>)| {
            time::ticks(micro.time).unwrap_or(u64::MAX).saturating_mul(*count as u64)
        };
        self.parts.iter().map(part).fold(0, u64::saturating_add)
    }

    fn sum(&self, quantity: impl Fn(&MicroConfiguration<A>) -> usize) -> usize {
        self.parts.iter().fold(0, |sum, (count, micro)| sum.saturating_add(count.saturating_mul(quantity(micro))))
    }
}

impl<A: PartialEq> Configuration<A> {
    /// The configuration of parts in any order. Equal parts are merged, and parts with a count of 0 are left out.
    pub fn new(parts: impl IntoIterator<Item = (usize, MicroConfiguration<A>)>) -> Self {
        let mut merged: Vec<(usize, MicroConfiguration<A>)> = Vec::new();
        for (count, micro) in parts.into_iter().filter(|(count, _)| *count > 0) {
            match merged.iter_mut().find(|(_, known)| *known == micro) {
                Some((known, _)) => *known = known.saturating_add(count),
                None => merged.push((count, micro)),
            }
        }
        Self::from_merged(merged)
    }
}

impl<A: fmt::Display> fmt::Display for Configuration<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (count, micro)) in self.parts.iter().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            write!(f, "{plus}{count}×{}[{}]", micro.batch, micro.algorithm)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micro(batch: usize, algorithm: &str, time: f64, workspace: usize) -> MicroConfiguration<&str> {
        MicroConfiguration { batch, algorithm, time, workspace }
    }

    #[test]
    fn parts_are_merged_and_ordered() {
        let (small, large) = (micro(4, "GEMM", 1.0, 0), micro(32, "FFT", 2.5, 100));
        let configuration = Configuration::new([(1, large), (1, small), (0, micro(7, "none", 9.0, 999)), (2, large)]);
        assert_eq!(configuration.parts(), [(3, large), (1, small)]);
        assert_eq!(configuration.to_string(), "3×32[FFT]+1×4[GEMM]");
        assert_eq!((configuration.batch(), configuration.time(), configuration.workspace()), (100, 8.5, 100));
        assert_eq!((configuration.len(), configuration.is_undivided()), (4, false));
        assert_eq!(configuration.micro_batches().map(|micro| micro.batch).collect::<Vec<_>>(), [32, 32, 32, 4]);
        assert!(Configuration::undivided(small).is_undivided());
    }

    #[test]
    fn a_sum_does_not_depend_on_its_order() {
        let parts = [micro(1, "a", 0.1, 0), micro(2, "b", 0.2, 0), micro(3, "c", 0.3, 0)];
        let a = Configuration::new(parts.map(|micro| (1, micro)));
        let twice = Configuration::new(parts.iter().rev().chain(&parts).map(|&micro| (1, micro)));
        assert_eq!(twice.time(), 2.0 * a.time());
    }
}
