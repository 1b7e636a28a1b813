//! Failures inside the library or inside cuDNN: no call that reports success is wrong, no canary is touched, and
//! nothing aborts.

use std::process::{Command, Stdio};

use crate::hostdnn::{self, Program};

const QUICK: [(&str, &str); 2] = [("UCUDNN_TUNE_SECONDS", "0.02"), ("UCUDNN_BATCH_SIZE_POLICY", "all")];
/// Selects Workspace Division.
const TOTAL: &str = "200000";

fn program() -> Program {
    Program::new("faults")
}

/// The lines about failed calls.
fn failures(stdout: &str) -> Vec<&str> {
    assert!(stdout.lines().any(|line| line == "ended"), "{stdout}");
    stdout.lines().filter(|line| *line != "ended").collect()
}

/// Every place in our sources that can be made to panic, except in the graph API, the RNN API and batch normalization.
fn fault_points() -> Vec<String> {
    let graph = ["crates/convolution/src/graph", "crates/convolution/src/plans/graph"];
    let others = [graph[0], graph[1], "crates/recurrent", "crates/norm"];
    let found = hostdnn::fault_points("crates", &others);
    assert!(found.len() >= 6, "{found:?}");
    found
}

/// A panic inside the library strikes on the path of queries, and does not reach the program: every call succeeds, except
/// calls whose result was already modified; these report failure.
#[test]
fn panics_stay_inside() {
    let program = program();
    for place in fault_points() {
        let fault = format!("panic:{place}");
        let mut strikes = false;
        for (asks, total) in [("asks", ""), ("never", ""), ("asks", TOTAL), ("never", TOTAL)] {
            let variables = [
                QUICK[0],
                QUICK[1],
                ("HOSTDNN_CLOCK", "1"),
                ("UCUDNN_FAULT", &fault),
                ("UCUDNN_TOTAL_WORKSPACE_SIZE", total),
            ];
            let outcome = program.preloaded(&[asks], &variables);
            strikes |= asks == "asks" && outcome.stderr.contains(&format!("a panic at {place}"));
            for failure in failures(&outcome.stdout) {
                // The problems that add to their result: beta is 1, and they are not fused.
                let fields: Vec<_> = failure.split(' ').collect();
                let kernel: usize = fields[1].parse().unwrap();
                let adds = kernel / 4 % 2 == 1 && kernel % 4 != 3;
                let honest = place == "run-midway" && fields[0] == "run" && adds && fields[2] == "5000";
                assert!(honest, "{fault}, {asks}: {failure}");
            }
        }
        assert!(strikes, "{fault} does not strike");
    }
}

#[test]
fn memory_that_cannot_be_had_is_done_without() {
    let program = program();
    for asks in ["asks", "never"] {
        let variables = [QUICK[0], QUICK[1], ("UCUDNN_FAULT", "allocation"), ("UCUDNN_CHECK", "1")];
        let outcome = program.preloaded(&[asks], &variables);
        assert_eq!(failures(&outcome.stdout), [""; 0], "{asks}");
    }
}

/// A convolution fails in cuDNN: the first one, or one or all in the middle of a divided call. A single failure reaches
/// the program at most once.
#[test]
fn a_convolution_that_fails_is_right_or_says_so() {
    let program = program();
    for function in ["Forward", "BackwardData", "BackwardFilter", "BiasActivationForward"] {
        for count in ["1", "30", "31", "30+"] {
            for (asks, when) in [("asks", "before"), ("asks", "between"), ("never", "between")] {
                let fault = format!("cudnnConvolution{function}:{count}");
                let outcome = program.preloaded(&[asks, &fault, when], &QUICK);
                let failures = failures(&outcome.stdout);
                assert!(failures.len() <= 1 || count.ends_with('+'), "{fault}, {asks}, {when}: {failures:?}");
            }
        }
    }
}

/// An algorithm that fails at one micro-batch size is not planned with at that size, and the program's own requests
/// still run.
#[test]
fn a_size_that_fails_is_avoided() {
    let program = program();
    for function in ["Forward", "BackwardData", "BackwardFilter", "BiasActivationForward"] {
        for batch in ["1", "5", "11"] {
            for asks in ["asks", "never"] {
                let fault = format!("cudnnConvolution{function}@batch={batch}:1+");
                let outcome = program.preloaded(&[asks, &fault, "before"], &QUICK);
                // A sum that was partly added to its result is lost, and the call reports that.
                let failures = failures(&outcome.stdout);
                let honest = failures.iter().all(|failure| failure.starts_with("run ") && failure.ends_with(" 5000"));
                assert!(honest && failures.len() <= 40, "{fault}, {asks}: {failures:?}");
            }
        }
    }
}

/// Nothing runs undivided, but micro-batches do: a program that asked sees no failure at all.
#[test]
fn where_nothing_runs_undivided_parts_do() {
    let program = program();
    let functions = ["Forward", "BackwardData", "BackwardFilter", "BiasActivationForward"];
    let fault = functions.map(|function| format!("cudnnConvolution{function}@batch=12:1+")).join(",");
    let variables = [("UCUDNN_TUNE_SECONDS", "3")];
    for limit in [None, Some(("UCUDNN_WORKSPACE_LIMIT", "60000"))] {
        let variables: Vec<_> = variables.into_iter().chain(limit).collect();
        let outcome = program.preloaded(&["asks", &fault, "before"], &variables);
        assert_eq!(failures(&outcome.stdout), [""; 0], "{limit:?}");
    }
}

/// Other cuDNN functions that the library calls fail: descriptors, queries, sums. The program's own calls of these
/// functions fail as without the library, and its convolutions run.
#[test]
fn what_we_need_besides_may_fail() {
    let program = program();
    let always = [
        "cudnnCreateTensorDescriptor",
        "cudnnCreateFilterDescriptor",
        "cudnnCreateConvolutionDescriptor",
        "cudnnCreateOpTensorDescriptor",
        "cudnnSetTensorNdDescriptorEx",
        "cudnnSetTensorNdDescriptor",
        "cudnnSetFilterNdDescriptor",
        "cudnnSetConvolutionNdDescriptor",
        "cudnnSetConvolutionGroupCount",
        "cudnnSetConvolutionMathType",
        "cudnnGetTensorNdDescriptor",
        "cudnnGetFilterNdDescriptor",
        "cudnnGetConvolutionNdDescriptor",
        "cudnnGetActivationDescriptor",
        "cudnnGetStream",
        "cudnnOpTensor",
        "cudnnGetConvolutionForwardAlgorithm_v7",
        "cudnnFindConvolutionBackwardDataAlgorithm",
        "cudnnFindConvolutionBackwardFilterAlgorithmEx",
        "cudnnGetConvolutionForwardWorkspaceSize",
        "cudnnGetConvolutionBackwardFilterWorkspaceSize",
    ];
    for function in always {
        for (asks, when) in [("asks", "before"), ("asks", "between"), ("never", "between")] {
            let fault = format!("{function}:1+");
            let outcome = program.preloaded(&[asks, &fault, when], &QUICK);
            // Without its descriptors the library cannot tell what a call computes; then cuDNN refuses the call.
            let refused = |failure: &str| {
                function.starts_with("cudnnGet") && function.ends_with("Descriptor") && failure.ends_with(" 2000")
            };
            for failure in failures(&outcome.stdout) {
                let is_run = failure.starts_with("run ");
                assert!(!is_run || refused(failure), "{fault}, {asks}, {when}: {failure}");
            }
        }
    }
}

#[test]
fn a_report_that_cannot_be_written_is_one_warning() {
    let program = program();
    for path in ["/nonexistent/report", "/proc/self/mem/report", "/"] {
        let outcome = program.preloaded(&["asks"], &[QUICK[0], QUICK[1], ("UCUDNN_REPORT", path)]);
        assert_eq!(failures(&outcome.stdout), [""; 0]);
        assert_eq!(outcome.stderr.matches("UCUDNN_REPORT").count(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(path), "{}", outcome.stderr);
    }
}

/// Writes of the library that fail do not end the program: files beyond the limit on their sizes, a message that nobody
/// reads, a report into a pipe that nobody reads.
#[test]
fn our_writes_fail_alone() {
    let program = program();
    let [report, database, pipe] = ["report.jsonl", "results.sqlite", "pipe"].map(|name| program.file(name));
    let [report, database, pipe] = [&report, &database, &pipe].map(|path| path.to_str().unwrap());
    let succeeds = |mut command: Command| {
        let output = command.stdout(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", output.status);
        assert_eq!(failures(&String::from_utf8(output.stdout).unwrap()), [""; 0]);
    };

    let variables = [QUICK[0], QUICK[1], ("UCUDNN_REPORT", report), ("UCUDNN_DATABASE", database)];
    let unlimited = program.command(&["asks"], &variables, true);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\""]).arg(unlimited.get_program()).args(unlimited.get_args());
    limited.env_clear().envs(unlimited.get_envs().filter_map(|(name, value)| Some((name, value?))));
    succeeds(limited);
    assert!(std::fs::metadata(report).unwrap().len() <= 1024, "there was no limit");

    let mut unread = program.command(&["asks"], &[QUICK[0], ("UCUDNN_POLICY", "fast")], true);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    unread.stderr(writer);
    succeeds(unread);

    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let outcome = program.preloaded(&["asks"], &[QUICK[0], ("UCUDNN_REPORT", pipe)]);
    assert_eq!(failures(&outcome.stdout), [""; 0]);
    assert_eq!(outcome.stderr.matches("UCUDNN_REPORT").count(), 1, "{}", outcome.stderr);
}

/// A bad value causes one warning that names the variable and the value, and an unknown variable one that names the
/// nearest. The program runs on.
#[test]
fn bad_values_are_one_warning_each() {
    let program = program();
    let bad = [
        ("UCUDNN_POLICY", "fast"),
        ("UCUDNN_BATCH_SIZE_POLICY", "some"),
        ("UCUDNN_WORKSPACE_LIMIT", "a lot"),
        ("UCUDNN_DEFAULT_WORKSPACE_LIMIT", "-1"),
        ("UCUDNN_TUNE_SECONDS", "soon"),
        ("UCUDNN_TUNE_SECONDS", "1e20"),
        ("UCUDNN_TUNE_BYTES", "1XiB"),
        ("UCUDNN_NUMERICS", "exact"),
        ("UCUDNN_CHECK", "yes"),
        ("UCUDNN_DYNAMIC", "eager"),
        ("UCUDNN_FAULT", "panic"),
    ];
    for (name, value) in bad {
        let variables = if name == QUICK[0].0 { vec![(name, value)] } else { vec![QUICK[0], (name, value)] };
        let outcome = program.preloaded(&["asks"], &variables);
        assert_eq!(failures(&outcome.stdout), [""; 0]);
        let warnings: Vec<_> = outcome.stderr.lines().filter(|line| line.contains(name)).collect();
        assert_eq!(warnings.len(), 1, "{name}={value}:\n{}", outcome.stderr);
        assert!(warnings[0].contains(value), "{warnings:?}");
    }
    let outcome = program.preloaded(&["asks"], &[QUICK[0], ("UCUDNN_WORKSPACE_LIMTI", "5")]);
    let warnings: Vec<_> = outcome.stderr.lines().filter(|line| line.contains("UCUDNN_WORKSPACE_LIMTI")).collect();
    assert!(matches!(warnings[..], [warning] if warning.contains("UCUDNN_WORKSPACE_LIMIT")), "{}", outcome.stderr);
}
