//! The tuning database across programs: they start warm, share it between processes, and survive one that cannot be
//! used.

use crate::database as trained;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rusqlite::Connection;
use serde_json::Value;
use trained::hostdnn::Program;
use trained::{Run, Timed, convnet, network, network_norms, repeated, timed, write_network};

/// Enough for every search here to finish, however many processes share the machine.
const PLENTY: &str = "60";
const SMALL: [[usize; 4]; 2] = [[16, 4, 9, 6], [12, 6, 7, 5]];
/// Large enough that another device's thread finds work left.
const LARGER: [[usize; 4]; 2] = [[16, 16, 20, 16], [12, 16, 16, 24]];

fn small(program: &Program) -> String {
    let path = program.file("small.csv");
    write_network(&path, &SMALL);
    path.to_str().unwrap().to_owned()
}

/// The number of problems that were measured.
fn kernels(timed: &[Timed]) -> usize {
    timed.iter().map(|timed| timed.kernel).collect::<HashSet<_>>().len()
}

/// The lines of standard error, all of which must be the library's messages.
fn messages(stderr: &str) -> Vec<&str> {
    let lines: Vec<_> = stderr.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with('[')), "{stderr}");
    lines
}

/// The second start measures nothing, chooses the same, and says how long asking for the plans took.
#[test]
fn a_warm_database_plans_alexnet_and_nothing_is_measured() {
    let program = convnet();
    let figures = program.file("figures.json");
    let run = |report: &str| {
        Run::new(&program, &network("alexnet.csv"), report)
            .with("UCUDNN_DATABASE", program.file("tuning.sqlite"))
            .with("UCUDNN_TUNE_SECONDS", "0.3")
            .and(&["--batch", "4", "--limit", "4MiB", "--json", figures.to_str().unwrap()])
    };
    let asking = || {
        let figures: Value = serde_json::from_slice(&std::fs::read(&figures).unwrap()).unwrap();
        figures["asking_ms"].as_f64().unwrap()
    };
    let (cold, warm) = (run("cold"), run("warm"));
    assert_eq!(cold.preloaded().stderr, "");
    let first = asking();
    assert_eq!(warm.preloaded().stderr, "");
    println!("AlexNet's 15 kernels at batch 4 are planned in {first:.1} ms cold and in {:.1} ms warm", asking());
    assert_eq!(kernels(&cold.timed()), 15, "all are measured");
    assert_eq!(warm.timed(), []);
    assert_eq!(warm.answers().len(), 15);
    for (warm, cold) in warm.answers().into_iter().zip(cold.answers()) {
        assert_eq!(warm, cold);
    }
}

/// Eight processes train a network on one empty database. All get the same answers, and nothing is measured twice.
/// Returns the measurements, with their lines in the reports.
fn start_eight(layers: [[usize; 4]; 2], variables: &[(&str, &str)]) -> Vec<(Timed, Value)> {
    let program = convnet();
    let (database, network) = (program.file("tuning.sqlite"), program.file("network.csv"));
    write_network(&network, &layers);
    let start = |number| {
        let run = Run::new(&program, network.to_str().unwrap(), &format!("report-{number}"))
            .with("UCUDNN_DATABASE", &database)
            .with("UCUDNN_BATCH_SIZE_POLICY", "all")
            .with("UCUDNN_TUNE_SECONDS", PLENTY);
        let run = variables.iter().fold(run, |run, (name, value)| run.with(name, value));
        let process = run.command().stdout(Stdio::null()).spawn().unwrap();
        (run, process)
    };
    let started: Vec<_> = (0..8).map(start).collect();
    let mut answers = Vec::new();
    let mut measured = Vec::new();
    for (run, mut process) in started {
        assert!(process.wait().unwrap().success());
        answers.push(run.answers());
        measured.extend(trained::lines(&run.report));
    }
    assert_eq!(answers[0].len(), 3 * layers.len());
    for other in &answers {
        assert_eq!(*other, answers[0]);
    }
    let timed: Vec<_> = measured.iter().map(|(timed, _)| timed.clone()).collect();
    assert_eq!(kernels(&timed), 3 * layers.len(), "all are measured");
    assert_eq!(repeated(timed), []);
    measured
}

#[test]
fn eight_processes_measure_each_micro_configuration_once() {
    start_eight(SMALL, &[]);
}

#[test]
fn eight_processes_measure_each_micro_configuration_once_on_several_devices() {
    let measured = start_eight(LARGER, &[("HOSTDNN_DEVICES", "3"), ("UCUDNN_BENCHMARK_DEVICES", "all")]);
    let devices: HashSet<_> = measured.iter().map(|(_, line)| line["device"].as_i64().unwrap()).collect();
    assert!(devices.len() > 1 && devices.is_subset(&HashSet::from([0, 1, 2])), "several measure: {devices:?}");
}

/// The database is in the user's cache folder by default, and nowhere if so set or if there is no such folder.
#[test]
fn it_lies_in_the_user_s_cache() {
    let program = convnet();
    let (network, home) = (small(&program), program.file("home"));
    let run = |report: &str| {
        Run::new(&program, &network, report).with("UCUDNN_TUNE_SECONDS", PLENTY).with("UCUDNN_DATABASE", "")
    };
    let homeless = run("homeless").preloaded().stderr;
    assert_eq!(messages(&homeless).len(), 1, "{homeless}");
    for word in ["WARN", "HOME", "neither read nor kept", "UCUDNN_DATABASE"] {
        assert!(homeless.contains(word), "{word}: {homeless}");
    }
    assert_eq!(run("off").with("HOME", &home).with("UCUDNN_DATABASE", "off").preloaded().stderr, "");
    assert!(!home.exists());
    let first = run("first").with("HOME", &home);
    assert_eq!(first.preloaded().stderr, "");
    assert!(home.join(".cache/ucudnn/tuning.sqlite").is_file());
    let second = run("second").with("XDG_CACHE_HOME", home.join(".cache"));
    assert_eq!(second.preloaded().stderr, "");
    assert_eq!((second.timed(), second.answers()), (vec![], first.answers()));
}

#[test]
fn a_seed_is_as_good_as_having_measured() {
    let program = convnet();
    let network = small(&program);
    let (seed, user) = (program.file("seed"), program.file("user"));
    let run = |report: &str| Run::new(&program, &network, report).with("UCUDNN_TUNE_SECONDS", PLENTY);
    let first = run("first").with("UCUDNN_DATABASE", &seed);
    assert_eq!(first.preloaded().stderr, "");
    let before = std::fs::read(&seed).unwrap();
    let second = run("second").with("UCUDNN_DATABASE", &user).with("UCUDNN_SEED_DATABASE", &seed);
    assert_eq!(second.preloaded().stderr, "");
    assert_eq!((second.timed(), second.answers()), (vec![], first.answers()));
    assert!(std::fs::read(&seed).unwrap() == before);

    let missing = program.file("missing");
    let third = run("third").with("UCUDNN_DATABASE", &user).with("UCUDNN_SEED_DATABASE", &missing);
    let outcome = third.preloaded();
    assert_eq!(messages(&outcome.stderr).len(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("WARN") && outcome.stderr.contains(missing.to_str().unwrap()));
}

/// A program must not be promised a workspace that a damaged database names: cuDNN would refuse its calls.
#[test]
fn a_wrong_workspace_in_the_database_harms_no_program() {
    let program = convnet();
    let (network, figures, database) = (small(&program), program.file("figures.json"), program.file("tuning.sqlite"));
    for query in ["get", "find", "findex"] {
        let run = |report: &str| {
            Run::new(&program, &network, report)
                .with("UCUDNN_TUNE_SECONDS", PLENTY)
                .with("UCUDNN_DATABASE", &database)
                .with("UCUDNN_WORKSPACE_LIMIT", "256KiB")
                .and(&["--query", query, "--iterations", "120", "--json", figures.to_str().unwrap()])
        };
        let first = run("first");
        first.preloaded();
        let expected = network_norms(&figures);
        for wrong in ["7", "0", "999999999999"] {
            let set = format!("UPDATE outcomes SET workspace = {wrong}");
            assert!(Connection::open(&database).unwrap().execute(&set, []).unwrap() > 0);
            let second = run("second");
            assert_eq!(second.preloaded().stderr, "", "{query} {wrong}");
            for ((name, expected), (_, found)) in expected.iter().zip(network_norms(&figures)) {
                assert!((found - expected).abs() < 1e-4 * expected, "{query} {wrong} {name}: {found}, not {expected}");
            }
        }
        std::fs::remove_file(&database).unwrap();
    }
}

/// A file's name could forge a line of the log, or steer the terminal.
#[test]
fn a_path_is_shown_without_control_characters() {
    let program = convnet();
    let database = program.file("odd\n[ERROR forged]\u{1b}[31m\r");
    std::fs::write(&database, "no database ".repeat(999)).unwrap();
    let run = Run::new(&program, &small(&program), "report").with("UCUDNN_TUNE_SECONDS", "0.2");
    let stderr = run.with("UCUDNN_DATABASE", &database).preloaded().stderr;
    assert_eq!(messages(&stderr).len(), 1, "{stderr}");
    assert!(stderr.contains("odd\\n[ERROR forged]\\u{1b}[31m\\r"), "{stderr}");
    assert!(!stderr.trim_end().contains(char::is_control), "{stderr:?}");
}

/// A database that cannot be used costs one warning that names it: results are right, and the file stays unchanged.
#[test]
fn a_database_that_cannot_be_used_is_one_warning() {
    let program = convnet();
    let (network, figures) = (small(&program), program.file("figures.json"));
    let run = |report, database: &Path| {
        Run::new(&program, &network, report)
            .with("UCUDNN_TUNE_SECONDS", "0.2")
            .with("UCUDNN_DATABASE", database)
            .and(&["--json", figures.to_str().unwrap()])
    };
    run("plain", Path::new("off")).plain();
    let expected = network_norms(&figures);

    let [corrupt, newer, older, locked, foreign] =
        ["corrupt", "newer", "older", "locked", "foreign"].map(|name| program.file(name));
    std::fs::write(&corrupt, "This was never a database. ".repeat(999)).unwrap();
    drop(tuning::database::Database::open(&newer, None).unwrap());
    for copy in [&older, &locked] {
        std::fs::copy(&newer, copy).unwrap();
    }
    for (path, schema) in [(&newer, 99), (&older, 4)] {
        Connection::open(path).unwrap().pragma_update(None, "user_version", schema).unwrap();
    }
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    let holder = Connection::open(&locked).unwrap();
    holder.execute_batch("PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE").unwrap();
    // Not even root can make files there.
    let read_only = PathBuf::from("/proc/tuning.sqlite");
    let nowhere = program.file("missing").join("tuning.sqlite");
    std::fs::remove_dir_all(nowhere.parent().unwrap()).ok();
    for (path, why) in [
        (&corrupt, "not a database"),
        (&newer, "schema 99"),
        (&older, "schema 4"),
        (&locked, "another process holds it"),
        (&foreign, "something else"),
        (&read_only, "it cannot be opened"),
        (&nowhere, "its folder cannot be entered"),
    ] {
        // Does not read the file: closing it would release this process's locks on it.
        let state = || std::fs::metadata(path).ok().map(|file| (file.len(), file.modified().unwrap()));
        let before = state();
        let run = run(why, path);
        let outcome = run.preloaded();
        assert_eq!(messages(&outcome.stderr).len(), 1, "{}: {}", path.display(), outcome.stderr);
        let (warning, name) = (&outcome.stderr, path.to_str().unwrap());
        assert!(warning.contains("WARN") && warning.contains(name) && warning.contains(why), "{warning}");
        assert!(warning.contains("UCUDNN_DATABASE") && !warning.contains("code"), "{warning}");
        assert!(!timed(&run.report).is_empty(), "it tunes all the same");
        assert_eq!(state(), before, "{why}: it stays as it is");
        for ((kernel, expected), (_, norm)) in expected.iter().zip(network_norms(&figures)) {
            assert!((norm - expected).abs() <= 1e-4 * expected.abs(), "{why}: {kernel}: {norm} for {expected}");
        }
    }
}
