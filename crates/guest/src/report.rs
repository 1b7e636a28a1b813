//! The file of the report (`UCUDNN_REPORT`): a JSON object a line, one for each event.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::settings;
use crate::writes::FailingWrites;

/// Appends a line to the report, if there is one. Each line is one write, so several processes may share a file. It never
/// waits: a pipe that nobody reads, or that is full, is an error.
pub fn write(line: impl FnOnce() -> Value) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    let Some(path) = &settings::get().report else { return };
    let _writes = FailingWrites::without_signals();
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .and_then(|mut file| file.write_all(format!("{}\n", line()).as_bytes()));
    if let Err(error) = written
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        log::warn!("UCUDNN_REPORT={path:?} cannot be written: {error}; what is decided is not reported there");
    }
}
