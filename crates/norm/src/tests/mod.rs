//! Tests of whole kernels, and of what a new call touches.
//!
//! | file | contents |
//! | --- | --- |
//! | `contributing` | docs/CONTRIBUTING.md's list of files |
//! | `results` | results against double precision, on a GPU and emulated |
//! | `resources` | the resources of the compiled kernels, by NVRTC without a GPU |

mod contributing;
mod resources;
mod results;
