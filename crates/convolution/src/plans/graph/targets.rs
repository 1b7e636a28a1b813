//! The devices that micro-plans are finalized for. The target is never the program's handle, which serves one thread at
//! a time and may be destroyed. It is the device's properties: such plans run on every handle of the device, and
//! properties made from a handle outlive it. Properties made again from their own, equal text do not serve: on an H200
//! under cuDNN 9.19, plans finalized for them run three times as long.

use cudnn_abi::*;
use parking_lot::RwLock;

use super::state::Place;
use cudnn::graph::Target;

/// The targets of the program's handles, by address. An entry goes when its handle is destroyed.
static OF_HANDLES: RwLock<Vec<(usize, Place, Target)>> = RwLock::new(Vec::new());

/// The targets of devices. They outlive the handles that they were made from.
static OF_DEVICES: RwLock<Vec<(Place, Target)>> = RwLock::new(Vec::new());

/// Returns the target of a device's properties, in cuDNN's text.
pub fn described(text: &str) -> Option<(Place, Target)> {
    Some((Place::Described(text.into()), Target::from_json(text).ok()?))
}

/// Returns the target of the calling thread's device, if a handle of it was seen.
pub fn here() -> Option<Target> {
    let here = Place::Device(cudnn::device().ordinal());
    OF_DEVICES.read().iter().find(|(place, _)| *place == here).map(|(_, target)| target.clone())
}

/// Keeps the target of a handle's device. The handle itself is not kept.
pub fn learn(handle: cudnnHandle_t) {
    if here().is_none()
        && let Ok(target) = Target::of_device(handle)
    {
        of_its_device(target);
    }
}

/// Returns the one target of a device, and the device, from any of its targets.
fn of_its_device(target: Target) -> (Place, Target) {
    // The handle's own device need not be the current one.
    let text = target.json().unwrap_or_default();
    let place = Place::Device(ordinal(&text).unwrap_or_else(|| cudnn::device().ordinal()));
    let mut targets = OF_DEVICES.write();
    if let Some(known) = targets.iter().find(|(known, _)| *known == place) {
        return known.clone();
    }
    targets.push((place.clone(), target.clone()));
    (place, target)
}

/// Returns the target of a handle.
pub fn of_handle(handle: cudnnHandle_t) -> Option<(Place, Target)> {
    let known = |(address, place, target): &(usize, Place, Target)| {
        (*address == handle.addr()).then(|| (place.clone(), target.clone()))
    };
    if let Some(known) = OF_HANDLES.read().iter().find_map(known) {
        return Some(known);
    }
    let (place, target) = of_its_device(Target::of_device(handle).ok()?);
    OF_HANDLES.write().push((handle.addr(), place.clone(), target.clone()));
    Some((place, target))
}

/// Returns the device's number from its properties. `None` if they do not have it.
fn ordinal(text: &str) -> Option<i32> {
    let properties: serde_json::Value = serde_json::from_str(text.trim_end_matches('\0')).ok()?;
    properties.get("cudaDeviceId")?.as_i64()?.try_into().ok()
}

/// Forgets a handle that is destroyed: another may get its address.
pub fn forget(handle: cudnnHandle_t) {
    if OF_HANDLES.read().iter().any(|(address, ..)| *address == handle.addr()) {
        OF_HANDLES.write().retain(|(address, ..)| *address != handle.addr());
    }
}
