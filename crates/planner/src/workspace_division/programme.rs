//! The integer programme of a division, in numbers that suit the solver's arithmetic.
//!
//! Bytes that all choices of a group need are taken off the total. Bytes are then counted in units of their greatest
//! common divisor, and times from the group's fastest. The numbers may still be as large as memory, but the solver's
//! arithmetic holds about ten digits. Rounding admits a division that exceeds the total by a little, and excludes none
//! that fits: an optimum that fits is optimal.

use super::fronts::{Counts, Fronts};
use crate::solver::{Programme, Solved};

/// The most bits of an integer that a double holds.
const DOUBLE_BITS: u32 = 52;
/// The bits of the largest capacity, at which the solver's relative and absolute tolerances meet.
const CAPACITY_BITS: u32 = 10;
/// The largest cost.
const LARGEST_COST: f64 = 1e4;

/// A choice of the programme: a point of a front.
#[derive(Clone, Copy)]
struct Choice {
    front: usize,
    point: usize,
    /// Workspace above the group's least, in units.
    need: u64,
    most: usize,
    start: usize,
}

/// A programme, and the meaning of its numbers.
pub(super) struct Scaled {
    pub programme: Programme,
    /// The front and the point of each choice.
    choices: Vec<(usize, usize)>,
    /// Ticks of all groups at their fastest, which the costs leave out.
    fastest: f64,
    ticks_per_cost: f64,
}

impl Scaled {
    /// The programme of a division with at most `most` layers at each point, starting at the feasible `start`.
    pub fn of(fronts: &Fronts, most: &Counts, start: &Counts) -> Self {
        let (choices, capacity) = choices(fronts, most, start);
        let point = |choice: &Choice| fronts.fronts[choice.front].points[choice.point];
        let groups = || choices.chunk_by(|a, b| a.front == b.front);

        // times descend along a front, so the fastest choice is the last
        let fastest = |group: &[Choice]| group.last().map_or(0, |last| point(last).time);
        let ticks = |group: &[Choice]| {
            let fastest = fastest(group);
            group.iter().map(|choice| (point(choice).time - fastest) as f64).collect::<Vec<_>>()
        };
        let costs = groups().flat_map(ticks).collect::<Vec<_>>();
        let ticks_per_cost = costs.iter().copied().fold(1.0, f64::max) / LARGEST_COST;
        let layers = |group: &[Choice]| fronts.fronts[group[0].front].layers;
        let bits = u64::BITS - capacity.leading_zeros();
        // rounded down, so that no sum grows by more than the capacity
        let dropped = bits.saturating_sub(DOUBLE_BITS);
        let unit = 2f64.powi(bits.saturating_sub(dropped + CAPACITY_BITS) as i32);
        let rounded = |number: u64| (number >> dropped) as f64 / unit;
        let programme = Programme {
            group_choices: groups().map(<[_]>::len).collect(),
            layers: groups().map(|group| layers(group) as f64).collect(),
            costs: costs.iter().map(|ticks| ticks / ticks_per_cost).collect(),
            most: choices.iter().map(|choice| choice.most as f64).collect(),
            needs: vec![choices.iter().map(|choice| rounded(choice.need)).collect()],
            capacities: vec![rounded(capacity)],
            start: choices.iter().map(|choice| choice.start as f64).collect(),
        };
        Self {
            programme,
            choices: choices.iter().map(|choice| (choice.front, choice.point)).collect(),
            fastest: groups().map(|group| fastest(group) as f64 * layers(group) as f64).sum(),
            ticks_per_cost,
        }
    }

    /// A lower bound on every division's time, in ticks: the solver's bound less its tolerance.
    pub fn bound(&self, solved: &Solved) -> f64 {
        let bound = self.fastest + solved.bound * self.ticks_per_cost;
        bound - 1e-9 * bound.abs()
    }

    /// The solver's division.
    pub fn counts(&self, fronts: &Fronts, solved: &Solved) -> Counts {
        let mut counts: Counts = fronts.fronts.iter().map(|front| vec![0; front.points.len()]).collect();
        for (&(front, point), &count) in self.choices.iter().zip(&solved.counts) {
            counts[front][point] = count.round() as usize;
        }
        counts
    }
}

/// The remaining choices in order, and the capacity in their units.
fn choices(fronts: &Fronts, most: &Counts, start: &Counts) -> (Vec<Choice>, u64) {
    let mut capacity = fronts.total;
    let mut choices = Vec::new();
    for (at, (front, (most, start))) in fronts.fronts.iter().zip(most.iter().zip(start)).enumerate() {
        let mut least = None;
        for (point, (&most, &start)) in most.iter().zip(start).enumerate().filter(|(_, (most, _))| **most > 0) {
            let workspace = front.points[point].workspace;
            let least = *least.get_or_insert_with(|| {
                capacity -= front.layers * workspace;
                workspace
            });
            choices.push(Choice { front: at, point, need: (workspace - least) as u64, most, start });
        }
    }
    let unit = choices.iter().map(|choice| choice.need).fold(0, greatest_common_divisor).max(1);
    choices.iter_mut().for_each(|choice| choice.need /= unit);
    (choices, capacity as u64 / unit)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
