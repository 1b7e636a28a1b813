//! The workspace sizes that programs are told: equal questions get equal answers, and so many bytes are enough.

use crate::hostdnn::{Build, Program, is_divided, report};

/// hostdnn counts work, for a number of threads that the machine does not decide: plans are the same everywhere.
const COUNTED: [(&str, &str); 3] = [("HOSTDNN_CLOCK", "1"), ("RAYON_NUM_THREADS", "2"), ("UCUDNN_TUNE_SECONDS", "5")];
const QUICK: (&str, &str) = ("UCUDNN_TUNE_SECONDS", "0.001");
/// No answer waits for times: workspace is reserved for plans that are found later.
const UNTUNED: (&str, &str) = ("UCUDNN_EXPLORE", "0");
const DIVISION: (&str, &str) = ("UCUDNN_TOTAL_WORKSPACE_SIZE", "1MiB");
/// Results come under two math types that need workspaces of different size.
const BOTH: (&str, &str) = ("HOSTDNN_MATH_TYPES", "both");

fn program() -> Program {
    let sources = ["sizes.c", "kernel.c", "kernel_calls.c"];
    Program::build("sizes", Build { sources: &sources, options: &["-pthread"], with_ucudnn: true })
}

/// Runs a part of the program, and returns how many plans it was promised that divide.
fn divided(program: &Program, part: &str, variables: &[(&str, &str)]) -> usize {
    let decisions = program.file("report");
    let _ = std::fs::remove_file(&decisions);
    let report_to = ("UCUDNN_REPORT", decisions.to_str().unwrap());
    program.preloaded(&[part], &[&COUNTED[..], &[report_to, ("UCUDNN_LOG", "off")], variables].concat());
    report(&decisions).iter().filter(|line| line["event"] == "asked" && is_divided(line)).count()
}

/// Two threads ask, run and make descriptors anew in random order, for a new problem in each sequence. In the last case,
/// our code panics in each call, and fallbacks run.
#[test]
fn an_algorithm_has_one_size_in_any_order_of_calls() {
    let program = program();
    for (seed, problems, variables) in [
        ("1", "20", &[QUICK][..]),
        ("2", "20", &[QUICK, BOTH]),
        ("3", "20", &[QUICK, BOTH, ("UCUDNN_DEFAULT_WORKSPACE_LIMIT", "2000"), ("UCUDNN_BATCH_SIZE_POLICY", "all")]),
        ("4", "100", &[UNTUNED, BOTH, ("UCUDNN_WORKSPACE_LIMIT", "600"), ("UCUDNN_NUMERICS", "any")]),
        ("5", "100", &[UNTUNED, BOTH]),
        ("6", "100", &[UNTUNED, DIVISION]),
        ("7", "100", &[UNTUNED, BOTH, DIVISION]),
        ("8", "20", &[QUICK, BOTH, ("UCUDNN_FAULT", "panic:convolve"), ("UCUDNN_LOG", "off")]),
    ] {
        let outcome = program.preloaded(&["random", seed, problems], variables);
        let asked: Vec<u32> = outcome.line("asked").split(' ').map(|number| number.parse().unwrap()).collect();
        assert!(asked.iter().zip([300, 150, 10]).all(|(asked, least)| *asked > least), "{seed}: {asked:?}");
    }
}

/// The program gives a handle a policy, which is nothing to the switch of the whole library.
#[test]
fn switched_off_nothing_is_decided() {
    let program = program();
    for (switch, decides) in [("on", true), ("off", false)] {
        let decisions = program.file(switch);
        let variables = [("UCUDNN", switch), QUICK, ("UCUDNN_REPORT", decisions.to_str().unwrap())];
        program.preloaded(&["random", "9", "3"], &variables);
        let lines = report(&decisions);
        let has_decision = lines.iter().any(|line| line["event"] != "began" && line["event"] != "off");
        assert_eq!((lines.is_empty(), has_decision), (false, decides), "{switch}");
    }
}

/// One limit, a larger or a smaller one, and the first again: answers keep their limits, and the first comes again.
#[test]
fn sizes_stay_under_other_limits() {
    let program = program();
    for variables in [&[][..], &[BOTH, ("UCUDNN_NUMERICS", "any")]] {
        let divided = divided(&program, "limits", variables);
        assert!(divided >= 5, "{divided} plans divide");
    }
}

/// A program that asks for all sizes before anything else gets answers within them.
#[test]
fn answers_keep_to_sizes_that_were_told_before() {
    let program = program();
    for variables in [&[][..], &[BOTH], &[BOTH, DIVISION]] {
        divided(&program, "first", variables);
    }
}

/// Workspace that is reserved for a plan is the plan's size when it is found.
#[test]
fn a_reserve_keeps_its_size_as_a_plan() {
    let program = program();
    for variables in [&[][..], &[BOTH]] {
        assert_eq!(divided(&program, "reserved", variables), 2);
    }
}

/// If the parts of a promised plan fail, what runs instead fits the size, too.
#[test]
fn what_runs_instead_of_a_plan_fits_its_size() {
    let program = program();
    for variables in [&[][..], &[BOTH]] {
        assert!(divided(&program, "failing", variables) > 0);
    }
}

/// cuDNN's status passes unchanged, and is no answer.
#[test]
fn a_refused_question_is_asked_again() {
    program().preloaded(&["refused"], &[]);
}
