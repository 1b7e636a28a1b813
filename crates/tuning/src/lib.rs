//! Measuring micro-configurations. Uses `plan` to decide and `exec` to run.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`subject`] | what is tuned: a convolution of the legacy API, or an operation graph |
//! | [`search`] | what to time next, and what was found |
//! | [`waiting`] | timing while somebody waits: the clock, and buffers of our own |
//! | [`session`] | carries a search out, on one device or several |
//! | [`devices`] | which devices those are |
//! | [`running`] | carries a search out in the program's own executions |
//! | [`turns`] | times whole candidates in turns in the program's own executions |
//! | [`record`] | what is known from before, and where results go |
//! | [`database`] | the database of results |
//! | [`ahead`] | tuning on handles and buffers of our own |

pub mod ahead;
pub mod database;
pub mod devices;
pub mod executable;
pub mod exploring;
pub mod recall;
pub mod record;
pub mod registry;
pub mod report;
pub mod running;
pub mod search;
pub mod session;
pub mod subject;
pub mod turns;
pub mod waiting;
