//! What exploring costs in whole programs: time, by the library's own account at the program's end, and memory.
//! `tuning::allowance` tests the promise about the time, with times handed in.

use std::process::Command;

use serde_json::Value;

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

/// The most MiB of memory of its own that tuning takes where nothing is set, as `docs/settings.md` says.
const PROMISED: f64 = 16.0;
/// The MiB for the library's code and tables; it takes 5 where it explores nothing.
const OWN: f64 = 8.0;

/// On hostdnn, the memory that the library takes from the device is the process's. So its peak shows it.
#[test]
fn tuning_takes_little_memory_unless_it_has_no_bound() {
    let program = convnet();
    let figures = program.file("figures.json");
    // The MiB at the program's peak beside the buffers that it takes itself.
    let peak = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let figures: Value = serde_json::from_slice(&std::fs::read(&figures).unwrap()).unwrap();
        let [resident, own] = ["resident_peak", "allocated_peak"].map(|name| figures[name].as_f64().unwrap());
        (resident - own) / f64::from(1 << 20)
    };
    // AlexNet's convolutions take more than what is promised at batch 16, so that none is timed beside the program's
    // buffers. At batch 4 some are.
    for (batch, limit) in [("16", "64MiB"), ("4", "4MiB")] {
        // hostdnn takes memory for each thread, and the threads share the work by chance.
        let run = Run::new(&program, &network("alexnet.csv"), "report")
            .with("RAYON_NUM_THREADS", "1")
            .and(&["--batch", batch, "--limit", limit, "--query", "get", "--iterations", "4"])
            .and(&["--json", figures.to_str().unwrap()]);
        // The variables are set for other tests.
        let without = |names: &[&str]| {
            let mut command = run.command();
            names.iter().for_each(|name| _ = command.env_remove(name));
            peak(command)
        };
        let plain = without(&["LD_PRELOAD", "UCUDNN_EXPLORE"]);
        let bounded = without(&["UCUDNN_EXPLORE"]) - plain;
        assert!(bounded <= PROMISED + OWN, "batch {batch}: {bounded} MiB");
        let unbounded = peak(run.with("UCUDNN_TUNE_SECONDS", "1").command()) - plain;
        assert!(unbounded > PROMISED + OWN, "batch {batch}: {unbounded} MiB without a bound");
        println!("batch {batch}: {bounded:.1} MiB, {unbounded:.1} MiB without a bound");
    }
}
