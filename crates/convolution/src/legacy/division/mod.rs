//! Workspace Division of the legacy API: what queries are answered, and what calls run. The network that they are layers
//! of is [`crate::division`]'s.

pub mod answer;
pub mod run;
