//! Recurrent networks: which results are stored, and which operations remove them.

use rusqlite::Connection;

use super::*;
use ::tuning::database::{Prune, StepTime};

const KERNELS: &str = "0123456789abcdef";

fn network(batch: usize) -> String {
    format!(
        "LSTM input=5 hidden=64 layers=2 directions=1 bias=double type=float math=default algorithm=standard \
         layout=sequence-major padded=yes batch={batch} steps=128 full=yes"
    )
}

fn step_time(what: &str, time: impl Into<Option<f64>>) -> StepTime {
    StepTime { what: what.into(), time: time.into() }
}

#[test]
fn what_was_timed_is_known_where_it_is_valid() {
    let folder = Folder::new();
    let (database, here) = (open(&folder.file("d")), environment("A"));
    let times = [step_time("block u64", 0.5), step_time("cuDNN", 0.75), step_time("grid u8", None)];
    database.store_step_times(&here, KERNELS, &network(4), &times);
    database.store_step_times(&here, KERNELS, &network(4), &[step_time("cuDNN", 0.25), step_time("nan", f64::NAN)]);
    database.store_step_times(&here, KERNELS, &network(5), &times[..1]);
    let expected = [times[0].clone(), step_time("cuDNN", 0.25), times[2].clone()];
    for database in [&database, &open(&folder.file("d"))] {
        assert_eq!(database.step_times(&here, KERNELS, &network(4)), expected);
        assert_eq!(database.all_step_times(&here, KERNELS).len(), 2);
        assert_eq!(database.step_times(&here, KERNELS, &network(6)), []);
        assert_eq!(database.step_times(&here, "another", &network(4)), []);
        assert_eq!(database.step_times(&environment("B"), KERNELS, &network(4)), []);
    }
    database.store_model(&here, KERNELS, "efficiency=0.5");
    database.store_model(&here, KERNELS, "efficiency=0.75");
    assert_eq!(database.model(&here, KERNELS).as_deref(), Some("efficiency=0.75"));
    assert_eq!(database.model(&here, "another"), None);
    assert_eq!(database.model(&environment("B"), KERNELS), None);
}

/// A file made by an older version lacks the tables of networks. A user's file gets them; a seed stays as it is.
#[test]
fn files_without_the_tables() {
    let folder = Folder::new();
    let (here, kernel) = (environment("A"), forward(8));
    let [path, seed] = ["d", "seed"].map(|name| folder.file(name));
    for path in [&path, &seed] {
        open(path).store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
        let old = Connection::open(path).unwrap();
        old.execute_batch("DROP TABLE step_times; DROP TABLE models; PRAGMA journal_mode = delete").unwrap();
    }
    let before = std::fs::read(&seed).unwrap();
    let database = Database::open(&path, Some(&seed)).unwrap();
    assert_eq!((database.step_times(&here, KERNELS, &network(4)), database.model(&here, KERNELS)), (vec![], None));
    database.store_step_times(&here, KERNELS, &network(4), &[step_time("cuDNN", 1.0)]);
    assert_eq!(database.step_times(&here, KERNELS, &network(4)), [step_time("cuDNN", 1.0)]);
    assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, 1.0)]);
    assert!(std::fs::read(&seed).unwrap() == before);
}

#[test]
fn a_seed_knows_what_the_user_does_not() {
    let folder = Folder::new();
    let here = environment("A");
    let seed = open(&folder.file("seed"));
    seed.store_step_times(&here, KERNELS, &network(4), &[step_time("cuDNN", 1.0), step_time("block", 2.0)]);
    seed.store_model(&here, KERNELS, "seed");
    drop(seed);
    let database = Database::open(&folder.file("d"), Some(&folder.file("seed"))).unwrap();
    assert_eq!(database.model(&here, KERNELS).as_deref(), Some("seed"));
    database.store_step_times(&here, KERNELS, &network(4), &[step_time("cuDNN", 3.0)]);
    database.store_model(&here, KERNELS, "user");
    assert_eq!(
        database.step_times(&here, KERNELS, &network(4)),
        [step_time("cuDNN", 3.0), step_time("block", 2.0)],
        "the user's wins"
    );
    assert_eq!(database.model(&here, KERNELS).as_deref(), Some("user"));
}

#[test]
fn networks_are_listed_and_pruned() {
    let folder = Folder::new();
    let (database, kernel) = (open(&folder.file("d")), forward(8));
    let [a, b] = ["A", "B"].map(environment);
    database.store_step_times(&a, KERNELS, &network(4), &[step_time("grid", 2.0), step_time("cuDNN", 1.0)]);
    database.store_step_times(&a, "older", &network(4), &[step_time("grid", None)]);
    database.store_measured(&b, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    let contents = database.contents().unwrap();
    let of = |device: &str| contents.iter().find(|entry| entry.environment.device == device).unwrap();
    assert_eq!((of("A").networks, of("A").step_times, of("A").problems, of("A").outcomes), (2, 3, 0, 0));
    assert_eq!((of("B").networks, of("B").step_times, of("B").problems, of("B").outcomes), (0, 0, 1, 1));
    assert!(contents.iter().all(|entry| entry.measured.is_some()));
    let listed = database.networks(of("A").id).unwrap();
    assert_eq!(listed[0].step_times, [step_time("cuDNN", 1.0), step_time("grid", 2.0)]);
    assert_eq!((listed[0].kernels.as_str(), listed[1].kernels.as_str(), listed.len()), (KERNELS, "older", 2));
    // An environment with results of networks alone stays until those are removed.
    assert_eq!(database.prune(Prune::Before(std::time::UNIX_EPOCH)), Ok(0));
    assert_eq!(database.contents().unwrap().len(), 2);
    assert_eq!(database.prune(Prune::Environment(of("A").id)), Ok(3));
    assert_eq!(database.prune(Prune::Before(std::time::SystemTime::now() + std::time::Duration::from_secs(9))), Ok(1));
    assert_eq!(database.contents().unwrap(), []);
}

#[test]
fn the_text_form_says_all_of_it() {
    let folder = Folder::new();
    let [from, to] = ["from", "to"].map(|name| open(&folder.file(name)));
    let here = environment("A");
    let times = [step_time("cuDNN", 1.5), step_time("grid u8", None)];
    from.store_step_times(&here, KERNELS, &network(4), &times);
    let mut text = Vec::new();
    assert_eq!(from.export(&mut text), Ok(2));
    let text = String::from_utf8(text).unwrap();
    let import = |text: &str| to.import(text.as_bytes(), "some.jsonl", &TEXTS).unwrap();
    assert_eq!(import(&text).merged, 2);
    assert_eq!((import(&text).merged, import(&text).kept), (0, 2));
    assert_eq!(to.step_times(&here, KERNELS, &network(4)), times);
    let newer = text.replace("1.5", "0.5").replace("\"measured_at\":", "\"measured_at\":9");
    assert_eq!(import(&newer).merged, 2);
    assert_eq!(to.step_times(&here, KERNELS, &network(4)), [step_time("cuDNN", 0.5), times[1].clone()]);
    for (from, to, why) in [
        ("1.5", "-1.5", "its time is -1.5 ms"),
        ("hidden=64", "hidden=0", "its network: hidden is \"0\""),
        ("\"kernels\"", "\"kernel\"", "kernel"),
        ("\"schema\":4", "\"schema\":5", "its schema is 5"),
    ] {
        let refused = import(&text.lines().next().unwrap().replace(from, to)).refused;
        assert!(refused.len() == 1 && refused[0].contains(why), "{refused:?}");
    }
}
