//! hostdnn: cuDNN's C ABI on the CPU.

pub mod convolution;
