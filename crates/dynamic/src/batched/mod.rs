//! The batched executor: launches for each level and kind.

mod batch;
mod library;
mod net;
mod run;

pub use batch::DeviceBatch;
pub use net::{Net, Options, Unsupported, Without, sources};
pub use run::{Gradients, Inputs};
