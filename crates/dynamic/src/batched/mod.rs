//! The batched executor: launches for each level and kind.

mod batch;
mod choice;
mod launches;
mod level_product;
mod library;
mod net;
mod path;
mod run;
pub mod slices;
mod step;
mod tasks;
mod tiles;
mod weights;
mod wide;

pub use batch::DeviceBatch;
pub use net::{Net, Unsupported, sources};
pub use run::{Gradients, Inputs};
pub use step::{Optimizer, Step};
