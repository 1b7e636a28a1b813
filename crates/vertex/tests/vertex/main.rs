//! Random nets over random graphs, nets that people use, and what adding an operation touches.
//!
//! Some of the library's files are compiled here again, with the unit tests that are in them: a program of the
//! library's own unit tests would compile all of it again.

mod batches;
mod case;
mod contributing;
mod differences;
mod functions;
mod gradients;
mod levels;

#[allow(dead_code)]
#[path = "../../src/host/few.rs"]
mod few;
#[allow(dead_code)]
#[path = "../../src/host/product.rs"]
mod product;
#[allow(dead_code)]
#[path = "../../src/host/real.rs"]
mod real;
#[allow(dead_code)]
#[path = "../../src/host/threads.rs"]
mod threads;
