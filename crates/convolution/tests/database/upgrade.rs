//! Opening a file of an older schema upgrades it and keeps its results.

use rusqlite::{Connection, params};

use super::*;
use planner::Configuration;

/// A file of schema 1, with one environment and one problem.
fn schema_1(path: &Path, here: &Environment, kernel: &Problem) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE environments (id INTEGER PRIMARY KEY, schema INTEGER NOT NULL, device TEXT NOT NULL,
                 multiprocessors INTEGER NOT NULL, cudnn TEXT NOT NULL, driver TEXT NOT NULL,
                 UNIQUE (schema, device, multiprocessors, cudnn, driver)) STRICT;
             CREATE TABLE kernels (id INTEGER PRIMARY KEY,
                 environment INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
                 spec TEXT NOT NULL, UNIQUE (environment, spec)) STRICT;
             CREATE TABLE outcomes (kernel INTEGER NOT NULL REFERENCES kernels (id) ON DELETE CASCADE,
                 batch INTEGER NOT NULL, summed_in_float INTEGER NOT NULL, algorithm INTEGER NOT NULL,
                 math_type INTEGER NOT NULL, deterministic INTEGER NOT NULL, workspace INTEGER NOT NULL,
                 time_ms REAL, measured_at INTEGER NOT NULL,
                 PRIMARY KEY (kernel, batch, summed_in_float, algorithm, math_type)) STRICT, WITHOUT ROWID;
             CREATE TABLE trials (kernel INTEGER NOT NULL REFERENCES kernels (id) ON DELETE CASCADE,
                 batch INTEGER NOT NULL, division TEXT NOT NULL, time_ms REAL, measured_at INTEGER NOT NULL,
                 PRIMARY KEY (kernel, batch, division)) STRICT, WITHOUT ROWID;
             CREATE TABLE searches (kernel INTEGER NOT NULL REFERENCES kernels (id) ON DELETE CASCADE,
                 batch INTEGER NOT NULL, question TEXT NOT NULL, ended_at INTEGER NOT NULL,
                 PRIMARY KEY (kernel, batch, question)) STRICT, WITHOUT ROWID;
             PRAGMA application_id = 0x75444E4E;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    let Environment { device, multiprocessors, cudnn, driver } = here;
    connection
        .execute(
            "INSERT INTO environments VALUES (1, 1, ?1, ?2, ?3, ?4)",
            params![device, multiprocessors, cudnn, driver],
        )
        .unwrap();
    connection.execute("INSERT INTO kernels VALUES (1, 1, ?1)", [kernel.with_batch(1).spec()]).unwrap();
    connection
}

#[test]
fn what_schema_1_knew_is_known() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(36));
    let old = schema_1(&path, &here, &kernel);
    old.execute_batch(
        "INSERT INTO outcomes VALUES (1, 16, 0, 1, 0, 1, 16000, 0.25, 1000), (1, 4, 0, 3, 0, 0, 4000, 0.5, 1001),
             (1, 36, 0, 0, 0, 1, 36000, NULL, 1002);
         INSERT INTO trials VALUES (1, 36, '2x16:1:0+1x4:3:0', 1.5, 1003), (1, 36, '1x36:7:0', 9.0, 1004);
         INSERT INTO searches VALUES (1, 36, 'all', 1005);",
    )
    .unwrap();
    drop(old);
    let database = open(&path);
    let expected = [outcome(&kernel, 4, 3, 0.5), outcome(&kernel, 16, 1, 0.25), outcome(&kernel, 36, 0, None)];
    assert_eq!(sorted(database.measured(&here, &kernel)), expected);
    let [four, sixteen] = [expected[0], expected[1]].map(|outcome| outcome.micro_configuration().unwrap());
    let divided = Configuration::new([(2, sixteen), (1, four)]);
    assert_eq!(database.trials(&here, &kernel), [(divided, Some(1.5))], "of the other a part is not known");
    assert!(database.search_ended(&here, &kernel, "all"));
    let contents = database.contents().unwrap();
    let moments = contents[0].measured.map(|(first, last)| [first, last].map(|at| at.elapsed().unwrap()));
    assert!(moments.unwrap().iter().all(|since| since.as_secs() > 1_000_000_000), "with their moments");
    drop(database);
    assert_eq!(sorted(open(&path).measured(&here, &kernel)), expected, "once and for all");
}

#[test]
fn many_bring_one_up_to_date() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(8));
    let old = schema_1(&path, &here, &kernel);
    old.execute_batch("INSERT INTO outcomes VALUES (1, 8, 0, 1, 0, 1, 8000, 0.25, 1000)").unwrap();
    drop(old);
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                assert_eq!(open(&path).measured(&here, &kernel), [outcome(&kernel, 8, 1, 0.25)]);
            });
        }
    });
}

#[test]
fn a_seed_of_schema_1_is_left_out_as_it_is() {
    let folder = Folder::new();
    let (seed, here, kernel) = (folder.file("seed"), environment("A"), forward(8));
    drop(schema_1(&seed, &here, &kernel));
    let before = std::fs::read(&seed).unwrap();
    let database = Database::open(&folder.file("user"), Some(&seed)).unwrap();
    assert_eq!(database.measured(&here, &kernel), []);
    assert!(std::fs::read(&seed).unwrap() == before);
}
