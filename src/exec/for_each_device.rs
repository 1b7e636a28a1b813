//! What is made once for each device and kind, when it is needed first, and kept.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::device::Device;

/// Of each device and kind what was made, or why it could not be.
pub struct ForEachDevice<K, T>(RwLock<Vec<Made<K, T>>>);

type Made<K, T> = ((i32, K), Result<Arc<T>, String>);

impl<K: PartialEq, T> ForEachDevice<K, T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// That of the calling thread's device. No lock is held while it is made.
    pub fn get(&self, device: Device, kind: K, make: impl FnOnce() -> Result<T, String>) -> Result<Arc<T>, String> {
        let key = (device.ordinal(), kind);
        let find = |made: &[Made<K, T>]| made.iter().find(|(known, _)| *known == key).map(|(_, made)| made.clone());
        if let Some(made) = find(&self.0.read()) {
            return made;
        }
        let made = make().map(Arc::new);
        if let Err(why) = &made {
            log::info!("a kernel of ours is not used: {why}");
        }
        let mut all = self.0.write();
        // Another thread may have been faster.
        let known = find(&all);
        known.unwrap_or_else(|| {
            all.push((key, made.clone()));
            made
        })
    }
}
