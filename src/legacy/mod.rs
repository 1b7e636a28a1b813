//! The legacy convolution API: what its queries are answered ([`answer`]), what its calls run
//! ([`execute`]), and what is remembered between them ([`book`]). Uses `tune`, `exec`, `plan` and
//! `cudnn`; knows nothing of exported symbols.

pub mod answer;
pub mod book;
pub mod execute;
pub mod policies;
pub mod report;
