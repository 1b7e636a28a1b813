//! Results are found again under their full key, and under no other.

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use super::*;
use ::tuning::database::{Prune, place};
use guest::settings;
use planner::Configuration;

#[test]
fn outcomes_are_found_again() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(32));
    // A third needs all digits: times are stored to the last bit.
    let stored = vec![
        outcome(&kernel, 8, 1, 1.0 / 3.0),
        outcome(&kernel, 32, 0, 5e-324),
        outcome(&kernel, 32, 1, None),
        outcome(&kernel, 32, 3, 1e300),
    ];
    let database = open(&path);
    assert_eq!(database.measured(&here, &kernel), []);
    database.store_measured(&here, &kernel, &stored[..2]);
    database.store_measured(&here, &kernel, &stored[2..]);
    assert_eq!(sorted(database.measured(&here, &kernel)), stored);
    drop(database);
    assert_eq!(sorted(open(&path).measured(&here, &kernel)), stored, "by another process");
}

#[test]
fn a_kernel_s_own_batch_does_not_matter() {
    let folder = Folder::new();
    let (database, here) = (open(&folder.file("d")), environment("A"));
    let stored = [outcome(&forward(64), 64, 1, 4.0), outcome(&forward(64), 16, 1, 1.5)];
    database.store_measured(&here, &forward(64), &stored);
    assert_eq!(database.measured(&here, &forward(32)), stored[1..], "no size above its own");
    assert_eq!(database.measured(&here, &forward(128)).len(), 2);
}

#[test]
fn a_part_that_is_summed_in_float_is_another_thing() {
    let folder = Folder::new();
    let (database, here) = (open(&folder.file("d")), environment("A"));
    let whole = outcome(&half_filter(16), 16, 1, 1.0);
    let part = Outcome { workspace: 99_000, ..outcome(&half_filter(64), 16, 1, 1.5) };
    database.store_measured(&here, &half_filter(16), &[whole]);
    assert_eq!(database.measured(&here, &half_filter(64)), []);
    database.store_measured(&here, &half_filter(64), &[part]);
    assert_eq!(database.measured(&here, &half_filter(16)), [whole]);
    assert_eq!(database.measured(&here, &half_filter(32)), [part]);
}

#[test]
fn the_newest_outcome_stays() {
    let folder = Folder::new();
    let (database, here, kernel) = (open(&folder.file("d")), environment("A"), forward(8));
    for time in [Some(3.0), None, Some(2.0)] {
        database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, time)]);
        assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, time)]);
    }
    // Values that cannot be times are not stored.
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, f64::NAN), outcome(&kernel, 8, 1, -1.0)]);
    assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, 2.0)]);
}

#[test]
fn what_is_foreign_is_passed_over_and_stays() {
    let folder = Folder::new();
    let (path, kernel) = (folder.file("d"), forward(8));
    let database = open(&path);
    let here = environment("A");
    let others = [
        environment("B"),
        Environment { multiprocessors: 114, ..here.clone() },
        Environment { cudnn: "92000".into(), ..here.clone() },
        Environment { driver: "13010".into(), ..here.clone() },
    ];
    for (time, other) in (1..).zip(&others) {
        database.store_measured(other, &kernel, &[outcome(&kernel, 8, 1, f64::from(time))]);
        database.store_search_ended(other, &kernel, "all");
    }
    assert_eq!(database.measured(&here, &kernel), []);
    assert!(!database.search_ended(&here, &kernel, "all"));
    assert_eq!(database.measured(&others[3], &kernel), [outcome(&kernel, 8, 1, 4.0)]);
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 8.0)]);
    assert_eq!(database.measured(&others[0], &kernel), [outcome(&kernel, 8, 1, 1.0)]);
    let contents = database.contents().unwrap();
    assert_eq!(contents.iter().map(|environment| environment.outcomes).collect::<Vec<_>>(), [1; 5]);
}

#[test]
fn kernels_are_told_apart_by_every_field() {
    let folder = Folder::new();
    let (database, here, kernel) = (open(&folder.file("d")), environment("A"), forward(8));
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    for (field, other) in [("stride=1x1", "stride=2x1"), ("math=default", "math=fma"), ("729x27x1 w", "729x27x2 w")] {
        let other = Problem::from_spec(&kernel.spec().replace(field, other)).unwrap();
        assert_eq!(database.measured(&here, &other), [], "{field}");
    }
}

#[test]
fn trials_have_the_times_of_their_parts() {
    let folder = Folder::new();
    let (database, here, kernel) = (open(&folder.file("d")), environment("A"), forward(20));
    let outcomes = [outcome(&kernel, 8, 1, 1.0), outcome(&kernel, 4, 3, 0.7), outcome(&kernel, 20, 0, 9.0)];
    database.store_measured(&here, &kernel, &outcomes);
    let [eight, four, whole] = outcomes.map(|outcome| outcome.micro_configuration().unwrap());
    let divided = Configuration::new([(2, eight), (1, four)]);
    database.store_trial(&here, &kernel, &divided, Some(2.5));
    database.store_trial(&here, &kernel, &Configuration::undivided(whole), None);
    let mut trials = database.trials(&here, &kernel);
    trials.sort_by_key(|(configuration, _)| configuration.is_undivided());
    assert_eq!(trials, [(divided.clone(), Some(2.5)), (Configuration::undivided(whole), None)]);
    assert_eq!(database.trials(&here, &forward(40)), [], "another mini-batch");

    database.store_measured(&here, &kernel, &[outcome(&kernel, 4, 3, 0.5)]);
    let trials = database.trials(&here, &kernel);
    let (again, _) = trials.iter().find(|(configuration, _)| !configuration.is_undivided()).unwrap();
    assert_eq!(again.time(), 2.5, "its parts as they are known now");
    database.store_measured(&here, &kernel, &[outcome(&kernel, 4, 3, None)]);
    assert_eq!(database.trials(&here, &kernel).len(), 1, "a part does not run any more");
}

#[test]
fn a_search_has_ended_for_its_question() {
    let folder = Folder::new();
    let (database, here, kernel) = (open(&folder.file("d")), environment("A"), forward(8));
    assert!(!database.search_ended(&here, &kernel, "limit 100"));
    database.store_search_ended(&here, &kernel, "limit 100");
    assert!(database.search_ended(&here, &kernel, "limit 100"));
    assert!(!database.search_ended(&here, &kernel, "limit 200"));
    assert!(!database.search_ended(&here, &forward(16), "limit 100"));
}

#[test]
fn the_user_s_results_win_over_the_seed_s() {
    let folder = Folder::new();
    let (seed, user, here, kernel) = (folder.file("seed %#?é"), folder.file("user"), environment("A"), forward(8));
    let shipped = open(&seed);
    shipped.store_measured(&here, &kernel, &[outcome(&kernel, 8, 0, 1.0), outcome(&kernel, 8, 1, 2.0)]);
    shipped.store_search_ended(&here, &kernel, "all");
    let whole = outcome(&kernel, 8, 0, 1.0).micro_configuration().unwrap();
    shipped.store_trial(&here, &kernel, &Configuration::undivided(whole), Some(1.1));
    let check = |database: &Database| {
        database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, None)]);
        let expected = [outcome(&kernel, 8, 0, 1.0), outcome(&kernel, 8, 1, None)];
        assert_eq!(sorted(database.measured(&here, &kernel)), expected);
        assert!(database.search_ended(&here, &kernel, "all"));
        assert_eq!(database.trials(&here, &kernel), [(Configuration::undivided(whole), Some(1.1))]);
    };
    // First while results still lie in the seed's log, then after the seed has been closed.
    check(&Database::open(&user, Some(&seed)).unwrap());
    drop(shipped);
    let before = std::fs::read(&seed).unwrap();
    check(&Database::open(&folder.file("another"), Some(&seed)).unwrap());
    assert!(std::fs::read(&seed).unwrap() == before, "a seed is only read");
    assert!(!folder.file("seed %#?é-shm").exists(), "nothing is put beside it");
}

#[test]
fn pruning_removes_what_is_named() {
    let folder = Folder::new();
    let (path, kernel) = (folder.file("d"), forward(8));
    let database = open(&path);
    for device in ["A", "C", "D"] {
        database.store_measured(&environment(device), &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
        database.store_search_ended(&environment(device), &kernel, "all");
    }
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch(
            "UPDATE outcomes SET measured_at = 1000 WHERE kernel =
                 (SELECT kernels.id FROM kernels JOIN environments ON environment = environments.id WHERE device = 'C')",
        )
        .unwrap();
    let left = || {
        let mut left: Vec<_> = database.contents().unwrap().into_iter().map(|known| known.environment.device).collect();
        left.sort();
        left.concat()
    };
    let id = database.contents().unwrap().iter().find(|known| known.environment.device == "A").unwrap().id;
    assert_eq!(database.problems(id).unwrap()[0].sizes, [8]);
    assert_eq!(left(), "ACD");
    let yesterday = SystemTime::now() - Duration::from_secs(86_400);
    assert_eq!(database.prune(Prune::Before(yesterday)), Ok(2), "the search that rests on it goes with it");
    assert_eq!(left(), "AD");
    assert_eq!(database.prune(Prune::Environment(id)), Ok(2));
    assert_eq!(database.prune(Prune::Environment(id)), Ok(0));
    assert_eq!(left(), "D");
    assert_eq!(database.measured(&environment("D"), &kernel).len(), 1);
}

#[test]
fn the_place_is_the_user_s_cache() {
    let at = |setting: &settings::Database, variables: &[(&str, &str)]| {
        place(setting, |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    };
    let user = settings::Database::User;
    let home = ("HOME", "/home/ann");
    assert_eq!(at(&user, &[home]), Ok(Some("/home/ann/.cache/ucudnn/tuning.sqlite".into())));
    assert_eq!(at(&user, &[("XDG_CACHE_HOME", "/c"), home]), Ok(Some("/c/ucudnn/tuning.sqlite".into())));
    assert_eq!(at(&user, &[("XDG_CACHE_HOME", "c"), home]), Ok(Some("/home/ann/.cache/ucudnn/tuning.sqlite".into())));
    assert!(at(&user, &[]).unwrap_err().contains("HOME"));
    assert_eq!(at(&settings::Database::Path("x/y".into()), &[home]), Ok(Some("x/y".into())));
    assert_eq!(at(&settings::Database::Off, &[home]), Ok(None));
}
