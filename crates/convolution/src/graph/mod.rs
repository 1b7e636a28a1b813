//! The graph (backend) API, for a program's execution plans of one convolution, alone or with pointwise operations: the
//! workspace reported for each plan, and the configuration that runs in its place. Knows nothing of exported symbols.
//!
//! Finalizing a plan fixes its reported workspace: the smaller of the limit and the plan's own need, or some where a large
//! convolution needs none. If the plan needs more, a fallback configuration is chosen at once, by heuristics alone. The
//! third and later executions try cuDNN's candidates and ours within that workspace. Each execution gives the right
//! result. Then the best candidate runs. All plans of one problem in one numerical class within one limit share their state.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`shadow`] | keeps the attributes that programs set on descriptors |
//! | [`operation_graph`], [`reading`] | a program's operation graph as a convolution problem; its variant packs |
//! | [`normalization`] | reports graphs with a normalization, which cuDNN runs |
//! | [`choices`] | what a program's choices of engines tell about determinism, and about NaN |
//! | [`finalize`], [`planned`] | decides a plan's reported workspace and its replacement |
//! | [`execute`] | runs an execution; checks its results; runs it under Workspace Division |
//! | [`executable`] | times problems ahead of a program |
//! | [`cuda_graph`] | puts plans into CUDA graphs |

pub mod choices;
mod cuda_graph;
mod executable;
pub mod execute;
pub mod finalize;
pub mod normalization;
mod operation_graph;
pub mod planned;
mod reading;
pub mod shadow;
