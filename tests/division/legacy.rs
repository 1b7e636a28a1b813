//! Workspace Division at run time: programs that know only cudnn.h train networks under a total, and check every result
//! themselves.

use super::{LAYERS, Run, Stage};

const TOTAL: &str = "UCUDNN_TOTAL_WORKSPACE_SIZE";
const CHECKED: (&str, &str) = ("UCUDNN_CHECK", "1");
/// More than any network here can use.
const HUGE: &str = "64GiB";

/// The program asks for all layers first. It gets 0 as every workspace, its layers are divided before anything runs,
/// and every call runs in its own segment.
#[test]
fn layers_that_are_asked_for_first_are_divided_before_any_runs() {
    let stage = Stage::plain();
    for (ask, totals) in [
        ("ask=get", ["0", "100001", HUGE].as_slice()),
        ("ask=find", &["70001"]),
        ("ask=findex", &["1MiB"]),
        ("ask=fixed", &["257", "300000"]),
    ] {
        for total in totals {
            let run = stage.run(&format!("open=16 {ask} train=3"), &[(TOTAL, total), CHECKED]);
            run.is_silent_and_told_nothing().kept(3 * LAYERS);
            assert_eq!(run.told().len(), LAYERS);
            let division = run.division();
            assert_eq!((division.layers.len(), division.ready()), (LAYERS, 0), "{}", run.steps);
            let at = |event| run.lines.iter().position(|line| line["event"] == event).unwrap();
            assert!(at("divided") < at("kept"), "{}", run.steps);
        }
    }
}

/// With a small total, some layers run in micro-batches; with a large one, the arena holds no more than the fastest
/// configurations.
#[test]
fn a_short_total_is_spent_on_micro_batches() {
    let stage = Stage::plain();
    let divided = |total: usize| stage.run("open=16 ask=get train=1", &[(TOTAL, &total.to_string())]).division();
    let most = divided(1 << 40).arena;
    assert!(most > 10_000, "{most} bytes: hostdnn's fast algorithms are not among what is planned");
    let shares = [most - 1, most / 2, most / 3, most / 4, most / 6, most / 10];
    assert!(shares.map(divided).iter().any(|division| division.any_in_parts()), "nothing was divided below {most}");
}

/// Caffe asks again after each reshape: it gets the same answers, and they do not reopen the division.
#[test]
fn asking_again_changes_nothing() {
    let stage = Stage::plain();
    for ask in ["ask=get", "ask=fixed"] {
        let steps = format!("open=16 {ask} again train=2 again train=2 again train=2");
        let run = stage.run(&steps, &[(TOTAL, "200000"), CHECKED]);
        run.is_silent_and_told_nothing().kept(6 * LAYERS);
        assert_eq!(run.division().layers.len(), LAYERS);
    }
}

/// The program meets its layers lazily, and has new gradients in each iteration. Once its layers have come back, all of
/// them are divided, and no others.
#[test]
fn layers_that_are_met_lazily_are_divided_once_they_have_come_back() {
    let stage = Stage::plain();
    let after = 5 * LAYERS;
    for how in ["lazily=get", "lazily=never"] {
        for check in ["0", "1"] {
            let steps = format!("open=16 anew {how} divided={LAYERS},6");
            let run = stage.run(&steps, &[(TOTAL, "200000"), (CHECKED.0, check)]);
            let divisions = run.is_silent_and_told_nothing().divisions();
            assert!(divisions.iter().all(|division| division.layers.len() <= LAYERS), "{}", run.steps);
            assert_eq!(divisions.last().unwrap().ready(), 0);
            if check == "1" {
                run.kept(run.count("kept"));
                let last = run.lines.iter().rposition(|line| line["event"] == "divided").unwrap();
                let kept = run.lines[last..].iter().filter(|line| line["event"] == "kept").count();
                assert!(kept >= after, "{}: {kept} calls of {after} in segments", run.steps);
            }
        }
    }
}

/// Other batch sizes come later, asked for or not, for training or evaluation. They get their share, and the earlier
/// layers keep one. There are never two arenas at once.
#[test]
fn layers_that_are_met_later_are_divided_with_the_others() {
    let stage = Stage::plain();
    let trained = format!("open=16 ask=get train=3 open=10 ask=get divided={},4 use=0 train=3", 2 * LAYERS);
    let evaluated = format!(
        "open=16 ask=get train=3 open=10 lazily=get evaluate=3 use=0 divided={},4 use=1 evaluate=2",
        LAYERS + LAYERS / 3
    );
    for steps in [trained, evaluated] {
        let check = |run: &Run| {
            let divisions = run.is_silent_and_told_nothing().divisions();
            assert!(divisions.len() >= 2, "{}", run.steps);
            assert_eq!((divisions[0].layers.len(), divisions[0].ready()), (LAYERS, 0), "{}", run.steps);
            divisions.iter().map(|division| division.arena).max().unwrap()
        };
        // A database of its own: other tests' measurements could make other configurations worth a trial.
        let database = stage.new_file("database");
        let variables = [(TOTAL, "250000"), ("UCUDNN_DATABASE", &database), CHECKED];
        let checked = stage.run(&steps, &variables);
        check(&checked);
        checked.kept(checked.count("kept"));
        // Nothing is left to tune, so that only arenas are allocated.
        let warm = stage.run(&steps, &variables[..2]);
        assert_eq!(warm.count("timed"), 0, "{}", warm.steps);
        assert_eq!(warm.peak(), check(&warm), "{}", warm.steps);
    }
}

/// Threads run the same layers at once: each gets its own segments, or runs without. (Equal problems of one thread may
/// share a segment: they never run at once.)
#[test]
fn threads_never_share_a_segment() {
    let stage = Stage::plain();
    for how in ["ask=get", "lazily=never"] {
        let run = stage.run(&format!("open=16 {how} threads=2 divided={},150", LAYERS + 1), &[(TOTAL, "400000")]);
        let last = run.is_silent_and_told_nothing().divisions().pop().unwrap();
        assert!(last.layers.len() <= 2 * LAYERS && last.ready() == 0, "{}", run.steps);
        assert!(last.arena > 0);
    }
}

/// One handle moves from one stream to another: the calls of two streams may run at once.
#[test]
fn streams_never_share_a_segment() {
    let stage = Stage::plain();
    let steps = format!("open=16 ask=get streams=2 divided={},4", 2 * LAYERS);
    let run = stage.run(&steps, &[(TOTAL, "400000"), CHECKED]);
    run.is_silent_and_told_nothing().kept(run.count("kept"));
    let last = run.divisions().pop().unwrap();
    assert_eq!((last.layers.len(), last.ready()), (2 * LAYERS, 0));
}

/// Any shapes under any total: the total is kept, and the division is no slower than equal shares.
#[test]
fn any_network_keeps_to_any_total() {
    let stage = Stage::plain();
    let mut random = super::random();
    let mut segments = 0;
    for _ in 0..8 {
        let network = format!("random={}", random(1 << 31));
        let total = (random(1 << 21) >> random(12)).to_string();
        let variables = [(TOTAL, total.as_str()), CHECKED, ("UCUDNN_TUNE_SECONDS", "0.05"), ("UCUDNN_DATABASE", "off")];
        let run = stage.run(&format!("{network} ask=get train=2"), &variables);
        run.kept(run.count("kept"));
        let division = run.division();
        assert_eq!(division.layers.len() + division.ready(), run.told().len(), "{}", run.steps);
        assert_eq!(run.count("kept"), 2 * division.layers.len(), "{}", run.steps);
        segments += division.segments().iter().filter(|(_, bytes)| *bytes > 0).count();
    }
    assert!(segments > 0, "no total was of any use");
}
