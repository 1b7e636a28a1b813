//! Kernels on a GPU: compiled code in CUDA's driver.
//!
//! The code is loaded as a `CUlibrary`, which belongs to no context. A program may therefore reset its device without
//! leaving dangling handles here, and a kernel's handle is valid in every context of the device.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute};
use parking_lot::Mutex;

use super::launch::{Launch, Resources};
use super::{Error, Source, has_image, image};
use crate::cuda;
use crate::recorder;
use crate::stream::Stream;

/// The first driver that has all the functions called here.
const OLDEST_DRIVER: i32 = 12_000;

/// Compiled code, loaded on the device that was current at the time.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    library: sys::CUlibrary,
    device: sys::CUdevice,
    /// The device supports programmatic dependent launches.
    can_begin_early: bool,
    /// A CUDA graph may hold a launch for an unknown time, so the module is never unloaded.
    is_captured: AtomicBool,
}

// SAFETY: CUDA's driver allows the use of its libraries from any thread.
unsafe impl Send for Loaded {}
// SAFETY: CUDA's driver allows concurrent calls with one library; the flag is atomic.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !self.is_captured.load(Ordering::Relaxed) {
            // SAFETY: only this drop unloads the loaded library. The driver refuses at the process's end.
            cuda::relaxed(|| unsafe { sys::cuLibraryUnload(self.library) });
        }
    }
}

/// A kernel, which keeps its module loaded.
#[derive(Clone)]
pub struct Function {
    module: Module,
    kernel: sys::CUkernel,
}

// SAFETY: CUDA's driver allows the use of its kernels from any thread.
unsafe impl Send for Function {}
// SAFETY: CUDA's driver allows concurrent calls with one kernel.
unsafe impl Sync for Function {}

/// The compute capability of a device, and the driver's version.
fn target(ordinal: i32) -> Result<(u32, i32), Error> {
    let driver = cuda::driver_version();
    if driver < OLDEST_DRIVER {
        let (major, minor) = (driver / 1000, driver % 1000 / 10);
        return Err(Error::NoDriver(match driver {
            0 => "there is no CUDA driver".into(),
            _ => format!("kernels take a driver of CUDA 12.0 or newer, and this one is of {major}.{minor}"),
        }));
    }
    let none = || Error::NoDriver(format!("device {ordinal} has no compute capability"));
    Ok((cuda::compute_capability(ordinal).ok_or_else(none)?, driver))
}

/// Compiles for a device, for [`load`] to find it.
pub fn compile(source: &Source, ordinal: i32) -> Result<(), Error> {
    let (capability, driver) = target(ordinal)?;
    image(source, capability, driver).map(drop)
}

pub fn load(source: &Source) -> Result<Module, Error> {
    let ordinal = cuda::ordinal();
    let (capability, driver) = target(ordinal)?;
    // A thread without a context gets the one that CUDA's runtime uses. Captures of other threads continue.
    let Some(_entered) = cuda::Entered::new(ordinal) else {
        return Err(Error::NoDriver(format!("device {ordinal} has no context")));
    };
    let image = image(source, capability, driver)?;
    let mut library = null_mut();
    check("cuLibraryLoadData", || {
        // SAFETY: `image` is a cubin or zero-terminated PTX, which the driver copies; there are no options.
        unsafe {
            sys::cuLibraryLoadData(
                &mut library,
                image.as_ptr().cast(),
                null_mut(),
                null_mut(),
                0,
                null_mut(),
                null_mut(),
                0,
            )
        }
    })?;
    let (can_begin_early, is_captured) = (capability >= 90, AtomicBool::new(false));
    Ok(Module(Arc::new(Loaded { library, device: ordinal, can_begin_early, is_captured })))
}

/// Returns whether [`load`] finds the code for a device on disk.
pub fn is_compiled(source: &Source, ordinal: i32) -> bool {
    let capability = cuda::compute_capability(ordinal);
    capability.is_some_and(|capability| has_image(source, capability, cuda::driver_version()))
}

impl Module {
    /// Looks up a kernel by its `extern "C"` name, and loads it in the calling thread's context, so that its first
    /// launch may be captured.
    pub fn function(&self, name: &CStr) -> Result<Function, Error> {
        let mut kernel = null_mut();
        // SAFETY: the library is live, and `name` is a C string; writes one kernel.
        check("cuLibraryGetKernel", || unsafe { sys::cuLibraryGetKernel(&mut kernel, self.0.library, name.as_ptr()) })?;
        let _entered = cuda::Entered::new(self.0.device);
        let mut function = null_mut();
        // SAFETY: the kernel is live; writes one function, whose only use here is to force the loading.
        check("cuKernelGetFunction", || unsafe { sys::cuKernelGetFunction(&mut function, kernel) })?;
        Ok(Function { module: self.clone(), kernel })
    }
}

impl Function {
    /// Launches on a stream of the module's device, without allocating or waiting. The launch may be captured into a
    /// CUDA graph; the module is then never unloaded, since the graph may be launched at any time.
    ///
    /// # Safety
    /// `arguments` point to one value for each of the kernel's parameters, of the parameter's type. Pointers among
    /// these values meet the kernel's expectations.
    pub unsafe fn launch(&self, stream: Stream, launch: &Launch, arguments: &mut [*mut c_void]) -> Result<(), Error> {
        let loaded = &self.module.0;
        let may_begin_early = launch.early && loaded.can_begin_early;
        let is_captured = loaded.is_captured.load(Ordering::Relaxed);
        let is_unknown = !launch.is_uncaptured && (may_begin_early || !is_captured);
        let is_capturing = is_unknown && cuda::is_capturing(stream);
        if is_capturing && !is_captured {
            loaded.is_captured.store(true, Ordering::Relaxed);
        }
        // A capture would record an edge that only newer drivers and programs can query.
        let launch = &Launch { early: may_begin_early && !is_capturing, ..*launch };
        recorder::note((self.kernel.addr(), launch.cluster, launch.cooperative));
        let mut attributes = Attributes::of(launch);
        let configuration = attributes.configuration(launch, stream);
        // SAFETY: the caller promises the arguments; the attributes live until the call returns.
        check("cuLaunchKernelEx", || unsafe {
            sys::cuLaunchKernelEx(&configuration, self.raw(), arguments.as_mut_ptr(), null_mut())
        })
    }

    /// Keeps the kernel's module loaded for good, as a launch does that is captured.
    pub fn keep_loaded(&self) {
        self.module.0.is_captured.store(true, Ordering::Relaxed);
    }

    /// The resources that the compiled kernel needs.
    pub fn resources(&self) -> Result<Resources, Error> {
        Ok(Resources {
            registers: self.get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            shared_bytes: self.get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local_bytes: self.get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            threads: self.get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }

    /// The number of blocks that one multiprocessor of the calling thread's device holds at once, with `threads`
    /// threads and `shared_bytes` of dynamic shared memory each. Ignores kernels that run now, and other programs.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, Error> {
        let mut blocks = 0;
        let threads = threads as c_int;
        // SAFETY: `self` keeps the kernel loaded; writes one number.
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", || unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.raw(), threads, shared_bytes as usize)
        })?;
        Ok(blocks.max(0) as u32)
    }

    /// The number of a launch's clusters that the calling thread's device holds at once. 0 without clusters.
    pub fn resident_clusters(&self, launch: &Launch) -> Result<u32, Error> {
        let mut clusters = 0;
        let mut attributes = Attributes::of(launch);
        let configuration = attributes.configuration(launch, null_mut());
        // SAFETY: `self` keeps the kernel loaded; the attributes live until the call returns; writes one number.
        check("cuOccupancyMaxActiveClusters", || unsafe {
            sys::cuOccupancyMaxActiveClusters(&mut clusters, self.raw(), &configuration)
        })?;
        Ok(clusters.max(0) as u32)
    }

    /// Allows launches with this many bytes of dynamic shared memory in a block, and with as many as were allowed before.
    /// The driver refuses more than the device's opt-in limit less the kernel's static shared memory.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), Error> {
        const ALLOWED: Attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // Another thread may allow other launches of the kernel.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock();
        if self.get(ALLOWED)? >= bytes { Ok(()) } else { self.set(ALLOWED, bytes as c_int) }
    }

    /// Allows launches with clusters of more than 8 blocks, which some devices do not support.
    pub fn allow_large_clusters(&self) -> Result<(), Error> {
        self.set(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
    }

    fn get(&self, attribute: Attribute) -> Result<u32, Error> {
        let mut value = 0;
        // SAFETY: `self` keeps the kernel loaded; writes one number.
        check("cuKernelGetAttribute", || unsafe {
            sys::cuKernelGetAttribute(&mut value, attribute, self.kernel, self.module.0.device)
        })?;
        Ok(value.max(0) as u32)
    }

    fn set(&self, attribute: Attribute, value: c_int) -> Result<(), Error> {
        // SAFETY: `self` keeps the kernel loaded.
        check("cuKernelSetAttribute", || unsafe {
            sys::cuKernelSetAttribute(attribute, value, self.kernel, self.module.0.device)
        })
    }

    /// The driver accepts a kernel as a function, and then uses the context of the stream or thread.
    fn raw(&self) -> sys::CUfunction {
        self.kernel.cast()
    }
}

/// The attributes of a launch, on the caller's stack.
struct Attributes {
    list: [sys::CUlaunchAttribute; 3],
    count: u32,
}

impl Attributes {
    fn of(launch: &Launch) -> Self {
        use sys::CUlaunchAttributeID::{
            CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as CLUSTER, CU_LAUNCH_ATTRIBUTE_COOPERATIVE as COOPERATIVE,
            CU_LAUNCH_ATTRIBUTE_IGNORE as IGNORE, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION as EARLY,
        };
        let attribute = |id, value| sys::CUlaunchAttribute { id, pad: [0; 4], value };
        let mut attributes =
            Self { list: [attribute(IGNORE, sys::CUlaunchAttributeValue { pad: [0; 64] }); 3], count: 0 };
        let mut push = |id, value| {
            attributes.list[attributes.count as usize] = attribute(id, value);
            attributes.count += 1;
        };
        if launch.cooperative {
            push(COOPERATIVE, sys::CUlaunchAttributeValue { cooperative: 1 });
        }
        if launch.cluster != [1; 3] {
            let [x, y, z] = launch.cluster;
            let cluster_dim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            push(CLUSTER, sys::CUlaunchAttributeValue { clusterDim: cluster_dim });
        }
        if launch.early {
            push(EARLY, sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 });
        }
        attributes
    }

    /// Points into `self`, and is valid as long as `self`.
    fn configuration(&mut self, launch: &Launch, stream: Stream) -> sys::CUlaunchConfig {
        let ([x, y, z], [threads_x, threads_y, threads_z]) = (launch.grid, launch.block);
        sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: threads_x,
            blockDimY: threads_y,
            blockDimZ: threads_z,
            sharedMemBytes: launch.shared_bytes,
            hStream: stream.cast(),
            attrs: self.list.as_mut_ptr(),
            numAttrs: self.count,
        }
    }
}

fn check(call: &'static str, function: impl FnOnce() -> sys::CUresult) -> Result<(), Error> {
    match function() {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        result => Err(Error::Driver { call, result }),
    }
}
