//! Kernels in CUDA C++ on the CPU: sources that are written in the words of `kernels/device.cuh` are compiled by this
//! machine's C++ compiler, together with the emulator in `kernels/emulator`, and run in the thread that launches them. A
//! test's means: it finds wrong results and races, and never hangs.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `compiler` | the machine's C++ compiler: `HOSTDNN_CXX`, or `c++` |
//! | `cache` | what was compiled before: `HOSTDNN_KERNEL_CACHE`, or a folder of the user's among the temporary ones |
//!
//! With `HOSTDNN_SCHEDULE_SEED`, a number, threads take turns as that seed has it rather than in order: each loses some of
//! its turns, and some blocks most of theirs, so that what lacks a barrier shows.

mod cache;
mod compiler;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::LazyLock;

use cudnn_abi::*;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::{Error, Result, require};

/// CUDA C++ to compile.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// What the compiler's messages call it, such as `lstm.cu`.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// What `#include` finds, by name: `device.cuh` is among them where it is included.
    pub headers: &'a [(&'a str, &'a str)],
    /// Options. Those that define (`-DHIDDEN=64`) are taken; others are to NVRTC.
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
    is_adversarial: c_int,
    seed: u64,
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks: x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block: x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster: x, y, z. All ones where there are no clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// The schedule's, or none for turns in order.
    pub seed: Option<u64>,
}

impl Module {
    /// Compiles, or finds what was compiled before. Refused with CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING
    /// where there is no C++ compiler, and with CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED and the compiler's own words
    /// where it does not take the source.
    pub fn load(source: &Source) -> Result<Self> {
        let compiler = compiler::Compiler::of_process()?;
        let object = cache::Object::of(source, compiler)?;
        if let Some(path) = object.find()
            && let Ok(module) = Self::open(&path)
        {
            return Ok(module);
        }
        Self::open(&object.make(|folder, path| compiler.compile(source, folder, path))?)
    }

    /// Whether [`Self::load`] finds what was compiled before; refused as there, with
    /// CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING where it does not.
    pub fn find(source: &Source) -> Result {
        let found = cache::Object::of(source, compiler::Compiler::of_process()?)?.find();
        let missing = || {
            let reason = format!("{} was not compiled before with such options", source.name);
            Error::new(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING, reason)
        };
        found.map(drop).ok_or_else(missing)
    }

    fn open(path: &std::path::Path) -> Result<Self> {
        // SAFETY: an object that was compiled here; its constructors do nothing.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|why| Error::new(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, why.to_string()))?;
        Ok(Self { library })
    }

    /// A kernel, by its name.
    pub fn kernel(&self, name: &CStr) -> Result<&Kernel> {
        // SAFETY: only looked up; what it is of shows by its kind below, which no other symbol of an object begins with.
        let kernel = unsafe { self.library.get::<*const Kernel>(name.to_bytes_with_nul()) };
        let missing = || Error::new(CUDNN_STATUS_BAD_PARAM, format!("there is no kernel of the name {name:?}"));
        let kernel = kernel.map_err(|_| missing())?;
        // SAFETY: an object's exported symbols are its kernels, which live as long as the library.
        unsafe { Kernel::at(*kernel) }.map_err(|_| missing())
    }
}

impl Kernel {
    /// What the first field of every kernel is.
    const KIND: u32 = u32::from_ne_bytes(*b"hker");

    /// The kernel that a pointer of C's is to.
    ///
    /// # Safety
    /// Null, or it points to a kernel of a module that is loaded for as long as the reference is used.
    pub unsafe fn at<'a>(kernel: *const Self) -> Result<&'a Self> {
        require(!kernel.is_null(), "kernels are not null")?;
        // SAFETY: the caller's promise.
        unsafe {
            require((&raw const (*kernel).kind).read_unaligned() == Self::KIND, "a kernel of a loaded module")?;
            Ok(&*kernel)
        }
    }

    /// Runs it to its end, or refuses with CUDNN_STATUS_EXECUTION_FAILED and what was wrong: a deadlock, a launch that it
    /// is not made for, what the kernel itself found.
    ///
    /// # Safety
    /// `parameters` points to the struct that the kernel takes, and what that points to is as the kernel expects.
    pub unsafe fn launch(&self, launch: &Launch, parameters: *const c_void) -> Result {
        let Launch { grid, block, cluster, shared_bytes, seed } = *launch;
        let is_adversarial = seed.is_some().into();
        let request =
            Request { grid, block, cluster, shared_bytes, parameters, is_adversarial, seed: seed.unwrap_or(0) };
        let mut message = [0; 2048];
        // SAFETY: the object's own function, with a request that outlives the call and room for its words.
        let status = unsafe { (self.launch)(self, &request, message.as_mut_ptr(), message.len()) };
        if status == 0 {
            return Ok(());
        }
        // SAFETY: a C string where the launch did not succeed, and all zeros before.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
        Err(Error::new(CUDNN_STATUS_EXECUTION_FAILED, message))
    }
}

/// `HOSTDNN_SCHEDULE_SEED`.
pub fn seed_of_process() -> Option<u64> {
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
