//! Why a file is not used, in words.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};
use trust::Shown as _;

/// Why a file is not used.
pub enum Refusal {
    Failed(rusqlite::Error),
    /// Another program's SQLite database.
    Foreign,
    /// It is empty, and only a writer may change that.
    Empty,
    Schema {
        found: i64,
        expected: i64,
    },
    ReadOnly,
    /// This path, its own or of a file beside it, leads to a pipe, a device or a folder.
    NoFile(PathBuf),
    /// It has a view, a trigger or a table that we did not make, by this name.
    Planted(String),
    /// It has no table or index of this name.
    Lacking(String),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl Refusal {
    /// Returns whether the file cannot be written, but may perhaps be read.
    pub fn is_of_writing(&self) -> bool {
        use ErrorCode::{CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure};
        match self {
            Self::ReadOnly => true,
            Self::Failed(error) => matches!(
                error.sqlite_error_code(),
                Some(CannotOpen | DiskFull | PermissionDenied | ReadOnly | SystemIoFailure)
            ),
            _ => false,
        }
    }

    /// The message about the file of this path.
    pub fn of(self, path: &Path) -> String {
        let named = format!("the tuning database {}", path.shown());
        match self {
            Self::Failed(error) => explain(path, &error),
            Self::Foreign => format!("{named} is an SQLite database of something else, and left as it is"),
            Self::Empty => format!("{named} is an empty file"),
            Self::ReadOnly => {
                format!("{named} cannot be written: its rights, or its file system, let it be read alone")
            }
            Self::NoFile(file) => format!("{named} cannot be used: {} is not a regular file", file.shown()),
            Self::Planted(name) => {
                format!("{named} has {name:?}, which ucudnn did not make; it is left as it is: delete it to begin anew")
            }
            Self::Lacking(name) => format!("{named} lacks {name:?}; it is left as it is: delete it to begin anew"),
            Self::Schema { found, expected } => {
                let (by, advice) =
                    if found > expected { ("a newer", "") } else { ("an older", ": delete it to begin anew") };
                format!(
                    "{named} has schema {found}, of {by} ucudnn; this one reads schema {expected} alone, and leaves it as \
                     it is{advice}"
                )
            }
        }
    }
}

/// Names the failure with this file, and the remedy.
pub fn explain(path: &Path, error: &rusqlite::Error) -> String {
    let why = match error {
        // The message beside the code would repeat the path.
        rusqlite::Error::SqliteFailure(code, message) => failure(path, *code, message.as_deref()),
        other => other.to_string(),
    };
    format!("the tuning database {}: {why}", path.shown())
}

fn failure(path: &Path, error: ffi::Error, message: Option<&str>) -> String {
    match (error.code, error.extended_code) {
        (ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, code) => format!(
            "{}; it is left as it is: delete it, and what has its name with -wal or -shm behind, to begin anew",
            ffi::code_to_str(code)
        ),
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            "another process holds it, for longer than a program should wait".into()
        }
        (ErrorCode::OperationInterrupted, _) => "reading it takes too many steps".into(),
        (ErrorCode::TooBig, _) => "it has a text longer than any that ucudnn stores".into(),
        (ErrorCode::CannotOpen | ErrorCode::PermissionDenied, _) => unopened(path),
        (ErrorCode::ReadOnly, _) => "it cannot be written: its rights, or its file system, let it be read alone".into(),
        (ErrorCode::DiskFull, _) => "its disk is full".into(),
        (ErrorCode::OutOfMemory, _) | (_, ffi::SQLITE_IOERR_NOMEM) => "too little memory is left to use it".into(),
        (_, ffi::SQLITE_IOERR_SHMMAP) => {
            "the file beside it that ends in -shm cannot be mapped: too little address space is left, or its file system \
             cannot share memory"
                .into()
        }
        (_, ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMOPEN) => {
            "the file beside it that ends in -shm cannot be made: its disk is full, or files may not grow (ulimit -f)".into()
        }
        (_, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_TRUNCATE) => {
            "it cannot be written: its disk is full or failing, or files may not grow (ulimit -f)".into()
        }
        (ErrorCode::SystemIoFailure, code) => {
            format!("its disk, or its file system, fails ({}, SQLite's code {code})", ffi::code_to_str(code))
        }
        (_, code) => format!("{} (SQLite's code {code})", message.unwrap_or(ffi::code_to_str(code))),
    }
}

/// Says why a file, or one beside it, cannot be opened. SQLite's error does not.
fn unopened(path: &Path) -> String {
    let hint =
        if path.as_os_str().as_bytes().starts_with(b"file:") { "; it is taken for a path, not for a URI" } else { "" };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let why = access(folder, libc::X_OK)
        .map_err(|error| format!("its folder cannot be entered: {error}"))
        .and_then(|()| {
            match path.exists() {
                true => access(path, libc::R_OK | libc::W_OK),
                false => Ok(()),
            }
            .map_err(|error| error.to_string())
        })
        .and_then(|()| access(folder, libc::W_OK).map_err(|error| format!("its folder cannot be written: {error}")))
        .err()
        .unwrap_or_else(|| "it, or a file beside it, can be neither opened nor made".into());
    format!("it cannot be opened: {why}{hint}")
}

/// Checks that the process may access a file in this way. It does not open the file: closing it would release the
/// locks that this process holds on it.
fn access(path: &Path, mode: libc::c_int) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words() {
        let words = [
            (ffi::SQLITE_FULL, "its disk is full"),
            (ffi::SQLITE_CANTOPEN, "its folder cannot be entered: No such file or directory"),
            (ffi::SQLITE_IOERR_WRITE, "its disk is full or failing"),
            (ffi::SQLITE_IOERR_SHMSIZE, "-shm cannot be made: its disk is full"),
            (ffi::SQLITE_IOERR_SHMMAP, "-shm cannot be mapped: too little address space"),
            (ffi::SQLITE_NOMEM, "too little memory"),
            (ffi::SQLITE_READONLY, "cannot be written"),
        ];
        for (code, words) in words {
            let path = Path::new("/no\n/such/tuning.sqlite");
            let message = explain(path, &rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert!(message.starts_with("the tuning database /no\\n/such/tuning.sqlite: "), "{message}");
            assert!(message.contains(words) && !message.contains("code"), "{code}: {message}");
        }
    }
}
