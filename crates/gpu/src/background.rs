//! Background threads that plan on the device of the thread that starts them. A [`Queue`] has a few that do its jobs in
//! turn.

pub mod compiling;
mod queue;

pub use guest::background::{STOP, rest, stopped};

use crate::Device;
pub use queue::Queue;

/// Runs `plan` on a thread of its own, whose device is the calling thread's; see [`guest::background::spawn`].
pub fn spawn(device: Device, plan: impl FnOnce() + Send + 'static, otherwise: &'static str) -> bool {
    let ordinal = device.ordinal();
    let body = move || {
        if let Some(_entered) = device.enter(ordinal) {
            plan();
        }
    };
    guest::background::spawn(body, otherwise)
}
