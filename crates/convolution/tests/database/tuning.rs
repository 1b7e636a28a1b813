//! Only one tuner of a problem at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;
use ::tuning::database::Tuning;

const SHORT: Duration = Duration::from_millis(20);

#[test]
fn one_at_a_time() {
    let folder = Folder::new();
    let (path, here) = (folder.file("d"), environment("A"));
    let database = open(&path);
    let Tuning::Mine(first) = database.begin_tuning(&here, &forward(8), SHORT) else { panic!("nobody tunes") };
    let start = Instant::now();
    assert!(matches!(database.begin_tuning(&here, &forward(64), SHORT), Tuning::TimedOut), "whatever its batch");
    assert!(start.elapsed() >= SHORT);
    assert!(matches!(open(&path).begin_tuning(&here, &forward(8), SHORT), Tuning::TimedOut), "by another connection");
    assert!(matches!(database.begin_tuning(&here, &half_filter(8), SHORT), Tuning::Mine(_)), "another kernel");
    assert!(matches!(database.begin_tuning(&environment("B"), &forward(8), SHORT), Tuning::Mine(_)));
    drop(first);
    assert!(matches!(database.begin_tuning(&here, &forward(8), SHORT), Tuning::Mine(_)));
}

#[test]
fn who_waits_gets_it() {
    let folder = Folder::new();
    let (database, here) = (open(&folder.file("d")), environment("A"));
    let (inside, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let Tuning::Mine(_mine) = database.begin_tuning(&here, &forward(8), SHORT * 10_000) else {
                    panic!("it waits long enough")
                };
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                std::thread::sleep(Duration::from_millis(3));
                inside.fetch_sub(1, Ordering::SeqCst);
                turns.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(turns.into_inner(), 8);
}

/// Who can lock the file can delay tuning, and who can put a link there can have the library open another file.
#[test]
fn the_lock_is_the_users_alone() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let (path, here, lock) = (folder.file("d"), environment("A"), folder.file("d.lock"));
    let database = open(&path);
    let mode = || std::fs::metadata(&lock).unwrap().permissions().mode() & 0o777;
    drop(database.begin_tuning(&here, &forward(8), SHORT));
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&lock, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(database.begin_tuning(&here, &forward(8), SHORT));
    assert_eq!(mode(), 0o600, "an earlier version made it");

    std::fs::remove_file(&lock).unwrap();
    symlink(folder.file("elsewhere"), &lock).unwrap();
    assert!(matches!(database.begin_tuning(&here, &forward(8), SHORT), Tuning::Mine(_)), "it excludes nobody");
    assert!(!folder.file("elsewhere").exists());
}

/// Ranks of one program: one explores, and the others take its results.
#[test]
fn one_process_explores_a_problem() {
    let folder = Folder::new();
    let (path, here, spec) = (folder.file("d"), environment("A"), forward(1).spec());
    // Locks of separate databases exclude each other as those of separate processes do.
    let (one, other) = (open(&path), open(&path));
    let explores = |database: &Database| database.begin_exploring(&here, &spec);
    let [first, second] = [explores(&one), explores(&one)];
    assert!(first.is_some() && second.is_some(), "a process explores a problem within several limits");
    assert!(explores(&other).is_none());
    assert!(other.begin_exploring(&here, "another").is_some());
    assert!(other.begin_exploring(&environment("B"), &spec).is_some());
    for database in [&one, &other] {
        assert!(matches!(database.begin_tuning(&here, &forward(8), SHORT), Tuning::Mine(_)), "a tuner does not wait");
    }
    drop(first);
    assert!(explores(&other).is_none());
    drop(second);
    assert!(explores(&other).is_some());
    assert!(explores(&one).is_some(), "the other's lock is gone with its process");
}
