//! ucudnn: cuDNN's C ABI with convolutions run in micro-batches.

pub mod abi;
pub mod cudnn;
pub mod plan;
pub mod device;
pub mod settings;
pub mod exec;
