//! The recurrence's GPU kernels (`kernels/rnn`) on the CPU: results against loops in double precision, under thread
//! orders that expose missing barriers and checks; and proof that these are exposed.

mod activations;
#[path = "../built/mod.rs"]
mod built;
mod case;
mod computes;
#[allow(dead_code, missing_docs)] // a part of the library's module is used here
#[path = "../../../src/rnn/configuration/mod.rs"]
mod configuration;
mod element;
#[path = "../../../src/rnn/in_double.rs"]
mod in_double;
mod reference;
mod schedules;
mod sources;
mod wavefront;
