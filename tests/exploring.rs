//! What exploring costs in whole programs, by the library's own account at the program's end. `tuning::allowance` tests
//! the promise about it, with times handed in.

use crate::database::{Run, convnet, network};
use crate::programs::Outcome;

/// The seconds that exploring cost, and those of the calls, from the log's last line.
fn account(outcome: &Outcome) -> [f64; 2] {
    let (_, line) = outcome.stderr.rsplit_once("exploring cost ").unwrap_or_else(|| panic!("{}", outcome.stderr));
    let (cost, rest) = line.split_once(" s beside ").unwrap();
    [cost, rest.split(' ').next().unwrap()].map(|seconds| seconds.parse().unwrap())
}

/// Under a limit, so that all of AlexNet's convolutions are tuned.
fn run(explore: &str, query: &str, iterations: &str) -> [f64; 2] {
    let program = convnet();
    let run = Run::new(&program, &network("alexnet.csv"), "report")
        .with("UCUDNN_EXPLORE", explore)
        .with("UCUDNN_DATABASE", "off")
        .with("UCUDNN_LOG", "info")
        .and(&["--batch", "4", "--limit", "4MiB", "--query", query, "--iterations", iterations]);
    account(&run.preloaded())
}

#[test]
fn programs_explore_whether_they_ask_or_not() {
    for query in ["get", "none"] {
        let [cost, calls] = run("5%", query, "8");
        assert!(cost > 0.0 && calls > 0.0, "{query}: {cost} s beside {calls} s");
    }
}

/// A program that finds all results in the database explores nothing. Each of its calls still counts, by the time that
/// the database knows.
#[test]
fn the_account_is_read_at_the_end() {
    let program = convnet();
    let run = |iterations: &str| {
        let run = Run::new(&program, &network("alexnet.csv"), "report")
            .with("UCUDNN_DATABASE", program.file("tuning.sqlite"))
            .with("UCUDNN_TUNE_SECONDS", "0.3")
            .with("UCUDNN_LOG", "info")
            .and(&["--batch", "4", "--limit", "none", "--iterations", iterations]);
        account(&run.preloaded())
    };
    run("1");
    let [[cost, once], [cost_of_all, all]] = ["1", "8"].map(run);
    assert_eq!([cost, cost_of_all], [0.0; 2]);
    // The log has three digits behind the point.
    assert!(once > 0.0 && (all - 8.0 * once).abs() < 0.01, "{once} s of one iteration, {all} s of 8");
}

#[test]
fn nothing_is_explored_at_0() {
    for query in ["get", "none"] {
        let [cost, _] = run("0", query, "8");
        assert_eq!(cost, 0.0, "{query}");
    }
}
