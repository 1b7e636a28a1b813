//! The three calls of a training pass on our kernels.
//!
//! | file | contents |
//! | --- | --- |
//! | `pass` | what the three calls have in common |
//! | `plan` | the part of it that the network and its batch alone decide |
//! | `known` | the facts about a network that trains, and its kernels |
//! | `shape` | the persistent kernels of the recurrences, as the model ranks them |
//! | `runner` | the choice for a call's recurrences: a persistent kernel, or one launch a time step |
//! | `packing` | the packed order of rows, in which all is computed |
//! | `forward` | forward, which saves |
//! | [`data`] | the gradients of data |
//! | [`weights`] | the gradients of weights |
//! | `projected` | the projection of LSTM, and its gradients |
//! | [`projection_places`] | the parts of the workspace for it |
//! | `dropout` | dropout between layers, by cuDNN's masks |
//! | `back_steps` | a recurrence's gradients, one time step after the other |
//! | `kernels` | the kernels around the recurrences |
//! | `copies` | large products on copies whose rows are whole vectors |

mod back_steps;
mod copies;
pub mod data;
mod dropout;
pub mod forward;
pub mod kernels;
pub mod known;
mod packing;
pub mod pass;
pub mod plan;
mod projected;
pub mod projection_places;
pub mod runner;
pub mod shape;
pub mod weights;
