//! Inference of recurrent networks (`cudnnRNNForward`) on our own persistent kernels. One product covers the input of
//! all time steps; then one kernel runs the recurrence and keeps its weights on chip. With few rows, one kernel also
//! multiplies each step's input while h travels between blocks. The method follows Holmes, Mawhirter, He, Yan and Wu,
//! "GRNN: Low-Latency and Scalable RNN Inference on GPUs" (EuroSys 2019).
//!
//! | folder or file | contents |
//! | --- | --- |
//! | [`network`] | networks and their calls: texts, buffers, which calls our kernels can answer |
//! | [`inference`] | `cudnnRNNForward` in inference |
//! | [`training`] | the three calls of training |
//! | [`direct`] | the direct call of `ucudnn.h`, without descriptors |
//! | [`configuration`] | the configurations that the recurrence can be compiled for |
//! | `model` | the performance model: predicts the time of a configuration |
//! | `fit` | fitting the model's constants to measured times |
//! | `kernels` | the recurrence's persistent kernels: compiling, loading, launching |
//! | `steps` | a recurrence one time step after the other |
//! | `recurrence` | the recurrence of a layer: the parameters of a launch, and the trait of all ways to run it |
//! | `projection` | the work around the recurrences of LSTM with a projection |
//! | `input` | the work before the recurrence: input products, sequence lengths |
//! | `testing` | the double-precision reference of the tests, a feature |
//! | `tests` | tests that run or compile whole kernels |
//!
//! Uses `gpu` to compile, load and launch, `cudnn` to read descriptors and to run cuDNN, and `tuning` for the contests
//! with cuDNN and for the database.

pub mod configuration;
pub mod direct;
mod fit;
pub mod inference;
mod input;
mod kernels;
mod model;
pub mod network;
mod projection;
mod recurrence;
mod steps;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod training;

pub use network::record::FAMILY;
pub use network::subject::Subject;
