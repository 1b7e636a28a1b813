//! hostdnn: cuDNN's C ABI on the CPU.
