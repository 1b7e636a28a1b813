//! Programs that ask for determinism get equal bits: from call to call, and in each process, whatever a database knows
//! that earlier programs explored.

use std::path::PathBuf;

use crate::hostdnn::{Build, Program};
use crate::programs::{Outcome, compile, source};

const CALLS: &str = "60";
const APIS: [&str; 2] = ["graph", "legacy"];

/// A program that prints the bits and the errors of four problems.
pub fn program() -> Program {
    let sources = ["determinism.c", "graph.c", "kernel.c", "kernel_calls.c"];
    Program::build("determinism", Build { sources: &sources, ..Build::default() })
}

/// A library with libtorch's context, under its name. Another version may lack a function.
pub fn torch(program: &Program, is_other_version: bool) -> PathBuf {
    let library = program.file(if is_other_version { "other/libtorch_cpu.so" } else { "libtorch_cpu.so" });
    let source = source("fake_torch.c");
    let other: &[&str] = if is_other_version { &["-DOTHER_VERSION"] } else { &[] };
    compile(&library, [&["-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", source.to_str().unwrap()], other].concat());
    library
}

/// For each problem: how many results differ in their bits, and a hash of the last.
pub fn bits(outcome: &Outcome) -> Vec<(usize, String)> {
    let lines = outcome.stdout.lines().filter_map(|line| line.strip_prefix("problem "));
    let line = |line: &str| {
        let fields: Vec<_> = line.split(' ').collect();
        (fields[1].parse().unwrap(), fields[2].to_owned())
    };
    lines.map(line).collect()
}

/// The largest error of each problem.
pub fn errors(outcome: &Outcome) -> Vec<f64> {
    let lines = outcome.stdout.lines().filter_map(|line| line.strip_prefix("problem "));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

/// Requires equal bits in all calls of a program, in a second process, and in one that has no database.
fn has_equal_bits(program: &Program, arguments: &[&str], database: &str, variables: &[(&str, &str)]) {
    let run = |database| bits(&program.preloaded(arguments, &[&[("UCUDNN_DATABASE", database)], variables].concat()));
    let first = run(database);
    assert_eq!(first.len(), 4);
    assert!(first.iter().all(|(distinct, _)| *distinct == 1), "{arguments:?} {variables:?}: {first:?}");
    for database in [database, "off"] {
        assert_eq!(run(database), first, "{arguments:?} {variables:?} with {database}");
    }
}

/// Has programs that ask for nothing explore into a database.
fn explored(program: &Program, api: &str) -> String {
    let database = program.file(&format!("{api}.sqlite"));
    let database = database.to_str().unwrap();
    let variables = [("UCUDNN_DATABASE", database)];
    // By the legacy API, tuning may end with the answer to a query.
    let how = if api == "legacy" { "first" } else { "differ" };
    let first = bits(&program.preloaded(&[api, how, "300"], &variables));
    assert!(
        api == "legacy" || first.iter().any(|(distinct, _)| *distinct > 1),
        "{api}: nothing is explored: {first:?}"
    );
    assert!(std::fs::metadata(database).is_ok_and(|file| file.len() > 0), "{api}: no database");
    // The same problems, from deterministic choices.
    program.preloaded(&[api, "shun", "300"], &[variables[0], ("UCUDNN_NUMERICS", "any")]);
    database.to_owned()
}

/// It reads the notes of engines, or the determinism of results, and passes over nondeterministic ones.
#[test]
fn a_program_that_shuns_nondeterminism_has_equal_bits() {
    let program = program();
    for api in APIS {
        has_equal_bits(&program, &[api, "shun", CALLS], &explored(&program, api), &[]);
    }
}

/// Whichever algorithm is the fastest by the database, such a program sees cuDNN's deterministic results as without it.
#[test]
fn times_change_nothing_for_a_program_that_shuns_nondeterminism() {
    let program = program();
    let database = explored(&program, "legacy");
    let open = || rusqlite::Connection::open(&database).unwrap();
    let algorithms: Vec<String> = {
        let connection = open();
        let mut names = connection.prepare("SELECT DISTINCT algorithm FROM outcomes WHERE time_ms > 0").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert!(algorithms.len() > 3, "{algorithms:?}");
    let run = |database| bits(&program.preloaded(&["legacy", "shun", "20"], &[("UCUDNN_DATABASE", database)]));
    let without = run("off");
    for algorithm in &algorithms {
        open().execute_batch("DELETE FROM trials; UPDATE outcomes SET time_ms = 1000 WHERE time_ms > 0").unwrap();
        let fastest = "INSERT OR REPLACE INTO outcomes
            SELECT DISTINCT kernel, batch, summed_in_float, ?1, 0, 0.001, measured_at FROM outcomes";
        assert!(open().execute(fastest, [algorithm]).unwrap() > 0);
        assert_eq!(run(&database), without, "{algorithm} is the fastest");
    }
}

#[test]
fn a_setting_asks_for_all_programs() {
    let program = program();
    for api in APIS {
        let variables = [("UCUDNN_NUMERICS", "deterministic")];
        has_equal_bits(&program, &[api, "first", CALLS], &explored(&program, api), &variables);
    }
}

/// PyTorch asks in two ways, at any time, and may stop asking.
#[test]
fn pytorchs_request_is_read_from_libtorch() {
    let program = program();
    let library = torch(&program, false);
    let library = library.to_str().unwrap();
    for api in APIS {
        let database = explored(&program, api);
        for how in ["algorithms", "cudnn"] {
            has_equal_bits(&program, &[api, "first", CALLS, library, how, "0", CALLS], &database, &[]);
        }
        // Whatever was explored before and after.
        let outcome = program.preloaded(&[api, "first", "200", library, "cudnn", "100", "160"], &[]);
        assert!(bits(&outcome).iter().all(|(distinct, _)| *distinct == 1), "{api}: {}", outcome.stdout);
        let never = program.preloaded(&[api, "first", "200", library, "cudnn", "200", "200"], &[]);
        assert!(bits(&never).iter().all(|(distinct, _)| *distinct == 0), "{}", never.stdout);
    }
}

/// A version of libtorch without a function does not ask by it, and nothing is called that is not there.
#[test]
fn another_version_of_libtorch_asks_by_what_it_has() {
    let program = program();
    let library = torch(&program, true);
    let library = library.to_str().unwrap();
    let run = |offer, how| bits(&program.preloaded(&["graph", offer, "200", library, how, "0", "100000"], &[]));
    assert!(run("first", "cudnn").iter().all(|(distinct, _)| *distinct == 1));
    assert!(run("differ", "algorithms").iter().any(|(distinct, _)| *distinct > 1), "nothing is explored");
}
