//! cuDNN's graph (backend) API from inside: operation graphs as plain values, and descriptors of our own made from
//! them. Uses `calls` and legacy kernels, and nothing of ours above them.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `kernel` | an operation graph around one convolution, as plain values |
//! | `text` | the same as text, both ways |
//! | `batch` | the same cut along the mini-batch |
//! | `legacy` | the graph of a convolution of the legacy API |
//! | `descriptor` | a backend descriptor that we own; reading any |
//! | `target` | the device that a graph is to run on, which need not be there |
//! | `class` | which engines may take the place of another |
//! | `refusal` | why cuDNN refuses something, in words |
//! | `names` | what the three directions' operations call the same things |
//! | `operation_graph`, `engine`, `execution_plan`, `variant_pack` | the way from a kernel to running it |

mod batch;
mod channels_last;
mod class;
pub mod descriptor;
mod engine;
mod execution_plan;
mod kernel;
mod legacy;
mod names;
mod operation_graph;
mod refusal;
mod target;
mod text;
mod variant_pack;

pub use batch::WORKSPACE_ALIGNMENT;
pub use channels_last::{Matrices, Sampling};
pub use class::Class;
pub use descriptor::Owned;
pub use engine::{EngineConfiguration, Knob, Notes, OUR_ENGINES, Route};
pub use execution_plan::ExecutionPlan;
pub use kernel::{Convolution, Factor, Kernel, Operation, Pointwise, Tensor};
pub use names::ConvolutionNames;
pub use operation_graph::OperationGraph;
pub use refusal::refusal;
pub use target::Target;
pub use variant_pack::VariantPack;
