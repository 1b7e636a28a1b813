//! The legacy convolution API: what its queries are answered ([`answer`], [`promise`]), what its calls
//! run ([`call`], [`execute`]), and what is remembered between them ([`book`]); under Workspace Division
//! the same by [`division`]. Uses `tune`, `exec`, `plan` and `cudnn`; knows nothing of exported symbols.

pub mod answer;
pub mod book;
pub mod call;
pub mod description;
pub mod division;
pub mod execute;
pub mod promise;
mod sampling;
