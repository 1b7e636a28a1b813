//! Opening a database's file.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::PATIENCE;
use super::refusal::Refusal;
use super::schema;

/// The most steps of SQLite's virtual machine in one operation, about a second. A sound database takes thousands.
const MOST_STEPS: i64 = 50_000_000;
/// The steps between two looks at their count.
const STEPS: u16 = 50_000;

/// The steps of a connection's operation so far.
#[derive(Clone, Default)]
pub struct Steps(Arc<AtomicI64>);

impl Steps {
    /// A new operation begins.
    pub fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// A new operation begins that may take any time: its user waits for it and can end it.
    pub fn begin_unbounded(&self) {
        self.0.store(i64::MIN, Ordering::Relaxed);
    }

    /// From now on, operations of more than [`MOST_STEPS`] steps fail: someone may have planted rows without end.
    fn bound(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let steps = self.0.clone();
        let is_over = move || steps.fetch_add(STEPS.into(), Ordering::Relaxed) > MOST_STEPS;
        connection.progress_handler(STEPS.into(), Some(is_over))
    }
}

/// Opens a user's database to read and write. Creates the file if there is none.
pub fn open(path: &Path, steps: &Steps) -> Result<Connection, Refusal> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(place(path)?, flags)?;
    harden(&connection)?;
    steps.bound(&mut connection)?;
    patiently(|| prepare(&mut connection))?;
    Ok(connection)
}

/// Opens a database for reading only: a seed, the user's for a command that shows it, or one that cannot be written. Its
/// folder may be read-only. Nothing is made or changed.
pub fn open_to_read(path: &Path, steps: &Steps) -> Result<Connection, Refusal> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let place = place(path)?;
    let reading = Reading::of(&place);
    let mut connection = Connection::open_with_flags(uri(&place, &reading), flags)?;
    harden(&connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if let Reading::WithLog = reading {
        // SQLite then makes the index in memory.
        connection.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
    }
    steps.bound(&mut connection)?;
    connection.busy_timeout(PATIENCE)?;
    let is_made = schema::is_made(&connection.transaction()?)?;
    if is_made { Ok(connection) } else { Err(Refusal::Empty) }
}

/// How to read a file without making another beside it.
enum Reading {
    /// The file is whole: without locks, and without the files for them, which a site's folder may not take.
    Immutable,
    /// A writer has its log (`-wal`) and the log's index (`-shm`) open, or was killed: both are read.
    WithIndex,
    /// There is a log without its index, which someone removed, so no writer has them open: without locks.
    WithLog,
    /// The file system cannot share memory, and a writer has the file open, or was killed.
    WithJournal,
}

impl Reading {
    fn of(place: &Path) -> Self {
        let has_log = std::fs::metadata(beside(place, "-wal")).map(|log| log.len() > 0);
        let is_there = |suffix| beside(place, suffix).exists();
        match has_log {
            Ok(_) if is_there("-shm") => Self::WithIndex,
            Ok(true) => Self::WithLog,
            _ if is_there("-journal") => Self::WithJournal,
            _ => Self::Immutable,
        }
    }

    /// The parameters of the file's URI.
    fn parameters(&self) -> &'static str {
        match self {
            Self::Immutable => "?mode=ro&immutable=1",
            Self::WithIndex => "?mode=ro&readonly_shm=1",
            Self::WithLog => "?mode=ro&vfs=unix-none",
            Self::WithJournal => "?mode=ro",
        }
    }
}

/// The path as SQLite opens it: absolute, and links followed. SQLite takes a relative path for a URI if it begins with
/// `file:`, and for a database in memory if it is `:memory:`. Refuses pipes and devices, there and beside: opening one
/// could wait for ever.
fn place(path: &Path) -> Result<PathBuf, Refusal> {
    let real = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let real = real.unwrap_or_else(|_| Path::new(".").join(path));
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let file = beside(&real, suffix);
        if std::fs::metadata(&file).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(Refusal::NoFile(if suffix.is_empty() { path.to_owned() } else { file }));
        }
    }
    Ok(real)
}

/// The most bytes of a text or a row. Ours take some thousands.
const MOST_BYTES: i32 = 1 << 20;
/// The most bytes of a pattern, and the deepest expression. Our statements have neither.
const MOST_OF_PATTERNS: i32 = 100;

/// Restricts a connection before SQLite reads anything: others may have planted views or triggers, or may plant them
/// after the file was checked. Limits on texts and patterns keep each single step of SQLite short.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MOST_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MOST_OF_PATTERNS)?;
    connection.set_limit(Limit::SQLITE_LIMIT_EXPR_DEPTH, MOST_OF_PATTERNS)?;
    Ok(())
}

/// Appends a suffix to the file name of a path.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Repeats `act` while others hold the file: SQLite's own waiting does not cover every step of opening.
fn patiently<T>(mut act: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match act() {
            Err(Refusal::Failed(error))
                if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

fn prepare(connection: &mut Connection) -> Result<(), Refusal> {
    // `patiently` does the waiting, with one deadline for all steps.
    connection.busy_timeout(Duration::ZERO)?;
    if connection.is_readonly("main")? {
        return Err(Refusal::ReadOnly);
    }
    if !schema::is_made(&connection.transaction()?)? {
        // One process of many creates the tables; the others wait for the lock and then find them.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        if !schema::is_made(&transaction)? {
            schema::make(&transaction)?;
            transaction.commit()?;
        }
    }
    // A file system that cannot share memory keeps the old mode, which is slower and as safe.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // Safe if the process is killed; with WAL, the file also survives a power failure.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(())
}

/// The path as an SQLite URI, with every byte escaped except ASCII letters, digits and `/._-`.
fn uri(path: &Path, reading: &Reading) -> String {
    // An absolute path makes "file:///…", a relative one "file:…".
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "file:" });
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => uri.push(byte.into()),
            _ => uri += &format!("%{byte:02x}"),
        }
    }
    uri + reading.parameters()
}
