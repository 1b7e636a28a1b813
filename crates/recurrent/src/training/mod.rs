//! Training recurrent networks on our own kernels.
//!
//! | file | contents |
//! | --- | --- |
//! | [`reserve`] | the reserve, which keeps what backward needs of forward: its layout, and whose it is |

pub mod reserve;
