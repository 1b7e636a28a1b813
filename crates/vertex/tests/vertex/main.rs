//! Random nets over random graphs.

mod batches;
mod case;
mod functions;
mod gradients;
mod levels;
