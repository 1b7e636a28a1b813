//! Kernels on the host: the host's C++ compiler compiles them; hostdnn runs them on the CPU, in the launching thread.

use std::ffi::{CStr, CString, NulError, c_char, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudnn_abi::*;
use once_cell::sync::Lazy;

use super::launch::Launch;
use super::{Error, Source};
use crate::functions::functions;
use crate::host;
use guest::settings::{self, Fault};

/// The most threads of a block, as on a GPU.
pub const MOST_IN_A_BLOCK: u32 = 1024;

/// The most threads alive at once, as in `kernels/emulator/schedule.cpp`.
const MOST_THREADS: u32 = 1 << 15;

/// The number of blocks with `threads` threads that each multiprocessor holds at once.
pub fn resident_blocks(threads: u32) -> u32 {
    (MOST_THREADS / host::MULTIPROCESSORS).checked_div(threads).unwrap_or(0)
}

/// The number of the launch's clusters that the host holds at once; 0 without clusters.
pub fn resident_clusters(launch: &Launch) -> u32 {
    let [blocks, threads] = [launch.cluster, launch.block].map(|sizes| sizes.into_iter().product::<u32>());
    if blocks == 1 { 0 } else { MOST_THREADS.checked_div(blocks * threads).unwrap_or(0) }
}

functions! {
    /// The source; the module; the log and its size in bytes.
    load = c"hostdnnLoadKernels": fn(
        *const hostdnnKernelSource_t, *mut *mut c_void, *mut c_char, usize
    ) -> cudnnStatus_t;
    find = c"hostdnnFindKernels": fn(*const hostdnnKernelSource_t) -> cudnnStatus_t;
    get = c"hostdnnGetKernel": fn(*mut c_void, *const c_char, *mut *mut c_void) -> cudnnStatus_t;
    /// Kernel, grid, block, cluster, bytes of dynamic shared memory, arguments.
    run = c"hostdnnLaunchKernel": fn(
        *mut c_void, *const c_uint, *const c_uint, *const c_uint, usize, *mut *mut c_void
    ) -> cudnnStatus_t;
    unload = c"hostdnnUnloadKernels": fn(*mut c_void) -> cudnnStatus_t;
    explain = c"cudnnGetLastErrorString": fn(*mut c_char, usize);
}

// SAFETY: hostdnn's header declares the functions with these types.
static FUNCTIONS: Lazy<Option<Functions>> = Lazy::new(|| unsafe { Functions::of(host::address_of) }.ok());

impl Functions {
    /// Turns a failed status into an error with hostdnn's message.
    fn check(&self, call: &'static str, status: cudnnStatus_t) -> Result<(), Error> {
        if status == CUDNN_STATUS_SUCCESS {
            return Ok(());
        }
        let mut why: [c_char; 4096] = [0; _];
        // SAFETY: writes a C string of at most `why.len()` bytes.
        unsafe { (self.explain)(why.as_mut_ptr(), why.len()) };
        Err(Error::Host { call, why: text(&why) })
    }
}

/// The C string in an array.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Compiled code.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    functions: &'static Functions,
    module: *mut c_void,
}

// SAFETY: hostdnn allows the use of its modules from any thread.
unsafe impl Send for Loaded {}
// SAFETY: hostdnn allows concurrent calls with one module.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: `load` loaded the module. Only this drop unloads it, after its last function is gone.
        unsafe { (self.functions.unload)(self.module) };
    }
}

/// A kernel, which keeps its module loaded.
#[derive(Clone)]
pub struct Function {
    module: Module,
    kernel: *mut c_void,
}

// SAFETY: hostdnn allows the use of its kernels from any thread.
unsafe impl Send for Function {}
// SAFETY: hostdnn allows concurrent calls with one kernel.
unsafe impl Sync for Function {}

pub fn load(source: &Source) -> Result<Module, Error> {
    match settings::get().fault {
        Some(Fault::Compiler) => return Err(Error::NoCompiler("UCUDNN_FAULT asked for no compiler".into())),
        Some(Fault::Compilation) => {
            return Err(Error::Compilation {
                name: source.name.clone(),
                log: "UCUDNN_FAULT asked for a failure".into(),
            });
        }
        _ => {}
    }
    let none = || Error::NoCompiler("the loaded cuDNN computes on no GPU, and runs no kernels".into());
    let functions = FUNCTIONS.as_ref().ok_or_else(none)?;
    let failed = |log| Error::Compilation { name: source.name.clone(), log };
    let strings = Strings::of(source).map_err(|_| failed("a zero byte stands in it".into()))?;
    let (mut module, mut log): (_, [c_char; 8192]) = (null_mut(), [0; _]);
    // SAFETY: the source outlives the call; `module` and `log` receive what the call writes.
    let status = unsafe { (functions.load)(&strings.source(), &mut module, log.as_mut_ptr(), log.len()) };
    match status {
        CUDNN_STATUS_SUCCESS => Ok(Module(Arc::new(Loaded { functions, module }))),
        CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING => Err(Error::NoCompiler(text(&log))),
        _ => Err(failed(text(&log))),
    }
}

/// Returns whether the source was compiled before.
pub fn is_compiled(source: &Source) -> bool {
    let (Some(functions), Ok(strings)) = (FUNCTIONS.as_ref(), Strings::of(source)) else { return false };
    // SAFETY: the source outlives the call.
    let status = unsafe { (functions.find)(&strings.source()) };
    status == CUDNN_STATUS_SUCCESS
}

/// A source as C strings.
struct Strings {
    /// The source's name and text.
    own: [CString; 2],
    names: Vec<*const c_char>,
    headers: Vec<*const c_char>,
    options: Vec<*const c_char>,
    /// The strings that the pointers lead to.
    _kept: Vec<CString>,
}

impl Strings {
    fn of(source: &Source) -> Result<Self, NulError> {
        let mut kept = Vec::new();
        let mut pointers = |texts: &mut dyn Iterator<Item = &str>| {
            let strings = texts.map(CString::new).collect::<Result<Vec<_>, _>>()?;
            let pointers = strings.iter().map(|string| string.as_ptr()).collect();
            kept.extend(strings);
            Ok(pointers)
        };
        let names = pointers(&mut source.headers.iter().map(|header| &*header.0))?;
        let headers = pointers(&mut source.headers.iter().map(|header| &*header.1))?;
        let options = pointers(&mut source.options.iter().map(String::as_str))?;
        Ok(Self {
            own: [CString::new(&*source.name)?, CString::new(&*source.text)?],
            names,
            headers,
            options,
            _kept: kept,
        })
    }

    /// The source for hostdnn, valid as long as `self`.
    fn source(&self) -> hostdnnKernelSource_t {
        let [name, text] = self.own.each_ref().map(|string| string.as_ptr());
        hostdnnKernelSource_t {
            name,
            text,
            headerNames: self.names.as_ptr(),
            headerTexts: self.headers.as_ptr(),
            headerCount: self.names.len(),
            options: self.options.as_ptr(),
            optionCount: self.options.len(),
        }
    }
}

impl Module {
    pub fn function(&self, name: &CStr) -> Result<Function, Error> {
        let Loaded { functions, module } = *self.0;
        let mut kernel = null_mut();
        // SAFETY: `self` keeps the module loaded, and `name` is a C string; writes one pointer.
        functions.check("hostdnnGetKernel", unsafe { (functions.get)(module, name.as_ptr(), &mut kernel) })?;
        Ok(Function { module: self.clone(), kernel })
    }
}

impl Function {
    /// # Safety
    /// As for [`super::Function::launch`].
    pub unsafe fn launch(&self, launch: &Launch, arguments: &mut [*mut c_void]) -> Result<(), Error> {
        #[cfg(any(test, feature = "testing"))]
        crate::testing::emulated::count_launch();
        let functions = self.module.0.functions;
        let Launch { grid, block, cluster, shared_bytes, .. } = launch;
        let (grid, block, cluster) = (grid.as_ptr(), block.as_ptr(), cluster.as_ptr());
        // SAFETY: `self` keeps the kernel loaded; each size has three numbers; the caller promises the arguments.
        functions.check("hostdnnLaunchKernel", unsafe {
            (functions.run)(self.kernel, grid, block, cluster, *shared_bytes as usize, arguments.as_mut_ptr())
        })
    }
}
