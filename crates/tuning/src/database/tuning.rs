//! One tuner of a kernel at a time, over all threads and processes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::{Database, Environment, file};
use crate::subject::Subject;

/// How often a lock that another holds is asked for again.
const INTERVAL: Duration = Duration::from_millis(5);

/// Who tunes.
pub enum Tuning {
    /// The caller, until it drops the lock. What others measured while it waited is in the database: ask again
    /// for what is known.
    Mine(TuningLock),
    /// Another, still.
    TimedOut,
}

/// The right to tune a kernel, over all its batch sizes. Without a database that works it excludes nobody.
pub struct TuningLock(Option<(File, i64)>);

impl Database {
    /// Waits until nobody else tunes this kernel, `wait` at most. The system frees the lock of a process that
    /// dies.
    pub fn begin_tuning<K: Subject>(&self, environment: &Environment, kernel: &K, wait: Duration) -> Tuning {
        if !self.is_usable() {
            return Tuning::Mine(TuningLock(None));
        }
        let path = file::beside(&self.path, ".lock");
        // A description of its own each time: its locks exclude the others of this process too.
        let opened = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let offset = offset(environment, kernel);
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
            Ok(Some(lock)) => Tuning::Mine(TuningLock(Some((lock, offset)))),
            Ok(None) => Tuning::TimedOut,
            Err(error) => {
                log::debug!("{} cannot be locked: {error}; several processes may tune at once", path.display());
                Tuning::Mine(TuningLock(None))
            }
        }
    }
}

impl Drop for TuningLock {
    fn drop(&mut self) {
        if let Some((lock, offset)) = &self.0 {
            // Closing it does not do: a process that was forked meanwhile has it open too.
            let _ = set(lock, *offset, libc::F_UNLCK);
        }
    }
}

/// Locks or unlocks one byte of the file, which need not exist; whether nobody else holds it.
fn set(lock: &File, offset: i64, kind: libc::c_int) -> io::Result<bool> {
    let mut region = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: an open file, and a region that the call reads.
    if unsafe { libc::fcntl(lock.as_raw_fd(), libc::F_OFD_SETLK, &raw mut region) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES | libc::EINTR) => Ok(false),
        _ => Err(error),
    }
}

/// Which byte stands for a kernel: a hash that is the same in every process and version (FNV-1a, 64 bits, of Fowler,
/// Noll and Vo). Two kernels that share one wait for each other, which harms nothing.
fn offset<K: Subject>(environment: &Environment, kernel: &K) -> i64 {
    let text = format!("{environment}\n{}", kernel.with_batch(1).spec());
    let hash = text
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    // File offsets are positive, and the byte behind the last is one too.
    (hash >> 2) as i64
}
