//! The legacy convolution API: the answers to queries, and how calls run. Knows nothing of exported symbols.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`answer`] | answers queries |
//! | [`promise`] | makes the promise behind an answer |
//! | [`registry`] | the state of each problem: times, promises, decisions |
//! | [`decision`] | what runs for calls without a promised plan |
//! | [`call`] | one call: as requested, by the fallback, or by a plan |
//! | [`dispatch`] | which of the ways below a call goes |
//! | [`execute`] | runs a call under Workspace Reuse |
//! | [`division`] | answers and runs under Workspace Division |
//! | [`candidates`] | the micro-configurations of cuDNN's algorithms |
//! | [`engine`] | engines of the graph API |
//! | [`rounding`] | whether what cuDNN runs rounds floats to TF32 |
//! | [`sampling`] | the parts that show how long a candidate takes |
//! | [`plan`], [`run`] | a configuration made ready to run, and the micro-batch loop |
//! | [`executable`] | times problems ahead of a program |
//! | [`description`] | a plan as text |

pub mod answer;
pub mod call;
mod candidates;
pub mod decision;
pub mod description;
pub mod dispatch;
pub mod division;
mod engine;
mod executable;
mod execute;
pub mod plan;
pub mod promise;
pub mod registry;
pub mod rounding;
mod run;
mod sampling;
