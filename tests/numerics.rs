//! A plan has the numerical class of the algorithm that cuDNN runs without us, whatever the program allows: by bits, on
//! engines of hostdnn that round floats to TF32 and take a tenth of the time by its clock.

use crate::determinism::{bits, errors, program};
use crate::hostdnn::{self, Program};

/// Rounded factors are off by more, sums in any order by less.
const TF32: f64 = 1e-5;

/// The largest errors of the four problems, with engines on tensor cores.
fn largest(program: &Program, api: &str, tensor_cores: &str, numerics: &str, database: &str) -> Vec<f64> {
    let variables = [
        ("HOSTDNN_CLOCK", "10"),
        ("HOSTDNN_TENSOR_CORES", tensor_cores),
        ("UCUDNN_NUMERICS", numerics),
        ("UCUDNN_DATABASE", database),
    ];
    let outcome = program.preloaded(&[api, "first", "200"], &variables);
    assert_eq!(bits(&outcome).len(), 4);
    errors(&outcome)
}

/// A legacy algorithm's math type allows TF32, and hostdnn's algorithms do not round. `allowed` goes by the math type.
#[test]
fn a_legacy_algorithm_that_does_not_round_gets_no_engine_that_does() {
    let program = program();
    for database in ["off", program.file("legacy.sqlite").to_str().unwrap()] {
        for numerics in ["", "deterministic", "allowed", "match"] {
            let errors = largest(&program, "legacy", "tf32", numerics, database);
            let rounds = errors.iter().any(|error| *error > TF32);
            assert_eq!(rounds, numerics == "allowed", "{numerics:?} with {database}: {errors:?}");
        }
    }
}

/// A legacy algorithm that rounds a few images, and not all of them, does not run in parts.
#[test]
fn a_legacy_algorithm_that_rounds_a_few_images_does_not_run_in_parts() {
    let program = program();
    for numerics in ["", "allowed", "match"] {
        let errors = largest(&program, "legacy", "few", numerics, "off");
        let rounds = errors.iter().any(|error| *error > TF32);
        assert_eq!(rounds, numerics == "allowed", "{numerics:?}: {errors:?}");
    }
}

/// A limit of the user's leaves undivided only an algorithm that does not round. Where cuDNN's own first result rounds, it
/// runs in parts.
#[test]
fn what_rounds_without_a_limit_rounds_within_it() {
    let program = program();
    let report = program.file("report");
    for (limit, algorithm, is_whole) in
        [("none", "WINOGRAD_NONFUSED", true), ("300KiB", "WINOGRAD_NONFUSED", false), ("100KiB", "ALGO_1", true)]
    {
        let variables = [
            ("HOSTDNN_CLOCK", "10"),
            ("HOSTDNN_TENSOR_CORES", "workspace"),
            ("UCUDNN_WORKSPACE_LIMIT", limit),
            ("UCUDNN_DATABASE", "off"),
            ("UCUDNN_REPORT", report.to_str().unwrap()),
        ];
        let _ = std::fs::remove_file(&report);
        program.preloaded(&["legacy", "first", "200"], &variables);
        let lines = hostdnn::report(&report);
        let ran = lines.iter().rfind(|line| line["event"] == "ran" && line["direction"] == "BD").unwrap();
        let parts = ran["parts"].as_array().unwrap();
        assert!(parts.iter().all(|part| part["algorithm"] == algorithm), "{limit}: {ran}");
        assert_eq!(parts[0]["batch"] == 6, is_whole, "{limit}: {ran}");
    }
}

/// A program's own limit is another thing: without us it runs what fits, which does not round.
#[test]
fn what_does_not_round_within_the_programs_limit_is_not_rounded() {
    let variables = [("HOSTDNN_CLOCK", "10"), ("HOSTDNN_TENSOR_CORES", "workspace"), ("UCUDNN_DATABASE", "off")];
    let program = program();
    let of_third = |how| errors(&program.preloaded(&["legacy", how, "200"], &variables))[2];
    assert!(of_third("first") > TF32);
    assert!(of_third("within") <= TF32);
}

/// No engine that rounds takes the place of one that does not, though its note says so.
fn keeps_exact(tensor_cores: &str) {
    let program = program();
    for database in ["off", program.file("graph.sqlite").to_str().unwrap()] {
        for numerics in ["", "allowed", "match"] {
            let errors = largest(&program, "graph", tensor_cores, numerics, database);
            let rounds = errors.iter().any(|error| *error > TF32);
            assert_eq!(rounds, numerics == "allowed", "{numerics:?} with {database}: {errors:?}");
        }
    }
}

/// An engine's note names tensor cores, and the engine does not round.
#[test]
fn a_note_is_no_rounding() {
    keeps_exact("claimed");
}

/// An engine runs on a part of an image where there is no memory for more. Where there is none at all it counts as one that
/// does not round.
#[test]
fn a_part_of_an_image_tells_what_rounds() {
    let program = program();
    for (tensor_cores, bytes, expected) in
        [("tf32", "20KiB", "rounds"), ("claimed", "20KiB", "does not round"), ("claimed", "64", "")]
    {
        let variables = [
            ("HOSTDNN_CLOCK", "10"),
            ("HOSTDNN_TENSOR_CORES", tensor_cores),
            ("UCUDNN_TUNE_BYTES", bytes),
            ("UCUDNN_DATABASE", "off"),
            ("UCUDNN_LOG", "debug"),
        ];
        let outcome = program.preloaded(&["graph", "first", "200"], &variables);
        let answers = outcome.stderr.lines().filter_map(|line| line.strip_suffix(" floats to TF32"));
        let found: Vec<_> = answers.map(|line| line.ends_with(expected)).collect();
        assert_eq!(found, vec![true; if expected.is_empty() { 0 } else { 4 }], "{tensor_cores}, {bytes}");
        let errors = errors(&outcome);
        assert!(tensor_cores == "tf32" || errors.iter().all(|error| *error <= TF32), "{tensor_cores}: {errors:?}");
    }
}

/// An engine rounds a few images, and not all of them: neither is it known from one image, nor may it run in parts.
#[test]
fn what_rounds_a_few_images_may_not_round_all() {
    keeps_exact("few");
}

/// Where cuDNN's own engine rounds, engines that round may run.
#[test]
fn an_engine_that_rounds_stays() {
    let errors = largest(&program(), "graph", "tf32", "", "off");
    assert!(errors.iter().all(|error| *error > TF32), "{errors:?}");
}
