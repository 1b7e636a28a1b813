//! ucudnn: cuDNN's C ABI with convolutions run in micro-batches.
//!
//! A program loads `libucudnn.so` in front of cuDNN. The library forwards functions that it does not know, and runs the
//! convolutions of unchanged programs in micro-batches. Each micro-batch has its own algorithm, so that fast algorithms
//! fit in a limited workspace. The method is by Oyama, Ben-Nun, Hoefler and Matsuoka, "μ-cuDNN: Accelerating Deep
//! Learning Frameworks with Micro-Batching" (arXiv 1804.04806).
//!
//! | module | contents |
//! | --- | --- |
//! | [`abi`] | the exported functions, which the dynamic linker sees |
//! | `legacy` | our answers to queries of the legacy convolution API, and our plans for its calls |
//! | `graph` | the workspace that we report for execution plans of the graph API, and our plans in their place |
//! | `rnn` | inference of recurrent networks on persistent kernels of our own |
//! | `division` | Workspace Division at run time: a network's layers of both APIs, and the arena that they share |
//! | [`tune`] | measuring micro-configurations, while the program waits and while it runs; the database of results |
//! | `exec` | running a plan |
//! | [`plan`] | planning, by arithmetic alone |
//! | [`cudnn`] | the real cuDNN: loading it, typed calls, descriptors as plain values |
//! | `device` | the device that runs the work: a GPU, or the host for hostdnn |
//! | `report` | the file with measurements and decisions |
//! | [`settings`] | every environment variable |
//! | `policies` | the settings by which we plan a handle's convolutions |
//! | `background` | threads that plan while the program runs |
//! | `process_end` | our shutdown hook, which runs before the process takes its libraries down |
//! | `signals` | the signals that our threads take |
//! | `aloud` | how tests report that they were skipped |
//!
//! Dependencies go one way: `abi → legacy, graph → tune → exec → device → cudnn` and `abi → rnn → tune`. `plan` stands
//! alone. `division` lies between `legacy`, `graph` and `tune`: it knows the problems and plans of both APIs. The list
//! of symbols in `abi` is data that `cudnn` reads too.

pub mod abi;
#[cfg(test)]
mod aloud;
mod background;
pub mod cudnn;
mod device;
mod division;
mod exec;
mod graph;
mod legacy;
pub mod plan;
mod policies;
mod process_end;
mod report;
mod rnn;
pub mod settings;
mod signals;
pub mod tune;

pub use graph::offered;
pub use rnn::ahead as recurrent;
