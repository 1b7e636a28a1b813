//! Measuring micro-configurations. Uses `plan` to decide and `exec` to run.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`subject`] | what is tuned: a convolution of the legacy API, or an operation graph |
//! | [`any_kernel`] | the same where a text alone tells which |
//! | [`executable`] | what timing needs of it: its memory, its candidates, its plans |
//! | [`candidates`] | which micro-configurations there are to time |
//! | [`search`] | what to time next, and what was found |
//! | [`waiting`] | timing while somebody waits: the clock, and buffers of our own |
//! | [`session`] | carries a search out, on one device or several |
//! | [`devices`] | which devices those are |
//! | [`running`] | carries a search out in the program's own executions |
//! | [`record`] | what is known from before, and where results go |
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
