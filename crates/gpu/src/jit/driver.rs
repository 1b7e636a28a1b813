//! Kernels on a GPU: compiled code in CUDA's driver.
//!
//! It is loaded as a `CUlibrary`, which belongs to no context: a program that resets its device leaves nothing here
//! that dangles, and a kernel's handle is valid in every context of the device.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute};

use super::super::{Stream, cuda};
use super::{Error, Launch, Resources, Source, has_image, image};

/// The first driver with all that is called here.
const OLDEST_DRIVER: i32 = 12_000;

/// Compiled code, loaded on the device that was current then.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    library: sys::CUlibrary,
    device: sys::CUdevice,
    /// Launches of it may begin before what is in front of them has ended.
    can_begin_early: bool,
    /// A CUDA graph may hold a launch of it, for longer than we know: it is never unloaded.
    is_captured: AtomicBool,
}

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !self.is_captured.load(Ordering::Relaxed) {
            // SAFETY: loaded once, unloaded once. The driver refuses once the process is being torn down.
            cuda::relaxed(|| unsafe { sys::cuLibraryUnload(self.library) });
        }
    }
}

/// A kernel of a module, which it keeps loaded.
#[derive(Clone)]
pub struct Function {
    module: Module,
    kernel: sys::CUkernel,
}

// SAFETY: as `Loaded`.
unsafe impl Send for Function {}
// SAFETY: as `Loaded`.
unsafe impl Sync for Function {}

pub fn load(source: &Source) -> Result<Module, Error> {
    let driver = cuda::driver_version();
    if driver < OLDEST_DRIVER {
        let (major, minor) = (driver / 1000, driver % 1000 / 10);
        return Err(Error::NoDriver(match driver {
            0 => "there is no CUDA driver".into(),
            _ => format!("kernels take a driver of CUDA 12.0 or newer, and this one is of {major}.{minor}"),
        }));
    }
    let ordinal = cuda::ordinal();
    // The context that CUDA's runtime would use, where the thread has none; captures in other threads go on.
    let entered = cuda::Entered::new(ordinal);
    let (Some(_entered), Some(capability)) = (entered, cuda::compute_capability(ordinal)) else {
        return Err(Error::NoDriver(format!("device {ordinal} has no context or no compute capability")));
    };
    let image = image(source, capability, driver)?;
    let mut library = null_mut();
    check("cuLibraryLoadData", || {
        // SAFETY: a cubin, or PTX that ends in a zero, of which the driver keeps a copy; no options.
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

/// Whether [`load`] finds it on disk.
pub fn is_compiled(source: &Source) -> bool {
    let capability = cuda::compute_capability(cuda::ordinal());
    capability.is_some_and(|capability| has_image(source, capability, cuda::driver_version()))
}

impl Module {
    /// A kernel, by its `extern "C"` name. It is made ready to run in the calling thread's context, so that the
    /// first launch may be captured.
    pub fn function(&self, name: &CStr) -> Result<Function, Error> {
        let mut kernel = null_mut();
        // SAFETY: a live library; writes one kernel.
        check("cuLibraryGetKernel", || unsafe { sys::cuLibraryGetKernel(&mut kernel, self.0.library, name.as_ptr()) })?;
        let _entered = cuda::Entered::new(self.0.device);
        let mut function = null_mut();
        // SAFETY: a live kernel; writes one function, which only says that all is loaded.
        check("cuKernelGetFunction", || unsafe { sys::cuKernelGetFunction(&mut function, kernel) })?;
        Ok(Function { module: self.clone(), kernel })
    }
}

impl Function {
    /// Launches on a stream of the module's device. Allocates nothing and waits for nothing; may be captured into a
    /// CUDA graph, after which the module is never unloaded, since the graph may be launched whenever.
    ///
    /// # Safety
    /// `arguments` point to one value for each of the kernel's parameters, of their types; what those point to is as
    /// the kernel expects.
    pub unsafe fn launch(&self, stream: Stream, launch: &Launch, arguments: &mut [*mut c_void]) -> Result<(), Error> {
        let loaded = &self.module.0;
        let may_begin_early = launch.early && loaded.can_begin_early;
        let is_captured = loaded.is_captured.load(Ordering::Relaxed);
        let is_capturing = (may_begin_early || !is_captured) && cuda::is_capturing(stream);
        if is_capturing && !is_captured {
            loaded.is_captured.store(true, Ordering::Relaxed);
        }
        // A capture would keep what only newer drivers and programs know how to ask for.
        let launch = &Launch { early: may_begin_early && !is_capturing, ..*launch };
        let mut attributes = Attributes::of(launch);
        let configuration = attributes.configuration(launch, stream);
        // SAFETY: the arguments are the caller's promise; the attributes live until the call returns.
        check("cuLaunchKernelEx", || unsafe {
            sys::cuLaunchKernelEx(&configuration, self.raw(), arguments.as_mut_ptr(), null_mut())
        })
    }

    /// What the compiler made it need.
    pub fn resources(&self) -> Result<Resources, Error> {
        let get = |attribute| {
            let mut value = 0;
            // SAFETY: a live kernel; writes one number.
            check("cuKernelGetAttribute", || unsafe {
                sys::cuKernelGetAttribute(&mut value, attribute, self.kernel, self.module.0.device)
            })?;
            Ok(value.max(0) as u32)
        };
        Ok(Resources {
            registers: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            shared_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            threads: get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }

    /// How many blocks of so many threads and so much dynamic shared memory, in bytes, one multiprocessor of the
    /// calling thread's device holds at once. Those of other programs, and kernels that run now, are not counted.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, Error> {
        let mut blocks = 0;
        let threads = threads as c_int;
        // SAFETY: a live kernel; writes one number.
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", || unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.raw(), threads, shared_bytes as usize)
        })?;
        Ok(blocks.max(0) as u32)
    }

    /// How many of a launch's clusters the calling thread's device holds at once. 0 for one without clusters.
    pub fn resident_clusters(&self, launch: &Launch) -> Result<u32, Error> {
        let mut clusters = 0;
        let mut attributes = Attributes::of(launch);
        let configuration = attributes.configuration(launch, null_mut());
        // SAFETY: a live kernel, and attributes that live until the call returns; writes one number.
        check("cuOccupancyMaxActiveClusters", || unsafe {
            sys::cuOccupancyMaxActiveClusters(&mut clusters, self.raw(), &configuration)
        })?;
        Ok(clusters.max(0) as u32)
    }

    /// Lets launches take this much dynamic shared memory, in bytes a block: up to what the device's blocks may opt
    /// in to, less the static. Refused beyond it.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), Error> {
        self.set(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as c_int)
    }

    /// Lets launches have clusters of more than 8 blocks, which not every device holds.
    pub fn allow_large_clusters(&self) -> Result<(), Error> {
        self.set(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
    }

    fn set(&self, attribute: Attribute, value: c_int) -> Result<(), Error> {
        // SAFETY: a live kernel.
        check("cuKernelSetAttribute", || unsafe {
            sys::cuKernelSetAttribute(attribute, value, self.kernel, self.module.0.device)
        })
    }

    /// The driver takes a kernel where it takes a function, and the stream's or thread's context with it.
    fn raw(&self) -> sys::CUfunction {
        self.kernel.cast()
    }
}

/// A launch's attributes, on the caller's stack.
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

    /// Valid as long as `self`, to which it points.
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
