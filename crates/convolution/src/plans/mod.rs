//! Planning a convolution of either API: its candidates, plans that are ready to run, and the state of each problem.

pub mod graph;
pub mod legacy;
