//! cuDNN's graph (backend) API from inside: operation graphs as plain values, and our own descriptors made from them.
//! Depends on `calls` and on legacy convolution problems, and on nothing above these.
//!
//! | module | contents |
//! | --- | --- |
//! | `kernel` | an operation graph around one convolution, as plain values |
//! | `text` | such a graph as text, both ways |
//! | `batch` | such a graph cut along the mini-batch |
//! | `legacy` | the graph of a legacy API convolution |
//! | `descriptor` | a backend descriptor that we own; reading any descriptor |
//! | `target` | the device that a graph is for, which need not be present |
//! | `class` | the engines that may replace another |
//! | `refusal` | cuDNN's reason for refusing a call, in words |
//! | `names` | the attribute names of the three directions' operations |
//! | `operation_graph`, `engine`, `execution_plan`, `variant_pack` | the steps from a problem to its execution |

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
