//! hostdnn's tests, in one program: its own functions, called here as Rust and by C programs, and the real cuDNN's beside
//! them. The emulator of GPU kernels has a program of its own, `emulator`.
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
