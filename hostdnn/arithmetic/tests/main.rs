//! The arithmetic against readable loops in double precision.

mod convolution;
mod norm;
mod rnn;
mod rnn_oracle;
