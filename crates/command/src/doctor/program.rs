//! A short run of a program under the loader's own report.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::bindings::{Bindings, Files};
use crate::interrupt;
use trust::Shown as _;

/// How long a program that was asked to end may take.
const GRACE: Duration = Duration::from_secs(5);
/// How often the program is looked at.
const INTERVAL: Duration = Duration::from_millis(20);

/// What a program did.
pub struct Run {
    pub bindings: Bindings,
    /// How it ended: `with status 0`.
    pub end: String,
    /// The loader wrote something, which it does for every dynamically linked program.
    pub is_reported: bool,
}

/// Runs a prepared command for at most `time`. Its standard output becomes standard error, so that the doctor's own
/// stays readable. Ctrl-C ends the program, and then the command.
pub fn run(mut command: Command, files: &Files, time: Duration) -> Result<Run, String> {
    let folder = Folder::new()?;
    let name = command.get_program().to_owned();
    let failed = |error: io::Error| format!("{} cannot be run: {error}", name.shown());
    let stdout = io::stderr().as_fd().try_clone_to_owned().map_err(|error| format!("standard error: {error}"))?;
    command.env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", folder.0.join("bindings")).stdout(stdout);
    command.stdin(Stdio::null()).process_group(0);
    // The terminal's signals do not reach the program, which has a group of its own.
    interrupt::catch();
    let mut child = command.spawn().map_err(failed)?;
    let end = match wait(&mut child, time).map_err(failed)? {
        Some(status) => text_of(status),
        None => {
            let is_interrupted = interrupt::STOP.swap(false, Ordering::Relaxed);
            interrupt::catch(); // the next one kills the program
            end(&mut child).map_err(failed)?;
            if is_interrupted {
                drop(folder);
                interrupt::end();
            }
            format!("was ended after {} s", time.as_secs_f64())
        }
    };
    interrupt::release();
    let mut bindings = Bindings::default();
    let failed = |error: io::Error| format!("{}: {error}", folder.0.shown());
    // One file for each process, by its number: the program may start others.
    let entries = std::fs::read_dir(&folder.0).map_err(failed)?;
    let mut reports: Vec<_> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(failed)?;
    let number = |path: &PathBuf| path.extension().and_then(|number| number.to_str()?.parse::<u32>().ok());
    reports.sort_by_key(number);
    for report in &reports {
        let text = std::fs::read(report).map_err(failed)?;
        bindings.add(&String::from_utf8_lossy(&text), files);
    }
    Ok(Run { bindings, end, is_reported: !reports.is_empty() })
}

fn text_of(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The child's status, if it ends in time and before a signal.
fn wait(child: &mut Child, time: Duration) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begin.elapsed() >= time || interrupt::STOP.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Asks the child to end, and kills it if it does not, or at another signal.
fn end(child: &mut Child) -> io::Result<()> {
    let group = -(child.id() as i32);
    // SAFETY: `kill` touches no memory. The child has not been waited for, so its number is still its group's: the
    // programs that it started end with it.
    let signal = |signal| unsafe { libc::kill(group, signal) };
    signal(libc::SIGTERM);
    if wait(child, GRACE)?.is_none() {
        signal(libc::SIGKILL);
        child.wait()?;
    }
    Ok(())
}

/// A folder among temporary files, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let template = std::env::temp_dir().join("ucudnn-doctor-XXXXXX");
        let mut name = std::ffi::CString::new(template.into_os_string().into_encoded_bytes())
            .map_err(|_| "TMPDIR holds a zero byte")?
            .into_bytes_with_nul();
        // SAFETY: mkdtemp changes the six X in place, in a C string that lives on.
        let made = unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) };
        name.pop();
        let path = PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(name));
        if made.is_null() {
            return Err(format!("{}: {}", path.shown(), io::Error::last_os_error()));
        }
        // The loader of the program writes there by path.
        let folder = Self(path);
        match trust::folder(&folder.0) {
            Ok(_) => Ok(folder),
            Err(why) => Err(format!(
                "the loader's report does not go to {}: {why}; set TMPDIR to a folder that only this user and root can \
                 change",
                folder.0.display()
            )),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
