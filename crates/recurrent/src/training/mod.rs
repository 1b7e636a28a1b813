//! Training recurrent networks on our own kernels.
//!
//! | file | contents |
//! | --- | --- |
//! | [`calls`] | the calls of a pass: our kernels or cuDNN's |
//! | [`ahead`] | timing a network's training ahead of time |
//! | `contestant` | the contestant: a network's kernels in the three calls of a pass, against cuDNN |
//! | `course` | the contests of all networks, and running a call as its contest says |
//! | `owner` | the owners of reserves |
//! | [`compute`] | the three calls on our kernels |

pub mod ahead;
pub mod calls;
pub mod compute;
mod contestant;
mod course;
mod owner;
