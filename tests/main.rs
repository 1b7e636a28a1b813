//! The tests of the finished `libucudnn.so`, its header, its solver and its command, in one program: shared code is
//! compiled once.
//!
//! | modules | hold |
//! | --- | --- |
//! | `programs`, `hostdnn`, `child` | the ways to run something in a process of its own: a C program, a C program on hostdnn, and a test |
//! | `command`, `database`, `direct`, `division`, `dynamic`, `graph`, `rnn` | the tests of one part, with their shared code in `mod.rs` |
//! | `real_*` | the real cuDNN, which needs no GPU for this |
//!
//! Nothing here uses the crate `hostdnn`. If it were linked beside `ucudnn`'s crates, two libraries would define
//! cuDNN's functions. It is a dependency because cargo then builds its shared library beside this program.

#[path = "../hostdnn/tests/child.rs"]
mod child;
mod hostdnn;
mod programs;

mod ahead;
mod batch_norm;
mod command;
mod database;
mod demo;
mod determinism;
mod direct;
mod division;
mod dlopen;
mod dynamic;
mod end_to_end;
mod exploring;
mod faults;
mod finding;
mod graph;
mod half_sums;
mod header;
mod layers;
mod memory;
mod null;
mod numerics;
mod promises;
mod readme;
mod real_graph;
mod real_graph_layer;
mod real_library;
mod rnn;
mod rnn_bench;
mod sizes;
mod symbols;
mod threads;
mod trampolines;
mod tuning;
mod ucudnn_header;
