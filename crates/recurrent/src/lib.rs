//! Inference of recurrent networks (`cudnnRNNForward`) on our own persistent kernels. One product covers the input of
//! all time steps; then one kernel runs the recurrence and keeps its weights on chip. With few rows, one kernel also
//! multiplies each step's input while h travels between blocks. The method follows Holmes, Mawhirter, He, Yan and Wu,
//! "GRNN: Low-Latency and Scalable RNN Inference on GPUs" (EuroSys 2019).
//!
//! | file | contents |
//! | --- | --- |
//! | [`call`] | the arguments of `cudnnRNNForward` |
//! | `forward` | a call of `cudnnRNNForward`: our kernels or cuDNN, and cuDNN again after a failure |
//! | [`direct`] | the direct call of `ucudnn.h`, without descriptors |
//! | [`ahead`] | timing a network's inference ahead of time |
//! | `sequences` | a network's descriptors and generated data, for timing ahead of time |
//! | `eligible` | which calls our kernels can answer |
//! | `room` | the memory that cuDNN itself asks for |
//! | `registry` | the contests of all networks that the program runs |
//! | `contestant` | what is timed against cuDNN of a network, and the places of its weights |
//! | `record` | the family's name in the tuning database |
//! | `memory` | the buffers of a network |
//! | `temporary` | the layout of the workspace |
//! | `report` | reporting a decision |
//! | `run` | the launches of a call |
//! | `input` | the work before the recurrence: input products, sequence lengths |
//! | `configuration` | the configurations that the recurrence can be compiled for |
//! | `model` | the performance model: predicts the time of a configuration |
//! | `fit` | fitting the model's constants to measured times |
//! | `recurrence` | the recurrence of a layer: the parameters of a launch, and the trait of all ways to run it |
//! | `kernels` | the recurrence's persistent kernels: compiling, loading, launching |
//! | [`inference`] | a network on batches of one shape, and its text |
//! | [`training`] | training |
//! | `steps` | a recurrence one time step after the other |
//! | `parts` | parts of memory, one behind the other |
//! | [`testing`] | the double-precision reference of the tests |
//! | `tests` | tests that run or compile whole kernels |
//!
//! Uses `gpu` to compile, load and launch, `cudnn` to read descriptors and to run cuDNN, and `tuning` for the contests
//! with cuDNN and for the database.

pub mod ahead;
pub mod call;
pub mod configuration;
mod contestant;
pub mod direct;
mod eligible;
mod fit;
pub mod forward;
pub mod inference;
mod input;
mod kernels;
pub mod memory;
mod model;
mod parts;
mod record;
mod recurrence;
mod registry;
mod report;
mod room;
mod run;
mod sequences;
mod steps;
mod temporary;
pub mod testing;
#[cfg(test)]
mod tests;
pub mod training;

pub use record::FAMILY;
pub use training::subject::Subject;
