//! Training recurrent networks on our own kernels.
//!
//! | file | contents |
//! | --- | --- |
//! | [`ahead`] | timing a network's training ahead of time |
//! | [`calls`] | the calls of a pass: our kernels or cuDNN's |
//! | `reserve` | the reserve, which keeps what backward needs of forward: its layout and its header |
//! | `owners` | whose the reserves of passes are |
//! | `page` | what is known of a network, and its kernels |
//! | `contestant` | what is timed against cuDNN |
//! | `course` | the contests of all networks, and what runs a call by them |
//! | [`subject`] | what is timed of a network, and its text in the database |
//! | `runner` | what runs the recurrences of a call |
//! | `pass` | what the three calls have in common |
//! | `shape` | the persistent kernels of the recurrences, as the model ranks them |
//! | `packing` | the packed order of rows, in which all is computed |
//! | `forward` | forward, which saves |
//! | [`data`] | the gradients of data |
//! | [`weights`] | the gradients of weights |
//! | `dropout` | dropout between layers, by cuDNN's masks |
//! | `back_steps` | a recurrence's gradients, one time step after the other |
//! | `kernels` | the kernels around the recurrences |

pub mod ahead;
mod back_steps;
pub mod calls;
mod contestant;
mod course;
pub mod data;
mod dropout;
mod forward;
mod kernels;
mod owners;
mod packing;
mod page;
mod pass;
mod reserve;
mod runner;
mod shape;
pub mod subject;
pub mod weights;
