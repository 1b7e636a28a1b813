//! Workspace Division of the graph API: programs that know only cudnn.h train networks by execution plans under a
//! total, and check every result themselves.

use super::{LAYERS, Run, SLOWLY, Stage};

const TOTAL: (&str, &str) = ("UCUDNN_TOTAL_WORKSPACE_SIZE", "200000");
const CHECKED: (&str, &str) = ("UCUDNN_CHECK", "1");

/// `UCUDNN_CHECK=1`: every call in our memory kept to its part of it, and was right. Returns the number of such calls
/// before the last division, and since.
fn kept(run: &Run) -> (usize, usize) {
    run.is_clean();
    assert!(run.count("kept") <= run.count("checked"), "{}", run.steps);
    let last = run.lines.iter().rposition(|line| line["event"] == "divided").unwrap_or(run.lines.len());
    let count = |lines: &[serde_json::Value]| lines.iter().filter(|line| line["event"] == "kept").count();
    (count(&run.lines[..last]), count(&run.lines[last..]))
}

/// A program that meets its layers lazily, and has new gradients in each iteration. It gets 0 as every workspace, its
/// layers share memory until they have come back, and then each has its own segment.
#[test]
fn layers_are_divided_once_they_have_come_back() {
    let stage = Stage::plain();
    for how in ["ask=get", "lazily=get", "ask=find"] {
        for total in ["0", "257", "200000"] {
            let steps = format!("graph open=16 {how} anew divided={LAYERS},6");
            let run = stage.run(&steps, &[(TOTAL.0, total), CHECKED]);
            let divisions = run.is_silent_and_told_nothing().divisions();
            assert_eq!(divisions.last().unwrap().ready(), 0);
            let (before, after) = kept(&run);
            if how != "ask=find" {
                // Plans that were only compared are layers too, and each numerical class of a problem is one.
                assert!(divisions.iter().all(|division| division.layers.len() <= LAYERS), "{}", run.steps);
                assert!(after >= 5 * LAYERS, "{}: {after} calls in segments", run.steps);
            }
            if total == "200000" {
                assert!(before > 0, "{}: nothing ran in what the layers share", run.steps);
            }
        }
    }
}

/// Some layers get memory, and some run in micro-batches.
#[test]
fn the_total_is_spent_on_micro_batches() {
    let stage = Stage::plain();
    let steps = format!("graph open=16 ask=get divided={LAYERS},1");
    let divided = |total: &str| {
        let run = stage.run(&steps, &[(TOTAL.0, total)]);
        run.is_silent_and_told_nothing().divisions().pop().unwrap()
    };
    let all = ["800000", "400000", "200000", "100000"].map(divided);
    let spent: Vec<_> = all.iter().map(|division| (division.arena, division.any_in_parts())).collect();
    assert!(spent.iter().any(|(arena, in_parts)| *arena > 1000 && *in_parts), "{spent:?}");
}

/// Other batch sizes come later, for training or evaluation: they get their share, and the earlier layers keep one. All
/// our memory together is never more than the total.
#[test]
fn layers_that_are_met_later_are_divided_with_the_others() {
    let stage = Stage::plain();
    let total: usize = TOTAL.1.parse().unwrap();
    let first = format!("graph open=16 ask=get divided={LAYERS},3 open=10 ask=get");
    for steps in [
        format!("{first} divided={},4 use=0 train=3", 2 * LAYERS),
        format!("{first} evaluate=3 use=0 divided={},4 use=1 evaluate=2", LAYERS + LAYERS / 3),
    ] {
        let database = stage.new_file("database");
        let variables = [TOTAL, ("UCUDNN_DATABASE", &database), CHECKED];
        let run = stage.run(&steps, &variables);
        assert!(run.is_silent_and_told_nothing().divisions().len() >= 2, "{}", run.steps);
        kept(&run);
        // Nothing is left to tune, so that only the layers' memory is allocated.
        let warm = stage.run(&steps, &variables[..2]);
        assert_eq!(warm.count("timed"), 0, "{}", warm.steps);
        let arena = warm.is_silent_and_told_nothing().divisions().iter().map(|division| division.arena).max().unwrap();
        assert!((arena..=total).contains(&warm.peak()), "{}: {} bytes", warm.steps, warm.peak());
    }
}

/// Layers of both APIs share one total.
#[test]
fn both_apis_share_one_total() {
    let stage = Stage::plain();
    for steps in [
        format!("open=16 ask=get train=3 graph open=16 ask=get divided={},4 use=0 train=4", 2 * LAYERS),
        format!("graph open=16 ask=get divided={LAYERS},3 use=0"),
    ] {
        let run = stage.run(&steps, &[TOTAL, CHECKED]);
        let divisions = run.is_silent_and_told_nothing().divisions();
        assert!(divisions.iter().all(|division| division.arena <= division.total), "{}", run.steps);
        assert!(kept(&run).1 > 0, "{}", run.steps);
    }
}

/// Threads that run the same layers at once, and one handle that moves between streams: each gets its own segments, or
/// runs without.
#[test]
fn threads_and_streams_never_share_a_segment() {
    let stage = Stage::plain();
    let threads = stage.run(&format!("graph open=16 ask=get threads=3 divided={},100", LAYERS + 1), &[TOTAL]);
    let last = threads.is_silent_and_told_nothing().divisions().pop().unwrap();
    assert!(last.layers.len() <= 3 * LAYERS && last.ready() == 0, "{}", threads.steps);

    let steps = format!("graph open=16 ask=get streams=2 divided={},4", 2 * LAYERS);
    let streams = stage.run(&steps, &[TOTAL, CHECKED]);
    kept(streams.is_silent_and_told_nothing());
    let last = streams.divisions().pop().unwrap();
    assert_eq!((last.layers.len(), last.ready()), (2 * LAYERS, 0));
}

/// Until layers have come back, those of each stream share memory of their own, within the total.
#[test]
fn the_layers_of_each_stream_share_memory() {
    let stage = Stage::plain();
    let kept_in = |streams: usize, total: &'static str| {
        let steps = format!("graph open=16 ask=get streams={streams} train={streams}");
        let peak = stage.run(&steps, &[(TOTAL.0, total)]).peak();
        assert!(peak <= total.parse().unwrap(), "{steps}: {peak} of {total} bytes");
        let run = stage.run(&steps, &[(TOTAL.0, total), CHECKED]);
        assert_eq!(run.is_silent_and_told_nothing().divisions().len(), 0, "{}", run.steps);
        kept(&run).0
    };
    // What the first streams leave is enough for smaller plans, too.
    for total in ["80000000", TOTAL.1] {
        let one = kept_in(1, total);
        assert!(one > 0);
        assert_eq!(kept_in(3, total), 3 * one, "of {total} bytes");
    }
}

/// Any shapes under any total.
#[test]
fn any_network_keeps_to_any_total() {
    let stage = Stage::plain();
    let mut random = super::random();
    let mut segments = 0;
    // The clock decides whether a short run is divided before it ends: of many runs, some are.
    for _ in 0..8 {
        let network = format!("random={}", random(1 << 31));
        let total = (random(1 << 21) >> random(12)).to_string();
        let variables =
            [(TOTAL.0, total.as_str()), CHECKED, ("UCUDNN_TUNE_SECONDS", "0.05"), ("UCUDNN_DATABASE", "off")];
        let run = stage.run(&format!("graph {network} ask=get train=100"), &variables);
        // Problems of one image are left to cuDNN, and their reported workspace is cuDNN's.
        assert_eq!(run.outcome.stderr, "", "{}", run.steps);
        kept(&run);
        segments += run.divisions().iter().flat_map(|division| division.segments()).filter(|(_, b)| *b > 0).count();
    }
    println!("{segments} segments");
    assert!(segments > 0, "no total was of any use");
}

/// The program steers: another total, names for layers, one stream, other policies.
#[test]
fn a_program_may_steer() {
    let stage = Stage::steered();
    let run = |steps: &str| {
        let run = stage.run(steps, &[CHECKED]);
        kept(run.is_silent_and_told_nothing());
        run
    };
    let steps = format!("total=400000 graph open=16 ask=get divided={LAYERS},2 total=90000 divided={LAYERS},3");
    let totals: Vec<_> = run(&steps).divisions().iter().map(|division| division.total).collect();
    assert_eq!((totals[0], *totals.last().unwrap()), (400_000, 90_000));

    let one = run(&format!("one_stream=1 total=120000 graph open=16 ask=get divided={LAYERS},3"));
    let last = one.divisions().pop().unwrap();
    assert_eq!(last.arena, last.segments().iter().map(|(_, bytes)| *bytes).max().unwrap());

    let named = run(&format!("total=200000 named graph open=16 ask=get divided={LAYERS},3"));
    assert_eq!(named.divisions().pop().unwrap().layers.len(), LAYERS);

    let there = format!("total=200000 graph open=16 ask=get divided={LAYERS},2");
    run(&format!("{there} policy=off train=3 policy=wr train=9 policy=wd train=3"));
    // Asked under another policy, run under this one.
    for policy in ["wr", "off"] {
        let steps =
            format!("policy={policy} graph open=16 ask=get train=2 total=200000 train=9 policy={policy} train=2");
        let run = stage.run(&steps, &[CHECKED]);
        assert_eq!(run.outcome.stderr, "");
        kept(&run);
    }
}

/// Memory cannot be allocated: the total is halved until it can, with a message each time.
#[test]
fn where_memory_is_short_the_total_is_halved() {
    let stage = Stage::plain();
    let steps = format!("graph open=16 ask=get divided={LAYERS},3");
    let database = stage.new_file("database");
    let most = stage.run(&steps, &[TOTAL, ("UCUDNN_DATABASE", &database)]).divisions().pop().unwrap().arena;
    assert!(most > 1000, "{most} bytes");
    for limit in [most - 1, most / 3, most / 20] {
        let fault = format!("allocation:{limit}");
        let run = stage.run(&steps, &[TOTAL, ("UCUDNN_DATABASE", &database), ("UCUDNN_FAULT", &fault)]);
        assert!(run.told().iter().all(|told| *told == 0), "{}", run.steps);
        let last = run.divisions().pop().unwrap();
        assert!(last.arena <= limit && last.ready() == 0, "{}: {} bytes", run.steps, last.arena);
        let halved = |message: &str| message.contains(" bytes of workspace cannot be allocated: ");
        assert!(run.outcome.stderr.lines().all(halved), "{}", run.outcome.stderr);
    }
}

/// No memory at all, not even to tune: everything runs without workspace, and each problem is named in one message.
#[test]
fn where_there_is_no_memory_all_run_without() {
    let stage = Stage::plain();
    let variables = [TOTAL, ("UCUDNN_FAULT", "allocation"), ("UCUDNN_DATABASE", "off")];
    let run = stage.run("graph open=16 ask=get train=60", &variables);
    run.got_no_workspace();
}

/// A panic inside the library, wherever it strikes except in the fallback, does not reach the program.
#[test]
fn panics_stay_inside() {
    let stage = Stage::plain();
    for place in ["divide", "tune", "execute", "plan", "finalize"] {
        for steps in ["graph open=16 ask=get train=80", "graph open=16 lazily=get threads=2 train=40"] {
            let run = stage.run(steps, &[TOTAL, ("UCUDNN_FAULT", &format!("panic:{place}"))]);
            assert!(
                run.outcome.stderr.contains(&format!("a panic at {place}")),
                "{}:\n{}",
                run.steps,
                run.outcome.stderr
            );
        }
    }
}

#[test]
fn a_process_may_end_while_its_layers_are_planned_for() {
    super::may_end_while_planned_for("graph open=16 ask=get", 3, TOTAL);
}

#[test]
fn a_process_may_be_forked_while_its_layers_are_planned_for() {
    let steps = "graph open=16 ask=get train=4 fork leave";
    let run = Stage::plain().run(steps, &[&SLOWLY, [TOTAL].as_slice()].concat());
    assert!(!run.outcome.stderr.contains("ERROR"), "{}", run.outcome.stderr);
}
