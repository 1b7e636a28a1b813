//! The owners of reserves.
//!
//! | file | contents |
//! | --- | --- |
//! | `owners` | the owners of reserves, by address |
//! | `reserve` | the reserve, which keeps what backward needs of forward: its layout and its header |

pub mod owners;
pub mod reserve;
