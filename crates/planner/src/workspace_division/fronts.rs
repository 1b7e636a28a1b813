//! The groups of layers in the form that a division uses: checked, with the Pareto front of each group's alternatives.

use super::{DivisionError, Group, MOST_DIVIDED_LAYERS, time};

/// For each front and each of its points, the number of layers there.
pub(super) type Counts = Vec<Vec<usize>>;

/// An alternative that no other of its group beats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// In ticks.
    pub time: u64,
    /// In bytes.
    pub workspace: usize,
    /// Its index among its group's alternatives.
    pub index: usize,
}

/// A group's layers, one or more, and their alternatives.
#[derive(Debug)]
pub(super) struct Front {
    /// The group's index.
    pub group: usize,
    pub layers: usize,
    /// Not empty; workspace strictly ascending, time strictly descending.
    pub points: Vec<Point>,
}

/// All groups that have layers, and the total that they share.
#[derive(Debug)]
pub(super) struct Fronts {
    pub fronts: Vec<Front>,
    /// In bytes; at least the sum of all layers' least workspaces.
    pub total: usize,
}

impl Fronts {
    /// Refuses groups that cannot be divided, and drops points that no division within `total` can contain.
    pub fn of(groups: &[Group], total: usize) -> Result<Self, DivisionError> {
        let sum = |count: fn(&Group) -> usize| groups.iter().map(count).fold(0, usize::saturating_add);
        if sum(|group| group.layers).max(sum(|group| group.alternatives.len())) > MOST_DIVIDED_LAYERS {
            return Err(DivisionError::TooMany);
        }
        let fronts = groups.iter().enumerate().filter(|(_, group)| group.layers > 0);
        let mut fronts = fronts.map(|(index, group)| front(index, group)).collect::<Result<Vec<_>, _>>()?;
        let least = fronts.iter().map(|front| front.points[0].workspace as u128 * front.layers as u128).sum::<u128>();
        if least > total as u128 {
            return Err(DivisionError::TooSmall { least: usize::try_from(least).unwrap_or(usize::MAX) });
        }
        let spare = total - least as usize;
        for Front { points, .. } in &mut fronts {
            let least = points[0].workspace;
            points.retain(|point| point.workspace - least <= spare);
        }
        Ok(Self { fronts, total })
    }

    /// The layers one by one: the index of each one's front, and the front.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = (usize, &Front)> {
        self.fronts.iter().enumerate().flat_map(|(at, front)| std::iter::repeat_n((at, front), front.layers))
    }

    /// Every layer at its least workspace.
    pub fn least(&self) -> Counts {
        let at_first = |front: &Front| {
            let mut counts = vec![0; front.points.len()];
            counts[0] = front.layers;
            counts
        };
        self.fronts.iter().map(at_first).collect()
    }

    /// Every layer as Workspace Reuse plans it under an equal share of the total; `None` if a share is too small.
    pub fn equal_shares(&self) -> Option<Counts> {
        let share = self.total.checked_div(self.fronts.iter().map(|front| front.layers).sum())?;
        let shared = |front: &Front| {
            let mut counts = vec![0; front.points.len()];
            *counts.get_mut(front.points.partition_point(|point| point.workspace <= share).checked_sub(1)?)? =
                front.layers;
            Some(counts)
        };
        self.fronts.iter().map(shared).collect()
    }

    /// Spends on `counts` the rest of the total, one layer at a time, each time where it saves most time.
    pub fn filled(&self, mut counts: Counts) -> Counts {
        let mut spare = self.total - self.workspace(&counts) as usize;
        loop {
            let mut best: Option<(u64, usize, usize, usize)> = None;
            for (at, (front, counts)) in self.fronts.iter().zip(&counts).enumerate() {
                for (from, slow) in front.points.iter().enumerate().filter(|(from, _)| counts[*from] > 0) {
                    // the fastest alternative that fits is the last
                    let most = slow.workspace.saturating_add(spare);
                    let to = front.points.partition_point(|point| point.workspace <= most) - 1;
                    let saved = slow.time - front.points[to].time;
                    if to > from && best.is_none_or(|(most, ..)| saved > most) {
                        best = Some((saved, at, from, to));
                    }
                }
            }
            let Some((_, at, from, to)) = best else { return counts };
            let points = &self.fronts[at].points;
            spare -= points[to].workspace - points[from].workspace;
            counts[at][from] -= 1;
            counts[at][to] += 1;
        }
    }

    /// The sum of all layers' times, in ticks.
    pub fn time(&self, counts: &Counts) -> u128 {
        self.sum(counts, |point| point.time)
    }

    /// The sum of all layers' workspaces, in bytes.
    pub fn workspace(&self, counts: &Counts) -> u128 {
        self.sum(counts, |point| point.workspace as u64)
    }

    /// The key that compares divisions: time, then workspace.
    pub fn cost(&self, counts: &Counts) -> (u128, u128) {
        (self.time(counts), self.workspace(counts))
    }

    pub fn fits(&self, counts: &Counts) -> bool {
        self.workspace(counts) <= self.total as u128
    }

    /// For each of the `groups` and each of its layers, the index of its alternative.
    pub fn chosen(&self, counts: &Counts, groups: usize) -> Vec<Vec<usize>> {
        let mut chosen = vec![Vec::new(); groups];
        for (front, counts) in self.fronts.iter().zip(counts) {
            let layers =
                front.points.iter().zip(counts).flat_map(|(point, &count)| std::iter::repeat_n(point.index, count));
            chosen[front.group] = layers.collect();
        }
        chosen
    }

    fn sum(&self, counts: &Counts, quantity: fn(&Point) -> u64) -> u128 {
        let points = self.fronts.iter().zip(counts).flat_map(|(front, counts)| front.points.iter().zip(counts));
        points.map(|(point, &count)| u128::from(quantity(point)) * count as u128).sum()
    }
}

fn front(index: usize, group: &Group) -> Result<Front, DivisionError> {
    let point = |(alternative, it): (usize, &super::Alternative)| {
        let bad = DivisionError::BadTime { group: index, alternative, time: it.time };
        Ok(Point { time: time::ticks(it.time).ok_or(bad)?, workspace: it.workspace, index: alternative })
    };
    let mut points = group.alternatives.iter().enumerate().map(point).collect::<Result<Vec<_>, _>>()?;
    points.sort_by_key(|point| (point.workspace, point.time, point.index));
    let mut least = None;
    points
        .retain(|point| least.is_none_or(|least| point.time < least) && least.replace(point.time) != Some(point.time));
    if points.is_empty() {
        return Err(DivisionError::NoAlternative { group: index });
    }
    Ok(Front { group: index, layers: group.layers, points })
}
