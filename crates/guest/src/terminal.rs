//! The terminal that a process writes to.

use std::io::{IsTerminal, Write};

use crate::writes::StandardError;

/// The width of a terminal that does not tell its own.
const USUAL: usize = 80;

/// Returns whether standard error is a terminal on which this process may write: a program in the background is silent,
/// because it would write over what the user types.
pub(crate) fn is_ours() -> bool {
    // SAFETY: both calls take numbers, and fail with -1.
    std::io::stderr().is_terminal() && unsafe { libc::tcgetpgrp(libc::STDERR_FILENO) == libc::getpgrp() }
}

/// The columns that the terminal behind a descriptor tells of itself.
pub fn columns(descriptor: i32) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: writes one record to a live variable.
    let is_known = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) } == 0;
    (is_known && size.ws_col > 0).then_some(size.ws_col.into())
}

/// The most characters of a line on standard error that stays one.
pub(crate) fn width() -> usize {
    columns(libc::STDERR_FILENO).unwrap_or(USUAL) - 1
}

/// Writes to standard error, as far as it takes that.
pub(crate) fn write(text: &str) {
    let _ = StandardError.write_all(text.as_bytes());
}
