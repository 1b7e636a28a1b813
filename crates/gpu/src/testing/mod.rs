//! What tests share: buffers of random data between guards, a GPU to run on, hostdnn's emulator, and what the compiler
//! says of a kernel. Only tests use it; it is here, and not behind `cfg(test)`, so that the tests of all crates can.

#[allow(clippy::missing_panics_doc)]
pub mod buffers;
pub mod emulated;
pub mod on_gpu;
pub mod resources;
