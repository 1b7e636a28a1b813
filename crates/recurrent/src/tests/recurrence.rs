//! Tests the recurrence's kernels, of each regime, math, cell and type, against loops in double precision: on a GPU
//! where there is one, and emulated.

use std::collections::HashSet;
use std::ptr::{null, null_mut};

use half::{bf16, f16};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::configuration::{Cell, Configuration, Element, MOST_RECURRENCES, Math, Problem, Regime};
use crate::kernels::{launch, source};
use crate::model::Model;
use crate::recurrence::{Recurrence, Recurrences};
use crate::testing::reference_f64::{Arithmetic, Distance, Rounded};
use gpu::testing::emulated;
use gpu::testing::on_gpu;
use gpu::{Buffer, Device};

const STEPS: usize = 4;

const CELLS: [Cell; 5] = [Cell::Lstm, Cell::Gru, Cell::CanonicalGru, Cell::Tanh, Cell::Relu];
const ELEMENTS: [Element; 3] = [Element::Float, Element::Half, Element::Bfloat16];

/// A kind of kernel; the last value is true if W x is computed within each step.
pub type Kind = (Regime, Math, bool);

pub fn kind(configuration: &Configuration) -> Kind {
    (configuration.regime, configuration.math, configuration.multiplies_input())
}

/// The kinds that a cell has, with or without clusters.
fn kinds(cell: Cell, has_clusters: bool) -> Vec<Kind> {
    let (regimes, all): (&[Regime], &[(Math, bool)]) = match cell {
        Cell::CanonicalGru => (&[Regime::Block, Regime::Grid, Regime::GridSingle], &[(Math::Fma, false)]),
        _ => (
            &[Regime::Block, Regime::Cluster, Regime::Grid],
            &[(Math::Fma, false), (Math::TensorCores, false), (Math::Fma, true)],
        ),
    };
    let regimes = regimes.iter().filter(|&&regime| has_clusters || regime != Regime::Cluster);
    let kinds = regimes.flat_map(|&regime| all.iter().map(move |&(math, within)| (regime, math, within)));
    kinds.filter(|&(regime, _, within)| !(within && regime == Regime::Block)).collect()
}

/// A recurrence's numbers, each exact in the problem's type.
struct Data {
    /// W x, [steps][batch][gates][hidden]; or x, [steps][batch][input], and W, [gates][hidden][input], to multiply.
    input: Vec<f64>,
    x: Vec<f64>,
    input_weights: Vec<f64>,
    /// [gates][hidden][hidden]
    weights: Vec<f64>,
    /// [batch][hidden], twice
    h0: Vec<f64>,
    c0: Vec<f64>,
}

impl Data {
    fn random(problem: &Problem) -> Self {
        let Problem { cell, element, hidden, batch, .. } = *problem;
        let mut random = StdRng::seed_from_u64(7);
        // Sums of uniform numbers: bounded, and spread over the whole range.
        let mut numbers = |element, count: usize, scale: f64| -> Vec<f64> {
            let sums = (0..count).map(|_| scale * (0..4).map(|_| random.random_range(-1.0..1.0)).sum::<f64>());
            sums.map(|sum| number(element, &bits(element, sum))).collect()
        };
        Self {
            input: numbers(Element::Float, STEPS * batch * cell.gates() * hidden, 0.7),
            x: numbers(element, STEPS * batch * problem.input, 0.7),
            input_weights: numbers(element, cell.gates() * hidden * problem.input, 1.0 / (hidden as f64).sqrt()),
            weights: numbers(element, cell.gates() * hidden * hidden, 1.0 / (hidden as f64).sqrt()),
            h0: numbers(element, batch * hidden, 0.4),
            c0: numbers(element, batch * hidden, 0.4),
        }
    }

    /// y, as [steps][batch][hidden].
    fn expected(&self, problem: &Problem, math: Math, within: bool) -> Vec<Rounded> {
        let Problem { cell, element, hidden, input, batch, .. } = *problem;
        let arithmetic = Arithmetic::of(element, math);
        let [mut h, mut c] =
            [&self.h0, &self.c0].map(|states| states.iter().copied().map(Rounded::exact).collect::<Vec<_>>());
        let mut y = Vec::new();
        for step in 0..STEPS {
            for row in 0..batch {
                let place = step * batch + row;
                let x: Vec<_> = self.x[place * input..][..input].iter().copied().map(Rounded::exact).collect();
                let x = |gate, unit| match within {
                    true => arithmetic.product(&self.input_weights, gate * hidden + unit, &x),
                    false => Rounded::exact(self.input[(place * cell.gates() + gate) * hidden + unit]),
                };
                let r = |gate, unit, h: &[Rounded]| arithmetic.product(&self.weights, gate * hidden + unit, h);
                let state = row * hidden..(row + 1) * hidden;
                arithmetic.step(cell, x, r, &mut h[state.clone()], &mut c[state]);
            }
            y.extend(&h);
        }
        y
    }
}

fn bits(element: Element, value: f64) -> Vec<u8> {
    match element {
        Element::Float => (value as f32).to_ne_bytes().into(),
        Element::Half => f16::from_f64(value).to_ne_bytes().into(),
        Element::Bfloat16 => bf16::from_f64(value).to_ne_bytes().into(),
    }
}

fn number(element: Element, bytes: &[u8]) -> f64 {
    match element {
        Element::Float => f32::from_ne_bytes(bytes.try_into().unwrap()).into(),
        Element::Half => f16::from_ne_bytes(bytes.try_into().unwrap()).into(),
        Element::Bfloat16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).into(),
    }
}

/// Runs the kernel and returns y, [steps][batch][hidden]. `None`, with a message, on a machine without a compiler.
fn run(device: Device, problem: &Problem, configuration: &Configuration, data: &Data) -> Option<Vec<f64>> {
    let Problem { element, hidden, batch, .. } = *problem;
    let module = device.load(&source(problem, configuration)).map_err(|error| error.to_string());
    let module = emulated::compiled(module)?;
    let (function, launch) = (module.function(configuration.kernel(problem)).unwrap(), launch(problem, configuration));
    function.allow_shared(launch.shared_bytes).unwrap();
    if launch.cluster != [1; 3] {
        function.allow_large_clusters().unwrap();
    }
    let stream = device.stream().expect("a stream");
    let memory = |bytes: &[u8]| {
        let buffer = device.allocate(bytes.len()).unwrap();
        // SAFETY: the buffer has as many bytes as `bytes`.
        assert!(unsafe { device.write(buffer.data(), bytes, stream.raw()) });
        buffer
    };
    let stored =
        |element, values: &[f64]| memory(&values.iter().flat_map(|&value| bits(element, value)).collect::<Vec<_>>());
    let input = stored(Element::Float, &data.input);
    let [x, input_weights] = [&data.x, &data.input_weights].map(|values| stored(element, values));
    let [weights, h0, c0] = [&data.weights, &data.h0, &data.c0].map(|values| stored(element, values));
    let within = configuration.multiplies_input();
    let only = |is_there: bool, buffer: &Buffer| if is_there { buffer.data().cast_const() } else { null() };
    // NaNs, and a guard behind y that detects writes past its end.
    let y_bytes = STEPS * batch * hidden * element.bytes();
    let y = memory(&vec![0xff; y_bytes + 256]);
    let exchange = memory(&vec![0; configuration.exchange_bytes(problem)]);
    let recurrence = Recurrence {
        input: only(!within, &input).cast(),
        weights: weights.data(),
        x: only(within, &x),
        input_weights: only(within, &input_weights),
        input_biases: null(),
        recurrent_biases: null(),
        h0: h0.data(),
        c0: c0.data(),
        y: y.data(),
        hy: null_mut(),
        cy: null_mut(),
        gates: null_mut(),
        cells: null_mut(),
        lengths: null(),
        starts: null(),
        y_stride: hidden as i64,
        time_stride: batch as i64,
        batch_stride: 1,
        fill: [0; 4],
        steps: STEPS as i32,
        batch: batch as i32,
        reverse: 0,
        exchange: exchange.data(),
    };
    let mut parameters = Recurrences { of: [recurrence; MOST_RECURRENCES] };
    let mut arguments = [(&raw mut parameters).cast()];
    let mut found = vec![0; y_bytes + 256];
    // SAFETY: `parameters` is the kernel's struct; its memory has the sizes of the problem and the configuration.
    unsafe {
        function.launch(stream.raw(), &launch, &mut arguments).unwrap();
        assert!(device.read(&mut found, y.data(), stream.raw()));
    }
    assert!(found[y_bytes..].iter().all(|&byte| byte == 0xff), "{configuration} has written past y's end");
    Some(found[..y_bytes].chunks_exact(element.bytes()).map(|bytes| number(element, bytes)).collect())
}

/// Checks the results of the model's best configuration of each kind, for each of these cells and types, H and batch.
fn check(device: Device, multiprocessors: usize, of: impl IntoIterator<Item = (Cell, Element)>, sizes: &[[usize; 2]]) {
    let shared_bytes = device.shared_bytes(0).expect("how much a block may have");
    let cluster_blocks = device.cluster_blocks(0);
    for (cell, element) in of {
        let kinds = kinds(cell, cluster_blocks > 0);
        let mut seen = HashSet::new();
        for &[hidden, batch] in sizes {
            let problem = Problem {
                steps: STEPS,
                multiprocessors,
                shared_bytes,
                cluster_blocks,
                // Some rows of x are as wide as h; others are not whole vectors.
                input: if hidden % 4 == 0 { hidden } else { hidden + 3 },
                ..Problem::on_an_h200(cell, element, hidden, batch)
            };
            let data = Data::random(&problem);
            let expected = [(Math::Fma, false), (Math::TensorCores, false), (Math::Fma, true)]
                .map(|(math, within)| ((math, within), data.expected(&problem, math, within)));
            let ranked = Model::default().ranked(&problem, usize::MAX);
            for &wanted in &kinds {
                let Some(configuration) = ranked.iter().find(|one| kind(one) == wanted) else { continue };
                let Some(y) = run(device, &problem, configuration, &data) else { return };
                let (_, expected) = expected.iter().find(|(kind, _)| *kind == (wanted.1, wanted.2)).unwrap();
                let distance: Distance = y.into_iter().zip(expected.iter().copied()).collect();
                let what = format!("{cell:?} {element:?} {hidden} × {batch}, {configuration}: {distance}");
                println!("{what}");
                assert!(distance.is_of_rounding(), "{what}");
                seen.insert(wanted);
            }
        }
        assert_eq!(seen.len(), kinds.len(), "each kind of {cell:?} in {element:?}: {seen:?}");
    }
}

fn in_all_types(cell: Cell) -> [(Cell, Element); 3] {
    ELEMENTS.map(|element| (cell, element))
}

#[test]
fn on_a_gpu_as_in_double() {
    let device = Device::Cuda;
    let Some(_gpu) = on_gpu::first() else { return };
    let multiprocessors = device.multiprocessors(0).expect("how many it has");
    let all = || CELLS.into_iter().flat_map(in_all_types);
    check(device, multiprocessors, all(), &[[64, 10], [90, 20], [256, 20], [1000, 9]]);
    // Few blocks, which compute their tiles one after the other.
    check(device, 4, all(), &[[64, 300]]);
}

fn check_emulated(test: &str, of: impl IntoIterator<Item = (Cell, Element)>) {
    if emulated::is_child(test) {
        check(Device::Host, Device::Host.multiprocessors(0).expect("as many as it is"), of, &[[50, 9]]);
    }
}

#[test]
fn some_emulated_as_in_double() {
    check_emulated("tests::recurrence::some_emulated_as_in_double", [(Cell::CanonicalGru, Element::Half)]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn lstms_emulated_as_in_double() {
    check_emulated("tests::recurrence::lstms_emulated_as_in_double", in_all_types(Cell::Lstm));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn grus_emulated_as_in_double() {
    check_emulated("tests::recurrence::grus_emulated_as_in_double", in_all_types(Cell::Gru));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn canonical_grus_emulated_as_in_double() {
    check_emulated("tests::recurrence::canonical_grus_emulated_as_in_double", in_all_types(Cell::CanonicalGru));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn tanh_emulated_as_in_double() {
    check_emulated("tests::recurrence::tanh_emulated_as_in_double", in_all_types(Cell::Tanh));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn relu_emulated_as_in_double() {
    check_emulated("tests::recurrence::relu_emulated_as_in_double", in_all_types(Cell::Relu));
}
