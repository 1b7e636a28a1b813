//! Normalizations in a program's operation graph. cuDNN runs such a graph: our kernels for batch normalization take the
//! calls of the legacy API alone. The log and the report say so, once for each graph.

use std::collections::HashSet;

use cudnn_abi::*;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use serde_json::json;

use super::shadow::Shadow;
use cudnn::names::{TYPES, list, named};
use guest::settings;

/// The reason in the log and in the report.
const WHY: &str = "an operation graph, and our kernels take the legacy API's calls";
/// The most graphs that are remembered as said. A program whose shapes never come back must not fill the memory.
const MOST_SAID: usize = 1 << 12;

/// Reports the normalizations of an operation graph that is finalized. Does nothing for a graph without any.
pub fn report(graph: &Shadow) {
    if settings::get().report.is_none() && !log::log_enabled!(log::Level::Info) {
        return;
    }
    static SAID: Lazy<Mutex<HashSet<String>>> = Lazy::new(Mutex::default);
    let Some(name) = name(graph) else { return };
    let mut said = SAID.lock();
    if said.len() >= MOST_SAID || !said.insert(name.clone()) {
        return;
    }
    drop(said);
    log::info!("{name}: cuDNN: {WHY}");
    guest::report::write(|| json!({ "event": "graph", "graph": name, "chosen": "cuDNN", "why": WHY }));
}

/// Returns the text for an operation graph with a normalization, such as `batch normalization in training of half
/// 32x64x56x56, and 2 more operations`.
fn name(graph: &Shadow) -> Option<String> {
    let content = graph.content();
    let operations = content.descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS)?;
    let normalizations: Vec<String> = operations.iter().filter_map(|operation| normalization(operation)).collect();
    let more = match operations.len() - normalizations.len() {
        0 => String::new(),
        1 => ", and 1 more operation".to_owned(),
        more => format!(", and {more} more operations"),
    };
    (!normalizations.is_empty()).then(|| normalizations.join(" + ") + &more)
}

/// Returns the text for a normalization. `None` for another operation.
fn normalization(operation: &Shadow) -> Option<String> {
    let content = operation.content();
    let (mode, x, pass) = match operation.kind {
        CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR => {
            let phase = content.enumerator(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE);
            let pass = if phase == Some(CUDNN_NORM_FWD_TRAINING) { "in training" } else { "in inference" };
            (CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, pass)
        }
        CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR => {
            (CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, "backward")
        }
        _ => return None,
    };
    let mode = match content.enumerator(mode) {
        Some(CUDNN_LAYER_NORM) => "layer normalization",
        Some(CUDNN_INSTANCE_NORM) => "instance normalization",
        Some(CUDNN_BATCH_NORM) => "batch normalization",
        Some(CUDNN_GROUP_NORM) => "group normalization",
        Some(CUDNN_RMS_NORM) => "RMS normalization",
        Some(CUDNN_ADA_LAYER_NORM) => "adaptive layer normalization",
        _ => "normalization",
    };
    let tensor = content.descriptor(x)?.content();
    let data_type = named(TYPES, tensor.enumerator(CUDNN_ATTR_TENSOR_DATA_TYPE)?);
    let dims = list(&tensor.integers(CUDNN_ATTR_TENSOR_DIMENSIONS)?);
    Some(format!("{mode} {pass} of {data_type} {dims}"))
}

#[cfg(test)]
mod tests;
