//! What inference and training know of networks and their calls.
//!
//! | file | contents |
//! | --- | --- |
//! | [`inference`] | a network on batches of one shape, and its text |
//! | [`subject`] | a network's inference or one call of its training, and its text in the database |
//! | [`call`] | the arguments of `cudnnRNNForward` |
//! | [`memory`] | the buffers of a network |
//! | `eligible` | the calls that our kernels can answer |
//! | `room` | the memory that cuDNN itself asks for |
//! | `temporary` | the layout of the workspace |
//! | `parts` | parts of memory, one after the other |
//! | `record` | the family's name in the tuning database, and the names of kernels |
//! | `sequences` | a network's descriptors and generated data, for timing ahead of time |

pub mod call;
pub mod eligible;
pub mod inference;
pub mod memory;
pub mod parts;
pub mod record;
pub mod room;
pub mod sequences;
pub mod subject;
pub mod temporary;
