//! Problems of the legacy API.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`registry`] | the state of each problem: times, promises, decisions |
//! | [`sizes`] | the reported workspace sizes |
//! | [`decision`] | what runs for calls without a promised plan |
//! | [`candidates`] | the micro-configurations of cuDNN's algorithms |
//! | [`engine`] | engines of the graph API |
//! | [`plan`], [`run`] | a configuration made ready to run, and the micro-batch loop |
//! | [`rounding`] | whether what cuDNN runs rounds floats to TF32 |

pub(crate) mod candidates;
pub(crate) mod decision;
pub(crate) mod engine;
pub(crate) mod plan;
pub(crate) mod registry;
pub(crate) mod rounding;
pub(crate) mod run;
pub(crate) mod sizes;
