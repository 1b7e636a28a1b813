//! `forward` against the oracle on random networks: every cell, bias, layout, direction and type, with poisoned outputs
//! and workspaces, and canaries behind them.

use half::{bf16, f16};
use hostdnn_arithmetic::rnn::*;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The contents of the ends of outputs, workspace and reserve, which must not change.
const CANARY: f64 = 77.0;
const CANARIES: usize = 3;

#[derive(Clone, Debug)]
struct Case {
    network: Network,
    sequences: Sequences,
    initial: bool,
    training: bool,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let cell = prop_oneof![1 => Just(Cell::Relu), 1 => Just(Cell::Tanh), 2 => Just(Cell::Lstm), 1 => Just(Cell::Gru)];
    let layout = prop_oneof![Just(Layout::SequenceMajor), Just(Layout::Packed), Just(Layout::BatchMajor)];
    let network = (cell, any::<[bool; 3]>(), 1usize..=2, 1usize..4, 1usize..20, 1usize..40);
    let rest = (1usize..8, prop::option::of(0.05..0.5), any::<bool>(), any::<bool>(), any::<u64>());
    (network, layout, prop::collection::vec(0usize..7, 1..6), rest).prop_map(
        |(
            (cell, [input_bias, recurrent_bias, skip_input], directions, layers, input, hidden),
            layout,
            lengths,
            rest,
        )| {
            let (narrower, clip, initial, training, seed) = rest;
            let lstm = cell == Cell::Lstm;
            let network = Network {
                cell,
                input_bias,
                recurrent_bias,
                directions,
                layers,
                input: if skip_input { hidden } else { input },
                hidden,
                projection: if lstm && hidden > narrower && seed % 2 == 0 { hidden - narrower } else { hidden },
                skip_input,
                clip: clip.filter(|_| lstm).map(|most: f64| Clip { least: -most, most, keep_nan: true }),
            };
            let mut lengths = lengths;
            let mut steps = 7;
            if layout == Layout::Packed {
                lengths.iter_mut().for_each(|length| *length = (*length).max(1));
                lengths.sort_unstable_by(|a, b| b.cmp(a));
                steps = lengths[0];
            }
            Case { network, sequences: Sequences::new(layout, steps, lengths), initial, training, seed }
        },
    )
}

fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(want).map(|(g, w)| g - w));
    error / norm(&mut want.iter().copied()).max(1e-3)
}

/// Runs a case in one type; returns the errors of y, hy and cy relative to their norms.
fn errors<S: Stored + Into<f64>>(case: &Case) -> Vec<f64> {
    let Case { network, sequences, initial, training, seed } = case;
    let mut rng = StdRng::seed_from_u64(*seed);
    let scale = 1.0 / (network.hidden as f64).sqrt();
    let wide = |value: S| -> f64 { value.into() };
    let narrow = |value: f64| S::store(convert(value));
    let mut random = |count: usize, scale: f64| -> Vec<S> {
        (0..count).map(|_| narrow(rng.random_range(-1.0..1.0) * scale)).collect()
    };
    let states = network.pseudo_layers() * sequences.batch();
    let cells = if network.cell == Cell::Lstm { states * network.hidden } else { 0 };
    let x = random(sequences.memory_rows() * network.input, 1.0);
    let weights = random(network.weight_count().unwrap(), scale);
    let hx = initial.then(|| random(states * network.projection, 1.0));
    let cx = initial.then(|| random(cells, 1.0));
    let doubles = |values: &[S]| values.iter().map(|&value| wide(value)).collect::<Vec<_>>();

    let poisoned = |count: usize| [vec![narrow(f64::NAN); count], vec![narrow(CANARY); CANARIES]].concat();
    let mut y = poisoned(sequences.memory_rows() * network.output());
    let (mut hy, mut cy) = (poisoned(states * network.projection), poisoned(cells));
    let numbers =
        |count: usize| [vec![convert::<S::Number>(f64::NAN); count], vec![convert(CANARY); CANARIES]].concat();
    let (steps, batch) = (sequences.steps(), sequences.batch());
    let workspace_count = workspace_len(network, steps, batch, *training).unwrap();
    let reserve_count = reserve_len(network, steps, batch, false).unwrap();
    let (mut workspace, mut reserve) = (numbers(workspace_count), numbers(reserve_count));
    let fill = narrow(0.25);
    let operands = Operands {
        x: &x,
        weights: &weights,
        hx: hx.as_deref(),
        cx: cx.as_deref(),
        y: &mut y,
        padding_fill: fill,
        hy: Some(&mut hy),
        cy: Some(&mut cy),
    };
    let reserved = training.then_some(&mut reserve[..reserve_count]);
    forward(network, sequences, operands, None, &mut workspace[..workspace_count], reserved, Keeps::Numbers);
    let [x, weights] = [&x, &weights].map(|values| doubles(values));
    let [hx, cx] = [&hx, &cx].map(|states| states.as_deref().map(doubles));
    let inputs = oracle::Inputs { x: &x, weights: &weights, hx: hx.as_deref(), cx: cx.as_deref(), masks: None };
    let outcome = oracle::forward(network, sequences, inputs, wide(fill));
    let intact = |values: &[S]| doubles(&values[values.len() - CANARIES..]) == [CANARY; CANARIES];
    assert!([&y, &hy, &cy].into_iter().all(|values| intact(values)));
    for numbers in [&workspace, &reserve] {
        assert!(numbers[numbers.len() - CANARIES..].iter().all(|&n| n == convert(CANARY)));
    }
    let results = [(&y, &outcome.y), (&hy, &outcome.hy), (&cy, &outcome.cy)];
    results.map(|(got, want)| relative_error(&doubles(&got[..got.len() - CANARIES]), want)).to_vec()
}

fn convert<N: Number>(value: f64) -> N {
    N::of(value)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forward_agrees_with_the_oracle(case in cases()) {
        let bounds = [
            (errors::<f64>(&case), 1e-13),
            (errors::<f32>(&case), 1e-5),
            // A result is rounded once: 2^-11 and 2^-8.
            (errors::<f16>(&case), 1e-3),
            (errors::<bf16>(&case), 8e-3),
        ];
        for (errors, bound) in bounds {
            // Not `>`: NaN must not pass.
            prop_assert!(errors.iter().all(|&error| error <= bound), "{errors:?} above {bound}");
        }
    }
}

#[test]
fn dropout_drops_and_scales_between_layers_and_goes_on() {
    // The second layer returns its input: W is the identity and R is 0, as only the first layer can skip its input.
    let (hidden, steps) = (50, 40);
    let network = Network {
        cell: Cell::Relu,
        input_bias: false,
        recurrent_bias: false,
        directions: 1,
        layers: 2,
        input: hidden,
        hidden,
        projection: hidden,
        skip_input: true,
        clip: None,
    };
    let sequences = Sequences::new(Layout::SequenceMajor, steps, vec![steps; 3]);
    let mut weights = vec![0.0f64; network.weight_count().unwrap()];
    let second = network.matrix(1, 0).unwrap();
    (0..hidden).for_each(|unit| weights[second.offset + unit * (hidden + 1)] = 1.0);
    let mut rng = StdRng::seed_from_u64(5);
    let x: Vec<f64> = (0..steps * 3 * hidden).map(|_| rng.random_range(0.5..1.0)).collect();
    let run = |states: &mut [u8; STATES_BYTES], probability: f32| {
        let mut y = vec![f64::NAN; x.len()];
        let mut workspace = vec![f64::NAN; workspace_len(&network, steps, 3, true).unwrap()];
        let mut reserve = vec![f64::NAN; reserve_len(&network, steps, 3, true).unwrap()];
        let operands =
            Operands { x: &x, weights: &weights, hx: None, cx: None, y: &mut y, padding_fill: 0.0, hy: None, cy: None };
        let dropout = Dropout { probability, states };
        forward(&network, &sequences, operands, Some(dropout), &mut workspace, Some(&mut reserve), Keeps::Numbers);
        y
    };
    let probability = 0.375; // exact in float, unlike its scale
    let (mut states, mut same) = (seed(7), seed(7));
    let [first, second] = [run(&mut states, probability), run(&mut states, probability)];
    assert_eq!(run(&mut same, probability), first, "a seed gives one result");
    assert_ne!(first, second, "states go on");
    let dropped = first.iter().filter(|&&y| y == 0.0).count() as f64 / first.len() as f64;
    let deviation = (0.375 * 0.625 / first.len() as f64).sqrt();
    assert!((dropped - 0.375).abs() < 5.0 * deviation, "{dropped} of all are dropped");
    assert!(first.iter().zip(&x).all(|(y, x)| *y == 0.0 || (y - x / 0.625).abs() < 1e-12));
    assert!(run(&mut states, 1.0).iter().all(|&y| y == 0.0));
    assert_eq!(run(&mut states, 0.0), x);
}

#[test]
fn weights_fill_their_space_without_overlap() {
    for (cell, directions, layers, skip_input, projection) in [
        (Cell::Lstm, 2, 3, false, 3),
        (Cell::Gru, 1, 2, true, 5),
        (Cell::Tanh, 2, 1, true, 5),
        (Cell::Relu, 1, 1, false, 5),
    ] {
        for (input_bias, recurrent_bias) in [(false, false), (true, false), (false, true), (true, true)] {
            let network = Network {
                cell,
                input_bias,
                recurrent_bias,
                directions,
                layers,
                input: 5,
                hidden: 5,
                projection,
                skip_input,
                clip: None,
            };
            let ids = || (0..network.pseudo_layers()).flat_map(|p| (0..=2 * cell.gates()).map(move |id| (p, id)));
            let matrices = ids().filter_map(|(p, id)| network.matrix(p, id));
            let regions = matrices.chain(ids().filter_map(|(p, id)| network.bias(p, id)));
            let end = regions.fold(0, |end, region| {
                assert_eq!(region.offset, end, "{network:?}");
                assert!(!region.is_empty());
                region.end()
            });
            assert_eq!(Some(end), network.weight_count());
        }
    }
}
