//! The settings by which we plan a handle's calls: the environment's, unless the program set the handle's own through
//! `ucudnn.h`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::cudnnHandle_t;
use parking_lot::RwLock;

use crate::library;
use guest::settings::{self, Policy};
use planner::BatchSizePolicy;

/// How the convolutions of one handle are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    pub policy: Policy,
    pub batch_size_policy: BatchSizePolicy,
    /// The most workspace of any convolution problem, in bytes.
    pub workspace_limit: Option<usize>,
    /// The most workspace, in bytes, where the program gives no limit.
    pub default_workspace_limit: Option<usize>,
    /// The program's id for the layer of its next queries and calls.
    pub layer: Option<u64>,
}

/// Handles with settings of their own, by address. A destroyed handle is removed.
static HANDLES: RwLock<Option<HashMap<usize, Policies>>> = RwLock::new(None);
/// True once any handle has settings of its own; all other programs never take the lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// True if every call of every handle goes to cuDNN unchanged, and always did.
pub fn all_off() -> bool {
    !has_own() && environment().policy == Policy::Off
}

/// True if the environment leaves every call to cuDNN. Unlike a handle's own settings, it never changes.
pub fn environment_is_off() -> bool {
    environment().policy == Policy::Off
}

/// The handle's policies.
pub fn of(handle: cudnnHandle_t) -> Policies {
    if has_own()
        && let Some(own) = HANDLES.read().as_ref().and_then(|handles| handles.get(&handle.addr()))
    {
        return *own;
    }
    environment()
}

/// True if handles may have settings of their own. Where the library is switched off, these do not count.
fn has_own() -> bool {
    ANY.load(Ordering::Acquire) && settings::get().is_on
}

/// Changes a handle's policies.
pub fn change(handle: cudnnHandle_t, change: impl FnOnce(&mut Policies)) {
    let mut handles = HANDLES.write();
    change(handles.get_or_insert_default().entry(handle.addr()).or_insert_with(environment));
    ANY.store(true, Ordering::Release);
}

/// Forgets a destroyed handle: another handle may get its address.
pub fn forget(handle: cudnnHandle_t) {
    if ANY.load(Ordering::Acquire)
        && let Some(handles) = HANDLES.write().as_mut()
    {
        handles.remove(&handle.addr());
    }
}

fn environment() -> Policies {
    let settings = settings::get();
    // An older cuDNN may have other arguments with other meanings, so we only forward its calls.
    let policy = match settings.policy {
        _ if library::older_major().is_some() => Policy::Off,
        policy => policy,
    };
    Policies {
        policy,
        batch_size_policy: settings.batch_size_policy,
        workspace_limit: settings.workspace_limit,
        default_workspace_limit: settings.default_workspace_limit,
        layer: None,
    }
}

impl Policies {
    /// The most bytes that a call with `given` bytes of workspace may use.
    pub fn call_limit(&self, given: usize) -> usize {
        given.min(self.workspace_limit.unwrap_or(usize::MAX))
    }

    /// The limit of a query: the least of `UCUDNN_WORKSPACE_LIMIT` and the program's limit, or the default limit if the
    /// program gives none. `None` if nobody gave a limit.
    pub fn query_limit(&self, said: Option<usize>) -> Option<usize> {
        match (said.or(self.default_workspace_limit), self.workspace_limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
