//! Tests of whole kernels, and of what a new call touches.
//!
//! | file | contents |
//! | --- | --- |
//! | `contributing` | docs/CONTRIBUTING.md's list of files |
//! | `results` | batch normalization's results against double precision, on a GPU and emulated |
//! | `groups` | likewise group normalization's |
//! | `tensors` | the tensors of these tests, and their memory |
//! | `resources` | the resources of the compiled kernels, by NVRTC without a GPU |

mod contributing;
mod groups;
mod resources;
mod results;
mod tensors;
