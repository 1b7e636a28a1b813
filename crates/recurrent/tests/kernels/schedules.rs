//! Orders in which threads take turns: none changes the results, and some expose each missing barrier or check.

use hostdnn::emulator::Module;

use super::case::{Case, Layout};
use super::sources::{
    self, BLOCK, CANONICAL_BLOCK, CLUSTER, CLUSTER_EXCHANGE, EXCHANGE, GRID, GRID_EXCHANGE, GRID_STEPS, INPUT_WARPS,
    Mutation, SINGLE_EXCHANGE, STATES, STEP_INPUT, TENSOR,
};
use ucudnn_recurrent::configuration::{Cell, Configuration, Element, Math, Problem, Regime};
use ucudnn_recurrent::testing::reference_f64::Distance;

const SEEDS: u64 = 200;

/// The last field says whether W x is computed within the steps.
type Kind = (Regime, Math, bool);
const IN_BLOCK: Kind = (Regime::Block, Math::Fma, false);
const IN_GRID: Kind = (Regime::Grid, Math::Fma, false);
const SINGLE: Kind = (Regime::GridSingle, Math::Fma, false);
const IN_CLUSTER: Kind = (Regime::Cluster, Math::Fma, false);
const TENSOR_IN_CLUSTER: Kind = (Regime::Cluster, Math::TensorCores, false);
const TENSOR_IN_BLOCK: Kind = (Regime::Block, Math::TensorCores, false);
const TENSOR_IN_GRID: Kind = (Regime::Grid, Math::TensorCores, false);
const INPUT_IN_CLUSTER: Kind = (Regime::Cluster, Math::Fma, true);
const INPUT_IN_GRID: Kind = (Regime::Grid, Math::Fma, true);

/// The smallest case of each regime and math that has everything: several blocks, warps with work, successive tiles,
/// rows of all lengths. On tensor cores each warp has a part of H.
fn smallest((regime, math, within): Kind, cell: Cell) -> Case {
    let ([hidden, batch, batch_tile, lanes], element) = match math {
        Math::Fma => ([5, 3, 2, 32], Element::Float),
        Math::TensorCores => ([20, 9, 8, 8], Element::Float),
    };
    let large = Problem::on_an_h200(cell, element, hidden, batch);
    let problem = Problem { input: hidden + 1, steps: 4, multiprocessors: 3, ..large };
    let units = if regime == Regime::Block { hidden } else { hidden.div_ceil(3) };
    let (threads, register_weights, input_register_weights) = (64, 0, within.then_some(0));
    let configuration =
        Configuration { regime, math, units, batch_tile, threads, lanes, register_weights, input_register_weights };
    let (steps, layout) = (4, Layout::Padded);
    Case { problem, configuration, steps, reverse: true, layout, has_states: true, is_aligned: true }
}

/// The first seed under which results are wrong or missing, and the reason.
fn first_failure(case: &Case, module: &Module) -> Option<(u64, String)> {
    let mut exchange = case.exchange();
    (0..SEEDS).find_map(|seed| {
        // The data differs from the previous launch's.
        let data = case.data(seed);
        let ran = case.run(module, &data, &mut exchange, Some(seed));
        let why =
            ran.map_err(|error| error.reason.into_owned()).and_then(|results| case.check(&data, &results)).err()?;
        Some((seed, why))
    })
}

/// Checks every `step`th kind.
fn seeds_change_no_bit(seeds: u64, step: usize) {
    let kinds = [
        (IN_BLOCK, Cell::Lstm),
        (IN_GRID, Cell::Lstm),
        (IN_GRID, Cell::Tanh),
        (IN_CLUSTER, Cell::Lstm),
        (IN_CLUSTER, Cell::Tanh),
        (TENSOR_IN_BLOCK, Cell::Gru),
        (TENSOR_IN_GRID, Cell::Lstm),
        (TENSOR_IN_CLUSTER, Cell::Lstm),
        (IN_BLOCK, Cell::CanonicalGru),
        (IN_GRID, Cell::CanonicalGru),
        (SINGLE, Cell::CanonicalGru),
        (INPUT_IN_CLUSTER, Cell::Gru),
        (INPUT_IN_GRID, Cell::Gru),
    ];
    for (kind, cell) in kinds.into_iter().step_by(step) {
        let case = smallest(kind, cell);
        let Some(module) = sources::load(&case.problem, &case.configuration, None) else { return };
        let data = case.data(0);
        let mut exchange = case.exchange();
        let in_order = case.run(&module, &data, &mut exchange, None).expect("runs in order");
        case.check(&data, &in_order).unwrap();
        for seed in 0..seeds {
            let results = case.run(&module, &data, &mut exchange, Some(seed));
            let results = results.unwrap_or_else(|error| panic!("{kind:?}, seed {seed}: {}", error.reason));
            // As text, since unwritten numbers are NaN.
            assert_eq!(format!("{results:?}"), format!("{in_order:?}"), "{kind:?}, seed {seed}");
        }
    }
}

#[test]
fn some_schedules_change_no_bit() {
    seeds_change_no_bit(5, 5);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn no_schedule_changes_a_bit() {
    seeds_change_no_bit(SEEDS, 1);
}

/// Both directions in one launch, each with an exchange of its own; of every `step`th kind.
fn seeds_change_no_bit_of_either_direction(seeds: u64, step: usize) {
    let kinds = [
        (IN_BLOCK, Cell::Gru),
        (IN_GRID, Cell::Gru),
        (IN_CLUSTER, Cell::Gru),
        (TENSOR_IN_GRID, Cell::Gru),
        (SINGLE, Cell::CanonicalGru),
    ];
    for (kind, cell) in kinds.into_iter().step_by(step) {
        let mut case = smallest(kind, cell);
        (case.problem.directions, case.problem.multiprocessors) = (2, 6);
        assert_eq!(case.configuration.grid(&case.problem)[2], 2);
        let Some(module) = sources::load(&case.problem, &case.configuration, None) else { return };
        let data = [case.data(0), case.data(1)];
        let both = [&data[0], &data[1]];
        let mut exchanges = [case.exchange(), case.exchange()];
        let in_order = case.run_both(&module, both, &mut exchanges, None).expect("runs in order");
        case.check_both(both, &in_order).unwrap();
        for seed in 0..seeds {
            let results = case.run_both(&module, both, &mut exchanges, Some(seed));
            let results = results.unwrap_or_else(|error| panic!("{kind:?}, seed {seed}: {}", error.reason));
            assert_eq!(format!("{results:?}"), format!("{in_order:?}"), "{kind:?}, seed {seed}");
        }
    }
}

#[test]
fn some_schedules_change_no_bit_of_either_direction() {
    seeds_change_no_bit_of_either_direction(5, 5);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn no_schedule_changes_a_bit_of_either_direction() {
    seeds_change_no_bit_of_either_direction(SEEDS, 1);
}

/// A cell with few shuffles, at which a warp's threads would wait for each other.
fn is_found(kind: Kind, mutation: &Mutation) {
    is_found_by(&smallest(kind, Cell::Tanh), mutation);
}

fn is_found_by(case: &Case, mutation: &Mutation) {
    let Some(module) = sources::load(&case.problem, &case.configuration, Some(mutation)) else { return };
    let Some((seed, why)) = first_failure(case, &module) else { panic!("{mutation:?} is not found") };
    println!("{mutation:?}: seed {seed}: {}", why.lines().next().unwrap_or_default());
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn every_barrier_is_needed() {
    let all = [
        (IN_BLOCK, BLOCK, 0..2),
        (IN_GRID, GRID, 0..2),
        (IN_GRID, GRID_EXCHANGE, 0..2),
        (TENSOR_IN_BLOCK, BLOCK, 0..2),
        // Before a tile's first h, nobody reads the previous tile's: its sums are complete.
        (TENSOR_IN_GRID, GRID, 1..2),
        (TENSOR_IN_GRID, GRID_EXCHANGE, 0..2),
        (TENSOR_IN_BLOCK, TENSOR, 0..1),
        (TENSOR_IN_GRID, TENSOR, 0..1),
    ];
    for (kind, file, barriers) in all {
        assert_eq!(sources::occurrences(file, "barrier();"), barriers.end);
        for occurrence in barriers {
            is_found(kind, &Mutation { file, from: "barrier();", occurrence, to: "" });
        }
    }
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn epochs_and_both_buffers_are_needed() {
    let mutations = [
        // A packet of any epoch is accepted.
        (EXCHANGE, "arrived &= packets[i].has_epoch(epoch)", "arrived &= true"),
        // The previous packets are accepted, or are waited for and overwritten.
        (EXCHANGE, "epoch % 2 ? Count : 0", "0"),
        // The next h overwrites the h that others still read.
        (EXCHANGE, "epoch++", "epoch += 0"),
    ];
    for (file, from, to) in mutations {
        for kind in [IN_GRID, TENSOR_IN_GRID] {
            is_found(kind, &Mutation { file, from, occurrence: 0, to });
        }
    }
    // A launch with one exchange, which begins where the previous launch began.
    let mut once = smallest(IN_GRID, Cell::Tanh);
    (once.steps, once.problem.batch) = (2, 2);
    is_found_by(
        &once,
        &Mutation { file: EXCHANGE, from: "exchange.epoch = epoch", occurrence: 0, to: "exchange.epoch = 0" },
    );
    let one_h = Mutation {
        file: BLOCK,
        from: "h + (step + 1) % 2 * TILE_FACTORS",
        occurrence: 0,
        to: "h + step % 2 * TILE_FACTORS",
    };
    is_found(IN_BLOCK, &one_h);
}

/// Weights and h are rounded to TF32 for tensor cores. Errors have the size of this rounding; truncation would double
/// them.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn rounding_to_tf32_is_needed() {
    let case = smallest(TENSOR_IN_GRID, Cell::Tanh);
    let deviations = |mutation: Option<&Mutation>| {
        let module = sources::load(&case.problem, &case.configuration, mutation)?;
        let mut exchange = case.exchange();
        let distances = (0..SEEDS).map(|seed| {
            let data = case.data(seed);
            let results = case.run(&module, &data, &mut exchange, None).expect("runs");
            case.check(&data, &results).unwrap()
        });
        Some(distances.fold(Distance::default(), |all, distance| all + distance).deviations())
    };
    let mutation = Mutation {
        file: "common/ops_float.cuh",
        from: "return float_to_tf32(element)",
        occurrence: 0,
        to: "return element",
    };
    let (Some(rounded), Some(cut_off)) = (deviations(None), deviations(Some(&mutation))) else { return };
    println!("rounded: {rounded:.2}, cut off: {cut_off:.2}");
    assert!(rounded <= 1.0 && cut_off > 1.0, "{rounded}, {cut_off}");
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn canonical_gru_needs_all_barriers_and_epochs() {
    let all = [
        (IN_BLOCK, CANONICAL_BLOCK, 3),
        (IN_GRID, GRID, 2),
        (IN_GRID, GRID_EXCHANGE, 2),
        (SINGLE, GRID, 2),
        (SINGLE, SINGLE_EXCHANGE, 2),
    ];
    for (kind, file, barriers) in all {
        assert_eq!(sources::occurrences(file, "barrier();"), barriers);
        let case = smallest(kind, Cell::CanonicalGru);
        for occurrence in 0..barriers {
            is_found_by(&case, &Mutation { file, from: "barrier();", occurrence, to: "" });
        }
    }
    for kind in [IN_GRID, SINGLE] {
        let case = smallest(kind, Cell::CanonicalGru);
        for (from, to) in [
            ("arrived &= packets[i].has_epoch(epoch)", "arrived &= true"),
            ("epoch % 2 ? Count : 0", "0"),
            ("epoch++", "epoch += 0"),
        ] {
            is_found_by(&case, &Mutation { file: EXCHANGE, from, occurrence: 0, to });
        }
        // A launch with few exchanges, which begins where the previous launch began.
        let mut once = case;
        (once.steps, once.problem.batch) = (if kind == SINGLE { 1 } else { 2 }, 2);
        let forgotten =
            Mutation { file: EXCHANGE, from: "exchange.epoch = epoch", occurrence: 0, to: "exchange.epoch = 0" };
        is_found_by(&once, &forgotten);
    }
}

/// The last block's part, z behind all parts, and a row's end are all needed.
#[test]
fn all_parts_are_needed() {
    let case = smallest(SINGLE, Cell::CanonicalGru);
    for (from, to) in [
        ("first + sender < BLOCKS", "first + sender + 1 < BLOCKS"),
        ("first + sender == BLOCKS", "first + sender + 1 == BLOCKS"),
        ("step >= triples[i].length", "false"),
    ] {
        is_found_by(&case, &Mutation { file: SINGLE_EXCHANGE, from, occurrence: 0, to });
    }
}

/// In the cluster's smallest case, each warp of every block has a unit, except the second warp of the last block.
/// Checks every `step`th mutation.
fn clusters_need(step: usize) {
    let mutations = [
        // The last tile's h is still read, and the first h is not there yet.
        (CLUSTER, "    barrier();", 0, ""),
        (CLUSTER, "    barrier();", 1, ""),
        // The block's new h is not there yet.
        (CLUSTER, "    barrier();", 2, ""),
        // Numbers behind H are multiplied, too.
        (CLUSTER, "buffers[i] = to_factor(to_element(0))", 0, ""),
        // Blocks receive data before they have begun.
        (CLUSTER_EXCHANGE, "cluster_barrier();", 0, ""),
        // Phases end before anything has arrived, or never.
        (CLUSTER_EXCHANGE, "expect(bytes);", 0, "expect(0);"),
        (CLUSTER_EXCHANGE, "arrived[next_buffer()].expect(bytes);", 0, ""),
        (CLUSTER_EXCHANGE, "initialize(1)", 1, "initialize(2)"),
        // Nobody waits, or everyone waits for the previous phase.
        (CLUSTER_EXCHANGE, "while (!arrived[next_buffer()].has_ended(next / 2 % 2)) spin.again();", 0, ""),
        (CLUSTER_EXCHANGE, "next / 2 % 2", 0, "(next / 2 + 1) % 2"),
        // The next h overwrites the h that others still read.
        (CLUSTER_EXCHANGE, "return 1 - next_buffer()", 0, "return next_buffer()"),
    ];
    for (file, from, occurrence, to) in mutations.into_iter().step_by(step) {
        is_found(IN_CLUSTER, &Mutation { file, from, occurrence, to });
    }
    assert_eq!(sources::occurrences(CLUSTER, "barrier();"), 3);
}

#[test]
fn clusters_need_some_that_keeps_blocks_apart() {
    clusters_need(8);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn clusters_need_all_that_keeps_blocks_apart() {
    clusters_need(1);
}

/// x must arrive before it is multiplied, and stay until the last thread has multiplied it.
#[test]
fn input_within_the_steps_needs_all_that_keeps_threads_apart() {
    assert_eq!(sources::occurrences(STEP_INPUT, "barrier();"), 1);
    for (file, from) in [(STEP_INPUT, "barrier();"), (GRID_STEPS, "input.put(step + 1);")] {
        is_found(INPUT_IN_GRID, &Mutation { file, from, occurrence: 0, to: "" });
    }
}

/// W x must arrive before it is added, and stay until it has been added; and both kinds of warps must reach their
/// barriers equally often.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn warps_for_the_input_need_all_that_keeps_them_apart() {
    let mutations = [
        // The others still read the last step's W x.
        (STATES, "step % 2 * TILE", 0, "0"),
        // They skip a barrier: a tile's first one, or one before the first h, or a step's, is there.
        (INPUT_WARPS, "barrier();", 0, ""),
        (INPUT_WARPS, "barrier();", 1, ""),
        (INPUT_WARPS, "barrier();", 2, ""),
        // W x of a step arrives after the barrier at which it is needed.
        (INPUT_WARPS, "multiply(step + 1, next);", 0, "if (step > 0) multiply(step - 1, next);"),
        // Before the first step, nothing is sent.
        (INPUT_WARPS, "if (step > 0) sent.wait();", 0, "sent.wait();"),
        // One warp has not sent when the others may proceed.
        (INPUT_WARPS, "initialize(THREADS / 32)", 0, "initialize(THREADS / 32 + 1)"),
    ];
    for (file, from, occurrence, to) in mutations {
        is_found(INPUT_IN_CLUSTER, &Mutation { file, from, occurrence, to });
    }
    assert_eq!(sources::occurrences(INPUT_WARPS, "barrier();"), 3);
}

/// On tensor cores all warps multiply. Here the last two own no unit; the lanes of the others send four warps' results.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn clusters_on_tensor_cores_need_all_that_keeps_blocks_apart() {
    let mut case = smallest(TENSOR_IN_CLUSTER, Cell::Tanh);
    (case.configuration.units, case.configuration.threads, case.configuration.lanes) = (8, 128, 16);
    let mutations = [
        (CLUSTER, "    barrier();", 1),
        (CLUSTER, "    barrier();", 2),
        (CLUSTER_EXCHANGE, "while (!arrived[next_buffer()].has_ended(next / 2 % 2)) spin.again();", 0),
        (TENSOR, "barrier();", 0),
    ];
    for (file, from, occurrence) in mutations {
        is_found_by(&case, &Mutation { file, from, occurrence, to: "" });
    }
    let module = sources::load(&case.problem, &case.configuration, None);
    assert!(module.is_none_or(|module| first_failure(&case, &module).is_none()));
}
