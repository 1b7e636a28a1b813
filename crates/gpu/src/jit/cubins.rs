//! Compiled code on disk, in a folder beside the tuning database, `tuning.sqlite-cubins`.
//!
//! A file's name is the SHA-256 of all the compiler's inputs, and the file holds its own checksum. Writers use a
//! temporary name and rename the file, so that any number of processes can read and write at once, and a killed writer
//! leaves nothing that looks complete. Code that is missing, damaged or unreadable is compiled anew.
//! `UCUDNN_DATABASE=off` keeps nothing.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use once_cell::sync::OnceCell;
use sha2::{Digest, Sha256};

use super::Source;
use super::nvrtc::{self, Architecture};
use guest::settings;
use guest::writes::FailingWrites;
use trust::Shown as _;

/// The most bytes in the folder; the least recently used files are removed first.
const LIMIT: u64 = 64 << 20;

/// The age from which a file that its writer has not renamed counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The first bytes of a file; other versions of this format start differently.
const MAGIC: &[u8; 8] = b"uDNNcub1";
const CHECKSUM: usize = 32;
const HEADER: usize = MAGIC.len() + CHECKSUM;

const SUFFIX: &str = ".cubin";
const UNFINISHED: &str = ".unfinished";

/// The folder.
pub struct Cubins {
    folder: PathBuf,
    limit: u64,
}

/// The hash of all the compiler's inputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(source: &Source, compiler: (u32, u32), architecture: &Architecture) -> Self {
        let mut hash = Sha256::new();
        // Each field follows its length, so that no two lists of fields hash alike.
        let mut add = |field: &str| {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        };
        add(&format!("NVRTC {}.{}", compiler.0, compiler.1));
        add(&source.name);
        add(&source.text);
        add(&source.headers.len().to_string());
        for (name, header) in source.headers.iter() {
            add(name);
            add(header);
        }
        nvrtc::options(source, architecture).iter().for_each(|option| add(option));
        Self(hash.finalize().into())
    }

    /// The checksum of a file under this key. It includes the key, so that a renamed file is rejected.
    fn checksum(&self, image: &[u8]) -> [u8; CHECKSUM] {
        Sha256::new().chain_update(self.0).chain_update(image).finalize().into()
    }

    pub fn file_name(&self) -> String {
        let hexadecimal = self.0.iter().map(|byte| format!("{byte:02x}"));
        hexadecimal.chain([SUFFIX.to_owned()]).collect()
    }
}

impl Cubins {
    /// The folder beside the database that the settings name. `None` without a database.
    pub fn of_process() -> Option<&'static Self> {
        static CUBINS: OnceCell<Option<Cubins>> = OnceCell::new();
        let open = || {
            let setting = &settings::get().database;
            let database = settings::place(setting, |name| std::env::var_os(name)).ok()??;
            if *setting == settings::Database::User
                && let Some(folder) = database.parent()
            {
                // A failure shows when a file is written.
                let _ = fs::create_dir_all(folder);
            }
            let mut folder = database.into_os_string();
            folder.push("-cubins");
            Some(Self::new(folder.into(), LIMIT))
        };
        CUBINS.get_or_init(open).as_ref()
    }

    /// `limit` is the most bytes in the folder.
    pub fn new(folder: PathBuf, limit: u64) -> Self {
        Self { folder, limit }
    }

    /// Returns the code that was kept under this key, if it is intact.
    pub fn find(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.trusted()?.join(key.file_name());
        let file = trust::open(&path).ok()?;
        let mut bytes = Vec::new();
        (&file).take((HEADER as u64).saturating_add(self.limit)).read_to_end(&mut bytes).ok()?;
        let checksum = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<CHECKSUM>());
        if checksum.is_none_or(|(checksum, image)| *checksum != key.checksum(image)) {
            log::info!("{} is damaged: it is compiled anew", path.shown());
            return None;
        }
        // Marks the file as recently used. A read-only folder keeps its order.
        let _ = file.set_modified(SystemTime::now());
        bytes.drain(..HEADER);
        Some(bytes)
    }

    /// Returns whether the folder has a file under this key. The file may turn out to be damaged.
    pub fn has(&self, key: &Key) -> bool {
        self.trusted().is_some_and(|folder| folder.join(key.file_name()).is_file())
    }

    /// Keeps compiled code. Returns false if it cannot; a failure is logged only.
    pub fn keep(&self, key: &Key, image: &[u8]) -> bool {
        let size = (HEADER + image.len()) as u64;
        if size > self.limit {
            return false;
        }
        let _writes = FailingWrites::without_signals();
        let kept = self.made().and_then(|folder| write(&folder, key, image).and_then(|()| self.make_room(&folder)));
        if let Err(error) = &kept {
            log::info!("compiled code is not kept in {}: {error}", self.folder.shown());
        }
        kept.is_ok()
    }

    /// The folder's real path. Whoever may write there decides which code runs on the GPU, so the path must be safe.
    fn trusted(&self) -> Option<PathBuf> {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !self.folder.exists() {
            return None;
        }
        let folder = trust::folder(&self.folder);
        if let Err(why) = &folder
            && !IS_SAID.swap(true, Ordering::Relaxed)
        {
            log::warn!("compiled kernels in {} are not used: {why}", self.folder.shown());
        }
        folder.ok()
    }

    fn made(&self) -> io::Result<PathBuf> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => trust::folder(&self.folder).map_err(io::Error::other),
        }
    }

    /// Removes the least recently used files until the rest is within the limit, and the files of dead writers.
    fn make_room(&self, folder: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let has = |suffix: &str| path.as_os_str().as_encoded_bytes().ends_with(suffix.as_bytes());
            // Another process may have removed the file meanwhile.
            let Ok(file) = fs::metadata(&path) else { continue };
            let Ok(used) = file.modified() else { continue };
            if has(UNFINISHED) && used.elapsed().is_ok_and(|age| age > ABANDONED) {
                remove(&path)?;
            } else if has(SUFFIX) {
                files.push((used, file.len(), path));
            }
        }
        files.sort_unstable();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if total <= self.limit {
                break;
            }
            remove(&path)?;
            total -= size;
        }
        Ok(())
    }
}

/// Writes a file that only this user can change, whatever the process's mask of rights says.
fn write(folder: &Path, key: &Key, image: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = key.file_name();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unfinished = folder.join(format!("{name}.{}.{number}{UNFINISHED}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    let mut write = |bytes: &[u8]| file.write_all(bytes);
    let written = write(MAGIC).and_then(|()| write(&key.checksum(image))).and_then(|()| write(image));
    let kept = written.and_then(|()| fs::rename(&unfinished, folder.join(name)));
    if kept.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    kept
}

/// Removes a file, which another process may have removed already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
