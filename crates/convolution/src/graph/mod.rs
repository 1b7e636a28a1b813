//! The graph (backend) API, for a program's execution plans of one convolution, alone or with pointwise operations: the
//! workspace reported for each plan, and the configuration that runs in its place. Uses `tune`, `exec`, `plan` and
//! `cudnn`; knows nothing of exported symbols.
//!
//! Finalizing a plan fixes its reported workspace: the smaller of the limit and the plan's own need. If the plan needs
//! more, a fallback configuration is chosen at once, by heuristics alone. From the third execution on, executions try
//! cuDNN's candidates within that workspace, each with the right result; then the best one runs. All plans of one
//! problem in one numerical class within one limit share their state.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`shadow`] | keeps the attributes that programs set on descriptors |
//! | [`reading`] | reads an operation graph as a convolution problem |
//! | [`planned`] | decides a plan's reported workspace at finalize |
//! | [`state`] | the registry: a problem's state and its fallback |
//! | [`probe`] | cuDNN's candidates for micro-batches |
//! | [`offered`] | the same, ahead of any program |
//! | [`our_engine`] | our own candidates |
//! | [`enumerate`] | enumerates candidates in the background |
//! | [`operands`] | reads a variant pack |
//! | [`plan`] | a configuration made ready to run |
//! | [`micro_plan`] | its parts: finalized plans of one size on one engine |
//! | [`conversion`] | channels-last copies of tensors |
//! | [`execute`] | runs an execution |
//! | [`check`] | compares results with the program's own plan |
//! | [`division`] | runs an execution under Workspace Division |
//! | [`executable`] | times problems ahead of a program |
//! | [`cuda_graph`] | puts plans into CUDA graphs |
//! | [`targets`] | the devices that micro-plans are finalized for |

mod check;
mod conversion;
mod cuda_graph;
mod division;
pub mod enumerate;
mod executable;
pub mod execute;
mod micro_plan;
pub mod offered;
pub mod operands;
mod our_engine;
pub mod plan;
pub mod planned;
pub mod probe;
mod reading;
pub mod shadow;
pub mod state;
pub mod targets;
