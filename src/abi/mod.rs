//! What the dynamic linker sees: exported functions only, each a few lines. May use everything.

mod forward;
pub mod symbols;
