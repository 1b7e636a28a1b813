//! Workspace Division where memory, the solver or our own code fails. The program trains on, and every result is right.

use super::{LAYERS, SLOWLY, Stage};
use crate::programs::library;

const TOTAL: (&str, &str) = ("UCUDNN_TOTAL_WORKSPACE_SIZE", "400000");

/// Different problems of the network: the last layer's are the first's.
const DIFFERENT: usize = LAYERS - 3;

/// An arena cannot be allocated: the total is halved until one can, with a message each time.
#[test]
fn where_memory_is_short_the_total_is_halved() {
    let stage = Stage::plain();
    let steps = "open=16 ask=get train=3";
    let most = stage.run(steps, &[TOTAL]).division().arena;
    for limit in [most - 1, most / 3, most / 20, 0] {
        let fault = format!("allocation:{limit}");
        let run = stage.run(steps, &[TOTAL, ("UCUDNN_FAULT", &fault)]);
        assert!(run.told().iter().all(|told| *told == 0), "{}", run.steps);
        let division = run.division();
        assert_eq!((division.layers.len(), division.ready()), (LAYERS, 0), "{}", run.steps);
        assert!(division.arena <= limit, "{}: {} bytes", run.steps, division.arena);
        let mut total = 400_000;
        for message in run.outcome.stderr.lines() {
            total /= 2;
            let (bytes, rest) = message.split_once(" bytes of workspace cannot be allocated: ").expect(message);
            let bytes: usize = bytes.rsplit(' ').next().unwrap().parse().unwrap();
            assert!(bytes > limit && rest == format!("{total} are divided instead"), "{}: {message}", run.steps);
        }
        assert_eq!(division.total, total, "{}:\n{}", run.steps, run.outcome.stderr);
        assert!(total < 400_000);
    }
}

/// No memory at all, not even to tune: everything runs without workspace, as was reported to the program, and each
/// problem is named in one message.
#[test]
fn where_there_is_no_memory_all_run_without() {
    let stage = Stage::plain();
    let without = [TOTAL, ("UCUDNN_FAULT", "allocation"), ("UCUDNN_DATABASE", "off")];
    let checked = [without.as_slice(), &[("UCUDNN_CHECK", "1")]].concat();
    for (steps, variables) in [
        ("open=16 ask=get train=3", without.as_slice()),
        ("open=16 ask=get train=3", &checked),
        ("open=16 ask=fixed train=3", &without),
        ("open=16 lazily=get train=40", &without),
    ] {
        let run = stage.run(steps, variables);
        let spoken_of = run.got_no_workspace();
        // The lazy program may end before its layers are planned for.
        let expected = if steps.contains("ask") { DIFFERENT..=DIFFERENT } else { 0..=DIFFERENT };
        assert!(expected.contains(&spoken_of), "{}:\n{}", run.steps, run.outcome.stderr);
    }
}

/// A panic inside the library, wherever it strikes, does not reach the program.
#[test]
fn panics_stay_inside() {
    let stage = Stage::plain();
    for place in ["divide", "run", "run-midway", "plan", "convolve", "query"] {
        for steps in ["open=16 ask=get train=4", "open=16 lazily=get train=60", "open=16 ask=get threads=2 train=30"] {
            let run = stage.run(steps, &[TOTAL, ("UCUDNN_FAULT", &format!("panic:{place}"))]);
            let strikes = run.outcome.stderr.contains(&format!("a panic at {place}"));
            let must = ["divide", "convolve", "query"].contains(&place) || place == "run" && steps.contains("ask=get");
            assert!(strikes || !must, "{}:\n{}", run.steps, run.outcome.stderr);
        }
    }
}

/// The library without its solver divides all the same, and says nothing.
#[test]
fn the_solver_may_be_missing() {
    let stage = Stage::plain();
    let alone = stage.new_file("alone") + "/libucudnn.so";
    std::fs::create_dir(std::path::Path::new(&alone).parent().unwrap()).unwrap();
    std::fs::copy(library(), &alone).unwrap();
    let variables = [TOTAL, ("LD_PRELOAD", &alone), ("UCUDNN_CHECK", "1")];
    let run = stage.run("open=16 ask=get train=3", &variables);
    assert_eq!(run.is_silent_and_told_nothing().division().layers.len(), LAYERS, "{}", run.steps);
}

#[test]
fn a_process_may_end_while_its_layers_are_planned_for() {
    super::may_end_while_planned_for("open=16 lazily=get", 2, TOTAL);
}

/// Fork copies no other thread: the child of a process whose layers are being planned for ends well.
#[test]
fn a_process_may_be_forked_while_its_layers_are_planned_for() {
    let steps = "open=16 lazily=get train=4 fork leave";
    let run = Stage::plain().run(steps, &[&SLOWLY, [TOTAL].as_slice()].concat());
    assert!(run.outcome.stderr.contains("Workspace Division: kernel 1 of"), "{}", run.outcome.stderr);
}
