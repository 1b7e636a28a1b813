//! Our kernels wherever they can run: random calls have cuDNN's results.

use norm::pass::Pass;

use super::FORCE;
use crate::hostdnn::{Build, Program, fault_points, has_emulator};

const ARGUMENTS: [&str; 2] = ["5", "60"];

fn program() -> Program {
    Program::build("batch_norm", Build { sources: &["batch_norm.c"], ..Build::default() })
}

const PASSES: usize = Pass::OF_CUDNN.len();

/// The calls that our kernels have answered, of each pass.
fn on_ours(log: &str) -> [usize; PASSES] {
    Pass::OF_CUDNN.map(|pass| {
        let begin = format!("] {} of ", pass.row().what);
        log.lines().filter(|line| line.contains(&begin) && line.ends_with("on our kernels")).count()
    })
}

/// Requires the same lines, with numbers of float's exactness: sums have other orders, and y and dx are of the order of
/// 1.
fn assert_alike(plain: &str, ours: &str) {
    let (plain, ours): (Vec<_>, Vec<_>) = (plain.lines().collect(), ours.lines().collect());
    assert_eq!(plain.len(), ours.len());
    for (number, (plain, ours)) in plain.iter().zip(&ours).enumerate() {
        let split = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse::<f64>().unwrap())
        };
        let ((name, expected), (same, found)) = (split(plain), split(ours));
        assert_eq!(name, same, "line {number}");
        let is_near = (found - expected).abs() <= 2e-5 * expected.abs().max(1.0);
        assert!(is_near || (found.is_nan() && expected.is_nan()), "line {number}: {plain}, and ours: {ours}");
    }
}

#[test]
fn results_are_cudnns() {
    let program = program();
    let plain = program.plain(&ARGUMENTS, &[]).stdout;
    let ours = program.preloaded(&ARGUMENTS, &[FORCE, ("UCUDNN_LOG", "debug")]);
    assert_alike(&plain, &ours.stdout);
    let counts = on_ours(&ours.stderr);
    if has_emulator() {
        // Some of the 60 are of layouts, channels, factors and places that our kernels leave to cuDNN.
        assert!(counts.iter().all(|count| (5..60).contains(count)), "{counts:?}");
        // Inference takes any number of channels.
        assert!(counts[Pass::Inference as usize] > counts[Pass::Forward as usize], "{counts:?}");
    }
}

#[test]
fn hostile_calls() {
    hostile_calls_are_as_plain("1");
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn other_hostile_calls() {
    hostile_calls_are_as_plain("4");
}

/// Arguments that are wrong or unusual: the same statuses, and the same results.
fn hostile_calls_are_as_plain(seed: &str) {
    let program =
        Program::build("batch_norm_hostile", Build { sources: &["batch_norm_hostile.c"], ..Build::default() });
    let arguments = [seed, "300"];
    // Results over inputs depend on the order of hostdnn's work.
    let order = ("RAYON_NUM_THREADS", "1");
    let plain = program.plain(&arguments, &[order]).stdout;
    let ours = program.preloaded(&arguments, &[order, FORCE, ("UCUDNN_LOG", "debug")]);
    assert_alike(&plain, &ours.stdout);
    // Some of the calls are fine after all.
    let counts = on_ours(&ours.stderr);
    assert!(!has_emulator() || counts.iter().all(|count| *count >= 10), "{counts:?}");
}

#[test]
fn cudnn_runs_everything_if_it_is_off() {
    let program = program();
    let plain = program.plain(&ARGUMENTS, &[]).stdout;
    for off in [&[("UCUDNN_NORM", "off")][..], &[FORCE, ("UCUDNN_POLICY", "off")]] {
        let ours = program.preloaded(&ARGUMENTS, &[off, &[("UCUDNN_LOG", "debug")]].concat());
        assert_eq!(plain, ours.stdout);
        assert_eq!(on_ours(&ours.stderr), [0; PASSES]);
    }
}

#[test]
fn cudnn_answers_if_our_kernels_fail() {
    let program = program();
    let plain = program.plain(&ARGUMENTS, &[]).stdout;
    let panics = fault_points("crates/norm/src", &[]).into_iter().map(|place| format!("panic:{place}"));
    let faults: Vec<_> = panics.map(|fault| ("UCUDNN_FAULT", fault)).collect();
    assert_eq!(faults.len(), 3, "{faults:?}");
    let others = [
        ("UCUDNN_FAULT", "compiler".to_owned()),
        ("UCUDNN_FAULT", "compilation".to_owned()),
        ("HOSTDNN_FAIL", "cudnnGetStream:1+".to_owned()),
        ("HOSTDNN_FAIL", "cudnnGetTensorNdDescriptor:1+".to_owned()),
    ];
    for (variable, fault) in faults.into_iter().chain(others) {
        let ours = program.preloaded(&ARGUMENTS, &[FORCE, ("UCUDNN_LOG", "debug"), (variable, &fault)]);
        assert_alike(&plain, &ours.stdout);
        let counts = on_ours(&ours.stderr);
        if fault == "panic:norm-answered" {
            // The panic comes after the launch: cuDNN must not run the call again.
            assert!(counts[0] > 0 || !has_emulator(), "{fault}");
        } else if variable == "HOSTDNN_FAIL" || fault.starts_with("panic") {
            assert_eq!(counts, [0; PASSES], "{fault}");
        }
    }
}
