//! Reports a net's executor: a line of the log, and one of the report (`UCUDNN_REPORT`).

use std::time::Duration;

use serde_json::json;
use vertex::function::Declaration;

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
