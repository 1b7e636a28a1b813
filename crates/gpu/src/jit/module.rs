//! Loaded kernels and their launches, on either device.

use std::ffi::{CStr, c_void};

use super::launch::{Launch, Resources};
use super::{Error, driver, emulated};
use crate::stream::Stream;

/// Compiled code, loaded on the device that was current at the time. Unloaded with the last of its functions.
#[derive(Clone)]
pub struct Module(pub(super) OnDevice<emulated::Module, driver::Module>);

/// A kernel, which keeps its module loaded.
#[derive(Clone)]
pub struct Function(OnDevice<emulated::Function, driver::Function>);

/// A value that differs in type between the host and a GPU.
#[derive(Clone)]
pub(super) enum OnDevice<H, C> {
    Host(H),
    Cuda(C),
}

impl Module {
    /// Looks up a kernel by its `extern "C"` name, and loads it in the calling thread's context, so that its first
    /// launch may be captured.
    pub fn function(&self, name: &CStr) -> Result<Function, Error> {
        Ok(Function(match &self.0 {
            OnDevice::Host(module) => OnDevice::Host(module.function(name)?),
            OnDevice::Cuda(module) => OnDevice::Cuda(module.function(name)?),
        }))
    }
}

impl Function {
    /// Launches on a stream of the module's device. On a GPU the call allocates nothing and waits for nothing, and may
    /// be captured into a CUDA graph; the module is never unloaded after a capture, since the graph may be launched at
    /// any time. On the host the kernel has finished when the call returns.
    ///
    /// # Safety
    /// `arguments` point to one value for each of the kernel's parameters, of the parameter's type. Pointers among
    /// these values meet the kernel's expectations.
    pub unsafe fn launch(&self, stream: Stream, launch: &Launch, arguments: &mut [*mut c_void]) -> Result<(), Error> {
        // SAFETY: the caller makes the same promise to either device's `launch`.
        unsafe {
            match &self.0 {
                OnDevice::Host(function) => function.launch(launch, arguments),
                OnDevice::Cuda(function) => function.launch(stream, launch, arguments),
            }
        }
    }

    /// The resources that the compiled kernel needs. The host has no such limits.
    pub fn resources(&self) -> Result<Resources, Error> {
        match &self.0 {
            OnDevice::Host(_) => {
                Ok(Resources { registers: 0, shared_bytes: 0, local_bytes: 0, threads: emulated::MOST_IN_A_BLOCK })
            }
            OnDevice::Cuda(function) => function.resources(),
        }
    }

    /// The number of blocks that one multiprocessor of the calling thread's device holds at once, with `threads`
    /// threads and `shared_bytes` of dynamic shared memory each. Ignores kernels that run now, and other programs. The
    /// host counts as [`MULTIPROCESSORS`](crate::host::MULTIPROCESSORS) multiprocessors.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(emulated::resident_blocks(threads)),
            OnDevice::Cuda(function) => function.resident_blocks(threads, shared_bytes),
        }
    }

    /// The number of a launch's clusters that the calling thread's device holds at once. 0 without clusters.
    pub fn resident_clusters(&self, launch: &Launch) -> Result<u32, Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(emulated::resident_clusters(launch)),
            OnDevice::Cuda(function) => function.resident_clusters(launch),
        }
    }

    /// Allows launches with this many bytes of dynamic shared memory in a block, and with as many as were allowed before.
    /// The driver refuses more than the device's opt-in limit less the kernel's static shared memory.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(()),
            OnDevice::Cuda(function) => function.allow_shared(bytes),
        }
    }

    /// Allows launches with clusters of more than 8 blocks, which some devices do not support.
    pub fn allow_large_clusters(&self) -> Result<(), Error> {
        match &self.0 {
            OnDevice::Host(_) => Ok(()),
            OnDevice::Cuda(function) => function.allow_large_clusters(),
        }
    }

    /// Keeps the kernel's module loaded for good, as a launch does that is captured.
    pub fn keep_loaded(&self) {
        if let OnDevice::Cuda(function) = &self.0 {
            function.keep_loaded();
        }
    }
}
