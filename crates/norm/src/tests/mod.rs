//! Tests that run or compile whole kernels.
//!
//! | file | contents |
//! | --- | --- |
//! | `results` | results against double precision, on a GPU and emulated |
//! | `resources` | the resources of the compiled kernels, by NVRTC without a GPU |

mod resources;
mod results;
