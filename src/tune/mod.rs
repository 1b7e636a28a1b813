//! Measuring micro-configurations: which to time next ([`search`]), while the program waits
//! ([`waiting`]) and while it runs ([`running`]). Uses `plan` to decide and `exec` to run.

pub mod candidates;
pub mod running;
pub mod search;
pub mod waiting;
