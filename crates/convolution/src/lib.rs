//! Convolutions in micro-batches, behind both of cuDNN's APIs.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`problem`] | one convolution as plain values, of either API, and its text |
//! | [`engines`] | convolutions, transposes and samples by GPU kernels of our own |
//! | [`exec`] | running a plan of the legacy API; sums in float; the check against the undivided convolution |
//! | [`plans`] | planning a problem of either API: candidates, plans, states |
//! | [`legacy`] | what the legacy API is answered, and what its calls run |
//! | [`graph`] | the workspace that execution plans of the graph API report, and what runs in their place |
//! | [`division`] | Workspace Division at run time: a network's layers of both APIs, and the arena that they share |

pub mod division;
pub mod engines;
pub mod exec;
pub mod graph;
pub mod legacy;
pub mod plans;
pub mod problem;
