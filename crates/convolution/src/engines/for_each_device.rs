//! Objects that are made at first use, once for each device and kind.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use gpu::Device;

/// For each device and kind, the object or the reason why it could not be made.
pub struct ForEachDevice<K, T> {
    made: RwLock<Vec<Made<K, T>>>,
    /// Unused objects stay alive.
    is_kept: bool,
}

/// The object, with the reference that keeps it alive if `is_kept`.
type Made<K, T> = ((i32, K), Result<(Weak<T>, Option<Arc<T>>), String>);

impl<K: PartialEq, T> ForEachDevice<K, T> {
    /// An empty collection that keeps its objects forever, for few kinds.
    pub const fn kept() -> Self {
        Self { made: RwLock::new(Vec::new()), is_kept: true }
    }

    /// An empty collection that drops an object with its last user. A program may have problems of any number of
    /// shapes, and the code for each takes device memory.
    pub const fn while_used() -> Self {
        Self { made: RwLock::new(Vec::new()), is_kept: false }
    }

    /// The object of the calling thread's device, made if missing. Making and dropping (which may wait) hold no lock.
    pub fn get(&self, device: Device, kind: K, make: impl FnOnce() -> Result<T, String>) -> Result<Arc<T>, String> {
        let key = (device.ordinal(), kind);
        let find = |all: &[Made<K, T>]| {
            let (_, known) = all.iter().find(|(known, _)| *known == key)?;
            known.as_ref().map(|(made, _)| made.upgrade()).map_err(String::clone).transpose()
        };
        let known = find(&self.made.read());
        if let Some(known) = known {
            return known;
        }
        let made = make().map(Arc::new);
        if let Err(why) = &made {
            log::info!("a kernel of ours is not used: {why}");
        }
        let mut all = self.made.write();
        // Another thread may have made the object meanwhile.
        if let Some(known) = find(&all) {
            drop(all);
            return known;
        }
        all.retain(|(_, known)| known.as_ref().map_or(true, |(made, _)| made.strong_count() > 0));
        let held = |made: &Arc<T>| (Arc::downgrade(made), self.is_kept.then(|| made.clone()));
        all.push((key, made.as_ref().map(held).map_err(String::clone)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_while_it_is_used() {
        let all = ForEachDevice::<&str, u32>::while_used();
        let get = |kind, made| all.get(Device::Host, kind, || Ok(made)).unwrap();
        let first = get("one", 1);
        assert_eq!((*get("one", 2), *get("other", 3)), (1, 3));
        drop(first);
        assert_eq!(*get("one", 4), 4);
        assert_eq!(all.made.read().len(), 1, "what nobody uses is forgotten");
    }

    #[test]
    fn made_once_where_it_is_kept() {
        let all = ForEachDevice::<&str, u32>::kept();
        for made in [1, 2] {
            assert_eq!(*all.get(Device::Host, "one", || Ok(made)).unwrap(), 1);
        }
    }

    #[test]
    fn what_failed_is_not_tried_again() {
        let all = ForEachDevice::<&str, u32>::while_used();
        assert_eq!(all.get(Device::Host, "one", || Err("no compiler".into())), Err("no compiler".to_owned()));
        assert_eq!(all.get(Device::Host, "one", || Ok(1)), Err("no compiler".to_owned()));
    }
}
