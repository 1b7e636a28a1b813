//! `ucudnn run`: starts a program with the library in front of its cuDNN.

mod disguise;
mod variables;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::Failure;
use guest::settings::SUMMARY;
use trust::Shown as _;
use variables::Variables;

const LIBRARY: &str = "libucudnn.so";
const LD_PRELOAD: &str = "LD_PRELOAD";
const LD_LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Start a program with the library in front of its cuDNN
///
/// The program runs unchanged, with LD_PRELOAD=libucudnn.so. It replaces this command, so signals go to it, and its
/// exit status is this command's.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    # each convolution within 64 MiB\n  \
    ucudnn run --workspace-limit 64MiB ./train --epochs 3\n  \
    # all of them together within 512 MiB\n  \
    ucudnn run --total-workspace-size 512MiB ./train\n  \
    # a program that opens cuDNN by name\n  \
    ucudnn run --dlopen --report run.jsonl python train.py\n\n\
    Sizes are bytes, or numbers with KiB, MiB or GiB behind them. A variable that is set already holds \
    where its option is not given.")]
pub struct Options {
    #[command(flatten)]
    variables: Variables,

    /// The library to load [default: libucudnn.so beside this command or in ../lib]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Keep the lines of the report's file, and add to them. The ranks of srun, for example, share one file
    #[arg(long, requires = guest::settings::REPORT)]
    append: bool,

    /// Write nothing to the terminal: neither how far tuning is, nor, when the program ends, what was gained
    #[arg(long)]
    quiet: bool,

    /// Reach a program that opens libcudnn.so.9 by name while it runs, as JAX does; LD_PRELOAD alone does not reach it.
    /// Preloads a library of that name that stands for libucudnn.so, and puts its folder first in LD_LIBRARY_PATH. Does
    /// not reach a program that takes functions from a library that it opened by path
    #[arg(long)]
    dlopen: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

/// Replaces this process with the program. Returns only on failure.
pub fn run(options: Options) -> Result<(), Failure> {
    options.variables.check()?;
    let names_cudnn = options.variables.sets(guest::settings::CUDNN_LIBRARY);
    let prepared = prepare(&options.command, options.library.as_deref(), options.dlopen, names_cudnn)?;
    let mut command = prepared.command;
    for (name, value) in options.variables.absolute()? {
        if name == guest::settings::REPORT {
            // The file is there even if the program never calls cuDNN.
            let begun = guest::report::begin(Path::new(&value), options.append);
            begun.map_err(|error| format!("--report {value:?}: {error}"))?;
        }
        command.env(name, value);
    }
    if options.quiet {
        command.env(SUMMARY, "off");
    } else if !std::env::var(SUMMARY).is_ok_and(|value| ["on", "off"].contains(&value.as_str())) {
        // The program keeps this process's number.
        command.env(SUMMARY, std::process::id().to_string());
    }
    let error = command.exec();
    Err(Failure::NotRunnable(format!("{} cannot be run: {error}", command.get_program().shown())))
}

/// A program that is ready to start with the library in front of its cuDNN.
pub struct Prepared {
    pub command: Command,
    /// The library's file.
    pub library: PathBuf,
    /// The library of cuDNN's name that stands for it, for a program that opens cuDNN by name.
    pub disguise: Option<PathBuf>,
}

/// Prepares a program and its arguments. `names_cudnn` says that an option names the real cuDNN.
pub fn prepare(
    words: &[OsString],
    library: Option<&Path>,
    dlopen: bool,
    names_cudnn: bool,
) -> Result<Prepared, Failure> {
    let library = find_library(library)?;
    let (name, arguments) = words.split_first().expect("clap requires the program");
    let program = find_program(name)?;
    refuse_what_cannot_run(&program)?;
    refuse_secure_execution(&program)?;

    let mut command = Command::new(&program);
    command.arg0(name).args(arguments);
    let mut preloaded = vec![library.as_path()];
    let folder = if dlopen { Some(disguise::folder(&library)?) } else { None };
    let disguise = folder.as_ref().map(|folder| folder.join(disguise::CUDNN));
    if let (Some(folder), Some(disguise)) = (&folder, &disguise) {
        listable(disguise)?;
        if !names_cudnn
            && std::env::var_os(guest::settings::CUDNN_LIBRARY).is_none_or(|value| value.is_empty())
            && let Some(real) = disguise::real_cudnn()
        {
            command.env(guest::settings::CUDNN_LIBRARY, real);
        }
        command.env(LD_LIBRARY_PATH, in_front(folder, std::env::var_os(LD_LIBRARY_PATH)));
    }
    preloaded.extend(disguise.as_deref());
    command.env(LD_PRELOAD, preload(&preloaded, std::env::var_os(LD_PRELOAD)));
    Ok(Prepared { command, library, disguise })
}

/// The library's absolute path, which the loader's lists must be able to hold.
pub fn find_library(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = match given {
        Some(path) => {
            let found = path.canonicalize().map_err(|error| format!("--library {}: {error}", path.shown()))?;
            if !found.is_file() {
                return Err(Failure::Failed(format!("--library {}: not a file", path.shown())));
            }
            found
        }
        None => {
            let own = std::env::current_exe().and_then(|own| own.canonicalize());
            let own =
                own.map_err(|error| format!("where this command lies cannot be told: {error}; give --library"))?;
            let folder = own.parent().unwrap_or(Path::new("/"));
            near(folder)?
        }
    };
    listable(&found)?;
    Ok(found)
}

/// The library beside this command, which lies in `folder`. We choose it for every process that the program starts, so it
/// must be trusted.
fn near(folder: &Path) -> Result<PathBuf, String> {
    let mut tried = String::new();
    for place in [".", "../lib", "../lib64"].map(|place| folder.join(place).join(LIBRARY)) {
        let found = if place.is_file() { trust::file(&place) } else { Err("no such file".into()) };
        match found {
            Ok(found) => return Ok(found),
            Err(why) => tried += &format!("\n  {}: {why}", place.shown()),
        }
    }
    Err(format!(
        "no {LIBRARY} was found that only this user and root can change; give --library, which is preloaded all the \
         same. Tried:{tried}"
    ))
}

/// Refuses a space or a colon, since the loader splits LD_PRELOAD at both and has no quotes; and a dollar, since it puts
/// folders in the place of `$LIB` and the like.
fn listable(library: &Path) -> Result<(), Failure> {
    if library.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':' | b'$')) {
        let why = "LD_PRELOAD takes no path with a space, a colon or a dollar";
        let why = format!("{} cannot be preloaded: {why}", library.shown());
        return Err(Failure::Failed(why));
    }
    Ok(())
}

/// LD_PRELOAD with these libraries first and the earlier ones after them.
fn preload(libraries: &[&Path], before: Option<OsString>) -> OsString {
    let before = before.unwrap_or_default();
    let listed = before.as_bytes().split(|byte| matches!(byte, b' ' | b':')).map(OsStr::from_bytes);
    let others = listed.filter(|other| !other.is_empty() && !libraries.contains(&Path::new(other)));
    let all: Vec<&OsStr> = libraries.iter().map(|library| library.as_os_str()).chain(others).collect();
    all.join(OsStr::new(":"))
}

/// A search path with this folder first. Empty entries stay: they mean the current folder.
fn in_front(folder: &Path, before: Option<OsString>) -> OsString {
    let mut value = folder.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    value
}

/// The file that a shell would start.
fn find_program(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Ok(_) => Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Err(Failure::NotRunnable(format!("{}: {error}", path.shown())))
            }
            Err(error) => Err(Failure::NotFound(format!("{}: {error}", path.shown()))),
        };
    }
    in_path(name).next().ok_or_else(|| {
        let name = name.to_string_lossy();
        Failure::NotFound(format!("{name}: no program of this name in PATH (a file in this folder is ./{name})"))
    })
}

/// The programs of this name in the folders of PATH, in their order.
pub fn in_path(name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files: Vec<_> = std::env::split_paths(&path).map(|folder| folder.join(name)).collect();
    let is_program =
        |file: &PathBuf| file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0);
    files.into_iter().filter(is_program)
}

/// Refuses a file that this user may not execute, before anything is written.
fn refuse_what_cannot_run(program: &Path) -> Result<(), Failure> {
    let refused = |error| Failure::NotRunnable(format!("{} cannot be run: {error}", program.shown()));
    access(program, libc::X_OK).map_err(refused)
}

/// Asks whether this user may use a file in a way, such as [`libc::X_OK`].
pub fn access(path: &Path, way: libc::c_int) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string.
    if unsafe { libc::access(path.as_ptr(), way) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Refuses a program that gains rights as it starts: the loader ignores LD_PRELOAD for it, so it would run without us.
fn refuse_secure_execution(program: &Path) -> Result<(), Failure> {
    let metadata = program.metadata().map_err(|error| format!("{}: {error}", program.shown()))?;
    // SAFETY: both functions always succeed.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let gains = (metadata.mode() & libc::S_ISUID != 0 && metadata.uid() != user)
        || (metadata.mode() & libc::S_ISGID != 0 && metadata.gid() != group)
        || has_capabilities(program);
    if gains {
        return Err(Failure::NotRunnable(format!(
            "{} gains rights as it starts (setuid, setgid or file capabilities), and the loader ignores LD_PRELOAD for \
             such programs: it cannot be run with ucudnn",
            program.shown()
        )));
    }
    Ok(())
}

fn has_capabilities(program: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(program.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are C strings, and without a buffer the call only returns the attribute's size.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloaded(before: &str) -> String {
        preload(&[Path::new("/l/libucudnn.so")], Some(before.into())).into_string().unwrap()
    }

    #[test]
    fn what_was_preloaded_stays_behind_the_library() {
        assert_eq!(preload(&[Path::new("/l/libucudnn.so"), Path::new("/b")], None), "/l/libucudnn.so:/b");
        assert_eq!(preloaded("liba.so /b/libb.so::"), "/l/libucudnn.so:liba.so:/b/libb.so");
        assert_eq!(preloaded("liba.so:/l/libucudnn.so"), "/l/libucudnn.so:liba.so");
    }

    #[test]
    fn the_folder_comes_first_in_the_search_path() {
        assert_eq!(in_front(Path::new("/d"), None), "/d");
        assert_eq!(in_front(Path::new("/d"), Some("".into())), "/d");
        assert_eq!(in_front(Path::new("/d"), Some("/a::/b".into())), "/d:/a::/b");
    }
}
