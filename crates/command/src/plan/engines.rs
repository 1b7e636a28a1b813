//! `ucudnn plan --device`: the engines of cuDNN's graph API for each convolution problem on a device that need not be
//! present, the workspace of each at each micro-batch size, and the engines that each limit admits.

mod offers;

use std::io::{IsTerminal, stderr};
use std::path::Path;

use cudnn::graph::{Target, refusal};
use cudnn::library;
use guest::settings;
use serde_json::{Value, json};
use tuning::database::cudnn_version;

use super::Options;
use crate::Failure;
use crate::network::Layer;
use crate::output;
use crate::python;
use crate::quantity;
use crate::text;
use offers::Offered;
use trust::Shown as _;

/// The limits to show if none is given.
const LIMITS: [usize; 4] = [0, 8 << 20, 64 << 20, 512 << 20];

pub fn run(options: &Options, device: &Path) -> Result<(), Failure> {
    let (network, _) = options.workload.problems.read()?;
    let layers = different(network.layers);
    let properties = text::read(device)?;
    let name = device_name(device, &properties)?;
    find_cudnn(options)?;
    let target = Target::from_json(&properties).map_err(|status| {
        let why = format!("this cuDNN does not take its device properties: {}", refusal(status));
        Failure::Failed(format!("{}: {why}", device.shown()))
    })?;
    let limits = if options.limit.is_empty() { &LIMITS[..] } else { &options.limit };
    let version = cudnn_version().unwrap_or_default();
    if !options.json {
        let from = library::path().map_or_else(String::new, |path| path.shown().to_string());
        output::print(&format!("{name}, cuDNN {version}, {from}\n\n"))?;
    }
    let width = options.width.columns();
    let mut problems = Vec::new();
    let mut lacking = 0;
    for (done, layer) in layers.iter().enumerate() {
        tell(&format!("{}/{} {} {}", done + 1, layers.len(), layer.name, layer.problem.direction()));
        let offered = Offered::ask(layer, &target, &options.workload);
        tell("");
        lacking += usize::from(!offered.as_ref().is_ok_and(Offered::is_any));
        if options.json {
            problems.push(as_json(layer, &offered, limits));
        } else {
            let text = offered.map_or_else(|why| format!("{why}\n"), |offered| offered.text(limits, width));
            output::print(&format!("{} {} (layers: {})\n\n{text}\n", layer.name, layer.problem, layer.count))?;
        }
    }
    if options.json {
        let whole =
            json!({ "device": name, "cudnn": library::version(), "hostdnn": library::is_host(), "engines": problems });
        output::print_json(&whole)?;
    }
    match lacking {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!("cuDNN has no engine for {lacking} of {} kernels", layers.len()))),
    }
}

/// Each problem once, counting all layers that have it.
fn different(layers: Vec<Layer>) -> Vec<Layer> {
    let mut different = Vec::<Layer>::new();
    for layer in layers {
        match different.iter_mut().find(|known| known.problem == layer.problem) {
            Some(known) => known.count += layer.count,
            None => different.push(layer),
        }
    }
    different
}

/// The device's name in the file of its properties.
fn device_name(file: &Path, properties: &str) -> Result<String, Failure> {
    let refused = |why: &dyn std::fmt::Display| Failure::Failed(format!("{}: {why}", file.shown()));
    let properties: Value =
        serde_json::from_str(properties).map_err(|error| refused(&format_args!("it is not JSON: {error}")))?;
    let name = properties.get("deviceName").and_then(Value::as_str).map(str::to_owned);
    name.ok_or_else(|| {
        refused(&"it has no \"deviceName\": device properties are an object such as examples/devices/h200.json")
    })
}

/// Finds the cuDNN that lists the engines.
fn find_cudnn(options: &Options) -> Result<(), Failure> {
    if let Some(library) = &options.cudnn_library {
        // SAFETY: no other thread runs yet, and nothing holds a pointer into the environment.
        unsafe { std::env::set_var(settings::CUDNN_LIBRARY, library) };
    }
    python::search_its_packages(None);
    if library::path().is_none() {
        return Err(Failure::Failed("there is no cuDNN to ask; --cudnn-library may name one".into()));
    }
    match library::older_major() {
        Some(major) => Err(Failure::Failed(format!("the cuDNN that was found is of version {major}: 9 is needed"))),
        None => Ok(()),
    }
}

/// Shows the progress on a terminal: a query takes tens of milliseconds, and a network needs some hundreds of them.
fn tell(progress: &str) {
    if stderr().is_terminal() {
        output::draw(progress);
    }
}

fn as_json(layer: &Layer, offered: &Result<Offered, String>, limits: &[usize]) -> Value {
    let Layer { name, problem, count } = layer;
    let mut value = json!({
        "layer": name,
        "direction": problem.direction().to_string(),
        "count": count,
        "kernel": problem.to_string(),
    });
    match offered {
        Ok(offered) => {
            value["spec"] = json!(offered.spec());
            value["offers"] = offered.offers_json();
            value["limits"] = offered.limits_json(limits);
        }
        Err(why) => value["refused"] = json!(why),
    }
    value
}

/// A limit as people write it.
fn limit_text(limit: usize) -> String {
    if limit == usize::MAX { "none".into() } else { quantity::chosen_bytes(limit) }
}
