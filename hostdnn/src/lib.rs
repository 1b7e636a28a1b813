//! hostdnn: cuDNN 9's C ABI on the CPU. Device pointers are host pointers, streams are ignored, and every call is
//! complete when it returns.
//!
//! `abi` exports the functions and checks their arguments; `descriptor` holds the descriptors' values and the rules for
//! setting them; `kernel` turns descriptors into a convolution problem, `select` ranks and times its algorithms in memory
//! of `buffer`,
//! `elementwise` and the crate `hostdnn-arithmetic` compute; `graph` is the graph API on top of these; `device`
//! presents the CPU as several devices, and `clock` is their clock; `emulator` runs CUDA C++ on it; `fault` makes calls fail on demand.
#![warn(missing_docs)]
#![allow(non_snake_case, non_upper_case_globals)] // the names are cuDNN's

pub mod abi;
mod buffer;
mod clock;
pub mod descriptor;
mod device;
mod elementwise;
pub mod emulator;
mod error;
mod fault;
mod graph;
mod kernel;
mod math_types;
mod select;
mod tf32;

pub use error::{Error, Result};
pub use hostdnn_arithmetic::{convolution, norm, rnn};
