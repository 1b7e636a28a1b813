//! Training recurrent networks on our own kernels.
//!
//! | file | contents |
//! | --- | --- |
//! | [`calls`] | the calls of a pass: our kernels or cuDNN's, by the reserve's size |
//! | `reserve` | the reserve, which keeps what backward needs of forward: its layout, and whose it is |
//! | `told` | our sizes, as the program was told them |
//! | `probation` | whether the sizes that a program is told come back |
//! | `page` | what is known of a network, and its kernels |
//! | `pass` | what the three calls have in common |
//! | `shape` | the persistent kernel of forward's recurrences |
//! | `packing` | the packed order of rows, in which all is computed |
//! | `forward` | forward, which saves |
//! | [`data`] | the gradients of data |
//! | [`weights`] | the gradients of weights |
//! | `back_steps` | a recurrence's gradients, one time step after the other |
//! | `kernels` | the kernels around the recurrences |

mod back_steps;
pub mod calls;
pub mod data;
mod forward;
mod kernels;
mod packing;
mod page;
mod pass;
mod probation;
mod reserve;
mod shape;
mod told;
pub mod weights;
