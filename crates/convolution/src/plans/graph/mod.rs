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

pub(crate) mod conversion;
pub(crate) mod enumerate;
pub(crate) mod meanwhile;
pub(crate) mod micro_plan;
pub(crate) mod operands;
pub(crate) mod our_candidates;
pub(crate) mod our_engine;
pub(crate) mod plan;
pub(crate) mod probe;
pub mod proposals;
pub(crate) mod state;
pub mod targets;
