//! Kernels of our own, CUDA C++ compiled at run time for the GPU at hand; on the host, for the CPU, if they are written
//! in the words of `kernels/common/device.cuh`.
//!
//! | file | contents |
//! | --- | --- |
//! | `launch` | the configuration of a launch, and the resources of a kernel |
//! | `module` | loaded code, its functions, launching them, on either |
//! | `driver` | on a GPU: CUDA's driver |
//! | `emulated` | on the host: hostdnn, which compiles by the machine's C++ compiler and runs the result |
//! | `nvrtc` | the compiler: NVRTC, found and loaded at the first use |
//! | `places` | where an NVRTC may be |
//! | `cubins` | compiled code on disk |
//! | `side_by_side` | compiling on all processors, where a caller waits |
//! | [`loaded`] | the loaded code of each device, found again while it is used |
//!
//! ```ignore
//! let scale = Source {
//!     name: "scale.cu".into(),
//!     text: r#"
//!         #define THREADS 256
//!         #include "common/device.cuh"
//!         struct Scale { float *x; int n; float by; };
//!         KERNEL(scale, Scale) {
//!             const int i = blockIdx.x * THREADS + threadIdx.x;
//!             if (i < parameters.n) parameters.x[i] *= parameters.by;
//!         }"#
//!     .into(),
//!     headers: Cow::Owned(vec![("common/device.cuh".into(), include_str!("…/kernels/common/device.cuh").into())]),
//!     options: vec![],
//! };
//! let scale = device.load(&scale)?.function(c"scale")?;
//! let launch = Launch { grid: [n.div_ceil(256), 1, 1], block: [256, 1, 1], ..Launch::default() };
//! let mut parameters = Scale { x: buffer.data(), n: n as i32, by: 2.0 }; // of the same #[repr(C)]
//! // SAFETY: the kernel's own parameters, and a buffer of n floats.
//! unsafe { scale.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }?;
//! ```

mod cubins;
mod driver;
mod emulated;
mod launch;
pub mod loaded;
mod module;
mod nvrtc;
pub(super) mod places;
mod side_by_side;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use cudarc::driver::sys::CUresult;
use kernels::KernelSource;
use parking_lot::Mutex;

use super::Device;
use guest::settings::{self, Fault};
pub use launch::{Launch, Resources};
use module::OnDevice;
pub use module::{Function, Module};
pub use nvrtc::Nvrtc;

/// CUDA C++ to compile.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file name in the compiler's messages, such as `lstm.cu`.
    pub name: Text,
    /// The text. Kernels that are looked up by name are `extern "C"`.
    pub text: Text,
    /// The headers for `#include`, by name; nothing is read from disk.
    pub headers: Cow<'static, [(Text, Text)]>,
    /// NVRTC options in addition to those of every source, such as `-DHIDDEN=64`.
    pub options: Vec<String>,
}

/// A text that is built in, or made while the program runs.
pub type Text = Cow<'static, str>;

impl Source {
    /// A source of `kernels/`, with options.
    pub fn new(source: &KernelSource, options: Vec<String>) -> Self {
        let headers = source.headers.iter().map(|&(name, text)| (name.into(), text.into())).collect();
        Self { name: source.name.into(), text: source.text.into(), headers, options }
    }
}

/// Why code was not compiled, loaded or launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// hostdnn refused a call, or the kernel failed on the CPU.
    Host {
        /// hostdnn's function.
        call: &'static str,
        /// hostdnn's error message.
        why: String,
    },
    /// There is no driver, the driver is too old, or it does not know the calling thread's device.
    NoDriver(String),
    /// No NVRTC suits the driver's version and knows the device; on the host, there is no C++ compiler.
    NoCompiler(String),
    /// The compiler rejected the source.
    Compilation {
        /// The source's name.
        name: Text,
        /// The compiler's log.
        log: String,
    },
    /// The driver refused a call.
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The driver's result.
        result: CUresult,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Host { call, why } => write!(formatter, "{call} failed: {why}"),
            Self::NoDriver(why) | Self::NoCompiler(why) => write!(formatter, "{why}"),
            Self::Compilation { name, log } => write!(formatter, "{name} does not compile: {}", log.trim_end()),
            Self::Driver { call, result } => write!(formatter, "{call} answered {result:?}"),
        }
    }
}

impl std::error::Error for Error {}

impl Device {
    /// Loads compiled code on the calling thread's current device: from disk if it was compiled before, and else from
    /// the compiler, which takes a tenth of a second or more. Never call it for a stream that is being captured;
    /// captures of other threads continue.
    pub fn load(self, source: &Source) -> Result<Module, Error> {
        match self {
            Self::Host => emulated::load(source).map(|module| Module(OnDevice::Host(module))),
            Self::Cuda => driver::load(source).map(|module| Module(OnDevice::Cuda(module))),
        }
    }

    /// Compiles for the calling thread's current device, so that [`Self::load`] is fast. The compiler takes none of the
    /// driver's locks: launches of other threads continue.
    pub fn compile(self, source: &Source) -> Result<(), Error> {
        self.compile_on(self.ordinal(), source)
    }

    /// The same for the device of this number. The calling thread needs no context.
    fn compile_on(self, ordinal: i32, source: &Source) -> Result<(), Error> {
        match self {
            Self::Host => emulated::load(source).map(drop),
            Self::Cuda => driver::compile(source, ordinal),
        }
    }

    /// Compiles on all processors, for the calling thread's current device, so that [`Self::load`] is fast. A source that
    /// does not compile fails when it is loaded. `each` is called on this thread after each source, with the number of those
    /// that remain. If it fails, no more begin, and this fails likewise.
    pub fn compile_all<E>(self, sources: &[Source], each: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        let ordinal = self.ordinal();
        let compile = |source: &Source| {
            // For code on disk, compiling would read it, and loading reads it again.
            if !self.is_compiled_on(ordinal, source) {
                let _ = self.compile_on(ordinal, source);
            }
        };
        side_by_side::all(sources, compile, each)
    }

    /// Returns whether the code for the calling thread's current device was compiled before, so that [`Self::load`] is fast.
    pub fn is_compiled(self, source: &Source) -> bool {
        self.is_compiled_on(self.ordinal(), source)
    }

    fn is_compiled_on(self, ordinal: i32, source: &Source) -> bool {
        match self {
            Self::Host => emulated::is_compiled(source),
            Self::Cuda => driver::is_compiled(source, ordinal),
        }
    }
}

/// The code for a device of this compute capability (90 for 9.0): a cubin, or PTX if the compiler does not know the
/// device yet.
fn image(source: &Source, capability: u32, driver: i32) -> Result<Vec<u8>, Error> {
    let fault = &settings::get().fault;
    if *fault == Some(Fault::Compiler) {
        return Err(Error::NoCompiler("UCUDNN_FAULT asked for no compiler".into()));
    }
    let (compiler, architecture, key) = compiler_and_key(source, capability, driver)?;
    let cubins = cubins::Cubins::of_process();
    if let Some(image) = COMPILED.lock().get(&key) {
        return Ok(image.clone());
    }
    if let Some(image) = cubins.and_then(|cubins| cubins.find(&key)) {
        return Ok(image);
    }
    if *fault == Some(Fault::Compilation) {
        return Err(Error::Compilation { name: source.name.clone(), log: "UCUDNN_FAULT asked for a failure".into() });
    }
    // A source that did not compile once never will, and trying takes a tenth of a second.
    static REJECTED: Mutex<BTreeMap<cubins::Key, Error>> = Mutex::new(BTreeMap::new());
    if let Some(error) = REJECTED.lock().get(&key) {
        return Err(error.clone());
    }
    let image = compiler.compile(source, &architecture).inspect_err(|error| {
        if matches!(error, Error::Compilation { .. }) {
            REJECTED.lock().insert(key, error.clone());
        }
    })?;
    let is_kept = cubins.is_some_and(|cubins| cubins.keep(&key, &image));
    if !is_kept {
        let mut compiled = COMPILED.lock();
        if compiled.len() >= MOST_COMPILED {
            compiled.clear();
        }
        compiled.insert(key, image.clone());
    }
    Ok(image)
}

/// The most images in [`COMPILED`]: those of some networks, which are a few MiB.
const MOST_COMPILED: usize = 64;
/// Code that was compiled and is not on disk.
static COMPILED: Mutex<BTreeMap<cubins::Key, Vec<u8>>> = Mutex::new(BTreeMap::new());

fn compiler_and_key(
    source: &Source,
    capability: u32,
    driver: i32,
) -> Result<(&'static nvrtc::Nvrtc, nvrtc::Architecture, cubins::Key), Error> {
    let compiler = nvrtc::Nvrtc::of_process(driver)?;
    let architecture = compiler.architecture(capability)?;
    let key = cubins::Key::new(source, compiler.version(), &architecture);
    Ok((compiler, architecture, key))
}

/// Returns whether [`image`] need not compile.
fn has_image(source: &Source, capability: u32, driver: i32) -> bool {
    let key = compiler_and_key(source, capability, driver).map(|(_, _, key)| key);
    key.is_ok_and(|key| {
        COMPILED.lock().contains_key(&key) || cubins::Cubins::of_process().is_some_and(|cubins| cubins.has(&key))
    })
}
