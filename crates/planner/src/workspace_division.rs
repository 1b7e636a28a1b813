//! Workspace Division: one workspace budget for all layers of a network, section III.B of the paper.
//!
//! Minimise Σ T_k(c) · x_kc subject to Σ M_k(c) · x_kc ≤ M and, for each problem k, Σ_c x_kc = 1. Layers with equal
//! problems count together, so x_kc is the number of problem k's layers that run configuration c.
//!
//! 1. The linear relaxation, which greedy steps along the lower hulls solve exactly, gives a bound on the time and a
//!    price of workspace. Its rounded and filled-up solution is a first division; equal shares are a second.
//! 2. Let the margin be the better division's time minus the bound. An alternative is in no division better still if,
//!    at this price, it costs more than its problem's best alternative by more than the margin. Few remain.
//! 3. Dynamic programming divides whole networks exactly, in bytes and ticks: [`exact`]. It takes a millisecond where
//!    GLPK may take seconds to prove its optimum's last digits, but too long for networks of very many problems.
//! 4. Of such networks, dynamic programming in rounded bytes makes a better division: [`rounded`]. With its margin, few
//!    alternatives may remain, and step 3 is tried again.
//! 5. GLPK solves what remains as an integer programme, starting with the known division. Its arithmetic is rounded, so
//!    its result counts only if it fits in bytes. Where the solver is not there, the known division is the result.

mod exact;
mod fronts;
mod programme;
mod relaxation;
mod rounded;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, Instant};

use super::solver::{self, Programme, Solved};
use super::time;
use fronts::{Counts, Fronts};
use programme::Scaled;
use relaxation::Relaxation;

/// The most layers, and the most alternatives, of one division.
pub const MOST_DIVIDED_LAYERS: usize = 1 << 20;

/// The cost of one configuration of a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// Time in milliseconds; not negative.
    pub time: f64,
    /// Workspace in bytes.
    pub workspace: usize,
}

/// Layers with equal problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The number of layers.
    pub layers: usize,
    /// The problem's desirable set, in any order. An alternative that another one beats is never chosen.
    pub alternatives: Vec<Alternative>,
}

/// The alternative that each layer runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// For each group, for each of its layers, the index of its alternative.
    pub chosen: Vec<Vec<usize>>,
    /// The sum of all layers' times, in milliseconds.
    pub time: f64,
    /// The sum of all layers' workspaces, in bytes.
    pub workspace: usize,
    /// True if no division is faster, except by a billionth of the time.
    pub proven: bool,
    /// The most by which an optimal division may be faster, as a fraction of `time`; 0 if proven.
    pub gap: f64,
}

/// The reason why there is no division.
#[derive(Clone, Debug, PartialEq)]
pub enum DivisionError {
    /// The layers need more than the total, even with the least workspace for each.
    TooSmall {
        /// The least workspace of all layers together, in bytes.
        least: usize,
    },
    /// A group has layers but no alternative.
    NoAlternative {
        /// The group's index.
        group: usize,
    },
    /// A time is negative, infinite or not a number.
    BadTime {
        /// The group's index.
        group: usize,
        /// The alternative's index.
        alternative: usize,
        /// The time.
        time: f64,
    },
    /// More layers, or more alternatives, than [`MOST_DIVIDED_LAYERS`].
    TooMany,
}

impl fmt::Display for DivisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { least } => write!(f, "the total is too small: the layers need at least {least} bytes"),
            Self::NoAlternative { group } => write!(f, "group {group} of the layers has no configuration to choose"),
            Self::BadTime { group, alternative, time } => {
                write!(f, "configuration {alternative} of group {group} takes {time} ms: 0 or more is accepted")
            }
            Self::TooMany => write!(f, "more than {MOST_DIVIDED_LAYERS} layers or configurations to divide among"),
        }
    }
}

impl std::error::Error for DivisionError {}

/// The fastest division of `total` bytes in which each layer runs one of its group's alternatives. Never slower than
/// equal shares for all layers.
///
/// Takes about `time_limit` at most. After that it returns the best division known, and `gap` limits its error; so it
/// does where the solver cannot be loaded. Only networks that need the solver load it.
pub fn workspace_division(groups: &[Group], total: usize, time_limit: Duration) -> Result<Division, DivisionError> {
    divide(groups, total, time_limit, solver::solve)
}

/// [`workspace_division`], with this solver of integer programmes.
fn divide(
    groups: &[Group],
    total: usize,
    time_limit: Duration,
    solve: impl Fn(&Programme, Duration) -> Result<Solved, String>,
) -> Result<Division, DivisionError> {
    let begun = Instant::now();
    let fronts = Fronts::of(groups, total)?;
    let Relaxation { price, bound, rounded } = Relaxation::of(&fronts);
    let mut known = Known { best: fronts.filled(rounded), bound };
    if let Some(shares) = fronts.equal_shares() {
        known.meet(&fronts, shares);
    }
    let mut most = relaxation::most(&fronts, price, bound, &known.best);
    let mut proven = most.iter().all(|front| front.iter().filter(|&&most| most > 0).count() <= 1);
    proven = proven || known.prove(&fronts, price, &most);
    if !proven && let Some(rounded) = rounded::fastest(&fronts) {
        known.meet(&fronts, fronts.filled(rounded));
        most = relaxation::most(&fronts, price, bound, &known.best);
        proven = known.prove(&fronts, price, &most);
    }
    if !proven {
        let scaled = Scaled::of(&fronts, &most, &known.best);
        match solve(&scaled.programme, time_limit.saturating_sub(begun.elapsed())) {
            Ok(solved) => {
                known.bound = known.bound.max(scaled.bound(&solved));
                let counts = scaled.counts(&fronts, &solved);
                if fronts.fits(&counts) {
                    known.meet(&fronts, fronts.filled(counts));
                    proven = solved.optimal;
                }
            }
            Err(why) if solver::solver_available().is_err() => {
                log::info!("the division of workspace may not be the best: {why}");
            }
            Err(why) => log::warn!("the solver gave up, and the division of workspace may not be the best: {why}"),
        }
    }
    Ok(known.division(&fronts, groups, proven))
}

/// The best division so far, and a lower bound on the time of every division, in ticks.
struct Known {
    best: Counts,
    bound: f64,
}

impl Known {
    fn meet(&mut self, fronts: &Fronts, other: Counts) {
        if fronts.cost(&other) < fronts.cost(&self.best) {
            self.best = other;
        }
    }

    /// Finds the fastest division with at most `most` layers at each point. `false` if that would take too long.
    fn prove(&mut self, fronts: &Fronts, price: f64, most: &Counts) -> bool {
        let Some(fastest) = exact::fastest(fronts, price, most, &self.best) else { return false };
        self.best = fastest;
        true
    }

    fn division(&self, fronts: &Fronts, groups: &[Group], proven: bool) -> Division {
        let ticks = fronts.time(&self.best) as f64;
        let gap = if proven || ticks <= self.bound { 0.0 } else { (ticks - self.bound) / ticks };
        Division {
            chosen: fronts.chosen(&self.best, groups.len()),
            time: time::milliseconds(fronts.time(&self.best)),
            workspace: fronts.workspace(&self.best) as usize,
            proven,
            gap: gap.min(1.0),
        }
    }
}
