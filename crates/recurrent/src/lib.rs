//! Inference of recurrent networks (`cudnnRNNForward`) on persistent kernels of our own: one product for the input of all
//! time steps, then one kernel for the recurrence, which keeps its weights on chip; or, of few rows, one kernel that also
//! multiplies each step's input while h is on its way between blocks. The method is that of Holmes,
//! Mawhirter, He, Yan and Wu, "GRNN: Low-Latency and Scalable RNN Inference on GPUs" (EuroSys 2019).
//!
//! | file | what it does |
//! | --- | --- |
//! | `forward` | a call: ours or cuDNN's, and what happens when ours fails |
//! | [`direct`] | a call of `ucudnn.h`, which has no descriptors |
//! | [`ahead`] | timing a network ahead of time |
//! | `eligible` | which calls our kernels can answer |
//! | `page` | what is known of a shape: its weights' places, what runs it |
//! | `choice` | which runs, by what was timed now or before |
//! | `record` | what the tuning database knows, and where results go |
//! | `compiling` | compiling while the program runs, so that it hardly notices |
//! | `trial` | timing cuDNN and our kernels in the program's own executions |
//! | `memory` | what a network is handed |
//! | `temporary` | what lies where in the workspace |
//! | `report` | telling what was decided |
//! | `run` | the launches of a call |
//! | `input` | what comes before the recurrence: input products, sequence lengths |
//! | `configuration` | what the recurrence can be compiled for |
//! | `model` | how long that takes, predicted |
//! | `fit` | its constants, fitted to what was timed |
//! | `kernels` | the recurrence: its parameters, compiling, launching |
//! | `resources` | tests of what its kernels take once compiled |
//! | `networks` | tests of what whole networks compute, on a GPU and emulated |
//! | `on_a_gpu` | tests of what its kernels compute, on a GPU and emulated |
//! | `in_double` | what is right in those |
//!
//! Uses `device` to compile and launch, `cudnn` to read descriptors and to run cuDNN itself, and `tune` for the database.

pub mod ahead;
mod choice;
mod compiling;
pub mod configuration;
pub mod direct;
mod eligible;
mod fit;
pub mod forward;
pub mod inference;
mod input;
mod kernels;
pub mod memory;
mod model;
#[cfg(test)]
mod networks;
#[cfg(test)]
mod on_a_gpu;
mod page;
mod record;
mod report;
#[cfg(test)]
mod resources;
mod run;
mod temporary;
pub mod testing;
mod trial;
