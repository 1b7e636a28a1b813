//! Batch normalization in training, by C programs that know only `cudnn.h`: plain on hostdnn, and with `libucudnn.so`
//! preloaded, whose GPU kernels are emulated.

mod choice;
mod forced;

/// Our GPU kernels wherever they can run.
const FORCE: (&str, &str) = ("UCUDNN_NORM", "force");
