//! The graph (backend) API: what a program's execution plans for one convolution, alone or with pointwise operations,
//! are told to need, and what runs in their place. Uses `tune`, `exec`, `plan` and `cudnn`; knows nothing of exported
//! symbols.
//!
//! When a plan is finalized, the workspace that it tells is fixed: the least of the limit and what it needs itself. If
//! it needs more, a ready configuration is chosen there and then, by heuristics alone. From the third execution on,
//! executions try what cuDNN offers within that workspace, each of them with the right result; then the best runs.
//! All plans for one kernel in one numerical class within one limit share what is known.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`shadow`] | keeps what programs set of their descriptors |
//! | [`reading`] | reads an operation graph as a kernel |
//! | [`planned`] | decides at finalize what a plan is told to need |
//! | [`page`] | what is known of a kernel, and its ready configuration |
//! | [`offers`] | what cuDNN offers for micro-batches |
//! | [`offered`] | the same, ahead of any program |
//! | [`our_engine`] | what we offer beside it |
//! | [`gathering`] | collects that in the background |
//! | [`operands`] | reads a variant pack |
//! | [`plan`] | a configuration ready to run |
//! | [`micro_plan`] | its parts: finalized plans of one size on one engine |
//! | [`conversion`] | copies of tensors for those that want channels last |
//! | [`execute`] | what an execution runs |
//! | [`check`] | holds what runs against the program's own plan |
//! | [`division`] | the same under Workspace Division |
//! | [`executable`] | timing kernels ahead |
//! | [`cuda_graph`] | puts plans into CUDA graphs |
//! | [`targets`] | what micro-plans are finalized for |

mod check;
mod conversion;
mod cuda_graph;
mod division;
mod executable;
pub mod execute;
mod gathering;
mod micro_plan;
pub mod offered;
mod offers;
mod operands;
mod our_engine;
pub mod page;
pub mod plan;
pub mod planned;
mod reading;
pub mod shadow;
pub mod targets;
