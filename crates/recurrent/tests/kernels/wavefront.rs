//! Stacked layers, each a step behind the one below it: results against double precision, under thread orders that must
//! not matter, and without some of the code that keeps blocks apart.

use hostdnn::Error;
use hostdnn::emulator::Module;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::case::{Case, Data, Exchange, Layout, Results};
use super::element::Numbers;
use super::reference::{self, Expected};
use super::sources::{self, EXCHANGE, Mutation, WAVEFRONT};
use ucudnn_recurrent::configuration::{Cell, Configuration, Element, Math, Problem, Regime};
use ucudnn_recurrent::testing::reference_f64::Arithmetic;

const SEEDS: u64 = 200;

/// Layers of a case's shape; only the last one's y is wanted.
struct Stack {
    case: Case,
    layers: Vec<Layer>,
}

struct Layer {
    data: Data,
    /// W of a layer above another.
    input_weights: Numbers,
    expected: Expected,
}

impl Stack {
    fn new(case: Case, layers: usize, seed: u64) -> Self {
        let Problem { cell, element, hidden, .. } = case.problem;
        let columns = cell.gates() * hidden;
        let mut random = StdRng::seed_from_u64(seed);
        let mut all: Vec<Layer> = Vec::new();
        for _ in 0..layers {
            let data = case.data(random.random());
            let mut numbers =
                |count: usize, scale: f64| (0..count).map(|_| random.random_range(-scale..scale)).collect::<Vec<_>>();
            let weights = numbers(case.first_weight() + columns * hidden, 1.7 / (hidden as f64).sqrt());
            let input_weights = Numbers::of(element, weights);
            let arithmetic = Arithmetic::of(element, case.configuration.math);
            let weights = case.matrices(&input_weights, columns * hidden);
            let expected = reference::compute(&case, &data, |row, time, column| match all.last() {
                None => case.input(&data, row, time, column),
                Some(below) => arithmetic.product(&weights, column, &below.expected.y[row][time]),
            });
            all.push(Layer { data, input_weights, expected });
        }
        Self { case, layers: all }
    }

    fn run(&self, module: &Module, exchange: &mut Exchange, seed: Option<u64>) -> Result<Vec<Results>, Error> {
        let mut results: Vec<_> = self.layers.iter().map(|layer| self.case.poison(&layer.data)).collect();
        let lengths: Vec<_> = self.layers.iter().map(|layer| layer.data.lengths_in_memory()).collect();
        let mut recurrences = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let mut recurrence = self.case.recurrence(&layer.data, &lengths[index], exchange, &mut results[index]);
            if index > 0 {
                recurrence.input = std::ptr::null();
                recurrence.input_weights = self.case.weights(&layer.input_weights);
            }
            if index + 1 < self.layers.len() {
                recurrence.y = std::ptr::null_mut();
            }
            recurrences.push(recurrence);
        }
        recurrences.resize(8, recurrences[0]);
        // SAFETY: the memory has the sizes that the configuration and the case require.
        unsafe { self.case.launch(module, recurrences.try_into().unwrap_or_else(|_| unreachable!()), seed) }?;
        Ok(results)
    }

    fn check(&self, results: &[Results]) -> Result<(), String> {
        for (index, (layer, results)) in self.layers.iter().zip(results).enumerate() {
            let is_last = index + 1 == self.layers.len();
            let checked = self.case.check_against(&layer.expected, &layer.data, results, is_last);
            checked.map_err(|why| format!("layer {index}: {why}"))?;
        }
        Ok(())
    }
}

/// `layers` layers of two blocks each, one with fewer units, with work for warps and successive tiles.
fn smallest(layers: usize, cell: Cell) -> Case {
    let one = Problem::on_an_h200(cell, Element::Float, 5, 3);
    let problem = Problem { layers, steps: 4, multiprocessors: 2 * layers, ..one };
    let (regime, math) = (Regime::Wavefront { layers }, Math::Fma);
    let (units, batch_tile, threads, lanes) = (3, 2, 64, 32);
    let (register_weights, input_register_weights) = (0, None);
    let configuration =
        Configuration { regime, math, units, batch_tile, threads, lanes, register_weights, input_register_weights };
    Case {
        problem,
        configuration,
        steps: 4,
        reverse: false,
        layout: Layout::Padded,
        has_states: true,
        is_aligned: true,
    }
}

/// Random choices of everything that a case has; any two of a few hundred cases differ in most choices. Checks those
/// that `has` chooses by their number and type.
fn check_random(has: impl Fn(usize, Element) -> bool) {
    let mut random = StdRng::seed_from_u64(7);
    for number in 0..70 {
        let cell = [Cell::Lstm, Cell::Gru, Cell::Tanh, Cell::Relu][number % 4];
        let element = [Element::Float, Element::Half, Element::Bfloat16][number % 3];
        let hidden = *[1, 5, 32, 45, 64].choose(&mut random).unwrap();
        let layers = *[2, 2, 3, 5].choose(&mut random).unwrap();
        let blocks = *[1, 2, 3].choose(&mut random).unwrap();
        let steps = *[1, 2, 3, 6].choose(&mut random).unwrap();
        let groups = random.random_range(1..3);
        let batch = *[1, 2, 5, 9, 17].choose(&mut random).unwrap();
        let multiprocessors = groups * layers * blocks;
        let problem = Problem { layers, steps, multiprocessors, ..Problem::on_an_h200(cell, element, hidden, batch) };
        let mut configuration = Configuration {
            regime: Regime::Wavefront { layers },
            math: Math::Fma,
            units: hidden.div_ceil(blocks),
            batch_tile: *[1, 2, 3, 8].choose(&mut random).unwrap(),
            threads: *[32, 64, 128].choose(&mut random).unwrap(),
            lanes: *[1, 4, 8, 32].choose(&mut random).unwrap(),
            register_weights: 0,
            input_register_weights: None,
        };
        let quarters = *[0, 2, 4].choose(&mut random).unwrap();
        configuration.register_weights = configuration.weights(&problem) / 4 * quarters / 8 * 8;
        let layouts = [Layout::TimeMajor, Layout::BatchMajor, Layout::Padded, Layout::Packed];
        let case = Case {
            problem,
            configuration,
            steps,
            reverse: false,
            layout: layouts[random.random_range(0..4)],
            has_states: random.random(),
            is_aligned: random.random(),
        };
        if !has(number, element) {
            continue;
        }
        let Some(module) = sources::load(&problem, &configuration, None) else { return };
        let stack = Stack::new(case.clone(), layers, number as u64);
        let mut exchange = case.exchange();
        // Twice: the second launch begins where the first one ended.
        for seed in [None, Some(number as u64)] {
            let results = stack.run(&module, &mut exchange, seed);
            let results = results.unwrap_or_else(|error| panic!("{case:?}: {}", error.reason));
            stack.check(&results).unwrap_or_else(|why| panic!("{case:?}: {why}"));
        }
    }
}

#[test]
fn some_random_stacks_are_right() {
    check_random(|number, _| number % 29 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_stacks_of_floats_are_right() {
    check_random(|_, element| element == Element::Float);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_stacks_of_halves_are_right() {
    check_random(|_, element| element == Element::Half);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_stacks_of_bfloat16_are_right() {
    check_random(|_, element| element == Element::Bfloat16);
}

fn seeds_change_no_bit(seeds: u64, stacks: &[(usize, Cell)]) {
    for &(layers, cell) in stacks {
        let case = smallest(layers, cell);
        let Some(module) = sources::load(&case.problem, &case.configuration, None) else { return };
        let stack = Stack::new(case.clone(), layers, 0);
        let mut exchange = case.exchange();
        let in_order = stack.run(&module, &mut exchange, None).expect("runs in order");
        stack.check(&in_order).unwrap();
        for seed in 0..seeds {
            let results = stack.run(&module, &mut exchange, Some(seed));
            let results = results.unwrap_or_else(|error| panic!("{layers} layers, seed {seed}: {}", error.reason));
            assert_eq!(format!("{results:?}"), format!("{in_order:?}"), "{layers} layers, seed {seed}");
        }
    }
}

#[test]
fn some_schedules_change_no_bit() {
    seeds_change_no_bit(5, &[(3, Cell::Gru)]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn no_schedule_changes_a_bit() {
    seeds_change_no_bit(SEEDS, &[(2, Cell::Lstm), (3, Cell::Gru), (4, Cell::Tanh)]);
}

/// A removed part shows under some schedule, as wrong or missing results.
fn is_found(case: &Case, mutation: &Mutation) {
    let Some(module) = sources::load(&case.problem, &case.configuration, Some(mutation)) else { return };
    let mut exchange = case.exchange();
    let stacks = [0, 1].map(|seed| Stack::new(case.clone(), case.configuration.layers(), seed));
    let found = (0..SEEDS).find_map(|seed| {
        // The data differs from the previous launch's.
        let stack = &stacks[seed as usize % 2];
        let ran = stack.run(&module, &mut exchange, Some(seed)).map_err(|error| error.reason.into_owned());
        ran.and_then(|results| stack.check(&results)).err().map(|why| (seed, why))
    });
    let Some((seed, why)) = found else { panic!("{mutation:?} is not found") };
    println!("{mutation:?}: seed {seed}: {}", why.lines().next().unwrap_or_default());
}

#[test]
fn every_barrier_is_needed() {
    let barriers = 4;
    assert_eq!(sources::occurrences(WAVEFRONT, "barrier();"), barriers);
    for occurrence in 0..barriers {
        is_found(&smallest(2, Cell::Tanh), &Mutation { file: WAVEFRONT, from: "barrier();", occurrence, to: "" });
    }
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn epochs_buffers_and_the_layer_above_are_needed() {
    let mutations = [
        // A packet of any epoch is accepted.
        (EXCHANGE, "arrived &= packets[i].has_epoch(epoch)", "arrived &= true"),
        // The previous packets are accepted, or are waited for and overwritten.
        (EXCHANGE, "epoch % 2 ? Count : 0", "0"),
        // The next h overwrites the h that others still read.
        (EXCHANGE, "epoch++", "epoch += 0"),
        // A layer runs ahead of the one above it, and overwrites the data that this one waits for.
        (WAVEFRONT, "(layer + 1 < layers ? BLOCKS : 0)", "0"),
        // A layer does not wait for the one below it.
        (WAVEFRONT, "layer > 0 ? own - PACKETS : own", "own"),
    ];
    for (file, from, to) in mutations {
        is_found(&smallest(3, Cell::Tanh), &Mutation { file, from, occurrence: 0, to });
    }
    // A launch with one exchange, which begins where the previous launch began.
    let mut once = smallest(2, Cell::Tanh);
    (once.steps, once.problem.batch) = (1, 2);
    let again = Mutation { file: EXCHANGE, from: "exchange.epoch = epoch", occurrence: 0, to: "exchange.epoch = 0" };
    is_found(&once, &again);
}
