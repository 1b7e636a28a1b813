//! Every algorithm against the oracle, on random problems, with poisoned outputs and canaries around everything.

use half::{bf16, f16};
use hostdnn_arithmetic::convolution::{Algorithm, Direction, Element, Error, Problem, oracle, run, workspace_size};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The memory layout of a tensor `[outer, channel, d, h, w]`.
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

/// Fills in output extents and strides, with equal zeros before and behind.
fn shaped(p: Problem, layouts: [Layout; 3]) -> Problem {
    shaped_between(p, p.pad, layouts)
}

/// The same with `behind` zeros behind.
fn shaped_between(mut p: Problem, behind: [usize; 3], layouts: [Layout; 3]) -> Problem {
    for (d, behind) in behind.into_iter().enumerate() {
        let window = 1 + (p.filter[d] - 1) * p.dilation[d];
        let padding = p.pad[d] + behind;
        p.input[d] = p.input[d].max(window.saturating_sub(padding));
        p.output[d] = 1 + (p.input[d] + padding - window) / p.stride[d];
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
    let two_bytes = prop_oneof![Just(Element::Half), Just(Element::Bfloat16)];
    prop_oneof![1 => two_bytes, 2 => Just(Element::Float), 1 => Just(Element::Double)]
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

/// Any problem: 2-D and 3-D, strides, dilations, groups, wide pads, different pads behind.
fn any_problem() -> impl Strategy<Value = Problem> {
    let spatial = |values: std::ops::Range<usize>| [values.clone(), values.clone(), values];
    let channels = (1usize..4, 1usize..6, 1usize..6);
    let pads = (spatial(0..4), spatial(0..4), any::<bool>());
    let window = (spatial(1..10), spatial(1..5), pads, spatial(1..4), spatial(1..3));
    (directions(), elements(), 1usize..5, channels, window, any::<bool>(), 0u8..3, layouts()).prop_map(
        |(
            direction,
            element,
            batch,
            (groups, channels, maps),
            (input, filter, (pad, behind, is_even), stride, dilation),
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
            let behind = if is_even { p.pad } else { [if depth > 0 { 0 } else { behind[0] }, behind[1], behind[2]] };
            shaped_between(p, behind, layouts)
        },
    )
}

/// Problems that fast algorithms support: 2-D, stride and dilation 1, pads below the filter.
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
        [0usize..5, 0usize..5, 0usize..2],
        any::<bool>(),
        layouts(),
    )
        .prop_map(
            |(direction, element, batch, (groups, channels, maps), filter, input, pad, behind, flip, layouts)| {
                let mut p = blank(direction, element);
                (p.batch, p.groups, p.flip) = (batch, groups, flip);
                (p.in_channels, p.out_channels) = (groups * channels, groups * maps);
                p.input = [1, input[0], input[1]];
                p.filter = [1, filter[0], filter[1]];
                p.pad = [0, pad[0] % filter[0], pad[1] % filter[1]];
                let is_even = behind[2] == 0;
                shaped_between(p, if is_even { p.pad } else { [0, behind[0], behind[1]] }, layouts)
            },
        )
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

/// A tensor's bytes in its storage type, and their values.
struct Data {
    bytes: Vec<u64>,
    numbers: Vec<f64>,
}

fn element_size(element: Element) -> usize {
    match element {
        Element::Half | Element::Bfloat16 => 2,
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
                Element::Bfloat16 => bytes.extend(bf16::from_f64(number).to_ne_bytes()),
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
                [a, b] if element == Element::Bfloat16 => bf16::from_ne_bytes([a, b]).to_f64(),
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
    // SAFETY: the tensors have the lengths that the strides reach, and only this function uses them.
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

/// Runs every algorithm of the case's direction and returns the supported ones.
fn check(case: &Case) -> Vec<Algorithm> {
    let p = &case.problem;
    let rng = &mut StdRng::seed_from_u64(case.seed);
    let extents = [x_extents(p), w_extents(p), y_extents(p)];
    let strides = [p.x_strides, p.w_strides, p.y_strides];
    let which = computed(p.direction);
    let mut numbers: [Vec<f64>; 3] = std::array::from_fn(|i| random(len(extents[i], strides[i]), rng));
    if case.beta == 0.0 {
        numbers[which].fill(f64::NAN);
    }
    let [x, w, y] = numbers.map(|numbers| Data::new(p.element, numbers));
    let old = [&x, &w, &y][which];
    let reference = oracle::convolution(p, case.alpha, case.beta, &x.numbers, &w.numbers, &y.numbers);
    // The variance of each element under random signs: unlike the reference itself, it knows no cancellation.
    let [x2, w2, y2] = [&x, &w, &y].map(|data| data.numbers.iter().map(|v| v * v).collect::<Vec<_>>());
    let variance = oracle::convolution(p, case.alpha.powi(2), case.beta.powi(2), &x2, &w2, &y2);
    let elements = reached_elements(extents[which], strides[which]);
    let scale = elements.iter().map(|&i| variance[i]).sum::<f64>().sqrt();
    let tolerance = match p.element {
        Element::Half => 2e-3,
        Element::Bfloat16 => 1.6e-2,
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

/// The algorithms that support every problem.
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

fn inputs(p: &Problem, rng: &mut StdRng) -> [Data; 3] {
    let extents = [(x_extents(p), p.x_strides), (w_extents(p), p.w_strides), (y_extents(p), p.y_strides)];
    extents.map(|(extents, strides)| Data::new(p.element, random(len(extents, strides), rng)))
}

fn computed(direction: Direction) -> usize {
    match direction {
        Direction::BackwardData => 0,
        Direction::BackwardFilter => 1,
        Direction::Forward => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Forward and backward data by GEMM give an image the same bits in every batch.
    #[test]
    fn an_image_does_not_depend_on_its_batch(case in cases(prop_oneof![any_problem(), plain_problem()])) {
        let p = &case.problem;
        prop_assume!(p.direction != Direction::BackwardFilter);
        let [x, w, y] = inputs(p, &mut StdRng::seed_from_u64(case.seed));
        for &algorithm in universal(p.direction) {
            let whole = compute(&case, algorithm, &x, &w, &y).map_err(|e| TestCaseError::fail(e.to_string()))?;
            for n in 0..p.batch {
                let single = Case { problem: Problem { batch: 1, ..*p }, ..case.clone() };
                let image = |data: &Data, extents: [usize; 5], strides: [usize; 5]| {
                    let len = len([1, extents[1], extents[2], extents[3], extents[4]], strides);
                    Data::new(p.element, data.numbers[n * strides[0]..][..len].to_vec())
                };
                let (xn, yn) = (image(&x, x_extents(p), p.x_strides), image(&y, y_extents(p), p.y_strides));
                let alone = compute(&single, algorithm, &xn, &w, &yn).map_err(|e| TestCaseError::fail(e.to_string()))?;
                let (extents, strides) = if computed(p.direction) == 2 { (y_extents(p), p.y_strides) } else { (x_extents(p), p.x_strides) };
                for i in reached_elements([1, extents[1], extents[2], extents[3], extents[4]], strides) {
                    prop_assert_eq!(whole.numbers[n * strides[0] + i].to_bits(), alone.numbers[i].to_bits(), "{:?}, image {}", algorithm, n);
                }
            }
        }
    }

    /// Algorithms that are declared deterministic repeat their bits.
    #[test]
    fn deterministic_algorithms_repeat_themselves(case in cases(plain_problem())) {
        let [x, w, y] = inputs(&case.problem, &mut StdRng::seed_from_u64(case.seed));
        for &algorithm in Algorithm::all(case.problem.direction).iter().filter(|a| a.deterministic()) {
            let Ok(first) = compute(&case, algorithm, &x, &w, &y) else { continue };
            let second = compute(&case, algorithm, &x, &w, &y).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(&first.bytes, &second.bytes, "{:?}", algorithm);
        }
    }
}

fn conv3(direction: Direction) -> Problem {
    let mut p = blank(direction, Element::Float);
    (p.batch, p.in_channels, p.out_channels) = (8, 32, 48);
    (p.input, p.filter, p.pad) = ([1, 13, 13], [1, 3, 3], [0, 1, 1]);
    shaped(p, [Layout::ChannelsFirst; 3])
}

#[test]
fn ids_are_cudnns() {
    use cudnn_abi::*;
    let id = |direction, algorithm: Algorithm| algorithm.id(direction);
    assert_eq!(id(Direction::Forward, Algorithm::Gemm), Some(CUDNN_CONVOLUTION_FWD_ALGO_GEMM));
    assert_eq!(id(Direction::Forward, Algorithm::FftTiling), Some(CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING));
    assert_eq!(id(Direction::Forward, Algorithm::WinogradNonfused), Some(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED));
    assert_eq!(id(Direction::BackwardData, Algorithm::Fft), Some(CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT));
    assert_eq!(id(Direction::BackwardData, Algorithm::Winograd), Some(CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD));
    assert_eq!(id(Direction::BackwardFilter, Algorithm::Algo3), Some(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3));
    assert_eq!(id(Direction::BackwardFilter, Algorithm::FftTiling), Some(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING));
    assert_eq!(id(Direction::BackwardFilter, Algorithm::ImplicitGemm), None);
    for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
        for (place, &algorithm) in Algorithm::all(direction).iter().enumerate() {
            assert_eq!(Algorithm::from_id(direction, place as i32), Some(algorithm));
        }
        assert_eq!(Algorithm::from_id(direction, -1), None);
        assert_eq!(Algorithm::from_id(direction, Algorithm::all(direction).len() as i32), None);
    }
}

#[test]
fn each_algorithm_takes_what_cudnns_does() {
    let taken = |p: &Problem| -> Vec<Algorithm> {
        Algorithm::all(p.direction).iter().copied().filter(|&a| workspace_size(p, a).is_ok()).collect()
    };
    for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
        let p = conv3(direction);
        let expected = |refused: &[Algorithm]| -> Vec<Algorithm> {
            Algorithm::all(direction).iter().copied().filter(|a| !refused.contains(a)).collect()
        };
        let never = match direction {
            Direction::BackwardFilter => Algorithm::Winograd,
            _ => Algorithm::Direct,
        };
        assert_eq!(taken(&p), expected(&[never]), "3×3, {direction:?}");
        let transforms =
            [Algorithm::Fft, Algorithm::FftTiling, Algorithm::Winograd, Algorithm::WinogradNonfused, never];
        let strided = shaped(Problem { stride: [1, 2, 2], ..p }, [Layout::ChannelsFirst; 3]);
        assert_eq!(taken(&strided), expected(&transforms), "stride 2, {direction:?}");
        let dilated = shaped(Problem { dilation: [1, 2, 2], ..p }, [Layout::ChannelsFirst; 3]);
        assert_eq!(taken(&dilated), expected(&transforms), "dilation 2, {direction:?}");
        let solid = shaped(Problem { input: [5, 13, 13], filter: [3, 3, 3], ..p }, [Layout::ChannelsFirst; 3]);
        assert_eq!(taken(&solid), expected(&transforms), "3-D, {direction:?}");
        let double = Problem { element: Element::Double, ..p };
        assert_eq!(taken(&double), expected(&transforms), "double, {direction:?}");
        let large = shaped(Problem { input: [1, 256, 256], ..p }, [Layout::ChannelsFirst; 3]);
        assert_eq!(taken(&large), expected(&[never, Algorithm::Fft]), "256×256 and padding, {direction:?}");
    }
}

#[test]
fn workspaces_grow_with_the_batch_where_they_should() {
    for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
        let size = |batch, algorithm| workspace_size(&Problem { batch, ..conv3(direction) }, algorithm).unwrap();
        for algorithm in [Algorithm::Fft, Algorithm::FftTiling, Algorithm::WinogradNonfused] {
            assert!(size(64, algorithm) > 3 * size(16, algorithm) / 2, "{algorithm:?}, {direction:?}");
        }
        for &algorithm in universal(direction) {
            assert_eq!(size(256, algorithm), size(64, algorithm), "{algorithm:?}, {direction:?}");
        }
    }
}

#[test]
fn too_small_a_workspace_is_refused_untouched() {
    let p = conv3(Direction::Forward);
    let [x, w, y] = inputs(&p, &mut StdRng::seed_from_u64(1));
    let needed = workspace_size(&p, Algorithm::WinogradNonfused).unwrap();
    let mut workspace = vec![0u8; needed];
    let [px, pw, py] = [&x, &w, &y].map(|data| data.bytes.as_ptr().cast_mut().cast::<u8>());
    let attempt = |pointer: *mut u8, size| {
        // SAFETY: the run is refused before any pointer is used.
        unsafe { run(&p, Algorithm::WinogradNonfused, 1.0, 0.0, px, pw, py, pointer, size) }
    };
    assert_eq!(attempt(workspace.as_mut_ptr(), needed - 1), Err(Error::Workspace { needed, given: needed - 1 }));
    assert_eq!(attempt(std::ptr::null_mut(), needed), Err(Error::Workspace { needed, given: 0 }));
    assert!(workspace.iter().all(|&byte| byte == 0));
}
