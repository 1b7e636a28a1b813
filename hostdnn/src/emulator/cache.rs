//! Compiled objects on disk. A file's name is the SHA-256 of everything that determines it. Each object is made in its
//! own folder and then renamed, so that any number of processes compile and load at once, and a killed process leaves
//! no partial object. Objects that nobody has used for a week are deleted.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use cudnn_abi::CUDNN_STATUS_INTERNAL_ERROR;
use sha2::{Digest, Sha256};

use super::Source;
use super::compiler::{Compiler, EMULATOR, definitions};
use crate::error::{Error, Result};

/// The lifetime of an unused object, and of a folder in which one is made.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The place of an object, whether it exists or not.
pub struct Object {
    folder: PathBuf,
    name: String,
}

impl Object {
    /// This compiler's object of a source. Fails if there is no folder for it.
    pub fn of(source: &Source, compiler: &Compiler) -> Result<Self> {
        let texts = [(source.name, source.text)];
        let texts = texts.iter().chain(source.headers).chain(EMULATOR).flat_map(|&(name, text)| [name, text]);
        Ok(Self { folder: folder()?, name: name(compiler, texts.chain(definitions(source)), "so") })
    }

    /// This compiler's object of the emulator.
    pub fn of_emulator(compiler: &Compiler) -> Result<Self> {
        let texts = EMULATOR.iter().flat_map(|&(name, text)| [name, text]);
        Ok(Self { folder: folder()?, name: name(compiler, texts, "o") })
    }

    /// The object, if it was made before and nobody else can change it.
    pub fn find(&self) -> Option<PathBuf> {
        let path = self.folder.join(&self.name);
        // Using an object keeps it. This fails silently in a read-only folder.
        trust::open(&path).ok()?.set_modified(SystemTime::now()).ok();
        Some(path)
    }

    /// Makes the object. `make` gets an empty folder for the sources, and the object's path.
    pub fn make(&self, make: impl FnOnce(&Path, &Path) -> Result) -> Result<PathBuf> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.folder.join(format!("{}.{}.{number}", self.name, std::process::id()));
        let _ = fs::remove_dir_all(&unfinished);
        let sources = unfinished.join("sources");
        let (made, path) = (unfinished.join("object"), self.folder.join(&self.name));
        let result = fs::create_dir_all(&sources)
            .map_err(|error| refused(&sources, &error))
            .and_then(|()| make(&sources, &made))
            .and_then(|()| keep(&made, &path).map_err(|error| refused(&path, &error)));
        let _ = fs::remove_dir_all(&unfinished);
        self.forget_unused();
        result.map(|()| path)
    }

    fn forget_unused(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let age = entry.metadata().ok().and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
            if age.is_some_and(|age| age > KEPT) {
                let path = entry.path();
                let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            }
        }
    }
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::new(CUDNN_STATUS_INTERNAL_ERROR, format!("compiled kernels are kept in {}: {why}", path.display()))
}

/// Puts a made object in its place. Nobody else can write to it, whatever the process's mask of rights says.
fn keep(made: &Path, path: &Path) -> std::io::Result<()> {
    fs::set_permissions(made, Permissions::from_mode(0o700))?;
    fs::rename(made, path)
}

/// The real path of the folder, which is made if it is missing. It must be safe, and all folders above it: otherwise code
/// of others would run.
fn folder() -> Result<PathBuf> {
    // SAFETY: `geteuid` takes no arguments and always succeeds.
    let user = unsafe { libc::geteuid() };
    let given = std::env::var_os("HOSTDNN_KERNEL_CACHE").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = given.unwrap_or_else(|| std::env::temp_dir().join(format!("hostdnn-kernels-{user}")));
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| refused(&folder, &error))?;
    trust::folder(&folder).map_err(|why| {
        let wanted = "it is to be a folder of this user's, which nobody else writes to, nor to those above it; \
                      HOSTDNN_KERNEL_CACHE names another";
        refused(&folder, &format!("{why}: {wanted}"))
    })
}

fn name<'a>(compiler: &Compiler, texts: impl Iterator<Item = &'a str>, ending: &str) -> String {
    let mut hash = Sha256::new();
    // Each field has its length before it, so that no two lists of fields give the same bytes.
    let mut add = |field: &str| {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    };
    compiler.identity().for_each(&mut add);
    texts.for_each(add);
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}.{ending}")
}
