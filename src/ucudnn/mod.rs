//! ucudnn's own C functions: the source of `include/ucudnn.h`, which repeats the comments of these files.
//!
//! | file | its functions |
//! | --- | --- |
//! | [`policies`] | choose how a handle's convolutions are planned |
//! | [`division`] | control Workspace Division |
//! | [`descriptions`] | describe plans as text |
//! | [`rnn`] | run recurrent networks without cuDNN |
//! | [`torch_operators`] | replace PyTorch's own operators |
//! | [`vertex_net`] | run dynamic nets: vertex functions over batches of graphs |
//! | [`pre_v8`] | restore the queries that cuDNN 8 removed |
//!
//! `refusals` keeps the reasons of failures. The types of vertex nets are those of `dynamic::c`.
//!
//! Safety, for every function here: handles and descriptors are live cuDNN objects, and each pointer to a result is
//! null or valid for writing.
#![allow(non_snake_case, non_camel_case_types, clippy::missing_safety_doc, clippy::too_many_arguments)]
#![allow(rustdoc::broken_intra_doc_links)] // shapes such as [steps][batch][H] stand in comments that the header repeats

pub mod descriptions;
pub mod division;
pub mod policies;
pub mod pre_v8;
mod refusals;
pub mod rnn;
pub mod torch_operators;
pub mod vertex_net;

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
