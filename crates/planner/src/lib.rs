//! Plans micro-batches, by arithmetic alone: chooses the configuration of a problem's mini-batch from the costs of its
//! micro-configurations. `tuning` measures these costs, and `convolution` runs the
//! configuration.
//!
//! Generic over the algorithm. Dividing one workspace over a very large network is an integer programme, for which
//! [`solver`] loads a library if it is there. The methods are Workspace Reuse, section III.A of Oyama et al.,
//! "μ-cuDNN: Accelerating Deep Learning Frameworks with Micro-Batching" (arXiv 1804.04806), computed on Pareto sets,
//! and Workspace Division, section III.B.
//!
//! **Ignored.** Measurements may come in any order, with several for one size and with duplicates. The planner skips a
//! micro-configuration that cannot be part of a configuration: it has no images or more than the mini-batch, or needs
//! more workspace than the limit; or its time is negative, not a number, or so long that the mini-batch would take half
//! a year.
//!
//! **Ties** go to the shorter time, then the smaller workspace, then the fewer parts, then the larger micro-batches,
//! then to the micro-configuration listed first. So a plan does not depend on the order of the measurements.
//!
//! **Cost.** Planning takes O(B · n) time and O(B) memory for a mini-batch of B and n useful micro-configurations (none
//! with a smaller workspace beats them): O(B log B) by `powerOfTwo`, O(B²) by `all`. In practice the number of
//! measurements bounds the latter. Above [`LARGEST_DIVIDED_BATCH`] only undivided ones are considered.
#![warn(missing_docs)]

mod candidates;
mod configuration;
mod desirable_set;
mod division;
mod policy;
mod pruning;
mod solver;
#[cfg(test)]
mod tests;
mod time;
mod workspace_budget;
mod workspace_division;

pub use candidates::{TIE, best_configurations, prefer_small};
pub use configuration::{Configuration, MicroConfiguration};
pub use desirable_set::{desirable_set, workspace_reuse};
pub use policy::{BatchSizePolicy, LARGEST_DIVIDED_BATCH};
pub use pruning::{can_be_desirable, can_win, can_win_within};
pub use solver::{solver_available, solver_of};
pub use workspace_budget::{WorkspaceBudget, best_within};
pub use workspace_division::{Alternative, Division, DivisionError, Group, MOST_DIVIDED_LAYERS, workspace_division};
