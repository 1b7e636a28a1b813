//! The dynamic programme: T(b), the least that a micro-batch of b images costs when divided over the
//! micro-configurations added so far.

use super::{Configuration, LARGEST_DIVIDED_BATCH, MicroConfiguration, time};

/// What dividing costs, compared in this order. Both add up, so the least is found from the least of what remains;
/// workspace, which does not add up, is handled by adding micro-configurations in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// In ticks.
    pub time: u64,
    pub parts: u32,
}

impl Cost {
    pub const ZERO: Self = Self { time: 0, parts: 0 };
    pub const UNREACHABLE: Self = Self { time: u64::MAX, parts: u32::MAX };

    pub fn part(time: u64) -> Self {
        Self { time, parts: 1 }
    }

    pub fn plus(self, other: Self) -> Self {
        Self { time: self.time.saturating_add(other.time), parts: self.parts.saturating_add(other.parts) }
    }

    pub fn is_reachable(self) -> bool {
        self.parts != u32::MAX
    }
}

/// T(0), T(1), … T(B), and the micro-configuration in force at each size.
pub(super) struct Division {
    least: Vec<Cost>,
    /// By size: the cheapest part of that size, with the index that its adder knows it by.
    part: Vec<Option<(Cost, usize)>>,
}

impl Division {
    /// Of a mini-batch of `batch` images, which it counts in grains.
    pub fn of(batch: usize) -> Self {
        let batch = batch / grain(batch);
        let mut least = vec![Cost::UNREACHABLE; batch + 1];
        least[0] = Cost::ZERO;
        Self { least, part: vec![None; batch + 1] }
    }

    /// B, in grains.
    pub fn whole(&self) -> usize {
        self.least.len() - 1
    }

    /// T(b).
    pub fn least(&self, batch: usize) -> Cost {
        self.least[batch]
    }

    /// Allows any number of parts of `size` images that take `time`, known to the caller by `index`.
    pub fn add(&mut self, size: usize, time: u64, index: usize) {
        let part = Cost::part(time);
        if part >= self.least[size] {
            return; // what is there already takes its place at no more cost
        }
        self.part[size] = Some((part, index));
        for b in size..self.least.len() {
            // T(b − size) already allows this part, so this is any number of them
            let divided = part.plus(self.least[b - size]);
            if divided < self.least[b] {
                self.least[b] = divided;
            }
        }
    }

    /// The parts of the cheapest division of `batch`, as (count, index), sizes descending; of equally cheap ones, that
    /// with the largest parts. Empty if there is none.
    pub fn parts(&self, batch: usize) -> Vec<(usize, usize)> {
        let mut parts = Vec::new();
        if !self.least[batch].is_reachable() {
            return parts;
        }
        let mut rest = batch;
        let mut size = batch;
        while rest > 0 {
            // never a larger one than the last: it would have been taken before
            size = size.min(rest);
            let mut count = 0;
            if let Some((part, index)) = self.part[size] {
                while rest >= size && part.plus(self.least[rest - size]) == self.least[rest] {
                    rest -= size;
                    count += 1;
                }
                if count > 0 {
                    parts.push((count, index));
                }
            }
            size -= 1;
        }
        parts
    }
}

/// A micro-configuration that may be part of a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usable {
    /// In grains.
    pub size: usize,
    /// In ticks.
    pub time: u64,
    pub workspace: usize,
    /// Where it stands in the list that it came from.
    pub index: usize,
}

/// Those of `micro` that may be part of a configuration of `batch` within `limit`: the rule in the folder's docs.
pub(super) fn usable<A>(batch: usize, micro: &[MicroConfiguration<A>], limit: usize) -> Vec<Usable> {
    let of = |(index, micro): (usize, &MicroConfiguration<A>)| {
        let size = in_grains(micro.batch, batch)?;
        let time = time::ticks(micro.time)?;
        // so that no sum over a mini-batch overflows
        let adds_up = time as u128 * batch as u128 <= (u64::MAX - 1) as u128 * micro.batch as u128;
        (adds_up && micro.workspace <= limit).then_some(Usable { size, time, workspace: micro.workspace, index })
    };
    micro.iter().enumerate().filter_map(of).collect()
}

/// What sizes are counted in: images, or whole mini-batches where those are too large to divide.
pub(super) fn grain(batch: usize) -> usize {
    if batch > LARGEST_DIVIDED_BATCH { batch } else { 1 }
}

/// A micro-batch of `size` images in grains of the mini-batch; none if it cannot be part of that.
pub(super) fn in_grains(size: usize, batch: usize) -> Option<usize> {
    let grain = grain(batch);
    ((1..=batch).contains(&size) && size.is_multiple_of(grain)).then(|| size / grain)
}

/// The configuration of (count, index into `micro`).
pub(super) fn configuration<A: Clone>(parts: &[(usize, usize)], micro: &[MicroConfiguration<A>]) -> Configuration<A> {
    Configuration::from_merged(parts.iter().map(|&(count, index)| (count, micro[index].clone())).collect())
}
