//! The arithmetic against readable loops in double precision.

mod convolution;
mod rnn;
