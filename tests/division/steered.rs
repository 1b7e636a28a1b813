//! Workspace Division steered by ucudnn.h: the same scenarios, in a program that is linked with libucudnn.so.

use super::{LAYERS, Stage};

const CHECKED: (&str, &str) = ("UCUDNN_CHECK", "1");

/// The policy needs a total; a total selects the policy. Nothing is divided before all layers are known.
#[test]
fn a_total_is_set_and_collecting_ended_by_the_program() {
    let stage = Stage::steered();
    let steps = "no_total nulls undescribed open=16 total=200000 undescribed ask=get undescribed finish describe";
    let run = stage.run(steps, &[CHECKED]);
    run.is_silent_and_told_nothing();
    let division = run.division();
    assert_eq!((division.total, division.layers.len(), division.ready()), (200_000, LAYERS, 0));
    assert_eq!(run.count("kept"), 0, "nothing has run");
    let (_, description) = run.outcome.stdout.split_once("description\n").unwrap();
    assert!(
        description.contains(&format!("{} bytes of 200000 among {LAYERS} layers", division.arena)),
        "{description}"
    );
    for layer in &division.layers {
        let words = [&layer["kernel"], &layer["division"]].map(|word| word.as_str().unwrap());
        let bytes = format!("{} bytes at {}", layer["workspace"], layer["offset"]);
        let told = |line: &str| words.iter().all(|word| line.contains(word)) && line.contains(&bytes);
        assert!(description.lines().any(told), "{layer}:\n{description}");
    }

    let run = stage.run(&format!("{steps} train=2 finish again train=2"), &[CHECKED]);
    run.is_silent_and_told_nothing().kept(4 * LAYERS);
    assert_eq!(run.division().layers.len(), LAYERS);
}

/// Equal problems of one filter, with different names: two layers, each with its own segment.
#[test]
fn named_layers_are_told_apart() {
    let stage = Stage::steered();
    for how in ["ask=get train=4".to_owned(), format!("lazily=get divided={LAYERS},4")] {
        let run = stage.run(&format!("open=16 shared total=200000 named {how}"), &[CHECKED]);
        run.is_silent_and_told_nothing().kept(run.count("kept"));
        let last = run.divisions().pop().unwrap();
        assert_eq!((last.layers.len(), last.ready()), (LAYERS, 0), "{}", run.steps);
        assert!(run.count("kept") >= 3 * LAYERS, "{}", run.steps);
    }
    // Threads that run the same layers at once: two of each.
    let total = ("UCUDNN_TOTAL_WORKSPACE_SIZE", "400000");
    let run = stage.run(&format!("open=16 named ask=get threads=2 divided={},50", 2 * LAYERS), &[total]);
    assert_eq!(run.is_silent_and_told_nothing().divisions().pop().unwrap().layers.len(), 2 * LAYERS);
    // Without names, forward and backward data of both layers are one.
    let run = stage.run(&format!("open=16 shared total=200000 lazily=get divided={},4", LAYERS - 2), &[CHECKED]);
    run.is_silent_and_told_nothing().kept(run.count("kept"));
}

/// One stream: the total bounds each layer's workspace. A thread that runs at the same time gets none.
#[test]
fn one_stream_shares_one_segment() {
    let stage = Stage::steered();
    let total = ("UCUDNN_TOTAL_WORKSPACE_SIZE", "120000");
    let steps = "one_stream=1 open=16 ask=get train=3";
    // A thread of hostdnn has its own part of each workspace. Those of two threads do not all fit.
    let run = stage.run(steps, &[total, CHECKED, ("UCUDNN_DATABASE", "off"), ("RAYON_NUM_THREADS", "2")]);
    run.is_silent_and_told_nothing().kept(3 * LAYERS);
    let one = run.division();
    let workspaces: Vec<usize> = one.segments().iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!(one.arena, *workspaces.iter().max().unwrap());
    let sum: usize = workspaces.iter().sum();
    assert!(sum > one.total, "all segments, {sum} bytes, fit beside each other too");

    // A new division may go to another thread than the one before, but never to two.
    let beside = stage.run(&format!("{steps} threads=2 train=40"), &[total, CHECKED]);
    let kept = beside.count("kept");
    beside.is_silent_and_told_nothing().kept(kept);
    assert!((3 * LAYERS..45 * LAYERS).contains(&kept), "{kept} of {} calls in the segment", 83 * LAYERS);
    stage.run(&format!("{steps} threads=2 train=100"), &[total]).is_silent_and_told_nothing();
}

/// A workspace that was reported under one policy holds under every other.
#[test]
fn another_policy_keeps_what_was_told() {
    let stage = Stage::steered();
    let steps =
        "open=16 total=200000 ask=get train=3 policy=off train=3 policy=wr train=9 policy=wd train=3 again train=1";
    let run = stage.run(steps, &[CHECKED]);
    run.is_silent_and_told_nothing();
    assert_eq!(run.division().layers.len(), LAYERS);
    assert_eq!(run.count("kept"), 7 * LAYERS, "{}", run.steps);

    // Asked under another policy, run under this one.
    for policy in ["wr", "off"] {
        let steps = format!(
            "open=16 policy={policy} ask=get train=2 total=200000 divided={LAYERS},3 policy={policy} again train=2"
        );
        let run = stage.run(&steps, &[CHECKED]);
        assert_eq!(run.outcome.stderr, "");
        assert!(run.count("kept") >= 2 * LAYERS, "{}", run.steps);
    }
}

/// Another total: the layers are divided anew, and never take more than the total in force.
#[test]
fn a_changed_total_is_divided_anew() {
    let stage = Stage::steered();
    let steps =
        format!("open=16 total=400000 ask=get train=2 total=90000 divided={LAYERS},3 total=0 divided={LAYERS},3");
    let run = stage.run(&steps, &[CHECKED]);
    run.is_silent_and_told_nothing().kept(run.count("kept"));
    let totals: Vec<_> = run.divisions().iter().map(|division| division.total).collect();
    assert_eq!(totals, [400_000, 90_000, 0], "{}", run.steps);
}
