//! Inference: `cudnnRNNForward` on our kernels or cuDNN.
//!
//! | file | contents |
//! | --- | --- |
//! | [`forward`] | a call: our kernels or cuDNN, and cuDNN again after a failure |
//! | [`ahead`] | timing a network ahead of time |
//! | `contestant` | the contestant: a network's kernels, against cuDNN |
//! | `registry` | the contests of all networks that the program runs |
//! | `report` | reporting a decision |
//! | `run` | the launches of a call |

pub mod ahead;
mod contestant;
pub mod forward;
mod registry;
mod report;
pub mod run;
