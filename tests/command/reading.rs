//! Commands that read a database leave everything on disk as it is.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use tuning::database::Database;

use super::{Installed, NETWORK, csv, environment, filled, kernel};

const READING: [&[&str]; 6] = [
    &["db", "list", "--kernels"],
    &["db", "list", "--json"],
    &["db", "export"],
    &["plan", "net.csv", "--limit", "none"],
    &["plot", "totals", "net.csv"],
    &["plot", "desirable", "net.csv", "--layers", "conv1", "--directions", "F"],
];

/// The files of a folder with their contents.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn a_log_that_a_killed_process_left_is_read_and_stays() {
    let ucudnn = Installed::new("reading-log");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let folder = ucudnn.path("db/t.sqlite").parent().unwrap().to_owned();
    // This process is the one that is killed: its files are copied while they hold the newest results.
    let live = ucudnn.path("live.sqlite");
    filled(&live, &NETWORK[..2]);
    let writer = Database::open(&live, None).unwrap();
    for direction in super::DIRECTIONS {
        let kernel = kernel(&NETWORK[2], direction);
        writer.store_measured(&environment(), &kernel, &super::outcomes(&NETWORK[2], &kernel));
    }
    for suffix in ["", "-wal", "-shm"] {
        let file = ucudnn.path(&format!("live.sqlite{suffix}"));
        std::fs::copy(file, folder.join(format!("t.sqlite{suffix}"))).unwrap();
    }
    let before = contents(&folder);
    assert!(!before["t.sqlite-wal"].is_empty(), "the results were written to the log");
    for arguments in READING {
        ucudnn.run(&[arguments, &["--database", "db/t.sqlite"]].concat());
    }
    let after = contents(&folder);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, bytes) in &before {
        assert!(*bytes == after[name], "{name} was changed");
    }
}

#[test]
fn a_database_in_a_folder_that_cannot_be_written_is_read() {
    let ucudnn = Installed::new("reading-folder");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let file = ucudnn.path("db/t.sqlite");
    filled(&file, &NETWORK);
    let folder = file.parent().unwrap();
    let before = contents(folder);
    assert_eq!(before.len(), 1, "a writer that has ended leaves one file");
    let mode = |mode: &str| assert!(Command::new("chmod").args(["-R", mode]).arg(folder).status().unwrap().success());
    mode("a-w");
    for arguments in READING {
        ucudnn.run(&[arguments, &["--database", "db/t.sqlite"]].concat());
    }
    let after = contents(folder);
    mode("u+w");
    assert!(before == after, "something was written");
}

#[test]
fn what_is_no_database_of_ours_stays_as_it_is() {
    let ucudnn = Installed::new("reading-others");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let top = ucudnn.path("net.csv").parent().unwrap().to_owned();
    for arguments in READING {
        // Nothing at all: neither the file nor its folder is made.
        let error = ucudnn.fails(1, &[arguments, &["--database", "new/t.sqlite"]].concat());
        assert!(error.starts_with("ucudnn: new/t.sqlite: no such file") && error.lines().count() == 1, "{error}");
        let error = ucudnn.fails(1, arguments);
        assert!(error.contains("home/.cache/ucudnn/tuning.sqlite: no such file"), "{error}");
        assert!(!top.join("new").exists() && !top.join("home").exists(), "a folder was made");
        // An empty file, which a writer would fill.
        ucudnn.file("db/empty.sqlite", "");
        let error = ucudnn.fails(1, &[arguments, &["--database", "db/empty.sqlite"]].concat());
        assert!(error.contains("empty.sqlite is an empty file") && error.lines().count() == 1, "{error}");
        let found = contents(ucudnn.path("db/empty.sqlite").parent().unwrap());
        assert!(found.len() == 1 && found["empty.sqlite"].is_empty(), "{:?}", found.keys());
    }
}
