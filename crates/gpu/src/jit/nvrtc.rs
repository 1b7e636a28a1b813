//! NVRTC, NVIDIA's compiler of CUDA C++ in a library. Found and loaded once, at first use, and never unloaded.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::time::Instant;

use once_cell::sync::OnceCell;

use super::places::{self, Candidate};
use super::{Error, Source};
use crate::functions::{functions, in_library};
use guest::libraries::{Chosen, Place, home};
use guest::process_end;
use trust::Shown as _;

/// The library.
pub struct Nvrtc {
    /// The library's file.
    pub path: PathBuf,
    version: (u32, u32),
    /// The compute capabilities that it compiles for, such as 90 for 9.0, in rising order.
    known: Vec<u32>,
    functions: Functions,
}

/// The architecture to compile for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// NVRTC's name for it: `sm_90a`, or `compute_90`.
    pub name: String,
    /// Compiles to PTX, which the driver compiles further, and not to a cubin.
    pub is_virtual: bool,
}

impl Architecture {
    /// The best architecture for a compute capability among those that a compiler knows: machine code for this very
    /// capability, with its own instructions from 9.0 on (`a`); else PTX of the nearest lower one.
    pub fn of(capability: u32, known: &[u32]) -> Option<Self> {
        if known.contains(&capability) {
            let own = if capability >= 90 { "a" } else { "" };
            return Some(Self { name: format!("sm_{capability}{own}"), is_virtual: false });
        }
        let nearest = known.iter().rfind(|&&other| other < capability)?;
        Some(Self { name: format!("compute_{nearest}"), is_virtual: true })
    }
}

/// All options for a source. With `-default-device`, device code needs no `__device__` at each function.
pub fn options(source: &Source, architecture: &Architecture) -> Vec<String> {
    let architecture = format!("--gpu-architecture={}", architecture.name);
    let ours = ["--std=c++17".into(), "-default-device".into(), architecture];
    ours.into_iter().chain(source.options.iter().cloned()).collect()
}

impl Nvrtc {
    /// The process's NVRTC, found once. `driver` is the result of `cuDriverGetVersion`, or 0 without a driver. NVRTC's
    /// major version must not exceed the driver's: an older driver refuses the code of a newer compiler.
    pub fn of_process(driver: i32) -> Result<&'static Self, Error> {
        static NVRTC: OnceCell<Result<Nvrtc, String>> = OnceCell::new();
        let find = || {
            let newest = if driver == 0 { u32::MAX } else { driver.unsigned_abs() / 1000 };
            let found = Self::find(places::all("libnvrtc"), newest);
            if let Ok(nvrtc) = &found {
                let ((major, minor), path) = (nvrtc.version, nvrtc.path.shown());
                log::info!("NVRTC is {path}, version {major}.{minor}");
            }
            found
        };
        NVRTC.get_or_init(find).as_ref().map_err(|why| Error::NoCompiler(why.clone()))
    }

    /// Returns the first NVRTC that loads with a major version of at most `newest`. `Err` lists the places tried.
    pub fn find(candidates: impl Iterator<Item = Candidate>, newest: u32) -> Result<Self, String> {
        let none = |tried| format!("no NVRTC was found, so no kernel is compiled. Tried:{tried}");
        places::first(candidates, |candidate| Self::load(candidate, newest)).map_err(none)
    }

    fn load(candidate: &Candidate, newest: u32) -> Result<Self, String> {
        if candidate.major > newest {
            return Err(format!("the driver runs code of CUDA {newest} at most"));
        }
        // SAFETY: runs constructors of a library that the user, or the system, names NVRTC.
        let library = unsafe { candidate.place.open() }?;
        // SAFETY: a library with NVRTC's name has NVRTC's functions.
        let functions = unsafe { Functions::of(in_library(&library)) }?;
        let version = functions.version()?;
        let known = functions.known()?;
        let path =
            home(functions.version as *const _).map_or_else(|| PathBuf::from(&candidate.place.file), |(_, path)| path);
        open_builtins(&path, version);
        std::mem::forget(library);
        process_end::loaded();
        Ok(Self { path, version, known, functions })
    }

    /// The major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The architecture to compile for on a device of this compute capability: 90 for 9.0.
    pub fn architecture(&self, capability: u32) -> Result<Architecture, Error> {
        Architecture::of(capability, &self.known).ok_or_else(|| {
            let ((major, minor), path, known) = (self.version, self.path.shown(), &self.known);
            let why =
                format!("NVRTC {major}.{minor} ({path}) does not compile for sm_{capability}, only for {known:?}");
            Error::NoCompiler(why)
        })
    }

    /// Compiles to a cubin, or to zero-terminated PTX. Any number of threads may compile at once.
    pub fn compile(&self, source: &Source, architecture: &Architecture) -> Result<Vec<u8>, Error> {
        let failed = |log: String| Error::Compilation { name: source.name.clone(), log };
        let mut program = Program::new(&self.functions, source).map_err(failed)?;
        let begin = Instant::now();
        let log = program.compile(&options(source, architecture)).map_err(failed)?;
        log::debug!("{} is compiled after {:?}", source.name, begin.elapsed());
        // NVRTC creates some parts at first use, and ends them before the rest: our exit handler must run before that.
        process_end::loaded();
        if !log.is_empty() {
            log::debug!("NVRTC says of {}:\n{log}", source.name);
        }
        let functions = &self.functions;
        let (ptx, cubin) = ((functions.ptx_size, functions.ptx), (functions.cubin_size, functions.cubin));
        program.read(if architecture.is_virtual { ptx } else { cubin }).map_err(failed)
    }
}

/// Loads the builtins library beside NVRTC, for good. NVRTC opens it by its bare name when it compiles, and knows no
/// folder for it; the linker finds a loaded library whatever its folder. Without this file NVRTC may find another one,
/// or reports the failure in its log.
fn open_builtins(nvrtc: &Path, version: (u32, u32)) {
    let Some(place) = builtins(nvrtc, version) else { return };
    // SAFETY: runs the constructors that NVRTC would run itself.
    if let Ok(builtins) = unsafe { place.open() } {
        std::mem::forget(builtins);
    }
}

/// The place of the builtins library. `None` beside an NVRTC with a relative path: the program may have left its folder.
pub fn builtins(nvrtc: &Path, (major, minor): (u32, u32)) -> Option<Place> {
    let file = nvrtc.with_file_name(format!("libnvrtc-builtins.so.{major}.{minor}"));
    // The linker or the program may have chosen NVRTC; this file is our choice.
    nvrtc.is_absolute().then(|| Place { origin: "beside NVRTC", file: file.into(), chosen: Chosen::ByUs })
}

/// NVRTC's opaque handle of a program.
type Handle = *mut c_void;

/// The status of NVRTC's functions: 0 for success.
type Status = c_int;

/// Reads one of a program's outputs: its size with the final zero, and its bytes.
type Output = (unsafe extern "C" fn(Handle, *mut usize) -> Status, unsafe extern "C" fn(Handle, *mut c_char) -> Status);

// All the versions in the search have these functions.
functions! {
    version = c"nvrtcVersion": fn(*mut c_int, *mut c_int) -> Status;
    count_known = c"nvrtcGetNumSupportedArchs": fn(*mut c_int) -> Status;
    list_known = c"nvrtcGetSupportedArchs": fn(*mut c_int) -> Status;
    /// The program's address, its text and name, the number of headers, and their texts and names.
    create = c"nvrtcCreateProgram": fn(
        *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) -> Status;
    compile = c"nvrtcCompileProgram": fn(Handle, c_int, *const *const c_char) -> Status;
    log_size = c"nvrtcGetProgramLogSize": fn(Handle, *mut usize) -> Status;
    log = c"nvrtcGetProgramLog": fn(Handle, *mut c_char) -> Status;
    cubin_size = c"nvrtcGetCUBINSize": fn(Handle, *mut usize) -> Status;
    cubin = c"nvrtcGetCUBIN": fn(Handle, *mut c_char) -> Status;
    ptx_size = c"nvrtcGetPTXSize": fn(Handle, *mut usize) -> Status;
    ptx = c"nvrtcGetPTX": fn(Handle, *mut c_char) -> Status;
    destroy = c"nvrtcDestroyProgram": fn(*mut Handle) -> Status;
    explain = c"nvrtcGetErrorString": fn(Status) -> *const c_char;
}

impl Functions {
    fn version(&self) -> Result<(u32, u32), String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two numbers to live variables.
        self.check(unsafe { (self.version)(&mut major, &mut minor) })?;
        Ok((major.unsigned_abs(), minor.unsigned_abs()))
    }

    fn known(&self) -> Result<Vec<u32>, String> {
        let mut count = 0;
        // SAFETY: writes one number to a live variable.
        self.check(unsafe { (self.count_known)(&mut count) })?;
        let mut known = vec![0; count.max(0) as usize];
        // SAFETY: `known` has as many elements as NVRTC reported.
        self.check(unsafe { (self.list_known)(known.as_mut_ptr()) })?;
        let mut known: Vec<_> = known.into_iter().map(c_int::unsigned_abs).collect();
        known.sort_unstable();
        Ok(known)
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: returns a constant C string for any number.
        let text = unsafe { (self.explain)(status) };
        if text.is_null() {
            return Err(format!("NVRTC answered {status}"));
        }
        // SAFETY: not null, so a constant C string.
        Err(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

/// A program of NVRTC, destroyed with its owner.
struct Program<'a> {
    functions: &'a Functions,
    handle: Handle,
}

impl<'a> Program<'a> {
    fn new(functions: &'a Functions, source: &Source) -> Result<Self, String> {
        let (text, name) = (c_string(&source.text)?, c_string(&source.name)?);
        let (names, headers): (Vec<_>, Vec<_>) = source.headers.iter().map(|(name, text)| (&**name, &**text)).unzip();
        let (headers, names) = (Strings::of(&headers)?, Strings::of(&names)?);
        let mut program = Self { functions, handle: std::ptr::null_mut() };
        // SAFETY: the C strings outlive the call, `count` headers and names among them; NVRTC copies them.
        functions.check(unsafe {
            let (headers, names, count) = (headers.as_ptr(), names.as_ptr(), headers.count());
            (functions.create)(&mut program.handle, text.as_ptr(), name.as_ptr(), count, headers, names)
        })?;
        Ok(program)
    }

    /// Returns the compiler's log. `Err` holds the reason and the log.
    fn compile(&mut self, options: &[String]) -> Result<String, String> {
        let options = Strings::of(options)?;
        // SAFETY: the program is live, and the options outlive the call.
        let status = unsafe { (self.functions.compile)(self.handle, options.count(), options.as_ptr()) };
        let log = self.read((self.functions.log_size, self.functions.log)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned();
        self.functions.check(status).map(|()| log.clone()).map_err(|why| format!("{why}\n{log}"))
    }

    fn read(&self, (size, bytes): Output) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the program is live; writes one number.
        self.functions.check(unsafe { size(self.handle, &mut length) })?;
        let mut read = vec![0; length];
        // SAFETY: `read` has as many bytes as NVRTC reported.
        self.functions.check(unsafe { bytes(self.handle, read.as_mut_ptr().cast()) })?;
        Ok(read)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the program is live, and only this drop destroys it.
            unsafe { (self.functions.destroy)(&mut self.handle) };
        }
    }
}

/// An array of C strings.
struct Strings {
    pointers: Vec<*const c_char>,
    _strings: Vec<CString>,
}

impl Strings {
    fn of(texts: &[impl AsRef<str>]) -> Result<Self, String> {
        let strings = texts.iter().map(|text| c_string(text.as_ref())).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { pointers: strings.iter().map(|string| string.as_ptr()).collect(), _strings: strings })
    }

    /// The array, valid as long as `self`.
    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }

    fn count(&self) -> c_int {
        self.pointers.len() as c_int
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| format!("a zero byte stands at {} of {text:.40?}", error.nul_position()))
}
