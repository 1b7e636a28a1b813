//! Shared code of tests: buffers of random data between guards, a GPU to run on, hostdnn's emulator, and the resources
//! of a compiled kernel. The feature `testing` has it, for the tests of all crates.

#[allow(clippy::missing_panics_doc)]
pub mod buffers;
pub mod emulated;
pub mod on_gpu;
pub mod resources;
