//! Planning micro-batches, by arithmetic alone: which configuration of a kernel's mini-batch to run, given what its
//! micro-configurations cost. Measuring them is `tune`'s work, running them `exec`'s.
//!
//! Generic over what an algorithm is, and uses std alone; but dividing one workspace over a network takes an integer
//! programme, for which [`solver`] loads a library. The methods are Workspace Reuse, section III.A of Oyama et al.,
//! "μ-cuDNN: Accelerating Deep Learning Frameworks with Micro-Batching" (arXiv 1804.04806), carried out on Pareto sets,
//! and Workspace Division, section III.B.
//!
//! **What is ignored.** Measurements come as they are: any order, several of one size, duplicates. A micro-configuration
//! of no image or of more images than the mini-batch, one that needs more workspace than the limit, and one whose time
//! is negative, not a number, or at whose rate the mini-batch would take half a year, cannot be part of a configuration;
//! it is passed over.
//!
//! **Ties** go to the shorter time, then the smaller workspace, then the fewer parts, then the larger micro-batches; of
//! micro-configurations equal in all that, to the first listed. So a plan does not depend on the order of the
//! measurements.
//!
//! **Cost.** Planning takes O(B · n) time and O(B) memory for a mini-batch of B and n useful micro-configurations (those
//! that nothing smaller in workspace beats): O(B log B) by `powerOfTwo`, O(B²) by `all`. How many are measured
//! bounds the latter in practice; above [`LARGEST_DIVIDED_BATCH`] only the undivided ones are considered.

mod candidates;
mod configuration;
mod desirable_set;
mod division;
mod policy;
mod pruning;
mod room;
mod solver;
#[cfg(test)]
mod tests;
mod time;
mod workspace_division;

pub use candidates::{TIE, best_configurations, prefer_small};
pub use configuration::{Configuration, MicroConfiguration};
pub use desirable_set::{desirable_set, workspace_reuse};
pub use policy::{BatchSizePolicy, LARGEST_DIVIDED_BATCH, UnknownBatchSizePolicy};
pub use pruning::{can_be_desirable, can_win, can_win_within};
pub use room::{Room, best_within};
pub use solver::solver_available;
pub use workspace_division::{Alternative, Division, DivisionError, Group, MOST_DIVIDED_LAYERS, workspace_division};
