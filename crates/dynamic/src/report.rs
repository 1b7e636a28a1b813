//! Reports a net's executor: a line of the log, and one of the report (`UCUDNN_REPORT`).

use std::time::Duration;

use serde_json::json;
use vertex::function::Declaration;

use crate::emit::Path;
use crate::options::Options;

/// A net that was made.
pub struct Made<'a> {
    pub declaration: &'a Declaration,
    pub options: Options,
    /// The number of the device.
    pub device: i32,
    /// The executor, in words.
    pub chosen: String,
    /// The time to make the net.
    pub time: Duration,
}

/// Reports a net.
pub fn made(net: &Made) {
    let Made { declaration, options, device, chosen, time } = net;
    let numbers: usize = declaration.parameters.iter().map(|size| size.elements()).sum();
    let name = format!("a net of {} vertex functions and {numbers} parameters", declaration.functions.len());
    let seconds = time.as_secs_f64();
    log::info!("{name}: {chosen}, made in {seconds:.2} s");
    guest::report::write(|| {
        json!({
            "event": "dynamic", "net": name, "type": options.element.name(), "tf32": options.tf32,
            "training": options.is_training, "static": options.is_static, "device": device, "chosen": chosen,
            "seconds": seconds, "text": declaration.to_string(),
        })
    });
}

/// Reports that a path's kernel was made, or loaded from the disk, and whether it can run.
pub fn path(path: &Path, is_loaded: bool, time: Duration) {
    guest::report::write(|| {
        json!({
            "event": "dynamic-path", "name": path.name, "groups": path.groups, "blocks": path.blocks,
            "loaded": is_loaded, "seconds": time.as_secs_f64(),
        })
    });
}

/// The weights that a run forward and its run backward load, in bytes.
pub struct Weights {
    pub graphs: usize,
    pub vertices: usize,
    /// The levels with children, of each kind one.
    pub blocks: usize,
    /// The groups of blocks; 0 for launches for each level.
    pub groups: usize,
    /// What runs load on the path: each group has all weights once.
    pub on_path: usize,
    /// What launches for each level would load there.
    pub by_levels: usize,
    /// What the products of whole batches load before and behind it.
    pub of_whole_batches: usize,
}

/// Reports what was chosen for a static batch.
pub fn batch(weights: impl FnOnce() -> Weights) {
    guest::report::write(|| {
        let Weights { graphs, vertices, blocks, groups, on_path, by_levels, of_whole_batches } = weights();
        json!({
            "event": "dynamic-batch", "graphs": graphs, "vertices": vertices, "levels": blocks, "groups": groups,
            "weights": {"path": on_path, "levels": by_levels, "whole batches": of_whole_batches},
        })
    });
}
