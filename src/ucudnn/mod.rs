//! ucudnn's own C functions: the source of `include/ucudnn.h`. Comments here are the header's.
//!
//! | file | what its functions do |
//! | --- | --- |
//! | [`policies`] | say how a handle's convolutions are planned |
//! | [`division`] | steer Workspace Division |
//! | [`descriptions`] | tell what was planned |
//! | [`rnn`] | run recurrent networks without cuDNN |
//! | [`pre_v8`] | bring back the queries that cuDNN 8 took away |
//!
//! Safety, for every function here: handles and descriptors are cuDNN's, and places for results are
//! the caller's.
#![allow(non_snake_case, non_camel_case_types, clippy::missing_safety_doc, clippy::too_many_arguments)]

pub mod descriptions;
pub mod division;
pub mod policies;
pub mod pre_v8;
pub mod rnn;

/// The version of this library: major * 10000 + minor * 100 + patch.
#[unsafe(no_mangle)]
pub extern "C" fn ucudnnGetVersion() -> usize {
    const fn number(text: &str) -> usize {
        let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
        while at < bytes.len() {
            value = value * 10 + (bytes[at] - b'0') as usize;
            at += 1;
        }
        value
    }
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
        + number(env!("CARGO_PKG_VERSION_PATCH"))
}
