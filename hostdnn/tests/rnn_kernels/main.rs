//! The recurrence's kernels (`kernels/rnn`) on the CPU: what they compute, against loops in double precision, under orders
//! of threads in which what lacks a barrier or a check shows; and that it does show.

mod activations;
#[path = "../built/mod.rs"]
mod built;
mod case;
mod computes;
#[allow(dead_code, missing_docs)] // the library's, of which a part is used here
#[path = "../../../src/rnn/configuration/mod.rs"]
mod configuration;
mod element;
#[path = "../../../src/rnn/in_double.rs"]
mod in_double;
mod reference;
mod schedules;
mod sources;
mod wavefront;
