//! Workspace Division: one budget of workspace over all layers of a network, section III.B of the paper.
//!
//! minimise Σ T_k(c) · x_kc subject to Σ M_k(c) · x_kc ≤ M and, for each kernel k, Σ_c x_kc = 1; layers with equal
//! kernels count together, so x_kc is how many of kernel k's layers run configuration c.
//!
//! 1. The linear relaxation, which greedy steps along the lower hulls solve exactly, gives a bound on the time and a
//!    price of workspace; rounded and filled up, a first division. Equal shares for all layers give another.
//! 2. An alternative that at this price costs more than its kernel's best by more than lies between the better of these
//!    and the bound is in no better division. Few remain.
//! 3. Whole networks are then divided in whole bytes and ticks, layer by layer: [`exact`]. That takes a millisecond where
//!    GLPK may take seconds to prove the last digits of its optimum, but for very many kernels it takes too long.
//! 4. Those GLPK solves as an integer programme, beginning with the division that is known. Its arithmetic is rounded, so
//!    what it finds counts only if it fits in bytes.

mod exact;
mod fronts;
mod programme;
mod relaxation;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, Instant};

use super::{solver, time};
use fronts::{Counts, Fronts};
use programme::Scaled;
use relaxation::Relaxation;

/// The most layers, and the most alternatives, of one division.
pub const MOST_DIVIDED_LAYERS: usize = 1 << 20;

/// One configuration of a kernel, as far as a division cares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// Time in milliseconds; not negative.
    pub time: f64,
    /// Workspace in bytes.
    pub workspace: usize,
}

/// Layers with equal kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// How many they are.
    pub layers: usize,
    /// What each may run: the kernel's desirable set, in any order. One that another beats is never chosen.
    pub alternatives: Vec<Alternative>,
}

/// Which alternative each layer runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// For each group, for each of its layers, the index of its alternative.
    pub chosen: Vec<Vec<usize>>,
    /// All layers' times together, in milliseconds.
    pub time: f64,
    /// All layers' workspaces together, in bytes.
    pub workspace: usize,
    /// Whether none is faster, but for a billionth of the time.
    pub proven: bool,
    /// The most that an optimal division may be faster, as a fraction of `time`; 0 if proven.
    pub gap: f64,
}

/// Why there is no division.
#[derive(Clone, Debug, PartialEq)]
pub enum DivisionError {
    /// The layers need more than the total even where each takes its least.
    TooSmall {
        /// What they need at least, in bytes.
        least: usize,
    },
    /// The solver could not be loaded, for the reason given.
    NoSolver(String),
    /// A group has layers and no alternative for them.
    NoAlternative {
        /// Which.
        group: usize,
    },
    /// A time is negative, infinite or not a number.
    BadTime {
        /// Whose.
        group: usize,
        /// Which alternative's.
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
            Self::NoSolver(why) => write!(f, "workspace cannot be divided: {why}"),
            Self::NoAlternative { group } => write!(f, "group {group} of the layers has no configuration to choose"),
            Self::BadTime { group, alternative, time } => {
                write!(f, "configuration {alternative} of group {group} takes {time} ms: 0 or more is accepted")
            }
            Self::TooMany => write!(f, "more than {MOST_DIVIDED_LAYERS} layers or configurations to divide among"),
        }
    }
}

impl std::error::Error for DivisionError {}

/// The division of `total` bytes with the least time, each layer running one of its group's alternatives. Never slower
/// than equal shares for all layers.
///
/// Solving takes at most about `time_limit`; then it is the best division known, and its gap says how good that is. The
/// solver is loaded only for networks that need it.
pub fn workspace_division(groups: &[Group], total: usize, time_limit: Duration) -> Result<Division, DivisionError> {
    let begun = Instant::now();
    let fronts = Fronts::of(groups, total)?;
    let Relaxation { price, bound, rounded } = Relaxation::of(&fronts);
    let mut known = Known { best: fronts.filled(rounded), bound };
    if let Some(shares) = fronts.equal_shares() {
        known.meet(&fronts, shares);
    }
    let most = relaxation::most(&fronts, price, bound, &known.best);
    let mut proven = most.iter().all(|front| front.iter().filter(|&&most| most > 0).count() <= 1);
    if !proven && let Some(fastest) = exact::fastest(&fronts, price, &most, &known.best) {
        known.best = fastest;
        proven = true;
    }
    if !proven {
        solver::solver_available().map_err(DivisionError::NoSolver)?;
        let scaled = Scaled::of(&fronts, &most, &known.best);
        match solver::solve(&scaled.programme, time_limit.saturating_sub(begun.elapsed())) {
            Ok(solved) => {
                known.bound = known.bound.max(scaled.bound(&solved));
                let counts = scaled.counts(&fronts, &solved);
                if fronts.fits(&counts) {
                    known.meet(&fronts, fronts.filled(counts));
                    proven = solved.optimal;
                }
            }
            Err(why) => log::warn!("the solver gave up, and the division of workspace may not be the best: {why}"),
        }
    }
    Ok(known.division(&fronts, groups, proven))
}

/// The best division so far, and a time in ticks that no division is below.
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
