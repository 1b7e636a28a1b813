//! Opening a database's file: the schema, the versions, and what may be wrong.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{PATIENCE, upgrade};

/// The version of the tables, and of what the values in them mean. A file of a newer one is not touched;
/// one of an older is brought up to date when it is opened.
pub const SCHEMA: i64 = 4;

/// What tells our files from other SQLite databases: "uDNN".
const APPLICATION: i64 = 0x7544_4E4E;

/// A kernel is kept over one image; the batch sizes are in the rows that speak of it. Times are
/// milliseconds, workspaces bytes, moments seconds since 1970. The names are explained at
/// [`Outcome`](super::Outcome) and [`Database`](super::Database).
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

/// The table of them.
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

/// What is known of recurrent networks, by a network's own text. A version that does not know these tables passes them
/// over, so that they need no schema of their own: they are made in a file without them.
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

/// Opens a user's database to read and write, a new one where there is none.
pub fn open(path: &Path) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let mut connection = Connection::open_with_flags(path, flags).map_err(Refusal::Failed)?;
        patiently(|| prepare(&mut connection))?;
        Ok(connection)
    };
    open().map_err(|refusal: Refusal| refusal.of(path))
}

/// Opens a seed, which is only read and whose folder may be read-only.
pub fn open_seed(path: &Path) -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Immutable: without locks and the files that go with them, which a site's folder has no room for. What a
    // writer has not yet moved out of its log into the file would be missed, so then it is opened as any other.
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

/// A path with something behind its file's name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// What failed with this file, and what its user can do about it.
pub fn explain(path: &Path, error: &rusqlite::Error) -> String {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "; it is left as it is: delete it, and what has its name with -wal or -shm behind, to begin anew"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "; another process holds it",
        _ => "",
    };
    let text = match error {
        // Its text names the path once more.
        rusqlite::Error::SqliteFailure(code, _) => code.to_string(),
        other => other.to_string(),
    };
    format!("the tuning database {}: {text}{advice}", path.display())
}

/// Why a file is not used.
enum Refusal {
    Failed(rusqlite::Error),
    /// It is not one of ours.
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

/// Again and again while others hold the file: SQLite's own waiting does not cover all that opening does.
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
    // While opening, `patiently` waits; it keeps one deadline for all the steps.
    connection.busy_timeout(Duration::ZERO)?;
    if connection.is_readonly("main")? {
        return Err(Refusal::ReadOnly);
    }
    if let Version::Empty = version(connection)? {
        // One process of many creates the tables; the others find them when they have waited.
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
    // On a file system that cannot share memory it stays as it is, which is slower and as safe.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // Survives the process, and with WAL the file survives the machine.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(())
}

/// Whether the file has the tables of recurrent networks: a seed that an older version made has not.
pub fn knows_networks(connection: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) = 2 FROM sqlite_schema WHERE type = 'table' AND name IN ('step_times', 'models')";
    connection.prepare_cached(query)?.query_row([], |row| row.get(0))
}

enum Version {
    /// Nothing in it yet.
    Empty,
    /// Of this schema.
    Ours(i64),
    /// Another program's.
    Foreign,
}

fn version(connection: &Connection) -> rusqlite::Result<Version> {
    // One statement sees one state of the file, whatever others do to it.
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

/// The path as an SQLite URI, in which everything but letters, digits and the usual signs is escaped.
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
