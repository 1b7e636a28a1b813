//! The promises of plans besides their results.

use super::{counting, program};
use crate::hostdnn::report;
use crate::programs;

/// A large convolution whose plan needs no workspace reports 16 MiB, and other plans run in them. A program that has not
/// read that brings less: nothing but its own plan runs.
#[test]
fn a_workspace_beyond_the_plan_s_own_is_used_once_it_was_read() {
    let program = program("graph_untold");
    let run = |how: &str| {
        let decisions = program.file(&format!("report-{how}"));
        let variables = [("UCUDNN_REPORT", decisions.to_str().unwrap()), ("UCUDNN_EXPLORE", "unbounded")];
        let outcome = program.preloaded(&[how, "60"], &variables);
        assert_eq!(outcome.line("reported"), "16777216");
        report(&decisions).iter().filter(|line| line["event"] == "timed").count()
    };
    assert_eq!(program.plain(&["told", "1"], &[]).line("reported"), "0");
    assert!(run("told") > 0, "nothing was tried");
    assert_eq!(run("untold"), 0, "something ran in memory that the program did not bring");
}

/// 40 plans of one convolution, as PyTorch makes them in benchmark mode, are planned once.
#[test]
fn many_plans_of_one_convolution_plan_once() {
    let program = program("graph_promises");
    let library = counting(&program);
    let counting = ("COUNTING", library.to_str().unwrap());
    let counts = |outcome: programs::Outcome| {
        ["graphs", "heuristics", "plans"].map(|name| outcome.line(name).parse::<usize>().unwrap())
    };
    let plain = |plans: &str| counts(program.plain(&["many", plans], &[counting, ("LD_PRELOAD", counting.1)]));
    let ours = |plans: &str, limit: &str| {
        let variables = [counting, ("UCUDNN_CUDNN_LIBRARY", counting.1), ("UCUDNN_WORKSPACE_LIMIT", limit)];
        counts(program.preloaded(&["many", plans], &variables))
    };
    assert_eq!(plain("40")[2], 40);
    assert_eq!(ours("40", ""), plain("40"), "nothing is planned that is not needed");
    for limit in ["0", "3000"] {
        let extra = |plans: &str| {
            let (ours, plain) = (ours(plans, limit), plain(plans));
            [0, 1, 2].map(|i| ours[i] - plain[i])
        };
        // All candidates of heuristics once, then four times: most need more than the limit.
        let (once, often) = (extra("10"), extra("40"));
        assert!(once[2] > 0, "nothing was planned: {once:?}");
        assert_eq!(once, often, "planned more than once within {limit} bytes");
    }
}

/// Descriptors are destroyed as early as frameworks do, and others take their addresses.
#[test]
fn descriptors_come_and_go() {
    let program = program("graph_promises");
    for limit in ["", "0", "5000"] {
        let outcome = program.preloaded(&["lifetimes", "60"], &[("UCUDNN_WORKSPACE_LIMIT", limit)]);
        assert_eq!((outcome.line("reused"), outcome.stderr.as_str()), ("1", ""), "no address came back");
    }
}

/// Variant packs of all kinds, from the first execution until tuning has ended: without a limit they have cuDNN's
/// statuses; under one they are right or refused.
#[test]
fn odd_variant_packs_are_right_or_refused() {
    const REFUSED: &str = "3000";
    let program = program("graph_promises");
    let arguments = ["packs", "340"];
    let plain = program.plain(&arguments, &[]).stdout;
    assert!(plain.lines().filter(|line| line.ends_with(" 0")).count() > 1000);
    let quiet = ("UCUDNN_LOG", "error");
    let ours = program.preloaded(&arguments, &[quiet]).stdout;
    for (plain, ours) in plain.lines().zip(ours.lines()) {
        assert_eq!(plain, ours, "without a limit");
    }
    for limit in ["0", "5000"] {
        let ours = program.preloaded(&arguments, &[quiet, ("UCUDNN_WORKSPACE_LIMIT", limit)]).stdout;
        assert_eq!(plain.lines().count(), ours.lines().count());
        let mut other = 0;
        for (plain, ours) in plain.lines().zip(ours.lines().filter(|line| *line != "ended")) {
            let [(pack, expected), (_, status)] = [plain, ours].map(|line| line.rsplit_once(' ').unwrap());
            // A plan that needed a workspace may need none now, and run.
            let needs_less = pack.ends_with(" 7") || pack.ends_with(" 8");
            let is_refused = status == REFUSED && expected != "0";
            assert!(
                expected == status || is_refused || (needs_less && status == "0"),
                "under {limit}: {ours}, plain {plain}"
            );
            other += usize::from(expected != status);
        }
        assert!(other > 0, "the limit changed nothing");
    }
}

#[test]
fn plans_run_on_any_handle_and_stream() {
    let program = program("graph_promises");
    for limit in ["", "0", "5000"] {
        let outcome = program.preloaded(&["elsewhere", "60"], &[("UCUDNN_WORKSPACE_LIMIT", limit)]);
        assert_eq!(outcome.stderr, "");
    }
}

/// A configuration that is read from a plan belongs to that plan, and plans made from it keep the limit. If its
/// descriptor was a candidate for another problem, they are cuDNN's own.
#[test]
fn configurations_that_are_read_back_make_plans() {
    let program = program("graph_promises");
    let told = |outcome: &programs::Outcome| -> Vec<usize> {
        let told = outcome.stdout.lines().filter_map(|line| line.strip_prefix("told "));
        told.map(|bytes| bytes.parse().unwrap()).collect()
    };
    let plain = told(&program.plain(&["again", "1"], &[]));
    assert!(plain.len() == 16 && plain.iter().any(|&bytes| bytes > 1000), "{plain:?}");
    for (limit, most) in [("", usize::MAX), ("0", 0), ("1000", 1000)] {
        let outcome = program.preloaded(&["again", "40"], &[("UCUDNN_WORKSPACE_LIMIT", limit)]);
        assert_eq!(outcome.stderr, "");
        let expected = |(i, &bytes): (usize, &usize)| if i % 2 == 0 { bytes.min(most) } else { bytes };
        let expected: Vec<usize> = plain.iter().enumerate().map(expected).collect();
        assert_eq!(told(&outcome), expected, "under {limit:?}");
    }
}

/// Every attribute has cuDNN's value, except the workspace of plans, which is within the limit.
#[test]
fn attributes_are_as_plain_but_for_the_workspace() {
    let program = program("graph_promises");
    let plain = program.plain(&["attributes"], &[]).stdout;
    assert!(plain.lines().count() > 500, "{}", plain.lines().count());
    assert_eq!(plain, program.preloaded(&["attributes"], &[]).stdout, "without a limit");
    let limit = 3000;
    let ours = program.preloaded(&["attributes"], &[("UCUDNN_WORKSPACE_LIMIT", &limit.to_string())]).stdout;
    assert_eq!(plain.lines().count(), ours.lines().count());
    let mut smaller = 0;
    for (plain, ours) in plain.lines().zip(ours.lines()) {
        let workspace = |line: &str| line.split_once(", workspace ").map(|(_, bytes)| bytes.parse::<usize>().unwrap());
        match workspace(plain) {
            Some(bytes) => {
                assert_eq!(workspace(ours), Some(bytes.min(limit)), "{ours}, plain {plain}");
                smaller += usize::from(bytes > limit);
            }
            None => assert_eq!(plain, ours),
        }
    }
    assert!(smaller > 0, "no plan needs more than {limit} bytes");
}

/// Every engine needs some workspace: plans keep the limit wherever possible, and otherwise report the least workspace
/// in which anything runs.
#[test]
fn the_limit_is_kept_or_the_least_is_used() {
    let program = program("graph_least");
    let front = counting(&program);
    let (front, least) = (("UCUDNN_CUDNN_LIBRARY", front.to_str().unwrap()), ("LEAST_WORKSPACE", "1500"));
    let (mut kept, mut exceeded) = (0, 0);
    for policy in ["powerOfTwo", "all"] {
        for limit in [0, 1500, 4000, 30000] {
            let variables =
                [front, least, ("UCUDNN_WORKSPACE_LIMIT", &limit.to_string()), ("UCUDNN_BATCH_SIZE_POLICY", policy)];
            let outcome = program.preloaded(&[policy], &variables);
            assert_eq!(outcome.stderr, "");
            for line in outcome.stdout.lines().filter_map(|line| line.strip_prefix("plan ")) {
                let numbers: Vec<usize> = line.split(' ').map(|number| number.parse().unwrap()).collect();
                let [_, own, least, told] = numbers[..] else { panic!("{line}") };
                let expected = own.min(limit.max(least));
                assert_eq!(told, expected, "kernel, own, least, told: {line}, by {policy} within {limit}");
                kept += usize::from(told == limit && own > limit);
                exceeded += usize::from(told > limit);
            }
        }
    }
    assert!(kept > 10 && exceeded > 10, "{kept} kept, {exceeded} exceeded");
}
