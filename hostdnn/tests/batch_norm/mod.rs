//! Batch normalization as a program calls it: results against formulas in double precision, and refusals. The statuses
//! of refused calls were read from cuDNN 9 on an H100.

mod call;
mod computes;
mod faults;
mod null;
mod refuses;
mod sizes;
