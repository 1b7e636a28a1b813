//! ucudnn: cuDNN's C ABI with convolutions run in micro-batches.
//!
//! `libucudnn.so` is loaded in front of cuDNN, forwards what it does not know, and runs the
//! convolutions of unchanged programs in micro-batches, each with its own algorithm, so that fast
//! algorithms fit in a limited workspace. The method is that of Oyama, Ben-Nun, Hoefler and Matsuoka,
//! "μ-cuDNN: Accelerating Deep Learning Frameworks with Micro-Batching" (arXiv 1804.04806).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`abi`] | what the dynamic linker sees: exported functions only |
//! | `legacy` | what the legacy convolution API is answered, and what its calls run |
//! | `graph` | what execution plans of the graph API are told to need, and what runs in their place |
//! | `rnn` | inference of recurrent networks on persistent kernels of our own |
//! | `division` | Workspace Division at run time: a network's layers of both APIs, and the arena that they share |
//! | [`tune`] | measuring micro-configurations, while the program waits and while it runs; the database of results |
//! | `exec` | running a plan |
//! | [`plan`] | planning, by arithmetic alone |
//! | [`cudnn`] | the real cuDNN: loading it, typed calls, descriptors as plain values |
//! | `device` | where work runs: a GPU, or the host for hostdnn |
//! | `report` | the file that tells what was measured and decided |
//! | [`settings`] | every environment variable |
//! | `policies` | by which of the settings a handle's convolutions are planned |
//! | `background` | threads that plan while the program runs |
//! | `process_end` | what is over before the process takes its libraries down |
//! | `signals` | which signals our threads take |
//! | `aloud` | how tests say that they are left out |
//!
//! Arrows go one way: `abi → legacy, graph → tune → exec → device → cudnn`, `abi → rnn → tune`, `plan` stands alone, and `division`
//! is between the first two and `tune`: it knows their kernels and plans. The list of
//! symbols in `abi` is data that `cudnn` reads too.

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
