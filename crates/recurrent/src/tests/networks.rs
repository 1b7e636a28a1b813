//! Tests whole networks, of several layers, directions and lengths, in each regime, against loops in double precision:
//! on a GPU where there is one, and emulated.

use std::ffi::c_void;
use std::ops::Range;

use cudnn_abi::*;
use half::f16;

use crate::configuration::{Cell, Configuration, Math, Problem, Regime};
use crate::inference::run::Work;
use crate::kernels::{Engine, problem};
use crate::model::Model;
use crate::network::memory::Memory;
use crate::network::temporary::Temporary;
use crate::recurrence::Recurrent;
use crate::testing::reference_f64::{Arithmetic, Distance, Rounded};
use cudnn::rnn::{Data, Network, Weights};
use gpu::testing::emulated;
use gpu::testing::on_gpu;
use gpu::{Buffer, Device, Stream};

/// The fill value of y's padding.
const FILL: f64 = -7.0;

/// A number between -1 and 1 that float and half represent exactly.
fn number(i: usize, salt: u64) -> f64 {
    let mixed = (i as u64 + (salt << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed >> 55) as f64 - 256.0) / 256.0
}

fn numbers(count: usize, salt: u64, scale: f64) -> Vec<f64> {
    (0..count).map(|i| scale * number(i, salt)).collect()
}

fn bytes(network: &Network, numbers: &[f64]) -> Vec<u8> {
    let half = |value: &f64| f16::from_f64(*value).to_ne_bytes().to_vec();
    match network.data_type {
        CUDNN_DATA_HALF => numbers.iter().flat_map(half).collect(),
        _ => numbers.iter().flat_map(|&value| (value as f32).to_ne_bytes()).collect(),
    }
}

fn values(network: &Network, bytes: &[u8]) -> Vec<f64> {
    match network.data_type {
        CUDNN_DATA_HALF => bytes.chunks_exact(2).map(|it| f16::from_ne_bytes(it.try_into().unwrap()).into()).collect(),
        _ => bytes.chunks_exact(4).map(|it| f32::from_ne_bytes(it.try_into().unwrap()).into()).collect(),
    }
}

/// A network, its data and its weights: W and R of each pseudo layer, then both biases of each.
struct Case {
    network: Network,
    data: Data,
    x: Vec<f64>,
    hx: Vec<f64>,
    cx: Vec<f64>,
    weight_space: Vec<f64>,
    weights: Vec<Weights>,
}

impl Case {
    fn new(network: Network, data: Data) -> Self {
        let (gates, hidden, element) = (network.gates(), network.hidden, network.element());
        let (mut end, mut weights) = (0, vec![]);
        let mut part = |elements: usize| {
            let begin = end;
            end += elements;
            begin * element
        };
        for pseudo_layer in 0..network.pseudo_layers() {
            let columns = network.layer_input(pseudo_layer / network.directions());
            let (input, recurrent) = (part(gates * hidden * columns), part(gates * hidden * hidden));
            weights.push(Weights { input, recurrent, projection: None, input_bias: None, recurrent_bias: None });
        }
        for weights in &mut weights {
            weights.input_bias = Some(part(gates * hidden));
            weights.recurrent_bias = Some(part(gates * hidden));
        }
        let state = network.pseudo_layers() * data.batch() * hidden;
        let scale = 2_f64.powi(-((hidden as f64).log2() / 2.0).ceil() as i32);
        Self {
            network,
            x: numbers(data.rows() * network.input, 1, 1.0),
            hx: numbers(state, 2, 0.5),
            cx: numbers(state, 3, 0.5),
            weight_space: numbers(end, 4, scale),
            data,
            weights,
        }
    }

    /// The row of x and y for a step of a sequence.
    fn row(&self, sequence: usize, step: usize) -> usize {
        let Data { lengths, steps, layout, .. } = &self.data;
        match *layout {
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED => {
                lengths.iter().map(|&length| (length as usize).min(step)).sum::<usize>() + sequence
            }
            CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED => sequence * steps + step,
            _ => step * lengths.len() + sequence,
        }
    }

    /// y, hy and cy in double precision.
    fn expected(&self, cell: Cell, arithmetic: Arithmetic) -> [Vec<Rounded>; 3] {
        let Self { network, data, .. } = self;
        let (hidden, directions, element) = (network.hidden, network.directions(), network.element());
        let exact = |numbers: &Vec<f64>| numbers.iter().copied().map(Rounded::exact).collect::<Vec<_>>();
        let [mut x, mut hy, mut cy] = [&self.x, &self.hx, &self.cx].map(exact);
        for layer in 0..network.layers {
            let (columns, stride) = (network.layer_input(layer), directions * hidden);
            let mut y = vec![Rounded::exact(FILL); data.rows() * stride];
            for direction in 0..directions {
                let pseudo_layer = layer * directions + direction;
                let weights = |place: usize| &self.weight_space[place / element..];
                let Weights { input, recurrent, input_bias, recurrent_bias, .. } = self.weights[pseudo_layer];
                let with_bias = |matrix, bias: Option<usize>, output, vector: &[Rounded]| {
                    let bias = Rounded::exact(weights(bias.unwrap())[output]);
                    arithmetic.product(weights(matrix), output, vector) + bias
                };
                let r = |gate, unit, h: &[Rounded]| with_bias(recurrent, recurrent_bias, gate * hidden + unit, h);
                for (sequence, &length) in data.lengths.iter().enumerate() {
                    let first = (pseudo_layer * data.batch() + sequence) * hidden;
                    let (h, c) = (&mut hy[first..][..hidden], &mut cy[first..][..hidden]);
                    for step in 0..length as usize {
                        let row = self.row(sequence, if direction == 1 { length as usize - 1 - step } else { step });
                        let x = &x[row * columns..][..columns];
                        let w = |gate, unit| with_bias(input, input_bias, gate * hidden + unit, x);
                        arithmetic.step(cell, w, r, h, c);
                        y[row * stride + direction * hidden..][..hidden].copy_from_slice(h);
                    }
                }
            }
            x = y;
        }
        [x, hy, cy.into_iter().map(|c| arithmetic.stored(c)).collect()]
    }

    /// y, hy and cy by a configuration's kernels, which run twice in the same memory.
    fn run(&self, device: Device, stream: Stream, problem: &Problem, configuration: Configuration) -> [Vec<f64>; 3] {
        let Self { network, data, weights, .. } = self;
        let engine = Engine::load(problem, configuration).unwrap_or_else(|why| panic!("{why}"));
        let temporary = Temporary::of(network, data, engine.exchange_bytes()).unwrap();
        let put = |numbers: &[f64]| -> Buffer {
            let bytes = bytes(network, numbers);
            let buffer = device.allocate(bytes.len().max(1)).unwrap();
            // SAFETY: the buffer has at least as many bytes as `bytes`.
            assert!(unsafe { device.write(buffer.data(), &bytes, stream) });
            buffer
        };
        let poison = |count: usize| put(&vec![f64::NAN; count]);
        let (x, weight_space) = (put(&self.x), put(&self.weight_space));
        let (hx, cx) = (put(&self.hx), put(&self.cx));
        let counts = [data.rows() * network.layer_input(1), self.hx.len(), self.cx.len()];
        let results = counts.map(poison);
        let workspace = device.allocate(temporary.bytes).unwrap();
        let [y, hy, cy] = results.each_ref().map(|buffer| buffer.data());
        let memory = Memory {
            x: x.data(),
            y,
            hx: hx.data(),
            hy,
            cx: cx.data(),
            cy,
            weight_space: weight_space.data(),
            weight_space_size: weight_space.bytes(),
            workspace: workspace.data(),
            workspace_size: workspace.bytes(),
        };
        let padding_fill = bytes(network, &[FILL; 4])[..8].try_into().unwrap();
        let (engine, temporary, projecting) = (&*engine, &temporary, None);
        let work = Work { network, data, padding_fill, memory, weights, temporary, engine, projecting, stream };
        for _ in 0..2 {
            // SAFETY: the buffers have the sizes of the network and the data, the workspace the temporary's.
            unsafe { work.launch() }.unwrap();
        }
        let read = |from: *mut c_void, count: usize| {
            let mut bytes = vec![0; count * network.element()];
            // SAFETY: `from` is a buffer with as many bytes as `bytes`.
            assert!(unsafe { device.read(&mut bytes, from, stream) });
            values(network, &bytes)
        };
        [read(y, counts[0]), read(hy, counts[1]), read(cy, counts[2])]
    }
}

fn network(cell: cudnnRNNMode_t, data_type: cudnnDataType_t, hidden: usize, layers: usize, both: bool) -> Network {
    Network {
        algorithm: CUDNN_RNN_ALGO_STANDARD,
        cell,
        bias: CUDNN_RNN_DOUBLE_BIAS,
        direction: if both { CUDNN_BIDIRECTIONAL } else { CUDNN_UNIDIRECTIONAL },
        input_mode: CUDNN_LINEAR_INPUT,
        data_type,
        math_type: CUDNN_FMA_MATH,
        input: 13,
        hidden,
        projection: hidden,
        layers,
        flags: CUDNN_RNN_PADDED_IO_ENABLED,
        is_clipped: false,
    }
}

/// Runs the best configuration of each regime, on some of the networks with these hidden sizes and steps. Returns the
/// configurations.
fn some_as_in_double(
    device: Device,
    stream: Stream,
    hidden: [usize; 2],
    steps: usize,
    some: Range<usize>,
) -> Vec<Configuration> {
    let lengths = [vec![steps as i32; 3], vec![steps as i32, steps as i32 - 1, 1, 1, 1]];
    let layouts = [CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED];
    let (half, float) = (CUDNN_DATA_HALF, CUDNN_DATA_FLOAT);
    // An input as wide as the other layers' allows W x within the steps.
    let as_wide = |network: Network| Network { input: network.layer_input(1), ..network };
    let networks = [
        (network(CUDNN_LSTM, float, hidden[0], 2, false), 0),
        (as_wide(network(CUDNN_GRU, float, hidden[1], 3, false)), 1),
        (as_wide(network(CUDNN_RNN_TANH, half, hidden[1], 4, false)), 0),
        (as_wide(network(CUDNN_LSTM, half, hidden[0], 2, true)), 1),
        (network(CUDNN_GRU, float, hidden[1], 1, true), 0),
    ];
    let mut run = Vec::new();
    for &(network, kind) in &networks[some] {
        let (lengths, layout) = (lengths[kind].clone(), layouts[kind]);
        let (data_type, vector, padding_fill) = (network.data_type, network.input, [0; 8]);
        let case = Case::new(network, Data { data_type, layout, steps, vector, lengths, padding_fill });
        let problem = problem(&network, case.data.batch(), steps).unwrap();
        let expected = case.expected(problem.cell, Arithmetic::of(problem.element, Math::Fma));
        let problem = Problem { layers: network.layers, ..problem };
        let all = Model::default().ranked(&problem, usize::MAX);
        // Wavefronts of each depth: the last launch may have fewer layers.
        let depths = (2..=network.layers).map(|layers| Regime::Wavefront { layers });
        let regimes_of_all = [Regime::Block, Regime::Cluster, Regime::Grid].into_iter().chain(depths);
        let kinds = regimes_of_all.flat_map(|regime| [(regime, false), (regime, true)]);
        let kind = |one: &Configuration| (one.regime, one.multiplies_input());
        for configuration in kinds.filter_map(|wanted| all.iter().find(|one| kind(one) == wanted)) {
            let found = case.run(device, stream, &problem, *configuration);
            let wanted = if network.cell == CUDNN_LSTM { 3 } else { 2 };
            for (found, expected) in found.iter().zip(&expected).take(wanted) {
                let distance: Distance = found.iter().copied().zip(expected.iter().copied()).collect();
                println!("{configuration}: {distance}");
                assert!(distance.is_of_rounding(), "{configuration}: {distance}, of {network:?}");
            }
            run.push(*configuration);
        }
    }
    run
}

/// All networks, which have every regime.
fn as_in_double(device: Device, stream: Stream, hidden: [usize; 2], steps: usize) {
    let run = some_as_in_double(device, stream, hidden, steps, 0..5);
    let regimes: Vec<_> = run.iter().map(|configuration| configuration.regime).collect();
    let within = run.iter().filter(|configuration| configuration.multiplies_input()).count();
    let waves = regimes.iter().filter(|regime| matches!(regime, Regime::Wavefront { .. })).count();
    assert!(within >= 4, "{within}");
    let has_clusters = regimes.contains(&Regime::Cluster) || device == Device::Cuda;
    assert!(waves >= 5 && regimes.contains(&Regime::Grid) && regimes.contains(&Regime::Block), "{regimes:?}");
    assert!(has_clusters, "{regimes:?}");
}

#[test]
fn networks_on_a_gpu_are_as_in_double() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    as_in_double(device, stream.raw(), [256, 100], 20);
}

fn is_emulated(test: &str) -> bool {
    let input = || crate::input::Input::load(Device::Host, crate::configuration::Element::Float);
    emulated::is_child(test) && emulated::compiled(input().map_err(|error| error.to_string())).is_some()
}

#[test]
fn a_network_emulated_is_as_in_double() {
    if is_emulated("tests::networks::a_network_emulated_is_as_in_double") {
        some_as_in_double(Device::Host, std::ptr::null_mut(), [20, 33], 3, 0..1);
    }
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn networks_emulated_are_as_in_double() {
    if is_emulated("tests::networks::networks_emulated_are_as_in_double") {
        as_in_double(Device::Host, std::ptr::null_mut(), [20, 33], 3);
    }
}
