//! Measuring micro-configurations, and remembering the results. Generic over the tuned problem.
//!
//! | file | purpose |
//! | --- | --- |
//! | [`subject`] | the trait of a tuned problem, and of its algorithms |
//! | [`executable`] | the trait of a problem that can be timed: its memory, its candidates, its plans |
//! | [`search`] | the next candidate to time, and the best configurations so far |
//! | [`waiting`] | timing while somebody waits: the clock, and buffers of our own |
//! | [`session`], [`devices`] | carries a search out while somebody waits, on one device or several |
//! | [`exploring`], [`running`] | carries a search out in the program's own executions |
//! | [`elsewhere`] | waits for another process that tunes the same problem |
//! | [`rounding`] | whether a way to compute floats rounds them, found by running it |
//! | [`record`], [`database`] | known results, and where new ones go |
//! | [`recall`] | plans from a database alone |
//! | [`family`] | the same for subjects that are timed whole |
//! | [`contest`] | the choice between cuDNN and our kernels for these, in the program's own calls |
//! | [`registry`] | a capped map of states by key |
//! | `milliseconds` | a time that threads share |
//! | [`report`] | the report's lines about decisions |
//! | [`steps`] | the report's lines about the program's steps |
//! | [`ahead`] | tuning on handles and buffers of our own |

pub mod ahead;
pub mod allowance;
pub mod contest;
pub mod database;
pub mod devices;
pub mod elsewhere;
pub mod executable;
pub mod exploring;
pub mod family;
mod milliseconds;
pub mod recall;
pub mod record;
pub mod registry;
pub mod report;
pub mod rounding;
pub mod running;
pub mod search;
pub mod session;
pub mod steps;
pub mod subject;
pub mod waiting;
