//! Files that cannot be used: the error names the file, and the file stays as it is.

use std::time::Instant;

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;

use super::*;
use ::tuning::database::PATIENCE;

/// Returns the error for a file that must neither be used nor changed.
fn refused(path: &Path) -> String {
    let before = std::fs::read(path).ok();
    let error = Database::open(path, None).err().expect("it is refused");
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
    assert!(start.elapsed() >= PATIENCE, "{:?}", start.elapsed());
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
    // Calls enough to tell a wait for each from one wait, where a busy machine makes that one longer.
    const CALLS: u32 = 500;
    let start = Instant::now();
    for _ in 0..CALLS {
        database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    }
    assert!((PATIENCE..PATIENCE * CALLS / 10).contains(&start.elapsed()), "{:?}", start.elapsed());
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

/// One step of such a trigger or column takes minutes, and so a bound on steps ends neither.
#[test]
fn objects_with_names_of_sqlite_s_own_are_refused_at_once() {
    let long = "hex(zeroblob(40000000))";
    let sql = format!("CREATE TRIGGER sqlite_x BEFORE INSERT ON outcomes BEGIN SELECT length({long}); END");
    let table = format!("CREATE TABLE pragma_user_version (a, user_version AS (length({long})))");
    for (kind, name, on, sql) in
        [("trigger", "sqlite_x", "outcomes", sql), ("table", "pragma_user_version", "pragma_user_version", table)]
    {
        let folder = Folder::new();
        let path = folder.file("planted");
        drop(open(&path));
        let connection = Connection::open(&path).unwrap();
        if kind == "table" {
            connection.execute_batch(&format!("{sql}; INSERT INTO pragma_user_version VALUES (1)")).unwrap();
        } else {
            // Only so can a trigger get such a name.
            connection.execute_batch("PRAGMA writable_schema = on").unwrap();
            let values = rusqlite::params![kind, name, on, sql];
            connection.execute("INSERT INTO sqlite_schema VALUES (?1, ?2, ?3, 0, ?4)", values).unwrap();
        }
        drop(connection);
        let error = refused(&path);
        assert!(error.contains(&format!("has {name:?}, which ucudnn did not make")), "{error}");
    }
}

/// Another program may plant while a database is open: its trigger does not run.
#[test]
fn triggers_that_are_planted_later_do_not_run() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("later"), environment("A"), forward(8));
    let database = open(&path);
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    let plant = "CREATE TRIGGER planted AFTER INSERT ON outcomes BEGIN DELETE FROM outcomes; END";
    Connection::open(&path).unwrap().execute_batch(plant).unwrap();
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 2, 2.0)]);
    assert_eq!(sorted(database.measured(&here, &kernel)), [outcome(&kernel, 8, 1, 1.0), outcome(&kernel, 8, 2, 2.0)]);
}

#[test]
fn a_database_without_one_of_our_tables_is_refused() {
    let folder = Folder::new();
    let path = folder.file("lacking");
    drop(open(&path));
    Connection::open(&path).unwrap().execute_batch("DROP TABLE models").unwrap();
    let error = refused(&path);
    assert!(error.contains("lacks") && error.contains("models") && error.contains("delete it"), "{error}");
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

/// Makes a pipe that nobody writes to.
fn pipe(path: &Path) {
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `name` is a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Opening a pipe would wait for a writer for ever, also one beside the file.
#[test]
fn pipes_and_devices_beside_the_file_are_refused() {
    for suffix in ["-journal", "-wal", "-shm"] {
        let folder = Folder::new();
        let path = folder.file("d");
        drop(open(&path));
        let beside = folder.file(&format!("d{suffix}"));
        pipe(&beside);
        for error in [Database::open(&path, None), Database::read(&path, None)].map(|opened| opened.err().unwrap()) {
            assert!(error.contains(&format!("{} is not a regular file", beside.display())), "{error}");
        }
        // SQLite keeps them beside the file that a link leads to.
        let link = folder.file("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Database::open(&link, None).is_err());
    }
    for device in ["/dev/zero", "/dev/tty", "/dev"] {
        assert!(Database::open(Path::new(device), None).err().unwrap().contains("is not a regular file"));
    }
}

/// The name is a path as others are, below the working directory.
#[test]
fn a_uri_is_a_path() {
    let folder = Folder::new();
    let path = folder.file("pipe");
    pipe(&path);
    let uri = PathBuf::from(format!("file:{}", path.display()));
    for opened in [Database::open(&uri, None), Database::read(&uri, None)] {
        let error = opened.err().unwrap();
        assert!(error.contains("taken for a path, not for a URI"), "{error}");
    }
    assert!(Database::open(&folder.file("user"), Some(&uri)).is_ok(), "as a seed it is left out");
}

/// A row whose numbers are none of ours costs that row, and no other.
#[test]
fn an_impossible_number_leaves_out_its_row_alone() {
    for wrong in ["workspace = -1", "time_ms = -1.0", "time_ms = 9e999", "batch = 0", "batch = -9223372036854775808"] {
        let folder = Folder::new();
        let (path, here, kernel) = (folder.file("numbers"), environment("A"), forward(8));
        let database = open(&path);
        database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0), outcome(&kernel, 8, 2, 2.0)]);
        let set = format!("UPDATE outcomes SET {wrong} WHERE algorithm LIKE '2:%'");
        assert_eq!(Connection::open(&path).unwrap().execute(&set, []).unwrap(), 1);
        for database in [open(&path), Database::read(&path, None).unwrap()] {
            assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, 1.0)], "{wrong}");
            assert_eq!(database.problems(1).unwrap()[0].sizes, [8], "{wrong}");
            assert_eq!(database.export(&mut Vec::new()), Ok(1), "{wrong}");
        }
        // Measured again, it is whole again.
        database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 2, 3.0)]);
        assert!(open(&path).measured(&here, &kernel).contains(&outcome(&kernel, 8, 2, 3.0)), "{wrong}");
    }
}

/// The files in a folder, with their bytes.
fn files(folder: &Folder) -> Vec<(OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect();
    files.sort();
    files
}

/// Runs `act` as a user who is not root, whom a file's rights bind.
fn without_rights_of_root<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: the call changes whose rights this thread alone has to files, and never fails for root.
    let set = |user| unsafe { libc::syscall(libc::SYS_setfsuid, user as libc::c_ulong) };
    // SAFETY: the call only returns a number.
    let before = unsafe { libc::geteuid() };
    set(if before == 0 { 65534 } else { before });
    let result = act();
    set(before);
    result
}

/// How a program left a database with one result.
const LEFT: [&str; 4] =
    ["closed", "killed", "killed, and its log's index removed", "closed, with an old index beside it"];

/// A folder with the file `tuned` as a program left it.
fn left(how: &str, here: &Environment, kernel: &Problem) -> Folder {
    let (used, folder) = (Folder::new(), Folder::new());
    let database = open(&used.file("tuned"));
    database.store_measured(here, kernel, &[outcome(kernel, 8, 1, 1.0)]);
    let open_files = files(&used);
    drop(database);
    for (name, bytes) in if how.starts_with("killed") { open_files.clone() } else { files(&used) } {
        std::fs::write(folder.0.join(name), bytes).unwrap();
    }
    match how {
        "killed, and its log's index removed" => std::fs::remove_file(folder.file("tuned-shm")).unwrap(),
        "closed, with an old index beside it" => {
            let index = open_files.iter().find(|(name, _)| name == "tuned-shm").unwrap();
            std::fs::write(folder.file("tuned-shm"), &index.1).unwrap();
        }
        _ => {}
    }
    folder
}

/// By the rights of the file or of its folder.
#[test]
fn a_database_that_cannot_be_written_is_read() {
    let (here, kernel) = (environment("A"), forward(8));
    for how in LEFT {
        for (of_folder, of_files) in [(0o755, 0o444), (0o555, 0o444), (0o555, 0o666)] {
            // With a writable log and index beside it, the file can be written in any folder.
            if how.starts_with("killed") && of_files == 0o666 {
                continue;
            }
            let folder = left(how, &here, &kernel);
            let before = files(&folder);
            for (name, _) in &before {
                std::fs::set_permissions(folder.0.join(name), Permissions::from_mode(of_files)).unwrap();
            }
            std::fs::set_permissions(&folder.0, Permissions::from_mode(of_folder)).unwrap();
            without_rights_of_root(|| {
                let database = Database::open_as_far_as_possible(&folder.file("tuned"), None).unwrap();
                assert!(!database.keeps(), "{how} {of_folder:o} {of_files:o}");
                assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, 1.0)], "{how} {of_folder:o}");
                database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 2, 1.0)]);
                assert_eq!(database.measured(&here, &kernel).len(), 1, "nothing is stored, and nothing given up");
            });
            std::fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).unwrap();
            assert!(files(&folder) == before, "{how} {of_folder:o} {of_files:o}: something is changed");
        }
    }
}

#[test]
fn reading_makes_and_changes_no_file() {
    let (here, kernel) = (environment("A"), forward(8));
    for how in LEFT {
        let folder = left(how, &here, &kernel);
        let before = files(&folder);
        let database = Database::read(&folder.file("tuned"), None).unwrap();
        assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, 1.0)], "{how}");
        drop(database);
        let names = |files: &[(OsString, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&files(&folder)), names(&before), "{how}");
        assert!(files(&folder) == before, "{how}: something is changed");
    }
}

/// Opening a pipe would wait for a writer for ever.
#[test]
fn a_pipe_is_no_database() {
    let folder = Folder::new();
    let path = folder.file("pipe");
    pipe(&path);
    let error = Database::open(&path, None).err().unwrap();
    assert!(error.contains("is not a regular file"), "{error}");
    assert!(Database::open(&folder.file("user"), Some(&path)).is_ok(), "as a seed it is left out");
}
