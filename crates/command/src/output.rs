//! Writing to standard output and to standard error. Rust's own macros panic if a write fails.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Failure;

/// True if the process began without a standard output.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's start, which puts `/dev/null` in the place of a closed standard output.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: F_GETFD reads the descriptor's flags, and fails for a closed descriptor.
        let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
        IS_CLOSED.store(is_closed, Ordering::Relaxed);
    }
    look
};

/// Writes a text to standard output. The command fails if that cannot take it.
pub fn print(text: &str) -> Result<(), Failure> {
    write(|output| output.write_all(text.as_bytes()))
}

/// Lets `act` write to standard output.
pub fn write(act: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Err(Failure::Failed("standard output: it is closed".into()));
    }
    // Beyond `ulimit -f`, a write is an error like others, and not the command's end.
    // SAFETY: ignoring a signal installs no handler.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mut output = io::BufWriter::new(io::stdout().lock());
    let written = act(&mut output).and_then(|()| output.flush()).and_then(|()| output.get_mut().flush());
    // Dropping the writer would write the rest once more.
    let _ = output.into_parts();
    if written.is_ok() {
        // Otherwise Rust writes the rest once more when the process ends.
        // SAFETY: this is the action of before, and this command installs none for the signal.
        unsafe { libc::signal(libc::SIGXFSZ, before) };
    }
    written.map_err(|error| Failure::Failed(format!("standard output: {error}")))
}

/// Writes a message to standard error, if that takes it.
pub fn tell(message: &str) {
    let _ = writeln!(io::stderr(), "ucudnn: {message}");
}
