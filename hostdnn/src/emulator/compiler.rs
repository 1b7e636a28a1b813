//! The machine's C++ compiler.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, OnceLock};

use cudnn_abi::*;

use super::Source;
use crate::error::{Error, Result};

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../kernels/emulator/", $name)))),*]
    };
}

/// The emulator: the headers that `device.cuh` includes, and its own sources.
pub const EMULATOR: &[(&str, &str)] = files!("async_copy.h" "block.h" "cluster.h" "device.h" "fiber.cpp" "fiber.h" "half.h" "intrinsics.h" "mma.h" "products.cpp" "products.h" "schedule.cpp" "schedule.h" "vectors.h" "warpgroup.h");

/// The folder of those files, beside a source's headers.
const FOLDER: &str = "emulator";

/// Options of every compilation. Arithmetic is the source's: no product and sum become an FMA. Memory may be read as
/// any type, whatever wrote it; NVRTC moves such reads, so what depends on their order is right here and wrong on a
/// GPU. Only the kernels' names are exported.
const OPTIONS: [&str; 11] = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
    "-w",
    "-DEMULATED",
    "-I.",
];

/// The emulator's own object runs most of a launch, and is compiled once for all kernels.
const OF_EMULATOR: &str = "-O3";

/// A compiler that runs.
pub struct Compiler {
    command: OsString,
    /// The compiler's description of itself.
    version: String,
}

impl Compiler {
    /// The process's compiler, tried once.
    pub fn of_process() -> Result<&'static Self> {
        static COMPILER: LazyLock<Result<Compiler>> =
            LazyLock::new(|| Compiler::find(std::env::var_os("HOSTDNN_CXX").unwrap_or("c++".into())));
        COMPILER.as_ref().map_err(Clone::clone)
    }

    fn find(command: OsString) -> Result<Self> {
        let version = Self::command_of(&command).arg("--version").output();
        let why = match version {
            Ok(output) if output.status.success() => {
                return Ok(Self { command, version: String::from_utf8_lossy(&output.stdout).into_owned() });
            }
            Ok(output) => format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end()),
            Err(error) => error.to_string(),
        };
        let reason = format!(
            "kernels run on the CPU only where there is a C++ compiler, and {} does not run: {why}. \
             HOSTDNN_CXX names another",
            command.display()
        );
        Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING, reason))
    }

    /// The compiler's command, without the process's preloaded libraries.
    fn command_of(command: &OsString) -> Command {
        let mut command = Command::new(command);
        command.env_remove("LD_PRELOAD").stdin(Stdio::null());
        // The compiler finds its own parts by PATH.
        if std::env::var_os("PATH").is_none() {
            command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        }
        command
    }

    /// Everything besides the source that determines an object.
    pub fn identity(&self) -> impl Iterator<Item = &str> {
        [self.version.as_str()].into_iter().chain(OPTIONS).chain([OF_EMULATOR]).chain(of_processor())
    }

    /// gold, where the compiler finds it: it takes a third of the usual linker's time, which is a sixth of a kernel's.
    /// An object does what it does by any linker, so this is no part of the identity.
    fn linker(&self) -> Option<&'static str> {
        const GOLD: &str = "-fuse-ld=gold";
        static HAS_GOLD: OnceLock<bool> = OnceLock::new();
        let asks = || Self::command_of(&self.command).args([GOLD, "-Wl,--version"]).output();
        HAS_GOLD.get_or_init(|| asks().is_ok_and(|said| said.status.success())).then_some(GOLD)
    }

    /// Compiles the emulator, which is a part of every object, in an empty folder.
    pub fn compile_emulator(&self, folder: &Path, path: &Path) -> Result {
        write_emulator(folder)?;
        let sources = EMULATOR.iter().filter(|(name, _)| name.ends_with(".cpp"));
        let all: String = sources.map(|(name, _)| format!("#include \"{FOLDER}/{name}\"\n")).collect();
        write(folder, "all.cpp", &all)?;
        let mut command = Self::command_of(&self.command);
        command.args(OPTIONS).arg(OF_EMULATOR).args(of_processor()).args(["-c", "all.cpp"]);
        run(command, folder, path, "the emulator")
    }

    /// Compiles the object at `path`, in an empty folder, and links it with the emulator's object.
    pub fn compile(&self, source: &Source, emulator: &Path, folder: &Path, path: &Path) -> Result {
        write(folder, source.name, source.text)?;
        for (name, text) in source.headers {
            write(folder, name, text)?;
        }
        write_emulator(folder)?;
        let mut command = Self::command_of(&self.command);
        command.args(OPTIONS).args(of_processor()).args(definitions(source)).arg("-shared");
        command.args(["-x", "c++", source.name, "-x", "none"]).arg(emulator).args(self.linker());
        run(command, folder, path, source.name)
    }
}

/// Runs a compiler in a folder.
fn run(mut command: Command, folder: &Path, path: &Path, what: &str) -> Result {
    let failed = |why: &str| {
        let reason = format!("the C++ compiler does not take {what}: {why}");
        Error::new(CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED, reason)
    };
    let output =
        command.current_dir(folder).arg("-o").arg(path).output().map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(&format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end())))
}

/// The definitions among a source's options.
pub fn definitions<'a>(source: &'a Source) -> impl Iterator<Item = &'a str> {
    source.options.iter().copied().filter(|option| option.starts_with("-D"))
}

/// Makes an FMA one instruction instead of a call, if the processor has it.
fn of_processor() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") {
        return Some("-mfma");
    }
    None
}

/// Writes the emulator's files within the folder.
fn write_emulator(folder: &Path) -> Result {
    EMULATOR.iter().try_for_each(|(name, text)| write(folder, &format!("{FOLDER}/{name}"), text))
}

/// Writes one of the source's files within the folder.
fn write(folder: &Path, name: &str, text: &str) -> Result {
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || name.starts_with('-') || !inside {
        let reason = format!("sources and headers have names of files below a folder, and {name:?} is none");
        return Err(Error::new(CUDNN_STATUS_BAD_PARAM, reason));
    }
    let path = folder.join(name);
    let written = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(&path, text));
    written.map_err(|error| Error::new(CUDNN_STATUS_INTERNAL_ERROR, format!("{}: {error}", path.display())))
}
