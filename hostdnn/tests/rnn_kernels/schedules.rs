//! Orders in which threads take turns: none changes the results, and what lacks a barrier or a check is found by some.

use hostdnn::emulator::Module;

use super::case::{Case, Layout};
use super::configuration::{Cell, Configuration, Element, Problem, Regime};
use super::sources::{self, BLOCK, GRID, Mutation};

const SEEDS: u64 = 200;

/// Each regime's smallest case that has all: several blocks, and warps with work, tiles one after the other, rows of all
/// lengths.
fn smallest(regime: Regime, cell: Cell) -> Case {
    let problem = Problem {
        cell,
        element: Element::Float,
        hidden: 5,
        batch: 3,
        layers: 1,
        directions: 1,
        steps: 4,
        multiprocessors: 3,
        shared_bytes: usize::MAX,
    };
    let units = if regime == Regime::Block { 5 } else { 2 };
    let configuration = Configuration { regime, units, batch_tile: 2, threads: 64, lanes: 32, register_weights: 0 };
    let (steps, layout) = (4, Layout::Padded);
    Case { problem, configuration, steps, reverse: true, layout, has_states: true, is_aligned: true }
}

/// The first seed under which results are wrong or none come, and why.
fn first_failure(case: &Case, module: &Module) -> Option<(u64, String)> {
    let mut exchange = case.exchange();
    (0..SEEDS).find_map(|seed| {
        // Others than the launch before sent.
        let data = case.data(seed);
        let ran = case.run(module, &data, &mut exchange, Some(seed));
        let why =
            ran.map_err(|error| error.reason.into_owned()).and_then(|results| case.check(&data, &results)).err()?;
        Some((seed, why))
    })
}

#[test]
fn no_schedule_changes_a_bit() {
    for (regime, cell) in [(Regime::Block, Cell::Lstm), (Regime::Grid, Cell::Lstm), (Regime::Grid, Cell::Tanh)] {
        let case = smallest(regime, cell);
        let Some(module) = sources::load(&case.problem, &case.configuration, None) else { return };
        let data = case.data(0);
        let mut exchange = case.exchange();
        let in_order = case.run(&module, &data, &mut exchange, None).expect("runs in order");
        case.check(&data, &in_order).unwrap();
        for seed in 0..SEEDS {
            let results = case.run(&module, &data, &mut exchange, Some(seed));
            let results = results.unwrap_or_else(|error| panic!("{regime:?}, seed {seed}: {}", error.reason));
            // Bits, since what was not written is no number.
            assert_eq!(format!("{results:?}"), format!("{in_order:?}"), "{regime:?}, seed {seed}");
        }
    }
}

/// Both directions in one launch, each with an exchange of its own.
#[test]
fn no_schedule_changes_a_bit_of_either_direction() {
    for regime in [Regime::Block, Regime::Grid] {
        let mut case = smallest(regime, Cell::Gru);
        (case.problem.directions, case.problem.multiprocessors) = (2, 6);
        assert_eq!(case.configuration.grid(&case.problem)[2], 2);
        let Some(module) = sources::load(&case.problem, &case.configuration, None) else { return };
        let data = [case.data(0), case.data(1)];
        let both = [&data[0], &data[1]];
        let mut exchanges = [case.exchange(), case.exchange()];
        let in_order = case.run_both(&module, both, &mut exchanges, None).expect("runs in order");
        case.check_both(both, &in_order).unwrap();
        for seed in 0..SEEDS {
            let results = case.run_both(&module, both, &mut exchanges, Some(seed));
            let results = results.unwrap_or_else(|error| panic!("{regime:?}, seed {seed}: {}", error.reason));
            assert_eq!(format!("{results:?}"), format!("{in_order:?}"), "{regime:?}, seed {seed}");
        }
    }
}

/// Few shuffles, at which a warp's threads wait for each other.
fn is_found(regime: Regime, mutation: &Mutation) {
    is_found_by(&smallest(regime, Cell::Tanh), mutation);
}

fn is_found_by(case: &Case, mutation: &Mutation) {
    let Some(module) = sources::load(&case.problem, &case.configuration, Some(mutation)) else { return };
    let Some((seed, why)) = first_failure(case, &module) else { panic!("{mutation:?} is not found") };
    println!("{mutation:?}: seed {seed}: {}", why.lines().next().unwrap_or_default());
}

#[test]
fn every_barrier_is_needed() {
    for (regime, file, barriers) in [(Regime::Block, BLOCK, 2), (Regime::Grid, GRID, 4)] {
        assert_eq!(sources::occurrences(file, "barrier();"), barriers);
        for occurrence in 0..barriers {
            is_found(regime, &Mutation { file, from: "barrier();", occurrence, to: "" });
        }
    }
}

#[test]
fn epochs_and_both_buffers_are_needed() {
    let mutations = [
        // Whatever is there is taken.
        ("exchange.cuh", "arrived &= packets[i].epoch == epoch", "arrived &= true"),
        // What was sent last is taken, or waited for and overwritten.
        ("exchange.cuh", "epoch % 2 ? packets : 0", "0"),
        // The next h goes where others still read this one.
        (GRID, "epoch++", "epoch += 0"),
    ];
    for (file, from, to) in mutations {
        is_found(Regime::Grid, &Mutation { file, from, occurrence: 0, to });
    }
    // A launch with one exchange, which begins where the last one did.
    let mut once = smallest(Regime::Grid, Cell::Tanh);
    (once.steps, once.problem.batch) = (2, 2);
    is_found_by(
        &once,
        &Mutation { file: GRID, from: "exchange.epoch = epoch", occurrence: 0, to: "exchange.epoch = 0" },
    );
    let one_h = Mutation {
        file: BLOCK,
        from: "h + (step + 1) % 2 * TILE_FLOATS",
        occurrence: 0,
        to: "h + step % 2 * TILE_FLOATS",
    };
    is_found(Regime::Block, &one_h);
}
