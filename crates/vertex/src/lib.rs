//! Dynamic nets: the computation of one vertex of a graph is written once, and batches of graphs of any structure run
//! forward and backward.
//!
//! A [`Net`](function::Net) has a vertex function for each kind of vertex, after Xu et al., "Cavs: An Efficient Runtime
//! System for Dynamic Neural Networks" (USENIX ATC 2018). [`derivative`] differentiates a function once, [`graphs`]
//! checks and levels input graphs once, and a [`batch`] of them is a merge. [`host`] runs batches on the CPU.
//! `oracle`, which the feature `testing` has, computes the same vertex by vertex in double precision, by other rules.
//!
//! Nothing here knows C, cuDNN or a GPU.
#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod batch;
pub mod derivative;
pub mod function;
pub mod graphs;
pub mod host;
#[cfg(feature = "testing")]
pub mod oracle;
pub mod passes;
pub mod stages;
