//! The graph (backend) API, for a program's execution plans of one convolution, alone or with pointwise operations: the
//! workspace reported for each plan, and the configuration that runs in its place. Knows nothing of exported symbols.
//!
//! Finalizing a plan fixes its reported workspace: the smaller of the limit and the plan's own need. If the plan needs
//! more, a fallback configuration is chosen at once, by heuristics alone. From the third execution on, executions try
//! cuDNN's candidates within that workspace, each with the right result; then the best one runs. All plans of one
//! problem in one numerical class within one limit share their state.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`shadow`] | keeps the attributes that programs set on descriptors |
//! | [`operation_graph`], [`reading`] | a program's operation graph as a convolution problem; its variant packs |
//! | [`normalization`] | reports graphs with a normalization, which cuDNN runs |
//! | [`choices`] | what a program's choices of engines tell about determinism |
//! | [`finalize`], [`planned`] | decides a plan's reported workspace and its replacement |
//! | [`state`] | the registry: a problem's state and its fallback |
//! | [`probe`] | cuDNN's candidates for micro-batches |
//! | [`proposals`] | the same, ahead of any program |
//! | [`our_engine`], [`our_candidates`] | our own engines, and which of them are candidates |
//! | [`enumerate`] | enumerates a problem's candidates |
//! | [`operands`] | the memory of one execution |
//! | [`plan`] | a configuration made ready to run |
//! | [`micro_plan`] | its parts: finalized plans of one size on one engine |
//! | [`conversion`] | channels-last copies of tensors |
//! | [`execute`] | runs an execution; checks its results; runs it under Workspace Division |
//! | [`meanwhile`] | the plan under Workspace Division while a layer has no segment |
//! | [`executable`] | times problems ahead of a program |
//! | [`cuda_graph`] | puts plans into CUDA graphs |
//! | [`targets`] | the devices that micro-plans are finalized for |

pub mod choices;
mod conversion;
mod cuda_graph;
pub mod enumerate;
mod executable;
pub mod execute;
pub mod finalize;
mod meanwhile;
mod micro_plan;
pub mod normalization;
pub mod operands;
mod operation_graph;
pub mod our_candidates;
mod our_engine;
pub mod plan;
pub mod planned;
pub mod probe;
pub mod proposals;
mod reading;
pub mod shadow;
pub mod state;
pub mod targets;
