//! The GPU kernels' sources, by family: CUDA C++ that is compiled at run time, with the headers that each source includes.
//! `build.rs` makes the families' modules from the files in this folder.
#![warn(missing_docs)]

#[cfg(test)]
mod families;
pub mod hash;

/// A source in this folder.
#[derive(Clone, Copy, Debug)]
pub struct KernelSource {
    /// Its path from this folder, such as `recurrent/grid.cu`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// The headers that its `#include`s reach, by the names that they include.
    pub headers: &'static [(&'static str, &'static str)],
}

include!(concat!(env!("OUT_DIR"), "/families.rs"));
