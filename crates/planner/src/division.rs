//! The dynamic programme: T(b) is the least cost of b images divided over the micro-configurations added so far.

use super::{Configuration, LARGEST_DIVIDED_BATCH, MicroConfiguration, time};

/// The cost of a division, compared by time, then by parts. Both are sums, so the least cost follows from the least
/// cost of the remainder. Workspace is not a sum: callers add micro-configurations in the order of their workspace.
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

/// T(0), T(1), … T(B), and the best micro-configuration of each size.
pub(super) struct Division {
    least: Vec<Cost>,
    /// By size: the cheapest part of that size, with the index that the caller of `add` gave it.
    part: Vec<Option<(Cost, usize)>>,
}

impl Division {
    /// The empty division of a mini-batch of `batch` images, which it counts in grains.
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

    /// Allows any number of parts of `size` that take `time`; `index` identifies the part to the caller.
    pub fn add(&mut self, size: usize, time: u64, index: usize) {
        let part = Cost::part(time);
        if part >= self.least[size] {
            return; // the known division of this size costs no more
        }
        self.part[size] = Some((part, index));
        for b in size..self.least.len() {
            // T(b − size) already allows this part, so any number of parts is allowed
            let divided = part.plus(self.least[b - size]);
            if divided < self.least[b] {
                self.least[b] = divided;
            }
        }
    }

    /// The parts of the cheapest division of `batch`, as (count, index), sizes descending. Ties go to the largest
    /// parts. Empty if there is no division.
    pub fn parts(&self, batch: usize) -> Vec<(usize, usize)> {
        let mut parts = Vec::new();
        if !self.least[batch].is_reachable() {
            return parts;
        }
        let mut rest = batch;
        let mut size = batch;
        while rest > 0 {
            // never larger than the last part: the loop would have taken it before
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

/// A micro-configuration that can be part of a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usable {
    /// In grains.
    pub size: usize,
    /// In ticks.
    pub time: u64,
    pub workspace: usize,
    /// Its index in the list that it came from.
    pub index: usize,
}

/// The micro-configurations that can be part of a configuration of `batch` within `limit` (see the module's docs).
pub(super) fn usable<A>(batch: usize, micro: &[MicroConfiguration<A>], limit: usize) -> Vec<Usable> {
    let of = |(index, micro): (usize, &MicroConfiguration<A>)| {
        let size = in_grains(micro.batch, batch)?;
        let time = time::ticks(micro.time)?;
        // then no sum over a mini-batch overflows
        let adds_up = time as u128 * batch as u128 <= (u64::MAX - 1) as u128 * micro.batch as u128;
        (adds_up && micro.workspace <= limit).then_some(Usable { size, time, workspace: micro.workspace, index })
    };
    micro.iter().enumerate().filter_map(of).collect()
}

/// The unit of sizes: one image, or the whole mini-batch if it is too large to divide.
pub(super) fn grain(batch: usize) -> usize {
    if batch > LARGEST_DIVIDED_BATCH { batch } else { 1 }
}

/// `size` images in grains of the mini-batch; `None` if they cannot be one of its micro-batches.
pub(super) fn in_grains(size: usize, batch: usize) -> Option<usize> {
    let grain = grain(batch);
    ((1..=batch).contains(&size) && size.is_multiple_of(grain)).then(|| size / grain)
}

/// The configuration with parts (count, index into `micro`).
pub(super) fn configuration<A: Clone>(parts: &[(usize, usize)], micro: &[MicroConfiguration<A>]) -> Configuration<A> {
    Configuration::from_merged(parts.iter().map(|&(count, index)| (count, micro[index].clone())).collect())
}
