//! PyTorch's request for determinism, read from libtorch where the process has loaded it.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use libloading::os::unix::Library;

use crate::loaded::{Looks, opened};

/// The file that holds libtorch's global context.
const FILE: &str = "libtorch_cpu.so";
/// `at::Context& at::globalContext()`.
const CONTEXT: &CStr = c"_ZN2at13globalContextEv";
/// `bool at::Context::deterministicAlgorithms() const` and `bool at::Context::deterministicCuDNN() const`.
const REQUESTS: [&CStr; 2] = [c"_ZNK2at7Context23deterministicAlgorithmsEv", c"_ZNK2at7Context18deterministicCuDNNEv"];

type Context = unsafe extern "C" fn() -> *const c_void;
/// A C++ `bool` is a byte, which is not 0 for true.
type Request = unsafe extern "C" fn(*const c_void) -> u8;

/// libtorch's functions. They stay: the library that they belong to is never closed.
struct Torch {
    context: Context,
    /// Those that this version has.
    requests: [Option<Request>; 2],
}

/// libtorch's functions, once libtorch was found; `None` if this version lacks them.
static TORCH: OnceLock<Option<Torch>> = OnceLock::new();
static LOOKS: Looks = Looks::new();

/// Returns whether PyTorch asks for determinism. False without PyTorch, or if its version does not tell.
pub fn asks() -> bool {
    if TORCH.get().is_none() {
        LOOKS.look(|files| {
            if let Some(library) = opened(&files, FILE) {
                TORCH.get_or_init(|| Torch::of(library));
            }
        });
    }
    TORCH.get().and_then(Option::as_ref).is_some_and(Torch::asks)
}

impl Torch {
    fn of(library: Library) -> Option<Self> {
        // SAFETY: the mangled name is of a function that takes nothing and returns a reference.
        let context = unsafe { library.get::<Context>(CONTEXT.to_bytes_with_nul()) }.map(|found| *found);
        // SAFETY: the mangled names are of member functions that take `this` alone; in all of PyTorch's versions they
        // return a bool.
        let request =
            |name: &CStr| unsafe { library.get::<Request>(name.to_bytes_with_nul()) }.map(|found| *found).ok();
        let requests = REQUESTS.map(request);
        // The functions must stay.
        std::mem::forget(library);
        context.ok().map(|context| Self { context, requests })
    }

    fn asks(&self) -> bool {
        // SAFETY: the function returns the process's one context, which lives until the process ends.
        let context = unsafe { (self.context)() };
        // SAFETY: the context lives until the process ends, and both functions only read one of its flags.
        !context.is_null() && self.requests.iter().flatten().any(|request| unsafe { request(context) } != 0)
    }
}
