//! The batched executor on the CPU, by hostdnn's emulator, under thread orders that expose missing barriers: random nets
//! over random graphs against the oracle.

extern crate vertex as ucudnn_vertex; // as its own tests call it

#[path = "../../../vertex/tests/vertex/case.rs"]
mod case;
mod choices;
mod compiled;
mod element;
mod fours;
#[path = "../../../vertex/tests/vertex/functions.rs"]
mod functions;
mod header;
mod levels;
mod mutations;
mod nets;
mod not_finite;
#[path = "../../../vertex/nets/ready.rs"]
mod ready;
// For its own test: those of a library with `test = false` run nowhere else.
#[path = "../../src/batched/slices.rs"]
#[allow(dead_code)]
mod slices;
mod steps;
#[path = "../../src/batched/tiles.rs"]
#[allow(dead_code)] // it has unit tests
mod tiles;
#[path = "../../../vertex/nets/tree_lstm.rs"]
mod tree_lstm;
mod version;
