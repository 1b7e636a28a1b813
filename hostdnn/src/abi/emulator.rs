//! GPU kernels in CUDA C++, compiled for the CPU and run there. On a GPU, CUDA's driver and NVRTC do this; the real
//! cuDNN has no such functions.

use super::boundary::{create_of, destroy, read_array, refer, write};
use crate::emulator::{Kernel, Launch, Module, Source, next_seed};
use crate::error::{Error, Result, require};
use cudnn_abi::*;
use std::ffi::{CStr, c_char, c_uint, c_void};

/// Compiles a source with this machine's C++ compiler (`HOSTDNN_CXX`, or `c++`), or finds an earlier object (in
/// `HOSTDNN_KERNEL_CACHE`, or among the temporary files). On failure, `log` gets the reason with the compiler's output,
/// if it is not null: at most `log_bytes` with the final 0. CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING if
/// there is no compiler, CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED if it rejects the source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnLoadKernels(
    source: *const hostdnnKernelSource_t,
    module: *mut *mut c_void,
    log: *mut c_char,
    log_bytes: usize,
) -> cudnnStatus_t {
    export!(hostdnnLoadKernels, {
        // SAFETY: null, or a source, and places to write to, by this function's contract.
        unsafe {
            require(!module.is_null(), "pointers to results are not null")?;
            let texts = Texts::of(source)?;
            let loaded = Module::load(&texts.source()).inspect_err(|error| say(&error.reason, log, log_bytes))?;
            create_of(loaded, module)
        }
    })
}

/// CUDNN_STATUS_SUCCESS if this source was compiled before, so that loading it compiles nothing; otherwise
/// CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnFindKernels(source: *const hostdnnKernelSource_t) -> cudnnStatus_t {
    // SAFETY: null or a source by this function's contract.
    export!(hostdnnFindKernels, { unsafe { Module::find(&Texts::of(source)?.source()) } })
}

/// The kernel of a module with this name; valid until the module is unloaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnGetKernel(
    module: *mut c_void,
    name: *const c_char,
    kernel: *mut *mut c_void,
) -> cudnnStatus_t {
    export!(hostdnnGetKernel, {
        // SAFETY: null, or a live module, a C string and a place to write to, by this function's contract.
        unsafe {
            require(!name.is_null(), "names are not null")?;
            let found: *const Kernel = refer::<Module>(module)?.kernel(CStr::from_ptr(name))?;
            write(kernel, found.cast_mut().cast())
        }
    })
}

/// Runs a kernel to its end, in the calling thread. `grid` and `block` are three numbers each: blocks, and threads of a
/// block. `cluster` is null, or three numbers: blocks of a cluster, 16 at most. A block has `shared_bytes` of dynamic
/// shared memory. `arguments[0]` points to the kernel's parameters. `HOSTDNN_SCHEDULE_SEED` determines the order of
/// threads. CUDNN_STATUS_EXECUTION_FAILED on a deadlock, or if the kernel itself fails: `cudnnGetLastErrorString` says
/// which threads wait where.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnLaunchKernel(
    kernel: *mut c_void,
    grid: *const c_uint,
    block: *const c_uint,
    cluster: *const c_uint,
    shared_bytes: usize,
    arguments: *mut *mut c_void,
) -> cudnnStatus_t {
    export!(hostdnnLaunchKernel, {
        // SAFETY: null, or a kernel of a loaded module, three numbers each and its parameters, by this function's contract.
        unsafe {
            let kernel = Kernel::at(kernel.cast())?;
            let cluster = if cluster.is_null() { [1; 3] } else { three(cluster)? };
            let parameters = read_array(arguments, 1)?[0];
            require(!parameters.is_null(), "a kernel's parameters are not null")?;
            let (grid, block, seed) = (three(grid)?, three(block)?, next_seed());
            let launch = Launch { grid, block, cluster, shared_bytes, seed };
            kernel.launch(&launch, parameters)
        }
    })
}

/// Unloads a module. The caller no longer runs or launches its kernels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hostdnnUnloadKernels(module: *mut c_void) -> cudnnStatus_t {
    // SAFETY: null or a live module by this function's contract.
    export!(hostdnnUnloadKernels, { unsafe { destroy::<Module>(module) } })
}

/// # Safety
/// The pointer is null, or valid for reads of three numbers.
unsafe fn three(numbers: *const c_uint) -> Result<[u32; 3]> {
    // SAFETY: the caller's promise.
    let numbers = unsafe { read_array(numbers, 3) }?;
    Ok([numbers[0], numbers[1], numbers[2]])
}

/// A source's texts.
struct Texts<'a> {
    name: &'a str,
    text: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    options: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    /// # Safety
    /// The pointer is null or to a source, whose strings live as long as the result.
    unsafe fn of(source: *const hostdnnKernelSource_t) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let source = read_array(source, 1)?[0];
            let names = texts(source.headerNames, source.headerCount)?;
            let headers = names.into_iter().zip(texts(source.headerTexts, source.headerCount)?).collect();
            let options = texts(source.options, source.optionCount)?;
            Ok(Self { name: string(source.name)?, text: string(source.text)?, headers, options })
        }
    }

    fn source(&self) -> Source<'_> {
        Source { name: self.name, text: self.text, headers: &self.headers, options: &self.options }
    }
}

/// # Safety
/// The pointer is null or to a C string that lives as long as the result.
unsafe fn string<'a>(text: *const c_char) -> Result<&'a str> {
    require(!text.is_null(), "texts are not null")?;
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::new(CUDNN_STATUS_BAD_PARAM, "violated: texts are UTF-8"))
}

/// # Safety
/// The array has `count` C strings that live as long as the result; it may be null if `count` is 0.
unsafe fn texts<'a>(texts: *const *const c_char, count: usize) -> Result<Vec<&'a str>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    unsafe { read_array(texts, count)?.iter().map(|&text| string(text)).collect() }
}

/// # Safety
/// The pointer is null or valid for writes of `log_bytes` bytes.
unsafe fn say(text: &str, log: *mut c_char, log_bytes: usize) {
    if log.is_null() || log_bytes == 0 {
        return;
    }
    let length = text.len().min(log_bytes - 1);
    // SAFETY: the caller's promise.
    unsafe {
        log.copy_from_nonoverlapping(text.as_ptr().cast(), length);
        log.add(length).write(0);
    }
}
