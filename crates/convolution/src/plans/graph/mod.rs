//! Problems of the graph API.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`state`] | the registry: a problem's state and its fallback |
//! | [`probe`] | cuDNN's candidates for micro-batches |
//! | [`proposals`] | the same, ahead of any program |
//! | [`our_engine`], [`our_candidates`] | our own engines, and which of them are candidates |
//! | [`enumerate`] | enumerates a problem's candidates |
//! | [`operands`] | the memory of one execution |
//! | [`plan`] | a configuration made ready to run |
//! | [`micro_plan`] | its parts: finalized plans of one size on one engine |
//! | [`conversion`] | channels-last copies of tensors |
//! | [`meanwhile`] | the plan under Workspace Division while a layer has no segment |
//! | [`targets`] | the devices that micro-plans are finalized for |

pub mod conversion;
pub mod enumerate;
pub mod meanwhile;
pub mod micro_plan;
pub mod operands;
pub mod our_candidates;
pub mod our_engine;
pub mod plan;
pub mod probe;
pub mod proposals;
pub mod state;
pub mod targets;
