//! Measuring micro-configurations: which to time next ([`search`]), while the program waits
//! ([`waiting`]) and while it runs ([`running`]); what is known from before ([`database`]). Uses `plan` to decide and `exec` to run.

pub(crate) mod candidates;
pub mod database;
pub(crate) mod running;
pub(crate) mod search;
pub(crate) mod waiting;
