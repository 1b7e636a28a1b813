//! What a handle's calls are planned by: the environment's settings, unless the program set the
//! handle's own through `ucudnn.h`.

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
    /// The most workspace of any kernel, in bytes.
    pub workspace_limit: Option<usize>,
    /// The most workspace, in bytes, where the program gives no limit.
    pub default_workspace_limit: Option<usize>,
    /// What the program calls the layer that its next queries and calls belong to.
    pub layer: Option<u64>,
}

/// Handles with settings of their own, by address: removed when the handle is destroyed.
static HANDLES: RwLock<Option<HashMap<usize, Policies>>> = RwLock::new(None);
/// Whether there are any: spares every other program the lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether every call of every handle goes through to cuDNN unchanged, and always did.
pub fn all_off() -> bool {
    !ANY.load(Ordering::Acquire) && environment().policy == Policy::Off
}

/// The handle's policies.
pub fn of(handle: cudnnHandle_t) -> Policies {
    if ANY.load(Ordering::Acquire)
        && let Some(own) = HANDLES.read().as_ref().and_then(|handles| handles.get(&handle.addr()))
    {
        return *own;
    }
    environment()
}

/// Changes a handle's policies.
pub fn change(handle: cudnnHandle_t, change: impl FnOnce(&mut Policies)) {
    let mut handles = HANDLES.write();
    change(handles.get_or_insert_default().entry(handle.addr()).or_insert_with(environment));
    ANY.store(true, Ordering::Release);
}

/// Forgets a handle: its address may be another's next.
pub fn forget(handle: cudnnHandle_t) {
    if ANY.load(Ordering::Acquire)
        && let Some(handles) = HANDLES.write().as_mut()
    {
        handles.remove(&handle.addr());
    }
}

fn environment() -> Policies {
    let settings = settings::get();
    // What an older cuDNN takes and means may differ: it is only forwarded to.
    let policy = match settings.policy {
        _ if library::older_major().is_some() => Policy::Off,
        Policy::Division if !has_solver() => Policy::Reuse,
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

/// Whether the solver of Workspace Division is there. Says once why not.
pub fn has_solver() -> bool {
    static SAID: AtomicBool = AtomicBool::new(false);
    match planner::solver_available() {
        Ok(()) => true,
        Err(why) => {
            if !SAID.swap(true, Ordering::Relaxed) {
                log::warn!("no Workspace Division, but Workspace Reuse: {why}");
            }
            false
        }
    }
}

impl Policies {
    /// The most bytes that a call may use which brings `given` bytes of workspace.
    pub fn call_limit(&self, given: usize) -> usize {
        given.min(self.workspace_limit.unwrap_or(usize::MAX))
    }

    /// The limit of a query: the least of the variable and what the program said, else the default
    /// limit. `None` if nobody gave one.
    pub fn query_limit(&self, said: Option<usize>) -> Option<usize> {
        match (said.or(self.default_workspace_limit), self.workspace_limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
