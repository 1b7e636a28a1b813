//! Results of a sample in which any two choices occur together.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::case::{Case, Layout};
use super::sources;
use ucudnn_recurrent::configuration::{Cell, Configuration, Element, Math, Problem, Regime};
use ucudnn_recurrent::testing::reference_f64::Distance;

const REGIMES: [Regime; 4] = [Regime::Block, Regime::Cluster, Regime::Grid, Regime::GridSingle];
const CELLS: [Cell; 5] = [Cell::Lstm, Cell::Gru, Cell::CanonicalGru, Cell::Tanh, Cell::Relu];
const ELEMENTS: [Element; 3] = [Element::Float, Element::Half, Element::Bfloat16];
const LAYOUTS: [Layout; 4] = [Layout::TimeMajor, Layout::BatchMajor, Layout::Padded, Layout::Packed];
const BATCHES: [usize; 6] = [1, 2, 3, 8, 17, 33];
const HIDDEN: [usize; 6] = [1, 5, 32, 45, 64, 96];
const STEPS: [usize; 4] = [1, 2, 3, 4];
/// Units of a block, as H divided by these, rounded up.
const SHARES: [usize; 3] = [2, 3, 11];
const TILES: [usize; 4] = [1, 2, 3, 8];
const TENSOR_TILES: [usize; 4] = [8, 16, 24, 40];
const THREADS: [usize; 3] = [32, 64, 128];
const LANES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The quarters of a thread's weights that are in registers.
const REGISTERS: [usize; 3] = [0, 2, 4];
/// Numbers in a row of x that is multiplied within the steps; 0: W x is given.
const INPUTS: [usize; 4] = [0, 1, 45, 96];

/// The number of values of each choice: those above in their order, and regime, math, direction, states, alignment.
const CHOICES: [usize; 16] = [
    REGIMES.len(),
    2,
    CELLS.len(),
    ELEMENTS.len(),
    2,
    LAYOUTS.len(),
    BATCHES.len(),
    HIDDEN.len(),
    STEPS.len(),
    2,
    2,
    SHARES.len(),
    TILES.len(),
    THREADS.len(),
    LANES.len() * REGISTERS.len(),
    INPUTS.len(),
];

type Choice = [usize; CHOICES.len()];

/// Choices such that any two of them occur together: each is the best of some random ones.
fn pairwise() -> Vec<Choice> {
    let mut random = StdRng::seed_from_u64(5);
    let pairs = |choice: &Choice| {
        let choice = *choice;
        (0..choice.len()).flat_map(move |a| (0..a).map(move |b| (a, choice[a], b, choice[b]))).collect::<Vec<_>>()
    };
    let mut missing = std::collections::HashSet::new();
    for (a, &values) in CHOICES.iter().enumerate() {
        for (b, &others) in CHOICES[..a].iter().enumerate() {
            missing.extend((0..values).flat_map(|x| (0..others).map(move |y| (a, x, b, y))));
        }
    }
    let mut sample = Vec::new();
    while let Some(&(a, x, b, y)) = missing.iter().min() {
        let mut candidates = (0..60).map(|_| {
            let mut choice = CHOICES.map(|values| random.random_range(0..values));
            (choice[a], choice[b]) = (x, y);
            choice
        });
        let first = candidates.next().expect("some");
        let new = |choice: &Choice| pairs(choice).iter().filter(|pair| missing.contains(pair)).count();
        let best = candidates.fold(first, |best, other| if new(&other) > new(&best) { other } else { best });
        pairs(&best).iter().for_each(|pair| {
            missing.remove(pair);
        });
        sample.push(best);
    }
    sample
}

fn case(choice: &Choice) -> Case {
    let &[
        regime,
        math,
        cell,
        element,
        reverse,
        layout,
        batch,
        hidden,
        steps,
        states,
        alignment,
        share,
        tile,
        threads,
        split,
        input,
    ] = choice;
    // Only canonical GRU has a single exchange; its kernels have no tensor cores and no clusters. Clusters send no
    // single element of 2 bytes.
    let (regime, hidden) = (REGIMES[regime], HIDDEN[hidden]);
    let cell = if regime == Regime::GridSingle { Cell::CanonicalGru } else { CELLS[cell] };
    let is_canonical = cell == Cell::CanonicalGru;
    let regime = if is_canonical && regime == Regime::Cluster { Regime::Grid } else { regime };
    let is_sent = regime != Regime::Cluster || ELEMENTS[element] == Element::Float || hidden % 2 == 0;
    let math = if is_canonical || !is_sent { Math::Fma } else { [Math::Fma, Math::TensorCores][math] };
    let problem = Problem {
        steps: STEPS[steps],
        // Two groups of blocks share the tiles.
        multiprocessors: 2 * SHARES[share],
        input: INPUTS[input],
        ..Problem::on_an_h200(cell, ELEMENTS[element], hidden, BATCHES[batch])
    };
    let threads = THREADS[threads];
    let (batch_tile, lanes) = match math {
        Math::Fma => (TILES[tile], LANES[split % LANES.len()]),
        // The number of warps that share H; the others share the rows.
        Math::TensorCores => (TENSOR_TILES[tile], 4 << (split % LANES.len()).min((threads / 32).ilog2() as usize)),
    };
    let mut configuration = Configuration {
        regime,
        math,
        units: match regime {
            Regime::Block => hidden,
            Regime::Cluster if math == Math::TensorCores => hidden.div_ceil(SHARES[share]).next_multiple_of(2),
            _ => hidden.div_ceil(SHARES[share]),
        },
        batch_tile,
        threads,
        lanes,
        register_weights: 0,
        input_register_weights: None,
    };
    let quarters = REGISTERS[split / LANES.len()];
    configuration.register_weights = configuration.weights(&problem) / 4 * quarters / 8 * 8;
    if INPUTS[input] > 0 && matches!(regime, Regime::Cluster | Regime::Grid) && math == Math::Fma && !is_canonical {
        configuration.input_register_weights = Some(0);
        let weights = configuration.input_weights(&problem);
        configuration.input_register_weights = Some(weights / 4 * quarters / 4 * 4);
    }
    Case {
        problem,
        configuration,
        steps: STEPS[steps],
        reverse: reverse == 1,
        layout: LAYOUTS[layout],
        has_states: states == 1,
        is_aligned: alignment == 1,
    }
}

/// Checks those cases of the sample that `has` chooses by their number.
fn check(has: impl Fn(usize, &Case) -> bool) {
    let sample: Vec<_> = pairwise().iter().map(case).collect();
    println!("{} cases", sample.len());
    // More packets than a thread requests at once.
    let takes_turns =
        |case: &Case| case.configuration.regime == Regime::GridSingle && case.configuration.blocks(&case.problem) > 9;
    assert!(sample.iter().any(takes_turns));
    let mut distances = HashMap::new();
    for (number, case) in sample.iter().enumerate().filter(|(number, case)| has(*number, case)) {
        let Some(module) = sources::load(&case.problem, &case.configuration, None) else { return };
        let data = case.data(number as u64);
        let results = case.run(&module, &data, &mut case.exchange(), None);
        let results = results.unwrap_or_else(|error| panic!("{case:?}: {}", error.reason));
        let distance = case.check(&data, &results).unwrap_or_else(|why| panic!("{case:?}: {why}"));
        let all: &mut Distance = distances.entry((case.problem.element, case.configuration.math)).or_default();
        *all = *all + distance;
    }
    // The errors of many results are those of rounding, on average.
    for (arithmetic, distance) in distances {
        let deviations = distance.deviations();
        println!("{arithmetic:?}: {deviations:.2}");
        assert!(deviations <= 1.0, "{arithmetic:?}: {deviations}");
    }
}

#[test]
fn some_of_a_pairwise_sample_are_right() {
    check(|number, _| number % 29 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn floats_of_a_pairwise_sample_are_right() {
    check(|_, case| case.problem.element == Element::Float);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn halves_of_a_pairwise_sample_are_right() {
    check(|_, case| case.problem.element == Element::Half);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn bfloat16_of_a_pairwise_sample_is_right() {
    check(|_, case| case.problem.element == Element::Bfloat16);
}

/// Every `step`th of some configurations that the library chooses, of sizes at the edges.
fn check_offered(step: usize) {
    let mut random = StdRng::seed_from_u64(1);
    let mut number = 0;
    let all = [
        (Cell::Lstm, Element::Float, 40, 5),
        (Cell::Gru, Element::Half, 96, 9),
        (Cell::Lstm, Element::Float, 72, 10),
        (Cell::Relu, Element::Bfloat16, 96, 17),
        (Cell::CanonicalGru, Element::Float, 72, 3),
    ];
    for (cell, element, hidden, batch) in all {
        let large = Problem::on_an_h200(cell, element, hidden, batch);
        let problem = Problem { steps: 3, multiprocessors: 12, cluster_blocks: 8, ..large };
        let space = Configuration::space(&problem);
        let of = |single: bool, math, within: bool| {
            let kind = |one: &Configuration| (one.regime == Regime::GridSingle, one.math, one.multiplies_input());
            space.iter().filter(move |one| kind(one) == (single, math, within)).collect()
        };
        let kinds: [Vec<_>; 4] = [
            of(false, Math::Fma, false),
            of(false, Math::TensorCores, false),
            of(true, Math::Fma, false),
            of(false, Math::Fma, true),
        ];
        let is_canonical = cell == Cell::CanonicalGru;
        let missing = [false, batch < 8 || is_canonical, !is_canonical, is_canonical];
        assert_eq!(kinds.each_ref().map(Vec::is_empty), missing);
        let some: Vec<_> = kinds.iter().flat_map(|kind| kind.choose_multiple(&mut random, 3)).collect();
        for configuration in some {
            let case = Case {
                problem,
                configuration: **configuration,
                steps: 3,
                reverse: random.random(),
                layout: Layout::Padded,
                has_states: true,
                is_aligned: true,
            };
            number += 1;
            if number % step > 0 {
                continue;
            }
            let Some(module) = sources::load(&problem, configuration, None) else { return };
            let data = case.data(9);
            let results = case.run(&module, &data, &mut case.exchange(), Some(3)).expect("runs");
            case.check(&data, &results).unwrap_or_else(|why| panic!("{case:?}: {why}"));
        }
    }
}

#[test]
fn some_offered_configurations_are_right() {
    check_offered(20);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn offered_configurations_are_right() {
    check_offered(1);
}
