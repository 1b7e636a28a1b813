//! Opening a database's file: its schema and version, and why a file may be refused.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::PATIENCE;

/// The version of the tables and of the meaning of their values. A file of another version is refused, and left as it
/// is.
pub const SCHEMA: i64 = 5;

/// The SQLite application id of our files: "uDNN".
const APPLICATION: i64 = 0x7544_4E4E;

/// A convolution problem is stored over one image; its rows have the batch sizes. Any other subject of timings is a text
/// of a family, and `version` is of that family's GPU kernels. Times are milliseconds, workspaces bytes, moments seconds
/// since 1970. [`Outcome`](super::Outcome), [`Timing`](super::Timing) and [`Database`](super::Database) explain the
/// names.
const TABLES: &str = "
    CREATE TABLE environments (
        id INTEGER PRIMARY KEY,
        device TEXT NOT NULL,
        multiprocessors INTEGER NOT NULL,
        cudnn TEXT NOT NULL,
        driver TEXT NOT NULL,
        UNIQUE (device, multiprocessors, cudnn, driver)
    ) STRICT;
    CREATE TABLE kernels (
        id INTEGER PRIMARY KEY,
        environment INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
        spec TEXT NOT NULL,
        UNIQUE (environment, spec)
    ) STRICT;
    CREATE TABLE outcomes (
        kernel INTEGER NOT NULL REFERENCES kernels (id) ON DELETE CASCADE,
        batch INTEGER NOT NULL,
        summed_in_float INTEGER NOT NULL,
        algorithm TEXT NOT NULL,
        workspace INTEGER NOT NULL,
        time_ms REAL, -- null: it does not run
        measured_at INTEGER NOT NULL,
        PRIMARY KEY (kernel, batch, summed_in_float, algorithm)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE trials (
        kernel INTEGER NOT NULL REFERENCES kernels (id) ON DELETE CASCADE,
        batch INTEGER NOT NULL,
        division TEXT NOT NULL,
        time_ms REAL, -- null: it does not run
        measured_at INTEGER NOT NULL,
        PRIMARY KEY (kernel, batch, division)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE searches (
        kernel INTEGER NOT NULL REFERENCES kernels (id) ON DELETE CASCADE,
        batch INTEGER NOT NULL,
        question TEXT NOT NULL,
        ended_at INTEGER NOT NULL,
        PRIMARY KEY (kernel, batch, question)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE timings (
        environment INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
        family TEXT NOT NULL,
        version TEXT NOT NULL,
        subject TEXT NOT NULL,
        what TEXT NOT NULL,
        part TEXT NOT NULL, -- empty: the whole time
        time_ms REAL, -- null: it does not run
        runs INTEGER NOT NULL,
        measured_at INTEGER NOT NULL,
        PRIMARY KEY (environment, family, version, subject, what, part)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE models (
        environment INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
        family TEXT NOT NULL,
        version TEXT NOT NULL,
        constants TEXT NOT NULL,
        fitted_at INTEGER NOT NULL,
        PRIMARY KEY (environment, family, version)
    ) STRICT, WITHOUT ROWID;
";

/// The most steps of SQLite's virtual machine in one operation, about a second. A database of ours takes thousands.
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
pub fn open(path: &Path, steps: &Steps) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        regular(path)?;
        let mut connection = Connection::open_with_flags(path, flags).map_err(Refusal::Failed)?;
        steps.bound(&mut connection)?;
        patiently(|| prepare(&mut connection))?;
        Ok(connection)
    };
    open().map_err(|refusal: Refusal| refusal.of(path))
}

/// Opens a database for reading only: a seed, or the user's for a command that shows it. Its folder may be read-only.
pub fn open_to_read(path: &Path, steps: &Steps) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // `immutable` does without locks and without the files for them, which a site's folder may not take. It would miss
    // results that a writer has not yet moved from its log into the file; a database with such a log opens as usual,
    // and shares the writer's files. SQLite makes the log's index (`-shm`) anew only where someone removed it.
    let log = std::fs::metadata(beside(path, "-wal"));
    let is_open = ["-shm", "-journal"].iter().any(|suffix| beside(path, suffix).exists());
    let is_whole = !is_open && log.map_or(true, |log| log.len() == 0);
    let open = || {
        regular(path)?;
        let mut connection = Connection::open_with_flags(uri(path, is_whole), flags).map_err(Refusal::Failed)?;
        steps.bound(&mut connection)?;
        connection.busy_timeout(PATIENCE)?;
        match version(&connection)? {
            Version::Ours(SCHEMA) => is_as_made(&connection).map(|()| connection),
            Version::Ours(other) => Err(Refusal::Schema(other)),
            Version::Empty => Err(Refusal::Empty),
            Version::Foreign => Err(Refusal::Foreign),
        }
    };
    open().map_err(|refusal| refusal.of(path))
}

/// Appends a suffix to the file name of a path.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Says what failed with this file, and what its user can do about it.
pub fn explain(path: &Path, error: &rusqlite::Error) -> String {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "; it is left as it is: delete it, and what has its name with -wal or -shm behind, to begin anew"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "; another process holds it",
        Some(ErrorCode::OperationInterrupted) => "; reading it takes too many steps",
        _ => "",
    };
    let text = match error {
        // The message beside the code would repeat the path.
        rusqlite::Error::SqliteFailure(code, _) => code.to_string(),
        other => other.to_string(),
    };
    format!("the tuning database {}: {text}{advice}", path.display())
}

/// Why a file is not used.
enum Refusal {
    Failed(rusqlite::Error),
    /// Another program's SQLite database.
    Foreign,
    /// Nothing is in it, which only a writer may change.
    Empty,
    Schema(i64),
    ReadOnly,
    NoFile,
    /// It has a view, a trigger or a table that we did not make, by this name.
    Planted(String),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl Refusal {
    fn of(self, path: &Path) -> String {
        let named = format!("the tuning database {}", path.display());
        match self {
            Self::Failed(error) => explain(path, &error),
            Self::Foreign => format!("{named} is an SQLite database of something else, and left as it is"),
            Self::Empty => format!("{named} is an empty file"),
            Self::ReadOnly => format!("{named} cannot be written"),
            Self::NoFile => format!("{named} is not a regular file"),
            Self::Planted(name) => {
                format!("{named} has {name:?}, which ucudnn did not make; it is left as it is: delete it to begin anew")
            }
            Self::Schema(found) => {
                let (by, advice) =
                    if found > SCHEMA { ("a newer", "") } else { ("an older", ": delete it to begin anew") };
                format!(
                    "{named} has schema {found}, of {by} ucudnn; this one reads schema {SCHEMA} alone, and leaves it as \
                     it is{advice}"
                )
            }
        }
    }
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
    if let Version::Empty = version(connection)? {
        // One process of many creates the tables; the others wait for the lock and then find them.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        if let Version::Empty = version(&transaction)? {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", SCHEMA)?;
            transaction.commit()?;
        }
    }
    match version(connection)? {
        Version::Ours(SCHEMA) => is_as_made(connection)?,
        Version::Ours(other) => return Err(Refusal::Schema(other)),
        Version::Empty | Version::Foreign => return Err(Refusal::Foreign),
    }
    // A file system that cannot share memory keeps the old mode, which is slower and as safe.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // Safe if the process is killed; with WAL, the file also survives a power failure.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(())
}

/// Refuses what is there but is no regular file: opening a pipe would wait for ever.
fn regular(path: &Path) -> Result<(), Refusal> {
    let is_other = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if is_other { Err(Refusal::NoFile) } else { Ok(()) }
}

/// Refuses views, triggers and tables that we did not make: reading and writing would run them.
fn is_as_made(connection: &Connection) -> Result<(), Refusal> {
    let model = Connection::open_in_memory()?;
    model.execute_batch(TABLES)?;
    let [expected, found] = [objects(&model)?, objects(connection)?];
    match found.into_iter().find(|object| !expected.contains(object)) {
        Some((name, _)) => Err(Refusal::Planted(name)),
        None => Ok(()),
    }
}

/// The names and definitions of a database's objects but SQLite's own, without comments and blanks.
fn objects(connection: &Connection) -> rusqlite::Result<HashSet<(String, String)>> {
    let mut statement =
        connection.prepare("SELECT name, ifnull(sql, '') FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'")?;
    let rows = statement.query_map([], |row| {
        let definition: String = row.get(1)?;
        let code = definition.lines().map(|line| line.split("--").next().unwrap_or_default());
        Ok((row.get(0)?, code.flat_map(str::split_whitespace).collect()))
    })?;
    rows.collect()
}

enum Version {
    /// An empty file.
    Empty,
    /// Our database, with this schema.
    Ours(i64),
    /// Another program's database.
    Foreign,
}

fn version(connection: &Connection) -> rusqlite::Result<Version> {
    // One statement sees one state of the file, even while others write.
    let query = "SELECT (SELECT count(*) FROM sqlite_schema), application_id, user_version
                 FROM pragma_application_id, pragma_user_version";
    let (tables, application, schema): (i64, i64, i64) =
        connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(match (tables, application, schema) {
        (_, APPLICATION, schema) => Version::Ours(schema),
        (0, 0, 0) => Version::Empty,
        _ => Version::Foreign,
    })
}

/// The path as an SQLite URI, with every byte escaped except ASCII letters, digits and `/._-`.
fn uri(path: &Path, immutable: bool) -> String {
    // An absolute path makes "file:///…", a relative one "file:…".
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "file:" });
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => uri.push(byte.into()),
            _ => uri += &format!("%{byte:02x}"),
        }
    }
    uri + if immutable { "?mode=ro&immutable=1" } else { "?mode=ro" }
}
