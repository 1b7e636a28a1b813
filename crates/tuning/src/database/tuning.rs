//! Only one tuner of a problem at a time, over all threads and processes.

use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Database, Environment, file};
use crate::subject::Subject;
use trust::Shown as _;

/// How often we try again to get a lock that another holds.
const INTERVAL: Duration = Duration::from_millis(5);

/// The result of waiting for the right to tune.
pub enum Tuning {
    /// The caller tunes until it drops the lock. Others may have stored results while it waited: read the database
    /// again.
    Mine(TuningLock),
    /// Another thread or process still tunes.
    TimedOut,
}

/// The right to tune a problem, over all its batch sizes. It excludes nobody if there is no usable database.
pub struct TuningLock(Option<Held>);

/// A locked byte.
enum Held {
    /// In a description of the file that is this lock's own, so that it excludes other threads of this process too.
    Own(File, i64),
    /// In the description that all explored problems of the process share, since there may be hundreds.
    Shared(Arc<Explored>, i64),
}

/// The problems that running programs of this process explore.
pub(super) struct Explored {
    file: File,
    /// The process that opened the file. A forked process shares its locks, and must not release them.
    process: u32,
    /// By its byte, the number of locks of a problem: a program may explore it within several limits.
    locks: Mutex<HashMap<i64, usize>>,
}

impl Database {
    /// Waits, for `wait` at most, until nobody else tunes this problem. The system frees the lock of a process that
    /// dies.
    pub fn begin_tuning<K: Subject>(&self, environment: &Environment, kernel: &K, wait: Duration) -> Tuning {
        if !self.is_usable() {
            return Tuning::Mine(TuningLock(None));
        }
        let offset = offset(environment, &kernel.with_batch(1).spec());
        let path = file::beside(&self.path, ".lock");
        let opened = open(&path);
        let deadline = Instant::now() + wait;
        let locked = opened.and_then(|lock| {
            while !set(&lock, offset, libc::F_WRLCK)? {
                if Instant::now() >= deadline {
                    return Ok(None);
                }
                std::thread::sleep(INTERVAL.min(deadline.saturating_duration_since(Instant::now())));
            }
            Ok(Some(lock))
        });
        match locked {
            Ok(Some(lock)) => Tuning::Mine(TuningLock(Some(Held::Own(lock, offset)))),
            Ok(None) => Tuning::TimedOut,
            Err(error) => {
                log::debug!("{} cannot be locked: {error}; several processes may tune at once", path.shown());
                Tuning::Mine(TuningLock(None))
            }
        }
    }

    /// Takes the right to explore a subject, by its text, in a running program. `None` if another process explores it now.
    /// A tuner does not wait for it: exploring may take minutes.
    pub fn begin_exploring(&self, environment: &Environment, subject: &str) -> Option<TuningLock> {
        if !self.is_usable() {
            return Some(TuningLock(None));
        }
        let shared = self.explored.get_or_init(|| {
            let path = file::beside(&self.path, ".lock");
            let failed = |error: &io::Error| {
                log::debug!("{} cannot be locked: {error}; several processes may explore the same", path.shown());
            };
            let file = open(&path).inspect_err(failed).ok()?;
            Some(Arc::new(Explored { file, process: self.process, locks: Mutex::default() }))
        });
        let Some(shared) = shared else { return Some(TuningLock(None)) };
        let offset = EXPLORED + offset(environment, subject);
        let mut locks = shared.locks.lock();
        // A file that cannot be locked excludes nobody.
        if !locks.contains_key(&offset) && !set(&shared.file, offset, libc::F_WRLCK).unwrap_or(true) {
            return None;
        }
        *locks.entry(offset).or_default() += 1;
        Some(TuningLock(Some(Held::Shared(shared.clone(), offset))))
    }
}

/// Opens the lock's file. Only its owner can lock it: a lock of another user would delay tuning.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.mode() & 0o077 != 0 {
        // An earlier version made the file. A file of another user keeps its rights.
        let _ = file.set_permissions(Permissions::from_mode(0o600));
    }
    Ok(file)
}

impl Drop for TuningLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process forked meanwhile also has it open.
        match &self.0 {
            None => {}
            Some(Held::Own(lock, offset)) => _ = set(lock, *offset, libc::F_UNLCK),
            Some(Held::Shared(shared, _)) if shared.process != std::process::id() => {}
            Some(Held::Shared(shared, offset)) => {
                let mut locks = shared.locks.lock();
                if let Some(count) = locks.get_mut(offset) {
                    *count -= 1;
                    if *count == 0 {
                        locks.remove(offset);
                        let _ = set(&shared.file, *offset, libc::F_UNLCK);
                    }
                }
            }
        }
    }
}

/// Locks or unlocks one byte of the file, which may lie beyond its end. Returns false if another holds the lock.
fn set(lock: &File, offset: i64, kind: libc::c_int) -> io::Result<bool> {
    let mut region = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open while `lock` is borrowed, and `region` is a valid `flock` during the call.
    if unsafe { libc::fcntl(lock.as_raw_fd(), libc::F_OFD_SETLK, &raw mut region) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES | libc::EINTR) => Ok(false),
        _ => Err(error),
    }
}

/// Returns the byte that stands for a subject, by its text: a hash that is the same in every process and version (FNV-1a, 64 bits,
/// of Fowler, Noll and Vo). Two problems with the same byte wait for each other, which harms nothing.
fn offset(environment: &Environment, subject: &str) -> i64 {
    let text = format!("{environment}\n{subject}");
    let hash = text
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    // Below `EXPLORED`.
    (hash >> 2) as i64
}

/// The first byte of those for exploring. Each stands for the same subject as the byte so far before it.
const EXPLORED: i64 = 1 << 62;
