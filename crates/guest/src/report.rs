//! The file of the report (`UCUDNN_REPORT`): a JSON object a line, one for each event.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::settings;
use crate::writes::FailingWrites;

/// Appends a line to the report, if there is one. Each line is one write, so several processes may share a file. It never
/// waits: a pipe that nobody reads, or that is full, is an error.
pub fn write(line: impl FnOnce() -> Value) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    let Some(path) = &settings::get().report else { return };
    let _writes = FailingWrites::without_signals();
    let written = open(path).and_then(|mut file| append(&mut file, &line()));
    if let Err(error) = written
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        log::warn!("UCUDNN_REPORT={path:?} cannot be written: {error}; what is decided is not reported there");
    }
}

/// Notes that this process hands every call to cuDNN (`UCUDNN=off`).
pub fn switched_off() {
    write(|| json!({ "event": "off", "process": std::process::id() }));
}

/// Begins a report. A report that is there loses its lines, unless they are to be kept. `Err` also for another file.
pub fn begin(path: &Path, keep: bool) -> io::Result<()> {
    if !keep && path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
        if !is_report(path)? {
            return Err(io::Error::other("the file is there, and is no report"));
        }
        OpenOptions::new().write(true).truncate(true).open(path)?;
    }
    open(path).map(drop)
}

/// Returns whether a file's first line is of a report.
fn is_report(path: &Path) -> io::Result<bool> {
    /// The longest line of a report is shorter.
    const MOST: u64 = 1 << 20;
    let mut line = Vec::new();
    BufReader::new(File::open(path)?.take(MOST)).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice::<Value>(&line).is_ok_and(|line| line.get("event").is_some()))
}

/// Opens a report to append to it. A file that is new gets a first line with the library's version.
fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().create(true).append(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() == 0 {
        append(&mut file, &json!({ "event": "began", "ucudnn": env!("CARGO_PKG_VERSION") }))?;
    }
    Ok(file)
}

fn append(file: &mut File, line: &Value) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}
