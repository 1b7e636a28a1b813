//! What micro-plans are finalized for. That is never the program's handle, which serves one thread at a time and may be
//! destroyed: plans that are finalized for a device's properties run on every handle of it, and properties that were
//! made of a handle outlive it. Made of their own text again, which is the same, they do not serve: on an H200 under
//! cuDNN 9.19 plans that are finalized for that run three times as long.

use cudnn_abi::*;
use parking_lot::RwLock;

use super::page::Place;
use super::shadow::Content;
use cudnn::graph::Target;

/// Of the program's handles, by address: removed when the handle is destroyed.
static OF_HANDLES: RwLock<Vec<(usize, Place, Target)>> = RwLock::new(Vec::new());

/// The target of a plan that was made for a handle, or for a device's properties.
pub fn of(plan: &Content, handle: Option<cudnnHandle_t>) -> Option<(Place, Target)> {
    match handle {
        Some(handle) => of_handle(handle),
        None => {
            let properties = plan.descriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)?.content();
            let text = properties.elements::<1>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)?.as_flattened();
            let text = std::str::from_utf8(text).ok()?.trim_end_matches('\0');
            Some((Place::Described(text.into()), Target::from_json(text).ok()?))
        }
    }
}

fn of_handle(handle: cudnnHandle_t) -> Option<(Place, Target)> {
    let known = |(address, place, target): &(usize, Place, Target)| {
        (*address == handle.addr()).then(|| (place.clone(), target.clone()))
    };
    if let Some(known) = OF_HANDLES.read().iter().find_map(known) {
        return Some(known);
    }
    let target = Target::of_device(handle).ok()?;
    // The handle's own device, which need not be the current one.
    let text = target.json().unwrap_or_default();
    let place = Place::Device(ordinal(&text).unwrap_or_else(|| cudnn::device().ordinal()));
    let mut targets = OF_HANDLES.write();
    let same = targets.iter().find(|(_, known, _)| *known == place).map(|(.., target)| target.clone());
    let target = same.unwrap_or(target);
    targets.push((handle.addr(), place.clone(), target.clone()));
    Some((place, target))
}

/// The number of the device that properties are of; `None` where they do not tell.
fn ordinal(text: &str) -> Option<i32> {
    let properties: serde_json::Value = serde_json::from_str(text.trim_end_matches('\0')).ok()?;
    properties.get("cudaDeviceId")?.as_i64()?.try_into().ok()
}

/// A handle is destroyed: its address may be another's next.
pub fn forget(handle: cudnnHandle_t) {
    if OF_HANDLES.read().iter().any(|(address, ..)| *address == handle.addr()) {
        OF_HANDLES.write().retain(|(address, ..)| *address != handle.addr());
    }
}
