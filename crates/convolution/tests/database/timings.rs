//! Timings of subjects that are texts: which results are stored, and which operations remove them.

use super::*;
use ::tuning::database::{Prune, Timing};

const FAMILY: &str = "recurrent";
const VERSION: &str = "0123456789abcdef";

fn network(batch: usize) -> String {
    format!(
        "LSTM input=5 hidden=64 layers=2 directions=1 bias=double type=float math=default algorithm=standard \
         layout=sequence-major padded=yes batch={batch} steps=128 full=yes"
    )
}

fn timing(what: &str, time: impl Into<Option<f64>>) -> Timing {
    Timing { what: what.into(), part: String::new(), time: time.into(), runs: 7 }
}

#[test]
fn what_was_timed_is_known_where_it_is_valid() {
    let folder = Folder::new();
    let (database, here) = (open(&folder.file("d")), environment("A"));
    let times = [timing("block u64", 0.5), timing("cuDNN", 0.75), timing("grid u8", None)];
    database.store_timings(&here, FAMILY, VERSION, &network(4), &times);
    database.store_timings(&here, FAMILY, VERSION, &network(4), &[timing("cuDNN", 0.25), timing("nan", f64::NAN)]);
    database.store_timings(&here, FAMILY, VERSION, &network(5), &times[..1]);
    let expected = [times[0].clone(), timing("cuDNN", 0.25), times[2].clone()];
    for database in [&database, &open(&folder.file("d"))] {
        assert_eq!(database.timings(&here, FAMILY, VERSION, &network(4)), expected);
        assert_eq!(database.all_timings(&here, FAMILY, VERSION).len(), 2);
        assert_eq!(database.timings(&here, FAMILY, VERSION, &network(6)), []);
        assert_eq!(database.timings(&here, FAMILY, "another", &network(4)), []);
        assert_eq!(database.timings(&here, "another", VERSION, &network(4)), []);
        assert_eq!(database.timings(&environment("B"), FAMILY, VERSION, &network(4)), []);
    }
    database.store_model(&here, FAMILY, VERSION, "efficiency=0.5");
    database.store_model(&here, FAMILY, VERSION, "efficiency=0.75");
    assert_eq!(database.model(&here, FAMILY, VERSION).as_deref(), Some("efficiency=0.75"));
    assert_eq!(database.model(&here, FAMILY, "another"), None);
    assert_eq!(database.model(&here, "another", VERSION), None);
    assert_eq!(database.model(&environment("B"), FAMILY, VERSION), None);
}

/// An implementation's time may consist of parts, each with a time of its own.
#[test]
fn parts_of_a_time_are_separate() {
    let folder = Folder::new();
    let [database, other] = ["d", "other"].map(|name| open(&folder.file(name)));
    let here = environment("A");
    let part = |part: &str, time: f64| Timing { part: part.into(), ..timing("batched", time) };
    let mut times = vec![part("fixed", 1.0), part("level", 0.25), part("vertex", 0.125)];
    database.store_timings(&here, FAMILY, VERSION, "a net", &times);
    times[1] = Timing { runs: 8, ..part("level", 0.5) };
    database.store_timings(&here, FAMILY, VERSION, "a net", &times[1..2]);
    assert_eq!(database.timings(&here, FAMILY, VERSION, "a net"), times);
    let mut text = Vec::new();
    assert_eq!(database.export(&mut text), Ok(3));
    assert_eq!(other.import(&text[..], "some.jsonl", &TEXTS).unwrap().merged, 3);
    assert_eq!(other.timings(&here, FAMILY, VERSION, "a net"), times);
}

#[test]
fn a_seed_knows_what_the_user_does_not() {
    let folder = Folder::new();
    let here = environment("A");
    let seed = open(&folder.file("seed"));
    seed.store_timings(&here, FAMILY, VERSION, &network(4), &[timing("cuDNN", 1.0), timing("block", 2.0)]);
    seed.store_model(&here, FAMILY, VERSION, "seed");
    drop(seed);
    let database = Database::open(&folder.file("d"), Some(&folder.file("seed"))).unwrap();
    assert_eq!(database.model(&here, FAMILY, VERSION).as_deref(), Some("seed"));
    database.store_timings(&here, FAMILY, VERSION, &network(4), &[timing("cuDNN", 3.0)]);
    database.store_model(&here, FAMILY, VERSION, "user");
    assert_eq!(
        database.timings(&here, FAMILY, VERSION, &network(4)),
        [timing("cuDNN", 3.0), timing("block", 2.0)],
        "the user's wins"
    );
    assert_eq!(database.model(&here, FAMILY, VERSION).as_deref(), Some("user"));
}

#[test]
fn subjects_are_listed_and_pruned() {
    let folder = Folder::new();
    let (database, kernel) = (open(&folder.file("d")), forward(8));
    let [a, b] = ["A", "B"].map(environment);
    database.store_timings(&a, FAMILY, VERSION, &network(4), &[timing("grid", 2.0), timing("cuDNN", 1.0)]);
    database.store_timings(&a, FAMILY, "older", &network(4), &[timing("grid", None)]);
    database.store_measured(&b, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    let contents = database.contents().unwrap();
    let of = |device: &str| contents.iter().find(|entry| entry.environment.device == device).unwrap();
    assert_eq!((of("A").subjects, of("A").timings, of("A").problems, of("A").outcomes), (2, 3, 0, 0));
    assert_eq!((of("B").subjects, of("B").timings, of("B").problems, of("B").outcomes), (0, 0, 1, 1));
    assert!(contents.iter().all(|entry| entry.measured.is_some()));
    let listed = database.timed(of("A").id).unwrap();
    assert_eq!(listed[0].timings, [timing("cuDNN", 1.0), timing("grid", 2.0)]);
    assert_eq!((listed[0].version.as_str(), listed[1].version.as_str(), listed.len()), (VERSION, "older", 2));
    // An environment with timings alone stays until those are removed.
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
    let times = [timing("cuDNN", 1.5), timing("grid u8", None)];
    from.store_timings(&here, FAMILY, VERSION, &network(4), &times);
    let mut text = Vec::new();
    assert_eq!(from.export(&mut text), Ok(2));
    let text = String::from_utf8(text).unwrap();
    let import = |text: &str| to.import(text.as_bytes(), "some.jsonl", &TEXTS).unwrap();
    assert_eq!(import(&text).merged, 2);
    assert_eq!((import(&text).merged, import(&text).kept), (0, 2));
    assert_eq!(to.timings(&here, FAMILY, VERSION, &network(4)), times);
    let newer = text.replace("1.5", "0.5").replace("\"measured_at\":", "\"measured_at\":9");
    assert_eq!(import(&newer).merged, 2);
    assert_eq!(to.timings(&here, FAMILY, VERSION, &network(4)), [timing("cuDNN", 0.5), times[1].clone()]);
    for (from, to, why) in [
        ("1.5", "-1.5", "its time is -1.5 ms"),
        ("hidden=64", "hidden=0", "its subject: hidden is \"0\""),
        ("\"version\"", "\"virsion\"", "virsion"),
        ("\"family\":\"recurrent\"", "\"family\":\"dynamic\"", "no family \"dynamic\" here"),
        ("\"schema\":5", "\"schema\":4", "its schema is 4"),
    ] {
        let refused = import(&text.lines().next().unwrap().replace(from, to)).refused;
        assert!(refused.len() == 1 && refused[0].contains(why), "{refused:?}");
    }
}
