//! Opening a database's file: its schema and version, and why a file may be refused.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{PATIENCE, upgrade};

/// The version of the tables and of the meaning of their values. A file of a newer version is not touched; opening a
/// file of an older version upgrades it.
pub const SCHEMA: i64 = 4;

/// The SQLite application id of our files: "uDNN".
const APPLICATION: i64 = 0x7544_4E4E;

/// A problem is stored over one image; its rows have the batch sizes. Times are milliseconds, workspaces bytes, moments
/// seconds since 1970. [`Outcome`](super::Outcome) and [`Database`](super::Database) explain the names.
const TABLES: &str = "
    CREATE TABLE environments (
        id INTEGER PRIMARY KEY,
        schema INTEGER NOT NULL,
        device TEXT NOT NULL,
        multiprocessors INTEGER NOT NULL,
        cudnn TEXT NOT NULL,
        driver TEXT NOT NULL,
        UNIQUE (schema, device, multiprocessors, cudnn, driver)
    ) STRICT;
    CREATE TABLE kernels (
        id INTEGER PRIMARY KEY,
        environment INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
        spec TEXT NOT NULL,
        UNIQUE (environment, spec)
    ) STRICT;
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
";

/// The table of outcomes, which the upgrade from schema 1 also creates.
const OUTCOMES: &str = "
    CREATE TABLE outcomes (
        kernel INTEGER NOT NULL REFERENCES kernels (id) ON DELETE CASCADE,
        batch INTEGER NOT NULL,
        summed_in_float INTEGER NOT NULL,
        algorithm TEXT NOT NULL,
        workspace INTEGER NOT NULL,
        time_ms REAL, -- null: it does not run
        measured_at INTEGER NOT NULL,
        PRIMARY KEY (kernel, batch, summed_in_float, algorithm)
    ) STRICT, WITHOUT ROWID
";

/// The results of recurrent networks, each under the network's text. An older version ignores these tables, so they
/// need no new schema: opening a file without them creates them.
const OF_NETWORKS: &str = "
    CREATE TABLE IF NOT EXISTS step_times (
        environment INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
        kernels TEXT NOT NULL,
        network TEXT NOT NULL,
        what TEXT NOT NULL,
        step_ms REAL, -- null: it does not run
        measured_at INTEGER NOT NULL,
        PRIMARY KEY (environment, kernels, network, what)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS models (
        environment INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
        kernels TEXT NOT NULL,
        constants TEXT NOT NULL,
        fitted_at INTEGER NOT NULL,
        PRIMARY KEY (environment, kernels)
    ) STRICT, WITHOUT ROWID;
";

/// Opens a user's database to read and write. Creates the file if there is none.
pub fn open(path: &Path) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let mut connection = Connection::open_with_flags(path, flags).map_err(Refusal::Failed)?;
        patiently(|| prepare(&mut connection))?;
        Ok(connection)
    };
    open().map_err(|refusal: Refusal| refusal.of(path))
}

/// Opens a seed for reading only. Its folder may be read-only.
pub fn open_seed(path: &Path) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // `immutable` does without locks and without the files for them, which a site's folder may not take. It would miss
    // results that a writer has not yet moved from its log into the file; a seed with such a log opens as usual.
    let log = std::fs::metadata(beside(path, "-wal"));
    let is_whole = log.map_or(true, |log| log.len() == 0);
    let open = || {
        let connection = Connection::open_with_flags(uri(path, is_whole), flags).map_err(Refusal::Failed)?;
        connection.busy_timeout(PATIENCE)?;
        match version(&connection)? {
            Version::Ours(SCHEMA) => Ok(connection),
            Version::Ours(other) => Err(Refusal::Schema(other)),
            Version::Empty | Version::Foreign => Err(Refusal::Foreign),
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
    Schema(i64),
    ReadOnly,
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
            Self::ReadOnly => format!("{named} cannot be written"),
            Self::Schema(found) if found > SCHEMA => format!(
                "{named} has schema {found}, and this ucudnn knows schemas up to {SCHEMA}: a newer one wrote it, and it \
                 is left as it is"
            ),
            Self::Schema(found @ 1..SCHEMA) => format!(
                "{named} has schema {found}, of an older ucudnn, and is only read; `ucudnn db list --database {}` \
                 brings it up to date",
                path.display()
            ),
            Self::Schema(found) => format!("{named} has schema {found}, which no ucudnn has written"),
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
            transaction.execute_batch(OUTCOMES)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", SCHEMA)?;
            transaction.commit()?;
        }
    }
    while let Version::Ours(1..SCHEMA) = version(connection)? {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        let Version::Ours(old @ 1..SCHEMA) = version(&transaction)? else { continue };
        match old {
            1 => upgrade::from_1(&transaction, OUTCOMES)?,
            2 => upgrade::from_2(&transaction)?,
            _ => upgrade::from_3(&transaction)?,
        }
        transaction.pragma_update(None, "user_version", old + 1)?;
        transaction.commit()?;
    }
    match version(connection)? {
        Version::Ours(SCHEMA) => {}
        Version::Ours(other) => return Err(Refusal::Schema(other)),
        Version::Empty | Version::Foreign => return Err(Refusal::Foreign),
    }
    if !knows_networks(connection)? {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        transaction.execute_batch(OF_NETWORKS)?;
        transaction.commit()?;
    }
    // A file system that cannot share memory keeps the old mode, which is slower and as safe.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // Safe if the process is killed; with WAL, the file also survives a power failure.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(())
}

/// True if the file has the tables of recurrent networks. A seed made by an older version lacks them.
pub fn knows_networks(connection: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) = 2 FROM sqlite_schema WHERE type = 'table' AND name IN ('step_times', 'models')";
    connection.prepare_cached(query)?.query_row([], |row| row.get(0))
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
