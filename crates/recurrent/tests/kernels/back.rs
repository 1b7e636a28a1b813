//! The kernels that go back through time: gradients against loops in double precision, under thread orders that expose
//! missing barriers; and proof that these are exposed.

use std::ptr;

use hostdnn::emulator::Module;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::case::{Exchange, launch};
use super::element::Numbers;
use super::sources::{
    self, BACK_BLOCK, BACK_CLUSTER, BACK_GRID, BACK_RECURRENCE, BACK_SCATTER, BACK_STATES, CLUSTER_SEND, EXCHANGE,
    Mutation, PHASED, SCATTER_SHARE,
};
use ucudnn_recurrent::configuration::{Cell, Configuration, Element, Math, Problem, Regime};

const SEEDS: u64 = 200;
/// Odd, so that a launch begins with another phase of the exchange than the launch before.
const STEPS: usize = 5;

/// Numbers in double precision, and as the kernels store them.
struct Stored {
    values: Vec<f64>,
    numbers: Numbers,
}

impl Stored {
    fn of(element: Element, values: Vec<f64>) -> Self {
        let numbers = Numbers::of(element, values);
        Self::read(numbers.clone(), numbers.len())
    }

    fn read(numbers: Numbers, count: usize) -> Self {
        Self { values: (0..count).map(|i| numbers.get(i)).collect(), numbers }
    }
}

/// A recurrence whose rows have different lengths, in packed order.
struct Case {
    problem: Problem,
    configuration: Configuration,
    reverse: bool,
}

struct Data {
    lengths: Vec<i32>,
    starts: Vec<i32>,
    gates: Stored,
    cells: Stored,
    y: Stored,
    dy: Stored,
    h0: Stored,
    c0: Stored,
    last_dh: Stored,
    last_dc: Stored,
    weights: Stored,
    dealt: Numbers,
}

/// The gradients of gates, and of first states.
#[derive(Clone, PartialEq, Debug)]
struct Results([Numbers; 3]);

/// The kernels' structs, in `kernels/recurrent/back_recurrence.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BackRecurrence {
    gates: *mut u8,
    cells: *const u8,
    y: *const u8,
    dy: *const u8,
    h0: *const u8,
    c0: *const u8,
    last_dh: *const u8,
    last_dc: *const u8,
    first_dh: *mut u8,
    first_dc: *mut u8,
    lengths: *const i32,
    starts: *const i32,
    weights: *const u8,
    exchange: *mut u8,
    y_stride: i32,
    steps: i32,
    batch: i32,
    reverse: i32,
}

#[repr(C)]
struct BackRecurrences {
    of: [BackRecurrence; 2],
}

fn saved_gates(cell: Cell) -> usize {
    match cell {
        Cell::Lstm | Cell::Gru => 4,
        _ => 1,
    }
}

impl Case {
    /// The smallest case of a regime and math that has everything: several blocks, the last with fewer units;
    /// several tiles, the last with fewer rows; warps with work.
    fn smallest(regime: Regime, math: Math, cell: Cell, element: Element) -> Self {
        let ([hidden, batch, batch_tile, lanes], blocks) = match (regime, math) {
            (Regime::Scatter | Regime::GridScatter, Math::Fma) => ([20, 5, 4, 2], 3),
            (_, Math::Fma) => ([5, 3, 2, 32], 3),
            (Regime::Scatter | Regime::GridScatter, Math::TensorCores) => ([20, 9, 8, 4], 3),
            (_, Math::TensorCores) => ([20, 9, 8, 8], 3),
        };
        let large = Problem { steps: STEPS, ..Problem::on_an_h200(cell, element, hidden, batch) };
        let problem = Problem { multiprocessors: blocks, ..large.of_backward() };
        let units = if regime == Regime::Block { hidden } else { hidden.div_ceil(blocks) };
        // Clusters send no single element of 2 bytes.
        let units =
            if regime == Regime::Cluster && element != Element::Float { units.next_multiple_of(2) } else { units };
        let (threads, register_weights, input_register_weights) = (64, 0, None);
        let configuration =
            Configuration { regime, math, units, batch_tile, threads, lanes, register_weights, input_register_weights };
        Self { problem, configuration, reverse: true }
    }

    /// The row of a step in memory.
    fn place(&self, data: &Data, row: usize, step: usize) -> usize {
        let time = if self.reverse { data.lengths[row] as usize - 1 - step } else { step };
        data.starts[time] as usize + row
    }

    fn data(&self, seed: u64) -> Data {
        let Problem { cell, element, hidden, batch, .. } = self.problem;
        let mut random = StdRng::seed_from_u64(seed);
        // Ranks go from the longest to the shortest; the last has no steps.
        let length = |row: usize| if row + 1 == batch { 0 } else { (STEPS - row * STEPS / batch).max(1) };
        let lengths: Vec<i32> = (0..batch).map(|row| length(row) as i32).collect();
        let going_on = |step: usize| lengths.iter().filter(|&&length| length > step as i32).count();
        let starts = (0..STEPS).map(|step| (0..step).map(going_on).sum::<usize>() as i32).collect();
        let rows: usize = (0..batch).map(length).sum();
        let mut stored = |count: usize, low: f64, high: f64| {
            Stored::of(element, (0..count).map(|_| random.random_range(low..high)).collect())
        };
        let (width, scale) = (saved_gates(cell) * hidden, 1.0 / (hidden as f64).sqrt());
        let gates = stored(rows * width, 0.1, 0.9);
        let cells = stored(rows * hidden, -1.0, 1.0);
        let [y, dy] = [0, 1].map(|_| stored(rows * hidden, -0.9, 0.9));
        let [h0, c0, last_dh, last_dc] = [0; 4].map(|_| stored(batch * hidden, -1.0, 1.0));
        let weights = stored(cell.gates() * hidden * hidden, -scale, scale);
        let dealt = self.dealt(&weights.values);
        Data { lengths, starts, gates, cells, y, dy, h0, c0, last_dh, last_dc, weights, dealt }
    }

    /// R as the kernel takes it: [blocks][H][gates · units], with zeros behind the last unit.
    fn dealt(&self, weights: &[f64]) -> Numbers {
        let Problem { cell, element, hidden, .. } = self.problem;
        let units = self.configuration.dealt_units(hidden);
        let mut dealt = vec![0.0; hidden.next_multiple_of(units) * cell.gates() * hidden];
        for gate in 0..cell.gates() {
            for unit in 0..hidden {
                for column in 0..hidden {
                    let row = unit / units * hidden + column;
                    dealt[(row * cell.gates() + gate) * units + unit % units] =
                        weights[(gate * hidden + unit) * hidden + column];
                }
            }
        }
        Numbers::of(element, dealt)
    }

    /// Runs the kernel once; the seed determines the order of threads.
    fn run(&self, module: &Module, data: &Data, exchange: &mut Exchange, seed: Option<u64>) -> Result<Results, String> {
        let Problem { cell, element, hidden, batch, .. } = self.problem;
        let states = || Numbers::poison(element, batch * hidden);
        let mut results = Results([data.gates.numbers.clone(), states(), states()]);
        if saved_gates(cell) == 1 {
            results.0[0] = Numbers::poison(element, data.gates.values.len());
        }
        let [gates, first_dh, first_dc] = &mut results.0;
        let is_lstm = cell == Cell::Lstm;
        let of = BackRecurrence {
            gates: gates.as_mut_ptr(),
            cells: data.cells.numbers.as_ptr(),
            y: data.y.numbers.as_ptr(),
            dy: data.dy.numbers.as_ptr(),
            h0: data.h0.numbers.as_ptr(),
            c0: data.c0.numbers.as_ptr(),
            last_dh: data.last_dh.numbers.as_ptr(),
            last_dc: if is_lstm { data.last_dc.numbers.as_ptr() } else { ptr::null() },
            first_dh: first_dh.as_mut_ptr(),
            first_dc: if is_lstm { first_dc.as_mut_ptr() } else { ptr::null_mut() },
            lengths: data.lengths.as_ptr(),
            starts: data.starts.as_ptr(),
            weights: data.dealt.as_ptr(),
            exchange: exchange.as_mut_ptr().cast(),
            y_stride: hidden as i32,
            steps: STEPS as i32,
            batch: batch as i32,
            reverse: self.reverse.into(),
        };
        let parameters = BackRecurrences { of: [of; 2] };
        let launch = launch(&self.problem, &self.configuration, seed);
        let kernel = module.kernel(self.configuration.kernel(&self.problem));
        // SAFETY: the parameters are the kernel's struct, and their memory has the case's sizes.
        let ran = kernel.and_then(|kernel| unsafe { kernel.launch(&launch, ptr::from_ref(&parameters).cast()) });
        ran.map_err(|error| error.reason.into_owned())?;
        Ok(results)
    }

    /// The gradients in double precision, in the order of [`Results`].
    fn expected(&self, data: &Data) -> [Vec<f64>; 3] {
        let Problem { cell, hidden, batch, .. } = self.problem;
        let (gates, saved) = (cell.gates(), saved_gates(cell));
        let mut of_gates = data.gates.values.clone();
        let (mut first_dh, mut first_dc) = (data.last_dh.values.clone(), data.last_dc.values.clone());
        for row in 0..batch {
            let at = |unit: usize| row * hidden + unit;
            for step in (0..data.lengths[row] as usize).rev() {
                let place = self.place(data, row, step);
                let before = |of: &Stored, first: &Stored, unit: usize| match step {
                    0 => first.values[at(unit)],
                    _ => of.values[self.place(data, row, step - 1) * hidden + unit],
                };
                let mut factors = vec![vec![0.0; hidden]; gates];
                for unit in 0..hidden {
                    let of = |gate: usize| (place * saved + gate) * hidden + unit;
                    let number = |gate: usize| data.gates.values[of(gate)];
                    let dh = first_dh[at(unit)] + data.dy.values[place * hidden + unit];
                    let c = data.cells.values[place * hidden + unit];
                    let h = data.y.values[place * hidden + unit];
                    let (all, kept) = match cell {
                        Cell::Lstm => {
                            let [i, f, g, o] = [0, 1, 2, 3].map(number);
                            let t = c.tanh();
                            let dc = first_dc[at(unit)] + dh * o * (1.0 - t * t);
                            first_dc[at(unit)] = dc * f;
                            let c_before = before(&data.cells, &data.c0, unit);
                            let of_f = dc * c_before * f * (1.0 - f);
                            let of_i = dc * g * i * (1.0 - i);
                            (vec![of_i, of_f, dc * i * (1.0 - g * g), dh * t * o * (1.0 - o)], 0.0)
                        }
                        Cell::Gru => {
                            let [r, z, n, scaled] = [0, 1, 2, 3].map(number);
                            let dn = dh * (1.0 - z) * (1.0 - n * n);
                            let h_before = before(&data.y, &data.h0, unit);
                            let of_z = dh * (h_before - n) * z * (1.0 - z);
                            (vec![dn * scaled * r * (1.0 - r), of_z, dn, dn * r], dh * z)
                        }
                        Cell::Tanh => (vec![dh * (1.0 - h * h)], 0.0),
                        _ => (vec![if h > 0.0 { dh } else { 0.0 }], 0.0),
                    };
                    first_dh[at(unit)] = kept;
                    for (gate, value) in all.iter().enumerate() {
                        of_gates[of(gate)] = *value;
                    }
                    // R_n's factor is the gradient of what r scales.
                    for (gate, factors) in factors.iter_mut().enumerate() {
                        factors[unit] = if cell == Cell::Gru && gate == 2 { all[3] } else { all[gate] };
                    }
                }
                for (gate, factors) in factors.iter().enumerate() {
                    for (unit, factor) in factors.iter().enumerate() {
                        let row = &data.weights.values[(gate * hidden + unit) * hidden..][..hidden];
                        row.iter().enumerate().for_each(|(column, weight)| first_dh[at(column)] += weight * factor);
                    }
                }
            }
        }
        [of_gates, first_dh, first_dc]
    }

    /// Compares results with double precision.
    fn check(&self, data: &Data, results: &Results) -> Result<(), String> {
        let allowed = match (self.problem.element, self.configuration.math) {
            (Element::Float, Math::Fma) => 2e-5,
            (Element::Float, Math::TensorCores) | (Element::Half, _) => 1e-2,
            (Element::Bfloat16, _) => 8e-2,
        };
        let wanted = if self.problem.cell == Cell::Lstm { 3 } else { 2 };
        let expected = self.expected(data);
        for (name, (expected, numbers)) in
            ["gates", "dh", "dc"].iter().zip(expected.iter().zip(&results.0)).take(wanted)
        {
            let got = Stored::read(numbers.clone(), expected.len()).values;
            let off = got.iter().zip(expected).position(|(got, expected)| {
                let distance = (got - expected).abs();
                distance.is_nan() || distance > allowed * (1.0 + expected.abs())
            });
            if let Some(i) = off {
                return Err(format!("{name}[{i}] is {}, and should be {}", got[i], expected[i]));
            }
        }
        Ok(())
    }

    fn exchange(&self) -> Exchange {
        Exchange::of(&self.problem, &self.configuration)
    }

    fn load(&self, mutation: Option<&Mutation>) -> Option<Module> {
        sources::load(&self.problem, &self.configuration, mutation)
    }

    /// The first seed under which results are wrong or missing, and the reason.
    fn first_failure(&self, module: &Module) -> Option<(u64, String)> {
        let mut exchange = self.exchange();
        (0..SEEDS).find_map(|seed| {
            // The data differs from the previous launch's.
            let data = self.data(seed);
            let why = self
                .run(module, &data, &mut exchange, Some(seed))
                .and_then(|results| self.check(&data, &results))
                .err()?;
            Some((seed, why))
        })
    }
}

const KINDS: [(Regime, Math); 8] = [
    (Regime::Block, Math::Fma),
    (Regime::Cluster, Math::Fma),
    (Regime::Scatter, Math::Fma),
    (Regime::GridScatter, Math::Fma),
    (Regime::Block, Math::TensorCores),
    (Regime::Cluster, Math::TensorCores),
    (Regime::Scatter, Math::TensorCores),
    (Regime::GridScatter, Math::TensorCores),
];

/// All cells of all kinds, forwards in time and in reverse. Any cell and any kind meet with two types. Checks every
/// `step`th of these.
fn check_gradients(step: usize) {
    let mut index = 0;
    const ELEMENTS: [Element; 3] = [Element::Float, Element::Half, Element::Bfloat16];
    for (kind, (regime, math)) in KINDS.into_iter().enumerate() {
        for (number, cell) in [Cell::Lstm, Cell::Gru, Cell::Tanh, Cell::Relu].into_iter().enumerate() {
            if matches!(regime, Regime::Scatter | Regime::GridScatter) && cell.gates() == 1 {
                continue;
            }
            for element in [0, 1].map(|more| ELEMENTS[(kind + number + more) % 3]) {
                index += 1;
                if index % step > 0 {
                    continue;
                }
                let mut case = Case::smallest(regime, math, cell, element);
                let Some(module) = case.load(None) else { return };
                for reverse in [false, true] {
                    case.reverse = reverse;
                    let data = case.data(3);
                    let results =
                        case.run(&module, &data, &mut case.exchange(), None).unwrap_or_else(|why| panic!("{why}"));
                    case.check(&data, &results)
                        .unwrap_or_else(|why| panic!("{regime:?} {math:?} {cell:?} {element:?}: {why}"));
                }
            }
        }
    }
}

#[test]
fn some_gradients_are_those_of_double_precision() {
    check_gradients(15);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn gradients_are_those_of_double_precision() {
    check_gradients(1);
}

/// Every `step`th of some configurations that the library chooses, of sizes at the edges, is right too.
fn check_offered(step: usize) {
    let mut index = 0;
    let mut random = StdRng::seed_from_u64(9);
    for (cell, element, hidden, batch) in [
        (Cell::Lstm, Element::Float, 40, 5),
        (Cell::Gru, Element::Half, 96, 9),
        (Cell::Lstm, Element::Bfloat16, 72, 17),
        (Cell::Gru, Element::Float, 34, 10),
    ] {
        let large = Problem::on_an_h200(cell, element, hidden, batch);
        let problem = Problem { steps: STEPS, multiprocessors: 12, cluster_blocks: 8, ..large }.of_backward();
        let space = Configuration::space(&problem);
        for (regime, math) in KINDS {
            let offered: Vec<_> = space.iter().filter(|one| (one.regime, one.math) == (regime, math)).collect();
            let is_offered = regime != Regime::Block && (math == Math::Fma || batch >= 8);
            assert!(!is_offered || !offered.is_empty(), "{regime:?} {math:?} {hidden}");
            if !offered.is_empty() {
                let configuration = *offered[random.random_range(0..offered.len())];
                let case = Case { problem, configuration, reverse: random.random() };
                let seed = random.random();
                index += 1;
                if index % step > 0 {
                    continue;
                }
                let Some(module) = case.load(None) else { return };
                let data = case.data(seed);
                let results = case
                    .run(&module, &data, &mut case.exchange(), None)
                    .unwrap_or_else(|why| panic!("{configuration}: {why}"));
                case.check(&data, &results).unwrap_or_else(|why| panic!("{cell:?} {element:?} {configuration}: {why}"));
            }
        }
    }
}

#[test]
fn some_offered_configurations_are_right() {
    check_offered(10);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn offered_configurations_are_right() {
    check_offered(1);
}

/// Checks every `step`th kind.
fn seeds_change_no_bit(seeds: u64, step: usize) {
    for (regime, math) in KINDS.into_iter().step_by(step) {
        let case = Case::smallest(regime, math, Cell::Lstm, Element::Float);
        let Some(module) = case.load(None) else { return };
        let data = case.data(0);
        let in_order = case.run(&module, &data, &mut case.exchange(), None).unwrap();
        case.check(&data, &in_order).unwrap_or_else(|why| panic!("{regime:?} {math:?}: {why}"));
        let mut exchange = case.exchange();
        for seed in 0..seeds {
            let results = case
                .run(&module, &data, &mut exchange, Some(seed))
                .unwrap_or_else(|why| panic!("{regime:?} {math:?}: {why}"));
            // As text, since unwritten numbers are NaN.
            assert_eq!(format!("{results:?}"), format!("{in_order:?}"), "{regime:?} {math:?}, seed {seed}");
        }
    }
}

#[test]
fn some_schedules_change_no_bit() {
    seeds_change_no_bit(5, 7);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn no_schedule_changes_a_bit() {
    seeds_change_no_bit(SEEDS, 1);
}

/// A launch begins with the phase that the launch before it ended with. Sums without their phase do not show that.
#[test]
fn no_phase_changes_a_bit() {
    let with_phase = Mutation { file: PHASED, from: "(i == 0 ? ~1u : ~0u)", occurrence: 0, to: "~0u" };
    let is_equal = |mutation: Option<&Mutation>| {
        let case = Case::smallest(Regime::GridScatter, Math::Fma, Cell::Lstm, Element::Float);
        let module = case.load(mutation)?;
        let (data, mut exchange) = (case.data(5), case.exchange());
        let runs = [0, 1].map(|_| format!("{:?}", case.run(&module, &data, &mut exchange, None).expect("runs")));
        Some(runs[0] == runs[1])
    };
    let (Some(without), Some(with)) = (is_equal(None), is_equal(Some(&with_phase))) else { return };
    assert!(without && !with);
}

/// Every `step`th mutation of a kernel of a kind is found under some schedule.
fn parts_are_needed(step: usize) {
    const BLOCK: (Regime, Math) = (Regime::Block, Math::Fma);
    const CLUSTER: (Regime, Math) = (Regime::Cluster, Math::Fma);
    const SCATTER: (Regime, Math) = (Regime::Scatter, Math::Fma);
    const GRID: (Regime, Math) = (Regime::GridScatter, Math::Fma);
    const ON_TENSOR_CORES: (Regime, Math) = (Regime::Scatter, Math::TensorCores);
    let all = [
        // Barriers.
        (BLOCK, BACK_BLOCK, "barrier()", 0, ""),
        (BLOCK, BACK_BLOCK, "barrier()", 1, ""),
        (CLUSTER, BACK_CLUSTER, "barrier()", 0, ""),
        (SCATTER, BACK_SCATTER, "barrier()", 0, ""),
        (GRID, BACK_GRID, "barrier()", 0, ""),
        (GRID, BACK_GRID, "barrier()", 1, ""),
        (GRID, BACK_GRID, "barrier()", 2, ""),
        // Waiting for what others send, and for all of it.
        (CLUSTER, BACK_CLUSTER, "others.wait();", 0, ""),
        (SCATTER, BACK_SCATTER, "others.wait();", 0, ""),
        (
            CLUSTER,
            BACK_CLUSTER,
            "rows * GATES * HIDDEN * sizeof(Factor)",
            0,
            "(rows * GATES * HIDDEN - 1) * sizeof(Factor)",
        ),
        (SCATTER, BACK_SCATTER, "others.expect(bytes)", 0, "others.expect(bytes - 16)"),
        (GRID, PHASED, "unsigned(half[0]) % 2 == phase_of(epoch)", 0, "true"),
        (GRID, PHASED, "(epoch + 1) / 2 % 2", 0, "epoch % 2"),
        (GRID, EXCHANGE, "exchange.epoch = epoch", 0, "exchange.epoch = epoch + 1"),
        // One buffer instead of two, of what arrives and of factors.
        (CLUSTER, BACK_CLUSTER, "others.next_buffer() * TILE_FACTORS", 0, "0"),
        (BLOCK, BACK_BLOCK, "step % 2 * TILE_FACTORS", 0, "0"),
        (SCATTER, BACK_SCATTER, "step % 2 * TILE_FACTORS", 0, "0"),
        (GRID, EXCHANGE, "epoch % 2 ? Count : 0", 0, "0"),
        // Gates are read into the places whose gradients are still to be written.
        (
            SCATTER,
            BACK_SCATTER,
            "states.write(step);\n            states.ask_for(step - 1);",
            0,
            "states.ask_for(step - 1);\n            states.write(step);",
        ),
        // The state of another step, and of another time.
        (
            BLOCK,
            BACK_STATES,
            "back_place(p, row(pair), pair.length, step - 1)",
            0,
            "back_place(p, row(pair), pair.length, step)",
        ),
        (BLOCK, BACK_RECURRENCE, "p.reverse ? length - 1 - step : step", 0, "step"),
        // The sums of another block, and of another column.
        (SCATTER, SCATTER_SHARE, "first[part * SENT]", 0, "first[(Parts - 1) * SENT]"),
        (ON_TENSOR_CORES, SCATTER_SHARE, "is_odd ? own[i] : own[2 + i]", 0, "is_odd ? own[2 + i] : own[i]"),
        (CLUSTER, CLUSTER_SEND, "row >= rows", 0, "row >= rows - 1"),
    ];
    for ((regime, math), file, from, occurrence, to) in all.into_iter().step_by(step) {
        let mutation = Mutation { file, from, occurrence, to };
        let case = Case::smallest(regime, math, Cell::Lstm, Element::Float);
        let Some(module) = case.load(Some(&mutation)) else { return };
        let Some((seed, why)) = case.first_failure(&module) else { panic!("{mutation:?} is not found") };
        println!("{mutation:?}: seed {seed}: {}", why.lines().next().unwrap_or_default());
    }
}

#[test]
fn some_parts_are_needed() {
    parts_are_needed(8);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn every_part_is_needed() {
    parts_are_needed(1);
}
