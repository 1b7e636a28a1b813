//! Inference of recurrent networks (`cudnnRNNForward`) on persistent kernels of our own: one product for the input of all
//! time steps, then one kernel for the recurrence, which keeps its weights on chip. The method is that of Holmes,
//! Mawhirter, He, Yan and Wu, "GRNN: Low-Latency and Scalable RNN Inference on GPUs" (EuroSys 2019).
//!
//! | file | what it does |
//! | --- | --- |
//! | `forward` | a call: ours or cuDNN's, and what happens when ours fails |
//! | [`direct`] | a call of `ucudnn.h`, which has no descriptors |
//! | `eligible` | which calls our kernels can answer |
//! | `page` | what is known of a shape: its weights' places, what runs it |
//! | `trial` | timing cuDNN and our kernels in the program's own executions |
//! | `memory` | what a network is handed |
//! | `temporary` | what lies where in the workspace |
//! | `report` | telling what was decided |
//! | `run` | the launches of a call |
//! | `input` | what comes before the recurrence: input products, biases, sequence lengths |
//! | `configuration` | what the recurrence can be compiled for |
//! | `model` | how long that takes, predicted |
//! | `kernels` | the recurrence: its parameters, compiling, launching |
//! | `resources` | tests of what its kernels take once compiled |
//!
//! Uses `device` to compile and launch, and `cudnn` to read descriptors and to run cuDNN itself.

mod configuration;
pub mod direct;
mod eligible;
pub mod forward;
mod input;
mod kernels;
pub mod memory;
mod model;
mod page;
mod report;
#[cfg(test)]
mod resources;
mod run;
mod temporary;
mod trial;
