//! The linear relaxation of a division, in which a layer may run fractions of alternatives.
//!
//! Its optimum takes steps along the fronts' lower convex hulls, largest saved time per byte first, until the total is
//! spent. The first step that does not fit gives the price of a byte, λ. For any λ ≥ 0 no division is faster than
//! L(λ) = Σ layers · min_c (T(c) + λ M(c)) − λ · total (its Lagrangian bound); at this λ, L is the relaxation's optimum.

use std::cmp::Ordering;

use super::fronts::{Counts, Front, Fronts, Point};

/// The fraction by which bounds are lowered, to make up for rounding in the numbers that they come from.
pub(super) const ROUNDING: f64 = 1e-12;

pub(super) struct Relaxation {
    /// λ, in ticks per byte.
    pub price: f64,
    /// A lower bound on every division's time, in ticks.
    pub bound: f64,
    /// The steps that fit, each taken whole.
    pub rounded: Counts,
}

/// A step of one layer from a point of its front's hull to the next.
#[derive(Clone, Copy)]
struct Step {
    front: usize,
    from: usize,
    to: usize,
    saved: u64,
    taken: u64,
}

impl Relaxation {
    pub fn of(fronts: &Fronts) -> Self {
        let mut steps: Vec<Step> =
            fronts.fronts.iter().enumerate().flat_map(|(at, front)| hull_steps(at, front)).collect();
        steps.sort_by(|a, b| by_rate(b, a));
        let mut rounded = fronts.least();
        let mut spare = fronts.total as u128 - fronts.workspace(&rounded);
        let mut price = None;
        for step in &steps {
            let counts = &mut rounded[step.front];
            let taken = (counts[step.from] as u128).min(spare / u128::from(step.taken)) as usize;
            if taken < counts[step.from] && price.is_none() {
                price = Some(step.saved as f64 / step.taken as f64);
            }
            counts[step.from] -= taken;
            counts[step.to] += taken;
            spare -= taken as u128 * u128::from(step.taken);
        }
        // with no step left over, workspace is free, and the rounded division is the optimum
        let price = price.unwrap_or(0.0);
        let bound = if price == 0.0 { fronts.time(&rounded) as f64 } else { lagrangian(fronts, price) };
        Self { price, bound, rounded }
    }
}

/// For each point of each front, the most layers there in a division that is faster than `best`.
pub(super) fn most(fronts: &Fronts, price: f64, bound: f64, best: &Counts) -> Counts {
    let between = fronts.time(best) as f64 - bound;
    let of = |(front, best): (&Front, &Vec<usize>)| {
        let least = least_priced(front, price);
        let most = |(point, &known): (&Point, &usize)| {
            let extra = priced(point, price) - least;
            let rounding = ROUNDING * (priced(point, price) + least);
            let most = ((between + rounding) / (extra - rounding)).clamp(0.0, front.layers as f64);
            // at first the known division stays allowed
            if extra <= rounding { front.layers } else { known.max(most as usize) }
        };
        front.points.iter().zip(best).map(most).collect()
    };
    fronts.fronts.iter().zip(best).map(of).collect()
}

/// L(price), in ticks.
fn lagrangian(fronts: &Fronts, price: f64) -> f64 {
    let layers = fronts.fronts.iter().map(|front| front.layers as f64 * least_priced(front, price)).sum::<f64>();
    let total = price * fronts.total as f64;
    (layers - total - ROUNDING * (layers + total)).max(0.0)
}

/// The least cost of a layer with workspace at its price, in ticks.
pub(super) fn least_priced(front: &Front, price: f64) -> f64 {
    front.points.iter().map(|point| priced(point, price)).fold(f64::INFINITY, f64::min)
}

fn priced(point: &Point, price: f64) -> f64 {
    point.time as f64 + price * point.workspace as f64
}

/// The steps along a front's lower convex hull, in order: each saves less time per byte than the one before.
fn hull_steps(at: usize, front: &Front) -> Vec<Step> {
    let step = |from: usize, to: usize| {
        let (a, b) = (front.points[from], front.points[to]);
        Step { front: at, from, to, saved: a.time - b.time, taken: (b.workspace - a.workspace) as u64 }
    };
    let mut steps: Vec<Step> = Vec::new();
    for to in 1..front.points.len() {
        let mut next = step(to - 1, to);
        while let Some(last) = steps.pop_if(|last| by_rate(last, &next) != Ordering::Greater) {
            next = step(last.from, to);
        }
        steps.push(next);
    }
    steps
}

/// Orders steps by the time saved per byte.
fn by_rate(a: &Step, b: &Step) -> Ordering {
    let (left, right) = (u128::from(a.saved) * u128::from(b.taken), u128::from(b.saved) * u128::from(a.taken));
    left.cmp(&right)
}
