//! The legacy convolution API: the answers to queries, and how calls run. Knows nothing of exported symbols.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`answer`] | answers queries |
//! | [`asking`] | a query, and the record of its answer |
//! | [`promise`] | makes the promise behind an answer |
//! | [`call`] | one call: as requested, by the fallback, or by a plan |
//! | [`dispatch`] | which of the ways below a call goes |
//! | [`execute`] | runs a call under Workspace Reuse |
//! | [`division`] | answers and runs under Workspace Division |
//! | [`sampling`] | the parts that show how long a candidate takes |
//! | [`executable`] | times problems ahead of a program |
//! | [`description`] | a plan as text |

pub mod answer;
mod asking;
pub mod call;
pub mod description;
pub mod dispatch;
pub mod division;
mod executable;
mod execute;
pub mod promise;
mod sampling;
