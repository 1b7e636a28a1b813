//! What is made once for each device and kind, when it is needed first, and kept as long as it is used: code that is loaded
//! takes memory of the device, and a program may have kernels of any number of shapes.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::device::Device;

/// Of each device and kind what was made and is used, or why it could not be made.
pub struct ForEachDevice<K, T>(RwLock<Vec<Made<K, T>>>);

type Made<K, T> = ((i32, K), Result<Weak<T>, String>);

impl<K: PartialEq, T> ForEachDevice<K, T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// That of the calling thread's device. No lock is held while it is made.
    pub fn get(&self, device: Device, kind: K, make: impl FnOnce() -> Result<T, String>) -> Result<Arc<T>, String> {
        let key = (device.ordinal(), kind);
        let find = |made: &[Made<K, T>]| {
            let (_, known) = made.iter().find(|(known, _)| *known == key)?;
            known.as_ref().map(Weak::upgrade).map_err(String::clone).transpose()
        };
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
            all.retain(|(_, known)| known.as_ref().map_or(true, |known| known.strong_count() > 0));
            all.push((key, made.as_ref().map(Arc::downgrade).map_err(String::clone)));
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_while_it_is_used() {
        let all = ForEachDevice::<&str, u32>::new();
        let get = |kind, made| all.get(Device::Host, kind, || Ok(made)).unwrap();
        let first = get("one", 1);
        assert_eq!((*get("one", 2), *get("other", 3)), (1, 3));
        drop(first);
        assert_eq!(*get("one", 4), 4);
        assert_eq!(all.0.read().len(), 1, "what nobody uses is forgotten");
    }

    #[test]
    fn what_failed_is_not_tried_again() {
        let all = ForEachDevice::<&str, u32>::new();
        assert_eq!(all.get(Device::Host, "one", || Err("no compiler".into())), Err("no compiler".to_owned()));
        assert_eq!(all.get(Device::Host, "one", || Ok(1)), Err("no compiler".to_owned()));
    }
}
