//! Every algorithm against the oracle, on random problems, with poisoned outputs and canaries around everything.

use super::{Algorithm, Direction, Element, Error, Problem, oracle, run, workspace_size};
use half::f16;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// How a tensor of `[outer, channel, d, h, w]` lies in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    ChannelsFirst,
    ChannelsLast,
    /// Channels first with gaps between lines, planes and images.
    Padded,
    /// h innermost, images between channels.
    Odd,
}

impl Layout {
    fn strides(self, extents: [usize; 5]) -> [usize; 5] {
        let (order, gap) = match self {
            Self::ChannelsFirst => ([4, 3, 2, 1, 0], 0),
            Self::ChannelsLast => ([1, 4, 3, 2, 0], 0),
            Self::Padded => ([4, 3, 2, 1, 0], 3),
            Self::Odd => ([3, 1, 0, 4, 2], 1),
        };
        let mut strides = [0; 5];
        let mut next = 1;
        for d in order {
            strides[d] = next;
            next = next * extents[d] + gap;
        }
        strides
    }
}

#[derive(Clone, Debug)]
struct Case {
    problem: Problem,
    alpha: f64,
    beta: f64,
    /// Bytes that the workspace starts after a multiple of 64.
    misaligned: usize,
    seed: u64,
}

fn x_extents(p: &Problem) -> [usize; 5] {
    [p.batch, p.in_channels, p.input[0], p.input[1], p.input[2]]
}

fn w_extents(p: &Problem) -> [usize; 5] {
    [p.out_channels, p.in_channels / p.groups, p.filter[0], p.filter[1], p.filter[2]]
}

fn y_extents(p: &Problem) -> [usize; 5] {
    [p.batch, p.out_channels, p.output[0], p.output[1], p.output[2]]
}

/// Fills in output extents and strides.
fn shaped(mut p: Problem, layouts: [Layout; 3]) -> Problem {
    for d in 0..3 {
        let window = 1 + (p.filter[d] - 1) * p.dilation[d];
        p.input[d] = p.input[d].max(window.saturating_sub(2 * p.pad[d]));
        p.output[d] = 1 + (p.input[d] + 2 * p.pad[d] - window) / p.stride[d];
    }
    p.x_strides = layouts[0].strides(x_extents(&p));
    p.w_strides = layouts[1].strides(w_extents(&p));
    p.y_strides = layouts[2].strides(y_extents(&p));
    p
}

fn blank(direction: Direction, element: Element) -> Problem {
    Problem {
        direction,
        element,
        batch: 1,
        groups: 1,
        in_channels: 1,
        out_channels: 1,
        input: [1; 3],
        filter: [1; 3],
        output: [1; 3],
        pad: [0; 3],
        stride: [1; 3],
        dilation: [1; 3],
        x_strides: [0; 5],
        w_strides: [0; 5],
        y_strides: [0; 5],
        flip: false,
    }
}

fn directions() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Forward), Just(Direction::BackwardData), Just(Direction::BackwardFilter)]
}

fn elements() -> impl Strategy<Value = Element> {
    prop_oneof![1 => Just(Element::Half), 2 => Just(Element::Float), 1 => Just(Element::Double)]
}

fn layouts() -> impl Strategy<Value = [Layout; 3]> {
    let one = || {
        prop_oneof![
            4 => Just(Layout::ChannelsFirst),
            2 => Just(Layout::ChannelsLast),
            1 => Just(Layout::Padded),
            1 => Just(Layout::Odd),
        ]
    };
    [one(), one(), one()]
}

/// Any problem at all: 2-D and 3-D, strides, dilations, groups, wide pads.
fn any_problem() -> impl Strategy<Value = Problem> {
    let spatial = |values: std::ops::Range<usize>| [values.clone(), values.clone(), values];
    let channels = (1usize..4, 1usize..6, 1usize..6);
    let window = (spatial(1..10), spatial(1..5), spatial(0..4), spatial(1..4), spatial(1..3));
    (directions(), elements(), 1usize..5, channels, window, any::<bool>(), 0u8..3, layouts()).prop_map(
        |(
            direction,
            element,
            batch,
            (groups, channels, maps),
            (input, filter, pad, stride, dilation),
            flip,
            depth,
            layouts,
        )| {
            let mut p = blank(direction, element);
            (p.batch, p.groups, p.flip) = (batch, groups, flip);
            (p.in_channels, p.out_channels) = (groups * channels, groups * maps);
            for d in usize::from(depth > 0)..3 {
                (p.input[d], p.filter[d], p.pad[d]) = (input[d], filter[d], pad[d]);
                (p.stride[d], p.dilation[d]) = (stride[d], dilation[d]);
            }
            shaped(p, layouts)
        },
    )
}

/// What fast algorithms take: 2-D, stride and dilation 1, pads below the filter.
fn plain_problem() -> impl Strategy<Value = Problem> {
    let filter = prop_oneof![4 => Just([3usize, 3]), 2 => Just([5, 5]), 1 => [1usize..8, 1usize..8]];
    let channels = (1usize..3, 1usize..20, 1usize..20);
    (
        directions(),
        elements(),
        1usize..6,
        channels,
        filter,
        [1usize..24, 1usize..24],
        [0usize..5, 0usize..5],
        any::<bool>(),
        layouts(),
    )
        .prop_map(|(direction, element, batch, (groups, channels, maps), filter, input, pad, flip, layouts)| {
            let mut p = blank(direction, element);
            (p.batch, p.groups, p.flip) = (batch, groups, flip);
            (p.in_channels, p.out_channels) = (groups * channels, groups * maps);
            p.input = [1, input[0], input[1]];
            p.filter = [1, filter[0], filter[1]];
            p.pad = [0, pad[0] % filter[0], pad[1] % filter[1]];
            shaped(p, layouts)
        })
}

fn cases(problems: impl Strategy<Value = Problem>) -> impl Strategy<Value = Case> {
    let scales =
        prop_oneof![3 => Just((1.0, 0.0)), 1 => Just((1.0, 1.0)), 1 => Just((-0.5, 0.0)), 1 => Just((0.75, -1.5))];
    (problems, scales, 0usize..64, any::<u64>()).prop_map(|(problem, (alpha, beta), misaligned, seed)| Case {
        problem,
        alpha,
        beta,
        misaligned,
        seed,
    })
}

/// A tensor's bytes in its storage type, and the numbers that they hold.
struct Data {
    bytes: Vec<u64>,
    numbers: Vec<f64>,
}

fn element_size(element: Element) -> usize {
    match element {
        Element::Half => 2,
        Element::Float => 4,
        Element::Double => 8,
    }
}

impl Data {
    fn new(element: Element, numbers: Vec<f64>) -> Self {
        let mut bytes: Vec<u8> = Vec::new();
        for &number in &numbers {
            match element {
                Element::Half => bytes.extend(f16::from_f64(number).to_ne_bytes()),
                Element::Float => bytes.extend((number as f32).to_ne_bytes()),
                Element::Double => bytes.extend(number.to_ne_bytes()),
            }
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let words = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_ne_bytes(word));
        let mut data = Self { bytes: words.collect(), numbers };
        data.read(element);
        data
    }

    fn read(&mut self, element: Element) {
        let bytes: Vec<u8> = self.bytes.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for (number, bytes) in self.numbers.iter_mut().zip(bytes.chunks(element_size(element))) {
            *number = match *bytes {
                [a, b] => f16::from_ne_bytes([a, b]).to_f64(),
                [a, b, c, d] => f32::from_ne_bytes([a, b, c, d]).into(),
                [a, b, c, d, e, f, g, h] => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                _ => unreachable!("elements have 2, 4 or 8 bytes"),
            };
        }
    }
}

fn len(extents: [usize; 5], strides: [usize; 5]) -> usize {
    1 + extents.iter().zip(strides).map(|(e, s)| (e - 1) * s).sum::<usize>()
}

fn random(len: usize, rng: &mut StdRng) -> Vec<f64> {
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}

/// The result of `algorithm`, with a canary on both sides of the workspace, and the workspace full of NaNs.
fn compute(case: &Case, algorithm: Algorithm, x: &Data, w: &Data, y: &Data) -> Result<Data, Error> {
    let p = &case.problem;
    let size = workspace_size(p, algorithm)?;
    let mut workspace = vec![0xffu8; size + 192];
    let start = workspace.as_ptr().align_offset(64) + case.misaligned;
    let canary = |i: usize| (i * 37 + 11) as u8;
    for (i, byte) in workspace.iter_mut().enumerate().filter(|(i, _)| !(start..start + size).contains(i)) {
        *byte = canary(i);
    }
    let mut tensors = [x, w, y].map(|data| Data { bytes: data.bytes.clone(), numbers: data.numbers.clone() });
    let [px, pw, py] = tensors.each_mut().map(|data| data.bytes.as_mut_ptr().cast::<u8>());
    // SAFETY: the tensors have the lengths that the strides reach, and are this function's own.
    unsafe { run(p, algorithm, case.alpha, case.beta, px, pw, py, workspace[start..].as_mut_ptr(), size)? };
    for (i, &byte) in workspace.iter().enumerate().filter(|(i, _)| !(start..start + size).contains(i)) {
        assert_eq!(byte, canary(i), "byte {i} beside the workspace {start}..{} was written", start + size);
    }
    let [tx, tw, ty] = tensors;
    let inputs = match p.direction {
        Direction::Forward => [(&tx, x), (&tw, w)],
        Direction::BackwardData => [(&ty, y), (&tw, w)],
        Direction::BackwardFilter => [(&tx, x), (&ty, y)],
    };
    for (after, before) in inputs {
        assert_eq!(after.bytes, before.bytes, "an input was written");
    }
    let mut out = match p.direction {
        Direction::Forward => ty,
        Direction::BackwardData => tx,
        Direction::BackwardFilter => tw,
    };
    out.read(p.element);
    Ok(out)
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

/// Runs every algorithm of the case's direction and returns which were supported.
fn check(case: &Case) -> Vec<Algorithm> {
    let p = &case.problem;
    let rng = &mut StdRng::seed_from_u64(case.seed);
    let extents = [x_extents(p), w_extents(p), y_extents(p)];
    let strides = [p.x_strides, p.w_strides, p.y_strides];
    let which = match p.direction {
        Direction::BackwardData => 0,
        Direction::BackwardFilter => 1,
        Direction::Forward => 2,
    };
    let mut numbers: [Vec<f64>; 3] = std::array::from_fn(|i| random(len(extents[i], strides[i]), rng));
    if case.beta == 0.0 {
        numbers[which].fill(f64::NAN);
    }
    let [x, w, y] = numbers.map(|numbers| Data::new(p.element, numbers));
    let old = [&x, &w, &y][which];
    let reference = oracle::convolution(p, case.alpha, case.beta, &x.numbers, &w.numbers, &y.numbers);
    // The variance that random signs would give each element: unlike the reference itself, it knows no cancellation.
    let [x2, w2, y2] = [&x, &w, &y].map(|data| data.numbers.iter().map(|v| v * v).collect::<Vec<_>>());
    let variance = oracle::convolution(p, case.alpha.powi(2), case.beta.powi(2), &x2, &w2, &y2);
    let elements = reached_elements(extents[which], strides[which]);
    let scale = elements.iter().map(|&i| variance[i]).sum::<f64>().sqrt();
    let tolerance = match p.element {
        Element::Half => 2e-3,
        Element::Float => 5e-6,
        Element::Double => 1e-13,
    };
    let mut supported = Vec::new();
    for &algorithm in Algorithm::all(p.direction) {
        let out = match compute(case, algorithm, &x, &w, &y) {
            Ok(out) => out,
            Err(Error::Unsupported) => continue,
            Err(error) => panic!("{algorithm:?}: {error}"),
        };
        supported.push(algorithm);
        let error = norm(elements.iter().map(|&i| out.numbers[i] - reference[i]));
        assert!(error <= tolerance * scale.max(f64::MIN_POSITIVE), "{algorithm:?}: error {error:e} of {scale:e}");
        let mut gaps = vec![true; out.numbers.len()];
        elements.iter().for_each(|&i| gaps[i] = false);
        for i in (0..gaps.len()).filter(|&i| gaps[i]) {
            assert_eq!(out.numbers[i].to_bits(), old.numbers[i].to_bits(), "{algorithm:?}: gap at {i} was written");
        }
    }
    supported
}

fn reached_elements(extents: [usize; 5], strides: [usize; 5]) -> Vec<usize> {
    (0..5).fold(vec![0], |offsets, d| {
        offsets.iter().flat_map(|&at| (0..extents[d]).map(move |i| at + i * strides[d])).collect()
    })
}

/// The algorithms that take every problem.
fn universal(direction: Direction) -> &'static [Algorithm] {
    match direction {
        Direction::Forward => &[Algorithm::ImplicitGemm, Algorithm::ImplicitPrecompGemm, Algorithm::Gemm],
        Direction::BackwardData => &[Algorithm::Algo0, Algorithm::Algo1],
        Direction::BackwardFilter => &[Algorithm::Algo0, Algorithm::Algo1, Algorithm::Algo3],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn gemms_take_any_problem(case in cases(any_problem())) {
        let supported = check(&case);
        for algorithm in universal(case.problem.direction) {
            prop_assert!(supported.contains(algorithm), "{algorithm:?} refuses");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn all_algorithms_agree_on_plain_problems(case in cases(plain_problem())) {
        check(&case);
    }
}
