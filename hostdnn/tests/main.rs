//! hostdnn's tests, in one program: its own functions, called here as Rust and by C programs, and the real cuDNN's beside
//! them. The emulator of GPU kernels has a program of its own, `emulator`.
//!
//! Some of the library's files are compiled here again, with the unit tests that are in them: a program of the
//! library's own unit tests would compile all of it again.
//!
//! Helpers are `backend`, `built`, `case`, `child`, `libraries` and `operand`.

mod backend;
mod built;
mod case;
mod child;
mod libraries;
mod operand;

mod algorithms;
mod batch_norm;
mod convolutions;
mod devices;
mod dropout;
mod graph;
mod graph_faults;
mod graph_fused;
mod graph_refusals;
mod header;
mod null_and_hostile;
mod pointwise;
mod programs;
mod real_cudnn;
mod real_graph;
mod real_rnn;
mod rnn;
mod rnn_faults;

#[allow(dead_code)]
#[path = "../src/buffer.rs"]
mod buffer;
#[allow(dead_code)]
#[path = "../src/fault.rs"]
mod fault;
#[allow(dead_code)]
#[path = "../src/emulator/stacks.rs"]
mod stacks;
#[allow(dead_code)]
#[path = "../src/elementwise/walk.rs"]
mod walk;

// What these files use of the library.
use hostdnn::convolution;
mod error {
    pub use hostdnn::{Error, Result};
}
