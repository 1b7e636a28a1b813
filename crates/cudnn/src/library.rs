//! Finds and loads the real cuDNN and resolves its functions' addresses, once, at the first use.
//!
//! No lock is held meanwhile. Loading a library runs its constructors, which may call a cuDNN function and so enter
//! this module again. Such a call loads for itself (the dynamic linker returns a library whose constructors are still
//! running), and so does a second thread that arrives early. All find the same library; the first to finish publishes
//! its result. A loaded library is never unloaded.

mod places;

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libloading::os::unix::Library as Handle;

use cudnn_abi::symbols::Symbol;
use gpu::Device;
use guest::libraries::{Place, home};
use guest::settings::CUDNN_LIBRARY;
use trust::Shown as _;

/// Null until the search is over, then a leaked `Library`.
static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());

/// The result of the search.
struct Library {
    /// The library found, or one line for each place tried, with the reason for refusing it.
    real: Result<Real, String>,
    addresses: [Option<NonNull<c_void>>; Symbol::ALL.len()],
}

/// A loaded cuDNN other than libucudnn itself.
struct Real {
    handle: Handle,
    path: PathBuf,
    version: usize,
    host: bool,
}

/// The real function's address; `None` if the library lacks it or there is no library. After the first call this costs
/// a load and a test.
#[inline]
pub fn address(symbol: Symbol) -> Option<NonNull<c_void>> {
    get().addresses[symbol as usize]
}

/// The real function as a function pointer.
///
/// # Safety
/// `F` is the function's type, `unsafe extern "C" fn(…) -> …`, as cuDNN declares it.
#[inline]
pub unsafe fn function<F: Copy>(symbol: Symbol) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    // SAFETY: the sizes are equal, and the caller promises that `F` is the function's type.
    address(symbol).map(|address| unsafe { std::mem::transmute_copy(&address) })
}

/// The address of a function outside the list of symbols, such as one that only an older major version has.
pub fn address_of(name: &CStr) -> Option<NonNull<c_void>> {
    real().and_then(|real| lookup(&real.handle, name))
}

/// Returns true if the library is hostdnn, which computes on the CPU.
pub fn is_host() -> bool {
    real().is_some_and(|real| real.host)
}

/// The kind of device that the loaded cuDNN computes on.
pub fn device() -> Device {
    if is_host() { Device::Host } else { Device::Cuda }
}

/// The version that the library's `cudnnGetVersion` returns; `None` if there is no library.
pub fn version() -> Option<usize> {
    real().map(|real| real.version)
}

/// The library's major version if it is below 9. Such a library only gets forwarded calls; overriding is unsound.
pub fn older_major() -> Option<usize> {
    real().map(|real| major(real.version)).filter(|&major| major < 9)
}

/// The file that the library was loaded from; `None` if there is no library, logged once. Only a program that calls
/// cuDNN gets here: one that uses our own API alone needs no cuDNN.
pub fn path() -> Option<&'static Path> {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let say = |tried: &&str| {
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            log::error!("no cuDNN was found, so every cuDNN call will fail. Tried:{tried}");
        }
    };
    found().inspect_err(say).ok()
}

/// The same without a log. `Err` has one line for each place that was tried.
pub fn found() -> Result<&'static Path, &'static str> {
    get().real.as_ref().map(|real| real.path.as_path()).map_err(String::as_str)
}

/// cuDNN numbered its versions by thousands up to 8, and by ten thousands since.
fn major(version: usize) -> usize {
    if version < 90_000 { version / 1_000 } else { version / 10_000 }
}

fn real() -> Option<&'static Real> {
    get().real.as_ref().ok()
}

#[inline]
fn get() -> &'static Library {
    let library = LIBRARY.load(Ordering::Acquire);
    if library.is_null() {
        return load();
    }
    // SAFETY: `load` alone stores here, and it stores a leaked Library, written before it was published.
    unsafe { &*library }
}

#[cold]
fn load() -> &'static Library {
    guest::settings::get(); // sets up logging, for the messages below
    guest::summary::called();
    let mut refused = Vec::new();
    let found = places::all().find_map(|place| try_place(&place).map_err(|why| refused.push((place, why))).ok());
    if found.as_ref().is_some_and(|real| real.host) {
        gpu::host::provide(address_of);
    }
    let addresses =
        std::array::from_fn(|index| found.as_ref().and_then(|real| lookup(&real.handle, Symbol::ALL[index].name())));
    let tried = || refused.iter().map(|(place, why)| format!("\n  {place}: {why}")).collect();
    let library = Box::into_raw(Box::new(Library { real: found.ok_or_else(tried), addresses }));
    let null = std::ptr::null_mut();
    match LIBRARY.compare_exchange(null, library, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // SAFETY: `Box::into_raw` made the pointer; once published, the library is shared and never freed.
            let library = unsafe { &*library };
            report(library, &refused);
            library
        }
        // SAFETY: another caller published `first`, a leaked Library. This one leaks too: its handle must stay open.
        Err(first) => unsafe { &*first },
    }
}

/// Logs the library found, and a refusal of the place that the user named. A report says that we are switched off: it
/// has no other line then. Only the publisher calls it, so once.
fn report(library: &Library, refused: &[(Place, String)]) {
    if !guest::settings::get().is_on {
        guest::report::switched_off();
    }
    let Ok(real) = &library.real else { return };
    if let Some((place, why)) = refused.iter().find(|(place, _)| place.origin == CUDNN_LIBRARY) {
        log::warn!("{place}: {why}; using {} instead", real.path.shown());
    }
    if major(real.version) < 9 {
        let (path, version) = (real.path.shown(), real.version);
        log::warn!("{path} is cuDNN {version}, older than 9: every call is forwarded unchanged");
    }
    log::info!("the real cuDNN is {}, version {}", real.path.shown(), real.version);
}

fn try_place(place: &Place) -> Result<Real, String> {
    // SAFETY: this runs the constructors of a library that the user or the system names as cuDNN, or that lies with the
    // program where only they can change it; without us the process would have run them itself.
    let handle = unsafe { place.open() }?;
    let version = lookup(&handle, c"cudnnGetVersion");
    let ours = lookup(&handle, c"ucudnnGetVersion").is_some();
    let mut real = Real { handle, path: PathBuf::new(), version: 0, host: false };
    let refusal = match version.map(|function| (function, home(function.as_ptr()))) {
        None => "exports no cudnnGetVersion",
        Some((_, None)) => "cudnnGetVersion lies in no loaded file",
        Some((_, Some((base, _)))) if ours || Some(base) == own_base() => "is ucudnn itself",
        Some((function, Some((_, path)))) => {
            // SAFETY: every cuDNN version declares `size_t cudnnGetVersion(void)`.
            let version: extern "C" fn() -> usize = unsafe { std::mem::transmute(function) };
            real.host = lookup(&real.handle, c"hostdnnGetVersion").is_some();
            real.version = version();
            real.path = path;
            return Ok(real);
        }
    };
    // A refused library stays loaded too: its constructors have run, and it may be libucudnn itself.
    std::mem::forget(real.handle);
    Err(refusal.to_owned())
}

fn lookup(handle: &Handle, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the result is kept as an address only; whoever calls it promises its type.
    let symbol = unsafe { handle.get::<*mut c_void>(name.to_bytes_with_nul()) };
    NonNull::new(*symbol.ok()?)
}

fn own_base() -> Option<*mut c_void> {
    home(own_base as *const c_void).map(|(base, _)| base)
}
