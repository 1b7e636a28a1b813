//! NVRTC, NVIDIA's compiler of CUDA C++ in a library: found and loaded once, at the first use, never unloaded.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use once_cell::sync::OnceCell;

use super::places::{self, Place};
use super::{Error, Source};
use crate::cudnn::library::home;

type Result = c_int;
type Program = *mut std::ffi::c_void;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> Result;
type GetBytes = unsafe extern "C" fn(Program, *mut c_char) -> Result;
type CreateProgram = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Result;

const SUCCESS: Result = 0;

/// Options of every source. Device code needs no `__device__` at each function.
const OPTIONS: [&CStr; 2] = [c"--std=c++17", c"-default-device"];

/// The library's functions.
pub struct Nvrtc {
    path: PathBuf,
    /// Major and minor.
    version: (u32, u32),
    /// The compute capabilities that it compiles for, such as 90 for 9.0; rising.
    known: Vec<u32>,
    create: CreateProgram,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Result,
    log: Output,
    cubin: Output,
    ptx: Output,
    destroy: unsafe extern "C" fn(*mut Program) -> Result,
    error: unsafe extern "C" fn(Result) -> *const c_char,
    _library: Library,
}

/// One of a program's texts: its size, ending zero counted, and itself.
#[derive(Clone, Copy)]
struct Output(GetSize, GetBytes);

/// What code is compiled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// As NVRTC names it: `sm_90a`, or `compute_90`.
    pub name: String,
    /// PTX, which the driver compiles further, instead of a cubin.
    pub is_virtual: bool,
}

impl Architecture {
    /// The best for a compute capability among those that a compiler knows: machine code for exactly that, with its
    /// own instructions where there are such (`a`, from 9.0 on); else PTX of the nearest below.
    fn of(capability: u32, known: &[u32]) -> Option<Self> {
        if known.contains(&capability) {
            let own = if capability >= 90 { "a" } else { "" };
            return Some(Self { name: format!("sm_{capability}{own}"), is_virtual: false });
        }
        let nearest = known.iter().rfind(|&&other| other < capability)?;
        Some(Self { name: format!("compute_{nearest}"), is_virtual: true })
    }
}

impl Nvrtc {
    /// The process's, looked for once. `driver` is its version as `cuDriverGetVersion` tells it, whose major
    /// NVRTC's must not exceed: an older driver refuses what a newer compiler makes. 0 where there is no driver.
    pub fn of_process(driver: i32) -> std::result::Result<&'static Self, Error> {
        static NVRTC: OnceCell<std::result::Result<Nvrtc, String>> = OnceCell::new();
        let find = || {
            let newest = if driver == 0 { u32::MAX } else { driver.unsigned_abs() / 1000 };
            let found = Self::find(places::all(), newest);
            if let Ok(nvrtc) = &found {
                let ((major, minor), path) = (nvrtc.version, nvrtc.path.display());
                log::info!("NVRTC is {path}, version {major}.{minor}");
            }
            found
        };
        NVRTC.get_or_init(find).as_ref().map_err(|why| Error::NoCompiler(why.clone()))
    }

    /// The first that loads and whose major version is `newest` or less. `Err` says what was tried.
    pub fn find(places: impl Iterator<Item = Place>, newest: u32) -> std::result::Result<Self, String> {
        let mut tried = String::new();
        for place in places {
            match Self::load(&place, newest) {
                Ok(found) => return Ok(found),
                Err(why) => tried += &format!("\n  {place}: {why}"),
            }
        }
        Err(format!("no NVRTC was found, so no kernel is compiled. Tried:{tried}"))
    }

    fn load(place: &Place, newest: u32) -> std::result::Result<Self, String> {
        if place.major > newest {
            return Err(format!("the driver runs code of CUDA {newest} at most"));
        }
        let flags = RTLD_LAZY | RTLD_LOCAL | if place.loaded { libc::RTLD_NOLOAD } else { 0 };
        // SAFETY: constructors of a library that the user, or the system, names as NVRTC.
        let library =
            unsafe { Library::open(Some(&place.file), flags) }.map_err(|error| match (error, place.loaded) {
                (_, true) => "not loaded in this process".to_owned(),
                (libloading::Error::DlOpen { source }, _) => source.to_string(),
                (error, _) => error.to_string(),
            })?;
        // SAFETY: NVRTC declares them so, in every version that is looked for.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Result = function(&library, c"nvrtcVersion")?;
            let count: unsafe extern "C" fn(*mut c_int) -> Result = function(&library, c"nvrtcGetNumSupportedArchs")?;
            let list: unsafe extern "C" fn(*mut c_int) -> Result = function(&library, c"nvrtcGetSupportedArchs")?;
            let ((mut major, mut minor), mut architectures) = ((0, 0), 0);
            if version(&mut major, &mut minor) != SUCCESS || count(&mut architectures) != SUCCESS {
                return Err("it does not tell its version and what it compiles for".into());
            }
            let mut known = vec![0; usize::try_from(architectures).unwrap_or(0)];
            if list(known.as_mut_ptr()) != SUCCESS {
                return Err("it does not list what it compiles for".into());
            }
            let mut known: Vec<_> = known.into_iter().filter_map(|one| u32::try_from(one).ok()).collect();
            known.sort_unstable();
            let path = home(version as *const _).map_or_else(|| PathBuf::from(&place.file), |(_, path)| path);
            let version = (major.unsigned_abs(), minor.unsigned_abs());
            open_builtins(&path, version);
            Ok(Self {
                path,
                version,
                known,
                create: function(&library, c"nvrtcCreateProgram")?,
                compile: function(&library, c"nvrtcCompileProgram")?,
                log: Output(function(&library, c"nvrtcGetProgramLogSize")?, function(&library, c"nvrtcGetProgramLog")?),
                cubin: Output(function(&library, c"nvrtcGetCUBINSize")?, function(&library, c"nvrtcGetCUBIN")?),
                ptx: Output(function(&library, c"nvrtcGetPTXSize")?, function(&library, c"nvrtcGetPTX")?),
                destroy: function(&library, c"nvrtcDestroyProgram")?,
                error: function(&library, c"nvrtcGetErrorString")?,
                _library: library,
            })
        }
    }

    /// Major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// What to compile for, on a device of this compute capability: 90 for 9.0.
    pub fn architecture(&self, capability: u32) -> std::result::Result<Architecture, Error> {
        Architecture::of(capability, &self.known).ok_or_else(|| {
            let ((major, minor), path, oldest) = (self.version, self.path.display(), self.known.first());
            let oldest = oldest.map_or_else(String::new, |oldest| format!(", the oldest being {oldest}"));
            let why = format!("NVRTC {major}.{minor} ({path}) does not compile for sm_{capability}{oldest}");
            Error::NoCompiler(why)
        })
    }

    /// A cubin, or PTX with a zero behind it. Any number of threads may compile at once.
    pub fn compile(&self, source: &Source, architecture: &Architecture) -> std::result::Result<Vec<u8>, Error> {
        let failed = |log: String| Error::Compilation { name: source.name, log };
        let text = |text: &str| CString::new(text).map_err(|_| failed("a text or an option holds a zero byte".into()));
        let headers = source.headers.iter().map(|(name, header)| Ok((text(name)?, text(header)?)));
        let (names, headers): (Vec<_>, Vec<_>) =
            headers.collect::<std::result::Result<Vec<_>, Error>>()?.into_iter().unzip();
        let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<_>>();
        let (code, name) = (text(source.text)?, text(source.name)?);
        let mut options: Vec<_> = OPTIONS.map(CStr::to_owned).into();
        options.push(text(&format!("--gpu-architecture={}", architecture.name))?);
        for option in &source.options {
            options.push(text(option)?);
        }
        let mut program = Compiled { nvrtc: self, program: null_mut() };
        let (count, headers, names) = (names.len() as c_int, pointers(&headers), pointers(&names));
        let (headers, names) = if count == 0 { (null(), null()) } else { (headers.as_ptr(), names.as_ptr()) };
        // SAFETY: C strings that outlive the call, as many as said; NVRTC keeps copies.
        let made = unsafe { (self.create)(&mut program.program, code.as_ptr(), name.as_ptr(), count, headers, names) };
        if made != SUCCESS {
            return Err(failed(self.explain(made)));
        }
        let options = pointers(&options);
        // SAFETY: a live program, and options that outlive the call.
        let result = unsafe { (self.compile)(program.program, options.len() as c_int, options.as_ptr()) };
        let mut log = program.read(self.log).unwrap_or_default();
        while log.pop_if(|byte| *byte == 0 || byte.is_ascii_whitespace()).is_some() {}
        let log = String::from_utf8_lossy(&log);
        if result != SUCCESS {
            return Err(failed(format!("{}\n{log}", self.explain(result))));
        }
        if !log.is_empty() {
            log::debug!("NVRTC says of {}:\n{log}", source.name);
        }
        let image = program.read(if architecture.is_virtual { self.ptx } else { self.cubin });
        image.map_err(|result| failed(self.explain(result)))
    }

    fn explain(&self, result: Result) -> String {
        // SAFETY: answers a constant C string to any number.
        let text = unsafe { (self.error)(result) };
        if text.is_null() {
            return format!("error {result}");
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// A program of NVRTC's, destroyed with its owner.
struct Compiled<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl Compiled<'_> {
    fn read(&self, Output(size, bytes): Output) -> std::result::Result<Vec<u8>, Result> {
        let check = |result| if result == SUCCESS { Ok(()) } else { Err(result) };
        let mut length = 0;
        // SAFETY: a live program; writes one number.
        check(unsafe { size(self.program, &mut length) })?;
        let mut read = vec![0; length];
        // SAFETY: as long as was asked for.
        check(unsafe { bytes(self.program, read.as_mut_ptr().cast()) })?;
        Ok(read)
    }
}

impl Drop for Compiled<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: a live program, destroyed once.
            unsafe { (self.nvrtc.destroy)(&mut self.program) };
        }
    }
}

/// # Safety
/// `F` is the function's type.
unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> std::result::Result<F, String> {
    // SAFETY: as ours.
    let found = unsafe { library.get::<F>(name.to_bytes_with_nul()) };
    found.map(|function| *function).map_err(|_| format!("it has no {}", name.to_string_lossy()))
}

/// NVRTC opens a second library by its bare name when it compiles, and knows no folder for it. One that is loaded
/// is found whatever its folder, so that which lies beside NVRTC is loaded, for good. Where there is none, NVRTC
/// may find one itself, or says so in its log.
fn open_builtins(nvrtc: &Path, (major, minor): (u32, u32)) {
    let file = nvrtc.with_file_name(format!("libnvrtc-builtins.so.{major}.{minor}"));
    // SAFETY: NVRTC would run its constructors itself.
    if let Ok(builtins) = unsafe { Library::open(Some(&file), RTLD_LAZY | RTLD_LOCAL) } {
        std::mem::forget(builtins);
    }
}
