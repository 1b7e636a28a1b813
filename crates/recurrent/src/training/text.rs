//! The texts by which the database and the report name what trains.

use super::trial::Call;
use crate::configuration::Configuration;
use crate::inference::Inference;
use crate::steps;

/// The products that are the gradients of weights, as a candidate of ours.
pub const PRODUCTS: &str = "products";

/// The text of a call of a network that trains.
pub fn of(subject: &Inference, call: Call) -> String {
    let pass = ["forward-training", "backward-data", "backward-weights"][call as usize];
    format!("{} pass={pass}", subject.spec())
}

/// The name of a candidate of ours for a call; `None` stands for one launch a time step, or the products.
pub fn candidate(call: Call, configuration: Option<&Configuration>) -> String {
    match (configuration, call) {
        (Some(configuration), _) => configuration.to_string(),
        (None, Call::Weights) => PRODUCTS.to_owned(),
        (None, _) => steps::NAME.to_owned(),
    }
}
