//! Tests that run or compile whole kernels.
//!
//! | file | contents |
//! | --- | --- |
//! | `recurrence` | the results of a recurrence in each regime, on a GPU and emulated |
//! | `networks` | the results of whole networks, on a GPU and emulated |
//! | `resources` | the resources of the compiled kernels, by NVRTC without a GPU |

mod networks;
mod recurrence;
mod resources;
