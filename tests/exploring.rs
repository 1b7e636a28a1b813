//! The cost of exploring in whole programs: time, by hostdnn's clock and by the library's own account at the program's
//! end, and memory. `tuning::allowance` tests the promise about the time, with given times.

use std::process::Command;

use serde_json::Value;

use crate::database::{Run, convnet, network};
use crate::hostdnn::{Build, Program, has_emulator};
use crate::programs::Outcome;
use crate::rnn;

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

/// A program of the C sources that networks of convolutions share.
fn exploring() -> Program {
    let sources =
        ["exploring.c", "network.c", "network_calls.c", "network_graph.c", "graph.c", "kernel.c", "kernel_calls.c"];
    Program::build("exploring", Build { sources: &sources, ..Build::default() })
}

/// The milliseconds of hostdnn's clock before the first and after each step.
fn times(outcome: &Outcome) -> Vec<f64> {
    let times = outcome.stdout.lines().filter_map(|line| line.strip_prefix("time "));
    times.map(|time| time.parse().unwrap()).collect()
}

/// The most milliseconds by which a program is later with us than plain, beyond the 5% of plain's time that a bound allows.
/// Without a bound nothing is allowed: a busy machine compiles late, and the program then makes many calls before it
/// explores. hostdnn's clock counts work, `nanoseconds` for a multiply-add, so that it is the same on a busy machine. The
/// program gets the path of the report, and ends when something has settled.
fn latest(program: &Program, arguments: &dyn Fn(&str) -> Vec<String>, nanoseconds: &str, explore: &str) -> f64 {
    latest_of(program, arguments, &[("HOSTDNN_CLOCK", nanoseconds), ("UCUDNN_WORKSPACE_LIMIT", "64KiB")], explore)
}

/// Likewise under these variables.
fn latest_of(program: &Program, arguments: &dyn Fn(&str) -> Vec<String>, both: &[(&str, &str)], explore: &str) -> f64 {
    let report = program.file("report");
    let _ = std::fs::remove_file(&report);
    let report = report.to_str().unwrap();
    let arguments = arguments(report);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let plain = times(&program.plain(&arguments, both));
    let step = plain[1] - plain[0];
    assert!(plain.windows(2).all(|two| (two[1] - two[0] - step).abs() < 1e-3), "{plain:?}");

    let ours = [
        ("UCUDNN_EXPLORE", explore),
        ("UCUDNN_DATABASE", "off"),
        ("UCUDNN_REPORT", report),
        // Many candidates, so that there is much to explore.
        ("UCUDNN_NUMERICS", "allowed"),
    ];
    let ours = times(&program.preloaded(&arguments, &[both, &ours].concat()));
    let plain = (0..).map(|steps| plain[0] + f64::from(steps) * step);
    let allowed = if explore == "unbounded" { 1.0 } else { 1.05 };
    ours.iter().zip(plain).map(|(ours, plain)| ours - allowed * plain).fold(f64::NEG_INFINITY, f64::max)
}

/// At any moment, exploring has cost at most 5% of the program's time in those calls and half a second.
#[test]
fn exploring_costs_no_more_than_is_promised() {
    let program = exploring();
    for api in ["get", "fixed", "graph"] {
        let arguments = |_: &str| vec![api.to_owned(), "20".to_owned()];
        for nanoseconds in ["1", "10", "50"] {
            let latest = latest(&program, &arguments, nanoseconds, "5%");
            println!("{api}, {nanoseconds} ns: {latest:.1} ms beyond 5%");
            assert!(latest <= 500.0, "{api}, {nanoseconds} ns: {latest} ms beyond 5%");
        }
        // Three layers in three directions: the first to settle may have cost nothing.
        let arguments = |_: &str| [api, "20", "9"].map(str::to_owned).to_vec();
        let unbounded = latest(&program, &arguments, "3000", "unbounded");
        println!("{api}: {unbounded:.1} ms without a bound");
        assert!(unbounded > 500.0, "{api}: {unbounded} ms without a bound");
    }
}

/// Candidates that take a hundred times as long as the program's choice, as some of cuDNN's do, cost no more either: each
/// shows with one of eight images that it is hopeless. Run whole, they cost 620 ms.
#[test]
fn hopeless_candidates_cost_no_more_than_is_promised() {
    let program = exploring();
    for api in ["fixed", "graph"] {
        let arguments = |_: &str| vec![api.to_owned(), "20".to_owned()];
        for nanoseconds in ["5", "10"] {
            let both = [("HOSTDNN_CLOCK", nanoseconds), ("HOSTDNN_SLOW", "100")];
            let latest = latest_of(&program, &arguments, &both, "5%");
            println!("{api}, {nanoseconds} ns: {latest:.1} ms beyond 5%");
            assert!(latest <= 500.0, "{api}, {nanoseconds} ns: {latest} ms beyond 5%");
        }
    }
}

/// The lines of a report about the program's steps, without a database.
fn steps(program: &Program, arguments: &[&str], variables: &[(&str, &str)]) -> Vec<Value> {
    let report = program.file("steps");
    let _ = std::fs::remove_file(&report);
    let ours = [("UCUDNN_DATABASE", "off"), ("UCUDNN_REPORT", report.to_str().unwrap())];
    program.preloaded(arguments, &[variables, &ours].concat());
    let lines = std::fs::read_to_string(report).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == "steps").collect()
}

/// The report tells how long a step takes, and what it saves: together, that is the time of a step without us.
#[test]
fn the_report_tells_a_step_with_us_and_plain() {
    let program = exploring();
    let both = [("HOSTDNN_CLOCK", "1000"), ("HOSTDNN_SLOW", "4"), ("UCUDNN_EXPLORE", "unbounded")];
    // The class is any, so that our engines may replace the slow algorithms.
    let variables = [&both[..], &[("UCUDNN_NUMERICS", "any"), ("RANK", "3")]].concat();
    for api in ["fixed", "graph"] {
        let plain = times(&program.plain(&[api, "3"], &both));
        let plain = plain[2] - plain[1];
        let told = steps(&program, &[api, "20", "9", "160"], &variables);
        let last = told.last().expect("nothing was told");
        let [now, saved] = ["step_ms", "saved_ms"].map(|field| last[field].as_f64().unwrap());
        println!("{api}: {last}, plain {plain} ms");
        // cuDNN's choice for the graph API is the fast engine already.
        assert!(api == "graph" || saved > 0.1 * plain, "{api}: {last}");
        // Times of trials are rounded to nanoseconds.
        assert!((now + saved - plain).abs() < 1e-3, "{api}: {last}, plain {plain} ms");
        assert_eq!((&last["rank"], &last["ours"]), (&Value::from(3), &last["judged"]), "{last}");
    }
    // Too few steps.
    assert_eq!(
        steps(&program, &["fixed", "8", "0"], &[&variables[..], &[("UCUDNN_EXPLORE", "0")]].concat()),
        [] as [Value; 0]
    );
}

/// The same for recurrent networks.
#[test]
fn exploring_networks_costs_no_more_than_is_promised() {
    if !has_emulator() {
        return;
    }
    let program = rnn::program("rnn_until");
    let arguments = |report: &str| vec![report.to_owned(), "20000".to_owned()];
    for nanoseconds in ["1", "10", "50"] {
        let latest = latest(&program, &arguments, nanoseconds, "5%");
        println!("{nanoseconds} ns: {latest:.1} ms beyond 5%");
        assert!(latest <= 500.0, "{nanoseconds} ns: {latest} ms beyond 5%");
    }
    let unbounded = latest(&program, &arguments, "1000", "unbounded");
    println!("{unbounded:.1} ms without a bound");
    assert!(unbounded > 500.0, "{unbounded} ms without a bound");
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
    // The log has three digits after the point.
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
    // The MiB at the peak beyond a plain run's.
    let beyond_plain = |batch: &str, limit: &str, iterations: &str, is_bounded: bool| {
        // hostdnn takes memory for each thread, and the threads share the work by chance. Each run begins with nothing
        // known.
        let run = |iterations| {
            Run::new(&program, &network("alexnet.csv"), "report")
                .with("RAYON_NUM_THREADS", "1")
                .with("UCUDNN_DATABASE", "off")
                // Otherwise one more thread finds out how algorithms round.
                .with("UCUDNN_NUMERICS", "allowed")
                .and(&["--batch", batch, "--limit", limit, "--query", "get", "--iterations", iterations])
                .and(&["--json", figures.to_str().unwrap()])
        };
        // The variables are set for other tests.
        let mut plain = run("1").command();
        plain.env_remove("LD_PRELOAD").env_remove("UCUDNN_EXPLORE");
        let mut ours = run(iterations).command();
        if is_bounded {
            ours.env_remove("UCUDNN_EXPLORE");
        } else {
            // More time than a busy machine needs for a few algorithms of each layer.
            ours.env("UCUDNN_TUNE_SECONDS", "100");
        }
        let plain = peak(plain);
        let mib = peak(ours) - plain;
        println!("batch {batch}, bounded {is_bounded}: {mib:.1} MiB");
        mib
    };
    // At batch 16, AlexNet's convolutions take more memory than promised, so that none is timed beside the program's
    // buffers. At batch 4 some are. In the iterations after the first, more candidates are tried.
    for (batch, limit) in [("16", "64MiB"), ("4", "4MiB")] {
        let bounded = beyond_plain(batch, limit, "4", true);
        assert!(bounded <= PROMISED + OWN, "batch {batch}: {bounded} MiB");
    }
    let unbounded = beyond_plain("4", "4MiB", "1", false);
    assert!(unbounded > PROMISED + OWN, "{unbounded} MiB without a bound");
}
