//! The tables of a database, and whether a file has these and nothing else.

use rusqlite::{Connection, Transaction};

use super::refusal::Refusal;

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

/// Returns whether a file has our tables; false for an empty one. `Err` if it has others. In a transaction, which sees
/// one state of the file, even while others write.
///
/// Nothing here runs views or triggers that others may have planted. The versions are read by pragmas, since a table
/// can have the name of a pragma's function.
pub fn is_made(transaction: &Transaction) -> Result<bool, Refusal> {
    let number = |pragma| transaction.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, schema) = (number("application_id")?, number("user_version")?);
    // Not their count: SQLite would count them in a single step.
    let has_tables = transaction.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?;
    match (has_tables, application, schema) {
        (_, APPLICATION, SCHEMA) => is_as_made(transaction).map(|()| true),
        (_, APPLICATION, other) => Err(Refusal::Schema { found: other, expected: SCHEMA }),
        (false, 0, 0) => Ok(false),
        _ => Err(Refusal::Foreign),
    }
}

/// Makes the tables in an empty file.
pub fn make(transaction: &Transaction) -> rusqlite::Result<()> {
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", SCHEMA)
}

/// Refuses views, triggers, tables and columns that we did not make, whatever their names: reading and writing would run
/// them.
fn is_as_made(connection: &Connection) -> Result<(), Refusal> {
    let model = Connection::open_in_memory()?;
    model.execute_batch(TABLES)?;
    let mut missing = objects(&model)?;
    // `ANALYZE` makes SQLite's own tables, the same in every file.
    model.execute_batch("ANALYZE")?;
    let optional: Vec<_> = objects(&model)?.into_iter().filter(|object| !missing.contains(object)).collect();
    for object in objects(connection)? {
        match missing.iter().position(|one| *one == object) {
            Some(at) => _ = missing.swap_remove(at),
            None if optional.contains(&object) => {}
            None => return Err(Refusal::Planted(object.name)),
        }
    }
    match missing.pop() {
        Some(object) => Err(Refusal::Lacking(object.name)),
        None => Ok(()),
    }
}

/// A table, index, view or trigger.
#[derive(PartialEq)]
struct Object {
    kind: String,
    name: String,
    table: String,
    /// Its definition without comments and blanks; empty for an index that a table's rules imply.
    definition: String,
}

/// All objects of a database.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<Object>> {
    let mut statement = connection.prepare("SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_schema")?;
    let rows = statement.query_map([], |row| {
        let definition: String = row.get(3)?;
        let code = definition.split('\n').map(|line| line.split("--").next().unwrap_or_default());
        let definition = code.flat_map(str::split_ascii_whitespace).collect();
        Ok(Object { kind: row.get(0)?, name: row.get(1)?, table: row.get(2)?, definition })
    })?;
    rows.collect()
}
