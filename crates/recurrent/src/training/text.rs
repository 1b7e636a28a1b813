//! The names of our candidates in the database and in the report.

use super::trial::Call;
use crate::configuration::Configuration;
use crate::steps;

/// The products that are the gradients of weights, as a candidate of ours.
pub const PRODUCTS: &str = "products";

/// The name of a candidate of ours for a call; `None` stands for one launch a time step, or the products.
pub fn candidate(call: Call, configuration: Option<&Configuration>) -> String {
    match (configuration, call) {
        (Some(configuration), _) => configuration.to_string(),
        (None, Call::Weights) => PRODUCTS.to_owned(),
        (None, _) => steps::NAME.to_owned(),
    }
}
