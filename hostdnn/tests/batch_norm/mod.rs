//! Batch normalization as a program calls it: results against formulas in double precision, and refusals. What cuDNN
//! answers to the refused calls was read from cuDNN 9 on an H100.

mod call;
mod computes;
mod faults;
mod null;
mod refuses;
mod sizes;
