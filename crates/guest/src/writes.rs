//! Failing writes of the library, which the program must not notice.

use std::io::{self, Write};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Signals of a write that fails: to a pipe that nobody reads, and beyond the limit on a file's size (`ulimit -f`). By
/// default they end the process.
const OF_WRITES: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// While it lives, writes of the calling thread that fail only return their errors: their signals do not reach the
/// program. Nobody else writes on this thread meanwhile.
pub struct FailingWrites {
    before: libc::sigset_t,
    /// The signals that were not pending before, so that a pending one comes from our writes.
    ours: libc::sigset_t,
    /// Signals wait on one thread.
    _on_its_thread: PhantomData<*const ()>,
}

impl FailingWrites {
    /// From here on, the signals wait.
    pub fn without_signals() -> Self {
        let mut before = std::mem::MaybeUninit::uninit();
        let (mut pending, mut ours) = (before, before);
        // SAFETY: each set is initialized before any other use, and all pointers are valid during the calls.
        unsafe {
            libc::sigemptyset(ours.as_mut_ptr());
            OF_WRITES.iter().for_each(|signal| _ = libc::sigaddset(ours.as_mut_ptr(), *signal));
            libc::sigemptyset(pending.as_mut_ptr());
            libc::sigpending(pending.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, ours.as_ptr(), before.as_mut_ptr());
            for signal in OF_WRITES {
                if libc::sigismember(pending.as_ptr(), signal) == 1 {
                    libc::sigdelset(ours.as_mut_ptr(), signal);
                }
            }
            Self { before: before.assume_init(), ours: ours.assume_init(), _on_its_thread: PhantomData }
        }
    }
}

impl Drop for FailingWrites {
    fn drop(&mut self) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the sets are initialized, and all pointers are valid during the calls.
        unsafe {
            while libc::sigtimedwait(&self.ours, std::ptr::null_mut(), &now) > 0 {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
        }
    }
}

/// The file of descriptor 2 when the library was loaded; `None` if the descriptor was closed.
static STANDARD_ERROR: OnceLock<Option<Identity>> = OnceLock::new();

/// A file's device and number.
type Identity = (u64, u64);

/// Remembers the file of standard error. The library calls this while it is being loaded.
pub fn remember_standard_error() {
    STANDARD_ERROR.get_or_init(|| standard_error().map(|(file, _)| file));
}

/// The file of descriptor 2 now, with its mode.
fn standard_error() -> Option<(Identity, libc::mode_t)> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `fstat` fills the record, or fails.
    let status = unsafe { (libc::fstat(libc::STDERR_FILENO, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }?;
    Some(((status.st_dev, status.st_ino), status.st_mode))
}

/// Standard error, for messages that the program survives whatever became of it. A program may have closed descriptor 2
/// and opened a file of its own, which gets its number: nothing is written there. It may also have redirected its
/// messages, to a terminal, a pipe or a log that it appends to.
pub struct StandardError;

/// Returns whether descriptor 2 takes messages: it is the same file as when the library was loaded, or a place for
/// messages.
fn takes_messages() -> bool {
    let now = standard_error();
    let first = *STANDARD_ERROR.get_or_init(|| now.map(|(file, _)| file));
    let (Some((file, mode)), Some(first)) = (now, first) else { return false };
    // SAFETY: `fcntl` only returns the descriptor's flags, or fails with -1.
    let is_appended = || match unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFL) } {
        -1 => false,
        flags => flags & libc::O_APPEND != 0,
    };
    file == first || [libc::S_IFIFO, libc::S_IFCHR].contains(&(mode & libc::S_IFMT)) || is_appended()
}

impl Write for StandardError {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if !takes_messages() {
            return Ok(text.len());
        }
        let _writes = FailingWrites::without_signals();
        io::stderr().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};

    /// In a child: this process ignores SIGPIPE, as all Rust programs do.
    #[test]
    fn a_write_that_fails_only_returns_its_error() {
        const CHILD: &str = "UCUDNN_TEST_CHILD";
        if std::env::var_os(CHILD).is_none() {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "writes::tests::a_write_that_fails_only_returns_its_error"]).env(CHILD, "1");
            let output = child.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            return;
        }
        // SAFETY: the default action is no function of this program.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        for _ in 0..2 {
            let _writes = super::FailingWrites::without_signals();
            assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
    }
}
