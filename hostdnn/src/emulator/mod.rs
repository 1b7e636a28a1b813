//! GPU kernels in CUDA C++ on the CPU. This machine's C++ compiler compiles sources that use the names of
//! `kernels/common/device.cuh`, together with the emulator in `kernels/emulator`, and the launching thread runs them. It
//! is for tests: it finds wrong results and races, and never hangs.
//!
//! | file | contents |
//! | --- | --- |
//! | `compiler` | the machine's C++ compiler: `HOSTDNN_CXX`, or `c++` |
//! | `cache` | earlier objects: in `HOSTDNN_KERNEL_CACHE`, or a folder of the user's among the temporary files |
//! | `stacks` | memory for the stacks of a launch's threads |
//!
//! With `HOSTDNN_SCHEDULE_SEED`, a number, threads take turns in an order from that seed: each thread loses some turns,
//! and some blocks lose most turns, which exposes missing barriers.

mod cache;
mod compiler;
mod stacks;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cudnn_abi::*;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::clock;
use crate::error::{Error, Result, require};

/// CUDA C++ to compile.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// The name in the compiler's messages, such as `lstm.cu`.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// The files that `#include` finds, by name; `device.cuh` must be among them if it is included.
    pub headers: &'a [(&'a str, &'a str)],
    /// Options. Only definitions (`-DHIDDEN=64`) are used; others are for NVRTC.
    pub options: &'a [&'a str],
}

/// Compiled kernels, unloaded when dropped.
pub struct Module {
    library: Library,
}

/// One kernel of a module, as `kernels/emulator/schedule.h` has it.
#[repr(C)]
pub struct Kernel {
    kind: u32,
    threads: u32,
    name: *const c_char,
    run: unsafe extern "C" fn(*const c_void),
    launch: unsafe extern "C" fn(*const Self, *const Request, *mut c_char, usize) -> c_int,
}

/// A launch, as `kernels/emulator/schedule.h` has it.
#[repr(C)]
struct Request {
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    shared_bytes: usize,
    parameters: *const c_void,
    stacks: extern "C" fn(usize) -> stacks::Stacks,
    is_adversarial: c_int,
    seed: u64,
}

/// The multiply-adds for which the clock counts each thread of a launch. What a kernel does is not known.
const OF_A_THREAD: f64 = 100.0;

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks: x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block: x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster: x, y, z. All 1 without clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// The schedule's seed; `None` for turns in order.
    pub seed: Option<u64>,
}

impl Module {
    /// Compiles a source, or finds an earlier object. Fails with
    /// CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING if there is no C++ compiler, and with
    /// CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED and the compiler's messages if it rejects the source.
    pub fn load(source: &Source) -> Result<Self> {
        let compiler = compiler::Compiler::of_process()?;
        let object = cache::Object::of(source, compiler)?;
        if let Some(path) = object.find()
            && let Ok(module) = Self::open(&path)
        {
            return Ok(module);
        }
        let emulator = cache::Object::of_emulator(compiler)?;
        let emulator = match emulator.find() {
            Some(path) => path,
            None => emulator.make(|folder, path| compiler.compile_emulator(folder, path))?,
        };
        Self::open(&object.make(|folder, path| compiler.compile(source, &emulator, folder, path))?)
    }

    /// Succeeds if [`Self::load`] would find an earlier object; otherwise fails with
    /// CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING.
    pub fn find(source: &Source) -> Result {
        let found = cache::Object::of(source, compiler::Compiler::of_process()?)?.find();
        let missing = || {
            let reason = format!("{} was not compiled before with such options", source.name);
            Error::new(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING, reason)
        };
        found.map(drop).ok_or_else(missing)
    }

    fn open(path: &std::path::Path) -> Result<Self> {
        // SAFETY: the object was compiled here; its constructors do nothing.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|why| Error::new(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, why.to_string()))?;
        Ok(Self { library })
    }

    /// A kernel, by its name.
    pub fn kernel(&self, name: &CStr) -> Result<&Kernel> {
        // SAFETY: only a look-up; `Kernel::at` checks the symbol's kind, and no other symbol begins with that.
        let kernel = unsafe { self.library.get::<*const Kernel>(name.to_bytes_with_nul()) };
        let missing = || Error::new(CUDNN_STATUS_BAD_PARAM, format!("there is no kernel of the name {name:?}"));
        let kernel = kernel.map_err(|_| missing())?;
        // SAFETY: an object's exported symbols are its kernels, which live as long as the library.
        unsafe { Kernel::at(*kernel) }.map_err(|_| missing())
    }
}

impl Kernel {
    /// The first field of every kernel.
    const KIND: u32 = u32::from_ne_bytes(*b"hker");

    /// The kernel behind a pointer from C.
    ///
    /// # Safety
    /// The pointer is null or to a kernel of a module that stays loaded while the reference is used.
    pub unsafe fn at<'a>(kernel: *const Self) -> Result<&'a Self> {
        require(!kernel.is_null(), "kernels are not null")?;
        // SAFETY: the caller's promise.
        unsafe {
            require((&raw const (*kernel).kind).read_unaligned() == Self::KIND, "a kernel of a loaded module")?;
            Ok(&*kernel)
        }
    }

    /// Runs the kernel to its end. Fails with CUDNN_STATUS_EXECUTION_FAILED and the reason: a deadlock, a launch that
    /// the kernel was not made for, or an error that the kernel found.
    ///
    /// # Safety
    /// `parameters` points to the kernel's struct, and the pointers in it are valid for the kernel's accesses.
    pub unsafe fn launch(&self, launch: &Launch, parameters: *const c_void) -> Result {
        let Launch { grid, block, cluster, shared_bytes, seed } = *launch;
        let is_adversarial = seed.is_some().into();
        let (seed, stacks) = (seed.unwrap_or(0), stacks::stacks);
        let request = Request { grid, block, cluster, shared_bytes, parameters, stacks, is_adversarial, seed };
        let mut message = [0; 2048];
        // SAFETY: the function is the object's own; the request outlives the call; the message has the given length.
        let status = unsafe { (self.launch)(self, &request, message.as_mut_ptr(), message.len()) };
        stacks::release();
        if status == 0 {
            clock::count(|| OF_A_THREAD * grid.iter().chain(&block).map(|&extent| f64::from(extent)).product::<f64>());
            return Ok(());
        }
        // SAFETY: a failed launch wrote a C string; the buffer was all zeros before.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
        Err(Error::new(CUDNN_STATUS_EXECUTION_FAILED, message))
    }
}

/// The seed of the process's next launch, from `HOSTDNN_SCHEDULE_SEED`: kernels that are launched many times have another
/// order each time.
pub fn next_seed() -> Option<u64> {
    static LAUNCHES: AtomicU64 = AtomicU64::new(0);
    let seed = seed_of_process()?;
    Some(seed.wrapping_add(LAUNCHES.fetch_add(1, Ordering::Relaxed) << 32))
}

fn seed_of_process() -> Option<u64> {
    static SEED: LazyLock<Option<u64>> = LazyLock::new(|| {
        let text = std::env::var("HOSTDNN_SCHEDULE_SEED").ok()?;
        let seed = text.trim().parse().ok();
        if seed.is_none() {
            eprintln!(
                "hostdnn: HOSTDNN_SCHEDULE_SEED={text:?} is not understood: it takes a number; threads take turns in order"
            );
        }
        seed
    });
    *SEED
}
