//! Loaded kernels, and the objects that hold them, each found again while somebody uses it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::Device;

/// For each device and key, the object that is in use there.
pub struct Loaded<K, T> {
    /// `None` until something is loaded: a static needs a constant.
    known: Mutex<Option<Known<K, T>>>,
    /// Unused objects stay alive.
    is_kept: bool,
}

/// By device number and key: the object, with the reference that keeps it alive if `is_kept`.
type Known<K, T> = HashMap<(i32, K), (Weak<T>, Option<Arc<T>>)>;

impl<K: Eq + Hash, T> Loaded<K, T> {
    /// An empty cache that drops an object with its last user. A program may have problems of any number of shapes, and
    /// the code for each takes device memory.
    pub const fn while_used() -> Self {
        Self { known: Mutex::new(None), is_kept: false }
    }

    /// An empty cache that keeps its objects forever, for few keys.
    pub const fn kept() -> Self {
        Self { known: Mutex::new(None), is_kept: true }
    }

    /// Finds the object of the calling thread's device.
    pub fn find(&self, device: Device, key: &K) -> Option<Arc<T>>
    where
        K: Clone,
    {
        self.known.lock().as_ref()?.get(&(device.ordinal(), key.clone()))?.0.upgrade()
    }

    /// Finds the object of the calling thread's device, or makes it. Making holds no lock; of two objects made at the
    /// same time, the first is kept. A failure is not remembered.
    pub fn get<E>(&self, device: Device, key: K, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let key = (device.ordinal(), key);
        let find = |known: &Option<Known<K, T>>| known.as_ref().and_then(|known| known.get(&key)?.0.upgrade());
        if let Some(found) = find(&self.known.lock()) {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        let mut known = self.known.lock();
        if let Some(found) = find(&known) {
            // Dropping the other one may wait for the device.
            drop(known);
            return Ok(found);
        }
        let known = known.get_or_insert_default();
        known.retain(|_, (object, _)| object.strong_count() > 0);
        known.insert(key, (Arc::downgrade(&made), self.is_kept.then(|| made.clone())));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_while_it_is_used() {
        let all = Loaded::<&str, u32>::while_used();
        let get = |key, made| all.get(Device::Host, key, || Ok::<_, ()>(made)).unwrap();
        let first = get("one", 1);
        assert_eq!((*get("one", 2), *get("other", 3)), (1, 3));
        drop(first);
        assert_eq!(*get("one", 4), 4);
        assert_eq!(all.known.lock().as_ref().unwrap().len(), 1, "unused objects are forgotten");
    }

    #[test]
    fn made_once_where_it_is_kept() {
        let all = Loaded::<&str, u32>::kept();
        for made in [1, 2] {
            assert_eq!(*all.get(Device::Host, "one", || Ok::<_, ()>(made)).unwrap(), 1);
        }
    }

    #[test]
    fn a_failure_is_tried_again() {
        let all = Loaded::<&str, u32>::while_used();
        assert_eq!(all.get(Device::Host, "one", || Err("no memory")), Err("no memory"));
        assert_eq!(all.get(Device::Host, "one", || Ok::<_, &str>(1)), Ok(Arc::new(1)));
    }

    /// While an object is made, another thread makes and uses the same one.
    #[test]
    fn the_first_is_kept_of_two_made_at_once() {
        let all = Loaded::<&str, u32>::while_used();
        let mut faster = None;
        let slower = all.get(Device::Host, "one", || {
            faster = all.get(Device::Host, "one", || Ok::<_, ()>(1)).ok();
            Ok::<_, ()>(2)
        });
        assert!(Arc::ptr_eq(&slower.unwrap(), &faster.unwrap()));
    }
}
