//! The C API of vertex nets, behind the exported functions: `include/ucudnn.h` repeats the comments of [`types`].
//!
//! | file | contents |
//! | --- | --- |
//! | [`types`] | what C programs hand over |
//! | [`nets`], [`graphs`], [`batches`] | make, describe and destroy objects |
//! | [`runs`] | runs a batch |
//! | `given` | reads pointers and numbers that a program gives |
//! | `declaration` | reads a net's description |
//! | `objects` | the objects behind handles |
//! | `arrays` | checks the memory that a run is given |
//! | `host`, `device` | run a batch in that memory |
//!
//! Safety, for every function here: each pointer is null, or leads to as much memory as `include/ucudnn.h` says, which
//! nobody else writes meanwhile. A misaligned pointer is refused.
#![allow(clippy::missing_safety_doc)]

mod arrays;
pub mod batches;
mod declaration;
mod device;
mod given;
pub mod graphs;
mod host;
pub mod nets;
mod objects;
pub mod runs;
pub mod types;
