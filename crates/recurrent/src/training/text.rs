//! The names of candidates in the database and in the report.

use std::sync::Arc;

use super::trial::{Call, Candidate};
use crate::choice::CUDNN;
use crate::configuration::Configuration;
use crate::kernels::Engine;
use crate::steps;

/// The products that are the gradients of weights, as a candidate of ours.
pub const PRODUCTS: &str = "products";

/// The name of what is ours for a call; `None` stands for one launch a time step, or the products.
pub fn ours(call: Call, configuration: Option<&Configuration>) -> String {
    match (configuration, call) {
        (Some(configuration), _) => configuration.to_string(),
        (None, Call::Weights) => PRODUCTS.to_owned(),
        (None, _) => steps::NAME.to_owned(),
    }
}

/// The name of a candidate for a call.
pub fn candidate(call: Call, candidate: &Candidate<Arc<Engine>>) -> String {
    match candidate {
        Candidate::Cudnn => CUDNN.to_owned(),
        Candidate::Ours(kernel) => ours(call, kernel.as_deref().map(Engine::configuration)),
    }
}
