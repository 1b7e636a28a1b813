//! Measuring micro-configurations. Uses `plan` to decide and `exec` to run.
//!
//! | file | contents |
//! | --- | --- |
//! | [`subject`] | the problem to tune: a convolution of the legacy API, or an operation graph |
//! | [`any_kernel`] | a problem of either API; its text alone tells which |
//! | [`executable`] | how to time a problem: its memory, its candidates, its plans |
//! | [`candidates`] | the micro-configurations that can be timed |
//! | [`search`] | what to time next, and the results so far |
//! | [`waiting`] | timing while somebody waits: the clock, and buffers of our own |
//! | [`session`] | carries a search out, on one device or several |
//! | [`devices`] | the devices that tune |
//! | [`running`] | carries a search out in the program's own executions |
//! | [`record`] | earlier results, and storing new ones |
//! | [`database`] | the database of results |
//! | [`ahead`] | tuning on handles and buffers of our own |

pub mod ahead;
pub mod any_kernel;
pub(crate) mod candidates;
pub mod database;
pub(crate) mod devices;
pub mod executable;
pub mod recall;
pub(crate) mod record;
pub(crate) mod running;
pub(crate) mod search;
pub(crate) mod session;
pub mod subject;
pub(crate) mod waiting;
