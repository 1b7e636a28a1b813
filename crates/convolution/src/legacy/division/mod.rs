//! Workspace Division for the legacy API: answers queries and runs calls. The network of layers is in
//! [`crate::division`].

pub mod answer;
pub mod run;
