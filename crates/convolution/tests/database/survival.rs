//! Files that cannot be used: the error names the file and comes within bounded time, and the file stays as it is.

use std::time::Instant;

use rusqlite::Connection;

use super::*;
use ::tuning::database::PATIENCE;

/// Returns the error for a file that must neither be used nor changed.
fn refused(path: &Path) -> String {
    let before = std::fs::read(path).ok();
    let start = Instant::now();
    let error = Database::open(path, None).err().expect("it is refused");
    assert!(start.elapsed() < PATIENCE * 5, "{:?}", start.elapsed());
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert!(std::fs::read(path).ok() == before, "it stays as it is");
    let as_seed = Database::open(&path.with_extension("user"), Some(path));
    assert!(as_seed.is_ok(), "as a seed it is left out");
    error
}

#[test]
fn garbage_is_refused() {
    let folder = Folder::new();
    let path = folder.file("garbage");
    std::fs::write(&path, "SQLite format 2 or so".repeat(500)).unwrap();
    let error = refused(&path);
    assert!(error.contains("not a database") && error.contains("delete it"), "{error}");
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = Folder::new();
    let path = folder.file("newer");
    drop(open(&path));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let error = refused(&path);
    assert!(error.contains("schema 7") && error.contains("newer") && error.contains("schema 5 alone"), "{error}");
}

#[test]
fn an_older_schema_is_refused() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("older"), environment("A"), forward(8));
    open(&path).store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 4).unwrap();
    let error = refused(&path);
    assert!(error.contains("schema 4") && error.contains("older") && error.contains("schema 5 alone"), "{error}");
    let before = std::fs::read(&path).unwrap();
    let database = Database::open(&folder.file("user"), Some(&path)).unwrap();
    assert_eq!(database.measured(&here, &kernel), [], "a seed of an older schema is not used");
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn another_program_s_database_is_refused() {
    let folder = Folder::new();
    let path = folder.file("theirs");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    assert!(refused(&path).contains("something else"));
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let folder = Folder::new();
    // Not even root can create files there.
    assert!(Database::open(Path::new("/proc/tuning.sqlite"), None).err().unwrap().contains("/proc/tuning.sqlite"));
    assert!(Database::open(&folder.file("missing/tuning.sqlite"), None).is_err());
    assert!(Database::open(&folder.0, None).is_err(), "a folder");
}

#[test]
fn a_locked_file_is_waited_for_and_refused() {
    let folder = Folder::new();
    let path = folder.file("locked");
    drop(open(&path));
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE").unwrap();
    let start = Instant::now();
    let error = Database::open(&path, None).err().unwrap();
    assert!(error.contains("another process holds it"), "{error}");
    assert!((PATIENCE..PATIENCE * 3).contains(&start.elapsed()), "{:?}", start.elapsed());
    drop(holder);
    open(&path);
}

#[test]
fn a_lock_while_it_is_used_costs_one_wait() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(8));
    let database = open(&path);
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    for _ in 0..50 {
        database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    }
    assert!((PATIENCE..PATIENCE * 3).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(database.measured(&here, &kernel), []);
}

#[test]
fn a_file_that_breaks_while_it_is_used_is_given_up() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(8));
    let database = open(&path);
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    drop(database);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0x5A); // every page but the first, which holds versions and tables
    std::fs::write(&path, &bytes).unwrap();
    let database = open(&path);
    assert_eq!(database.measured(&here, &kernel), []);
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 2.0)]);
    assert!(!database.search_ended(&here, &kernel, "all"));
    drop(database);
    assert!(std::fs::read(&path).unwrap() == bytes, "it stays as it is");
}

#[test]
fn a_full_disk_loses_nothing_that_was_stored() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(8));
    let database = open(&path);
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 0, 1.0)]);
    // SQLite then fails as on a full disk.
    database.limit_pages(1).unwrap();
    let many: Vec<_> = (1..5000).map(|id| outcome(&kernel, 8, id, 1.0)).collect();
    database.store_measured(&here, &kernel, &many);
    assert_eq!(database.measured(&here, &kernel), [], "given up");
    assert_eq!(open(&path).measured(&here, &kernel), [outcome(&kernel, 8, 0, 1.0)]);
}

#[test]
fn many_make_one_database() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(8));
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for id in 0..8 {
            let (path, here, kernel, start) = (&path, &here, &kernel, &start);
            scope.spawn(move || {
                start.wait();
                let database = open(path);
                for batch in 1..=8 {
                    database.store_measured(here, kernel, &[outcome(kernel, batch, id, 1.0)]);
                }
            });
        }
    });
    assert_eq!(open(&path).measured(&here, &kernel).len(), 64);
}

#[test]
fn a_forked_child_leaves_it_alone() {
    let folder = Folder::new();
    let (database, here, kernel) = (open(&folder.file("d")), environment("A"), forward(8));
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    // SAFETY: the child only reads its copy of the memory, allocates at most, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let untouched = database.measured(&here, &kernel).is_empty();
        // SAFETY: ends the child at once, without the exit handlers that the parent registered.
        unsafe { libc::_exit(if untouched { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writing, and `child` is our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(database.measured(&here, &kernel).len(), 1);
}

/// Reading and writing would run what others planted.
#[test]
fn objects_that_we_did_not_make_are_refused() {
    let plants = [
        ("CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", "endless"),
        ("CREATE TRIGGER planted AFTER INSERT ON outcomes BEGIN DELETE FROM outcomes; END", "planted"),
        ("ALTER TABLE models ADD COLUMN planted TEXT AS (hex(zeroblob(100000000)))", "models"),
        (
            "DROP TABLE outcomes; CREATE VIEW outcomes AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             SELECT 1 AS kernel, i AS batch, 0 AS summed_in_float, '1:0:deterministic' AS algorithm, 0 AS workspace,
             1.0 AS time_ms, 0 AS measured_at FROM n",
            "outcomes",
        ),
    ];
    for (plant, name) in plants {
        let folder = Folder::new();
        let path = folder.file("planted");
        drop(open(&path));
        Connection::open(&path).unwrap().execute_batch(plant).unwrap();
        let error = refused(&path);
        assert!(
            error.contains(&format!("has {name:?}, which ucudnn did not make")) && error.contains("delete it"),
            "{error}"
        );
    }
}

/// SQLite's own tables come from commands such as ANALYZE.
#[test]
fn what_sqlite_keeps_for_itself_is_no_plant() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("analysed"), environment("A"), forward(8));
    open(&path).store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    Connection::open(&path).unwrap().execute_batch("ANALYZE; VACUUM").unwrap();
    assert_eq!(open(&path).measured(&here, &kernel).len(), 1);
}

/// Hundreds of thousands of rows of one problem would keep a program waiting in each of its starts.
#[test]
fn planted_rows_are_bounded() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("rows"), environment("A"), forward(1_000_000));
    open(&path).store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    let plant = "WITH RECURSIVE n(i) AS (SELECT 9 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
                 INSERT INTO outcomes SELECT 1, i, 0, '1:0:deterministic', 0, 1.0, 0 FROM n";
    Connection::open(&path).unwrap().execute_batch(plant).unwrap();
    assert_eq!(open(&path).measured(&here, &kernel).len(), 1 << 15);
}

/// Opening a pipe would wait for a writer for ever.
#[test]
fn a_pipe_is_no_database() {
    let folder = Folder::new();
    let path = folder.file("pipe");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `name` is a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let error = Database::open(&path, None).err().unwrap();
    assert!(error.contains("is not a regular file"), "{error}");
    assert!(Database::open(&folder.file("user"), Some(&path)).is_ok(), "as a seed it is left out");
}
