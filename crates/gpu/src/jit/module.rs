//! Loaded kernels, and launching them, on whichever device they are.

use std::ffi::{CStr, c_void};

use super::super::Stream;
use super::{Error, driver, emulated};

/// Compiled code, loaded on the device that was current then. Unloaded when the last of its functions is gone.
#[derive(Clone)]
pub struct Module(pub(super) OnDevice<emulated::Module, driver::Module>);

/// One kernel of a module, which it keeps loaded.
#[derive(Clone)]
pub struct Function(OnDevice<emulated::Function, driver::Function>);

/// What is another thing on the host than on a GPU.
#[derive(Clone)]
pub(super) enum OnDevice<H, C> {
    Host(H),
    Cuda(C),
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks: x, y, z. A multiple of the cluster.
    pub grid: [u32; 3],
    /// Threads of a block: x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster: x, y, z. All ones where there are no clusters. More than 8 take
    /// [`Function::allow_large_clusters`].
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block, in bytes. More than 48 KiB take [`Function::allow_shared`].
    pub shared_bytes: u32,
    /// All blocks run at once, or the launch fails.
    pub cooperative: bool,
    /// It may begin while the launch before it on the stream still runs, once all blocks of that have called
    /// `begin_next_launch()` or ended; its own call `wait_for_last_launch()` before they touch what that one does. That one is
    /// not early itself, or they would also wait before they touch what those before it do. On devices that cannot, and where the
    /// stream is captured, it begins when that one has ended.
    pub early: bool,
}

impl Default for Launch {
    fn default() -> Self {
        Self { grid: [1; 3], block: [1; 3], cluster: [1; 3], shared_bytes: 0, cooperative: false, early: false }
    }
}

/// What the compiler made a kernel need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread, in bytes: arrays that are no registers, and spills.
    pub local_bytes: u32,
    /// The most threads that a block may have.
    pub threads: u32,
}

impl Module {
    /// A kernel, by its `extern "C"` name. It is made ready to run in the calling thread's context, so that the
    /// first launch may be captured.
    pub fn function(&self, name: &CStr) -> Result<Function, Error> {
        Ok(Function(match &self.0 {
            OnDevice::Host(module) => OnDevice::Host(module.function(name)?),
            OnDevice::Cuda(module) => OnDevice::Cuda(module.function(name)?),
        }))
    }
}

impl Function {
    /// Launches on a stream of the module's device. On a GPU it allocates nothing and waits for nothing, and may be
    /// captured into a CUDA graph, after which the module is never unloaded, since the graph may be launched
    /// whenever. On the host the kernel has run to its end.
    ///
    /// # Safety
    /// `arguments` point to one value for each of the kernel's parameters, of their types; what those point to is as
    /// the kernel expects.
    pub unsafe fn launch(&self, stream: Stream, launch: &Launch, arguments: &mut [*mut c_void]) -> Result<(), Error> {
        // SAFETY: as ours.
        unsafe {
            match &self.0 {
                OnDevice::Host(function) => function.launch(launch, arguments),
                OnDevice::Cuda(function) => function.launch(stream, launch, arguments),
            }
        }
    }

    /// What the compiler made it need. The host has no such limits.
    pub fn resources(&self) -> Result<Resources, Error> {
        match &self.0 {
            OnDevice::Host(_) => {
                Ok(Resources { registers: 0, shared_bytes: 0, local_bytes: 0, threads: emulated::MOST_IN_A_BLOCK })
            }
            OnDevice::Cuda(function) => function.resources(),
        }
    }

    /// How many blocks of so many threads and so much dynamic shared memory, in bytes, one multiprocessor of the
    /// calling thread's device holds at once. Those of other programs, and kernels that run now, are not counted.
    /// The host is as [`MULTIPROCESSORS_OF_HOST`](super::MULTIPROCESSORS_OF_HOST) of them.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(emulated::resident_blocks(threads)),
            OnDevice::Cuda(function) => function.resident_blocks(threads, shared_bytes),
        }
    }

    /// How many of a launch's clusters the calling thread's device holds at once. 0 for one without clusters.
    pub fn resident_clusters(&self, launch: &Launch) -> Result<u32, Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(emulated::resident_clusters(launch)),
            OnDevice::Cuda(function) => function.resident_clusters(launch),
        }
    }

    /// Lets launches take this much dynamic shared memory, in bytes a block: up to what the device's blocks may opt
    /// in to, less the static. Refused beyond it.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(()),
            OnDevice::Cuda(function) => function.allow_shared(bytes),
        }
    }

    /// Lets launches have clusters of more than 8 blocks, which not every device holds.
    pub fn allow_large_clusters(&self) -> Result<(), Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(()),
            OnDevice::Cuda(function) => function.allow_large_clusters(),
        }
    }
}
