//! Compiled objects on disk. A file is named by the SHA-256 of all that determines it, made in a folder of its maker's own
//! and renamed, so any number of processes compile and load at once, and one that is killed leaves nothing that is taken
//! for whole. Objects that nobody has used for a week go.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use cudnn_abi::CUDNN_STATUS_INTERNAL_ERROR;
use sha2::{Digest, Sha256};

use super::Source;
use super::compiler::{Compiler, EMULATOR, definitions};
use crate::error::{Error, Result};

/// How long a file is kept that nobody uses, and a maker's folder.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where an object is, or will be.
pub struct Object {
    folder: PathBuf,
    name: String,
}

impl Object {
    /// The one that this compiler makes of a source. Fails where there is no folder to keep it in.
    pub fn of(source: &Source, compiler: &Compiler) -> Result<Self> {
        Ok(Self { folder: folder()?, name: name(source, compiler) })
    }

    /// The object, if it was made before.
    pub fn find(&self) -> Option<PathBuf> {
        let path = self.folder.join(&self.name);
        // It is used: it is kept. A folder that is only read keeps its order.
        File::open(&path).ok()?.set_modified(SystemTime::now()).ok();
        Some(path)
    }

    /// The object, made by `make` at the path that it is handed, beside an empty folder for what it takes.
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
            .and_then(|()| fs::rename(&made, &path).map_err(|error| refused(&path, &error)));
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

/// The folder, made if it is not there. What lies among the temporary files is the user's own, and nobody else's to write,
/// or code of others would run.
fn folder() -> Result<PathBuf> {
    // SAFETY: only asks.
    let user = unsafe { libc::geteuid() };
    let given = std::env::var_os("HOSTDNN_KERNEL_CACHE").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = given.unwrap_or_else(|| std::env::temp_dir().join(format!("hostdnn-kernels-{user}")));
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| refused(&folder, &error))?;
    let about = fs::symlink_metadata(&folder).map_err(|error| refused(&folder, &error))?;
    if about.is_dir() && about.uid() == user && about.mode() & 0o022 == 0 {
        return folder.canonicalize().map_err(|error| refused(&folder, &error));
    }
    Err(refused(
        &folder,
        &"it is to be a folder of this user's, which nobody else writes to; HOSTDNN_KERNEL_CACHE names another",
    ))
}

fn name(source: &Source, compiler: &Compiler) -> String {
    let mut hash = Sha256::new();
    // Each field behind its length: no two lists of fields read alike.
    let mut add = |field: &str| {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    };
    compiler.identity().for_each(&mut add);
    for (name, text) in [(source.name, source.text)].iter().chain(source.headers).chain(EMULATOR) {
        add(name);
        add(text);
    }
    definitions(source).for_each(add);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).chain([".so".to_owned()]).collect()
}
