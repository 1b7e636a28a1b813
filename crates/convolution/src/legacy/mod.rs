//! The legacy convolution API. [`answer`] and [`promise`] answer queries, [`call`] and [`execute`] run calls, and
//! [`book`] is the registry that both use. [`division`] answers and runs under Workspace Division. Uses `tune`, `exec`,
//! `plan` and `cudnn`; knows nothing of exported symbols.

pub mod answer;
pub mod book;
pub mod call;
pub mod description;
pub mod division;
pub mod execute;
pub mod promise;
mod sampling;
