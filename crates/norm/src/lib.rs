//! Batch and group normalization of tensors in NCHW or NCDHW, on kernels of our own: Ioffe and Szegedy, "Batch
//! Normalization" (ICML 2015); Wu and He, "Group Normalization" (ECCV 2018).
//!
//! In training, a cluster of blocks reads a channel's elements from memory. Their shared memory holds them until their mean and
//! variance, or the sums of their gradient, are known. Elements that do not fit there are read again.
//!
//! | file | contents |
//! | --- | --- |
//! | [`calls`] | the calls that our kernels can answer, a file for each |
//! | `eligible` | checks of their arguments |
//! | [`run`] | answering a call |
//! | [`contestant`] | the object of a contest between our kernels and cuDNN, or PyTorch's own |
//! | [`ahead`] | timing both ahead of time |
//! | [`record`] | the family's name in the tuning database |
//! | `report` | the report's lines |
//! | `data` | data of our own, to time a pass on |
//! | [`pass`] | the passes and their facts |
//! | [`subject`] | the subject of timing: a pass over a tensor |
//! | [`fitted`] | our kernels for a pass, with the cut of its launches |
//! | [`shape`] | how a tensor is cut into channels, rows and vectors, and shared out to blocks |
//! | [`kernels`] | compiling, loading and launching the kernels |

pub mod ahead;
pub mod calls;
pub mod contestant;
mod data;
mod eligible;
pub mod fitted;
pub mod kernels;
pub mod pass;
pub mod record;
mod report;
pub mod run;
pub mod shape;
pub mod subject;
#[cfg(test)]
mod tests;
