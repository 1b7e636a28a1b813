//! Tests the kernels against loops in double precision: on a GPU where there is one, and emulated.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::tensors::{EPSILON, Memory, Parameters, Tensor, assert_near, rounding, start};
use crate::calls::{Backward, Forward, Inference};
use crate::kernels::{Engine, likely, shapes};
use crate::pass::Pass;
use crate::shape::{Cut, Flat, Planes, Room, Shape};
use crate::subject::{Normalization, Plain, Types};
use gpu::testing::emulated;
use gpu::testing::on_gpu;
use gpu::{Device, Element, Stream};

const FACTOR: f64 = 0.3;

fn subject(pass: Pass, planes: Planes, their: Parameters) -> Normalization {
    let has_parameters_as_elements = their.element != Element::Float;
    Normalization { pass, plain: Plain::Spatial, planes, groups: None, has_parameters_as_elements }
}

/// Normalizes and checks y and all statistics. The result goes to x itself if `in_place`.
fn check_forward(
    memory: &Memory,
    engine: &Engine,
    shape: Shape,
    x: &Tensor,
    their: Parameters,
    in_place: bool,
    what: &str,
) {
    let planes = x.planes;
    let mut random = StdRng::seed_from_u64(planes.channels as u64);
    let mut parameters = || (0..planes.channels).map(|_| random.random_range(0.5..2.0)).collect::<Vec<f32>>();
    let [scale, bias, old_mean, old_variance] = [(); 4].map(|()| parameters());
    let input = memory.of(&x.bytes());
    let output = memory.of(&vec![0xff; x.bytes().len()]);
    let of = |values: &[f32]| their.on(memory, values);
    let (scales, biases, means, variances) = (of(&scale), of(&bias), of(&old_mean), of(&old_variance));
    let [scale, bias, old_mean, old_variance] = [scale, bias, old_mean, old_variance].map(|of| their.rounded(&of));
    let nans = vec![f32::NAN; planes.channels];
    let (saved_mean, saved_inverse) = (memory.floats(&nans), memory.floats(&nans));
    let y = if in_place { &input } else { &output };
    let forward = Forward {
        shape,
        x: start(&input).cast(),
        y: start(y).cast(),
        scale: their.place(&scales),
        bias: their.place(&biases),
        running_mean: start(&means).cast(),
        running_variance: start(&variances).cast(),
        saved_mean: start(&saved_mean),
        saved_inverse: start(&saved_inverse),
        epsilon: EPSILON,
        factor: FACTOR,
    };
    // SAFETY: the buffers have the sizes of the tensor and of its channels.
    unsafe { engine.launch(memory.stream, &subject(Pass::Forward, planes, their), &Cut::Clusters(shape), forward) }
        .unwrap();
    let moments: Vec<_> = (0..planes.channels).map(|channel| x.moments(channel)).collect();
    let inverse: Vec<_> = moments.iter().map(|(_, variance)| 1.0 / (variance + EPSILON).sqrt()).collect();
    let expected: Vec<_> = x
        .numbers
        .iter()
        .enumerate()
        .map(|(place, value)| {
            let its = x.channel_of(place);
            let (scale, bias) = if their.is_affine { (scale[its], bias[its]) } else { (1.0, 0.0) };
            (value - moments[its].0) * inverse[its] * scale + bias
        })
        .collect();
    // A mean in float is that far from the true one, in deviations.
    let mean_error =
        moments.iter().zip(&inverse).map(|((mean, _), inverse)| mean.abs() * inverse * 6e-8).fold(0.0, f64::max);
    let most = rounding(planes.element) + 2.0 * mean_error;
    assert_near(&format!("{what}: y"), &memory.read_tensor(y, &planes), &expected, most);
    let channels = |buffer| memory.read_floats(buffer, planes.channels);
    let means_now: Vec<_> = moments.iter().map(|moments| moments.0).collect();
    assert_near(&format!("{what}: saved mean"), &channels(&saved_mean), &means_now, 1e-7);
    assert_near(&format!("{what}: saved inverse deviation"), &channels(&saved_inverse), &inverse, 1e-7);
    let count = (planes.images * planes.plane) as f64;
    let mixed = |old: &[f64], new: &dyn Fn(usize) -> f64| -> Vec<f64> {
        old.iter().enumerate().map(|(its, &old)| old * (1.0 - FACTOR) + new(its) * FACTOR).collect()
    };
    let running = |buffer| memory.read_numbers(buffer, their.element, planes.channels);
    let mean = mixed(&old_mean, &|its| moments[its].0);
    assert_near(&format!("{what}: running mean"), &running(&means), &mean, their.rounding(2e-7));
    let variance = mixed(&old_variance, &|its| moments[its].1 * count / (count - 1.0));
    assert_near(&format!("{what}: running variance"), &running(&variances), &variance, their.rounding(2e-7));
}

/// Computes gradients and checks them. dx goes to dy itself if `in_place`.
fn check_backward(
    memory: &Memory,
    engine: &Engine,
    shape: Shape,
    [x, dy]: [&Tensor; 2],
    their: Parameters,
    in_place: bool,
    what: &str,
) {
    let planes = x.planes;
    let scale: Vec<f32> = (0..planes.channels).map(|channel| 0.5 + channel as f32 / 8.0).collect();
    let float = |value: f64| value as f32;
    let moments: Vec<_> = (0..planes.channels).map(|channel| x.moments(channel)).collect();
    let means: Vec<f32> = moments.iter().map(|moments| float(moments.0)).collect();
    let inverse: Vec<f32> = moments.iter().map(|moments| float(1.0 / (moments.1 + EPSILON).sqrt())).collect();
    let (input, gradient) = (memory.of(&x.bytes()), memory.of(&dy.bytes()));
    let output = memory.of(&vec![0xff; x.bytes().len()]);
    let (scales, saved_mean, saved_inverse) =
        (their.on(memory, &scale), memory.floats(&means), memory.floats(&inverse));
    let scale = their.rounded(&scale);
    let nans = vec![f32::NAN; planes.channels];
    let (dscale, dbias) = (their.on(memory, &nans), their.on(memory, &nans));
    let dx = if in_place { &gradient } else { &output };
    let backward = Backward {
        shape,
        x: start(&input).cast(),
        dy: start(&gradient).cast(),
        dx: start(dx).cast(),
        scale: their.place(&scales),
        saved_mean: start(&saved_mean),
        saved_inverse: start(&saved_inverse),
        dscale: their.place(&dscale),
        dbias: their.place(&dbias),
    };
    // SAFETY: the buffers have the sizes of the tensor and of its channels.
    unsafe { engine.launch(memory.stream, &subject(Pass::Backward, planes, their), &Cut::Clusters(shape), backward) }
        .unwrap();
    let normal = |channel: usize, x: f64| (x - f64::from(means[channel])) * f64::from(inverse[channel]);
    let sums: Vec<(f64, f64)> = (0..planes.channels)
        .map(|channel| {
            let pairs = x.channel(channel).zip(dy.channel(channel));
            pairs.fold((0.0, 0.0), |(bias, scale), (x, dy)| (bias + dy, scale + dy * normal(channel, x)))
        })
        .collect();
    let count = (planes.images * planes.plane) as f64;
    let expected: Vec<_> = x
        .numbers
        .iter()
        .zip(&dy.numbers)
        .enumerate()
        .map(|(place, (&x, dy))| {
            let its = place / planes.plane % planes.channels;
            let (bias, of_scale) = sums[its];
            let scale = if their.is_affine { scale[its] } else { 1.0 };
            scale * f64::from(inverse[its]) * (dy - bias / count - normal(its, x) * of_scale / count)
        })
        .collect();
    assert_near(&format!("{what}: dx"), &memory.read_tensor(dx, &planes), &expected, rounding(planes.element));
    if their.is_affine {
        let channels = |buffer| memory.read_numbers(buffer, their.element, planes.channels);
        let (dbiases, dscales): (Vec<_>, Vec<_>) = sums.into_iter().unzip();
        assert_near(&format!("{what}: dscale"), &channels(&dscale), &dscales, their.rounding(1e-6));
        assert_near(&format!("{what}: dbias"), &channels(&dbias), &dbiases, their.rounding(1e-6));
    }
}

/// Normalizes by given statistics and checks y, which goes to x itself if `in_place`.
fn check_inference(memory: &Memory, engine: &Engine, x: &Tensor, their: Parameters, in_place: bool, what: &str) {
    let planes = x.planes;
    let mut random = StdRng::seed_from_u64(planes.channels as u64);
    let mut parameters = |from| (0..planes.channels).map(|_| random.random_range(from..2.0)).collect::<Vec<f32>>();
    let [scale, bias, mean, variance] = [-2.0, -2.0, -2.0, 1e-3].map(&mut parameters);
    let input = memory.of(&x.bytes());
    let output = memory.of(&vec![0xff; x.bytes().len()]);
    let [scales, biases, means, variances] = [&scale, &bias, &mean, &variance].map(|values| their.on(memory, values));
    let [scale, bias, mean, variance] = [scale, bias, mean, variance].map(|values| their.rounded(&values));
    let nans = vec![f32::NAN; planes.channels];
    let (saved_mean, saved_inverse) = (memory.floats(&nans), memory.floats(&nans));
    let y = if in_place { &input } else { &output };
    let flat = Flat::new(&planes).unwrap();
    let inference = Inference {
        flat,
        x: start(&input).cast(),
        y: start(y).cast(),
        scale: their.place(&scales),
        bias: their.place(&biases),
        mean: start(&means).cast(),
        variance: start(&variances).cast(),
        saved_mean: start(&saved_mean),
        saved_inverse: start(&saved_inverse),
        epsilon: EPSILON as f32,
    };
    // SAFETY: the buffers have the sizes of the tensor and of its channels.
    unsafe { engine.launch(memory.stream, &subject(Pass::Inference, planes, their), &Cut::Flat(flat), inference) }
        .unwrap();
    let expected: Vec<_> = x
        .numbers
        .iter()
        .enumerate()
        .map(|(place, value)| {
            let its = x.channel_of(place);
            let (scale, bias) = if their.is_affine { (scale[its], bias[its]) } else { (1.0, 0.0) };
            (value - mean[its]) / (variance[its] + EPSILON).sqrt() * scale + bias
        })
        .collect();
    assert_near(&format!("{what}: y"), &memory.read_tensor(y, &planes), &expected, rounding(planes.element));
    let channels = |buffer| memory.read_floats(buffer, planes.channels);
    assert_near(&format!("{what}: saved mean"), &channels(&saved_mean), &mean, 1e-7);
    let inverse: Vec<_> = variance.iter().map(|variance| 1.0 / (variance + EPSILON).sqrt()).collect();
    assert_near(&format!("{what}: saved inverse deviation"), &channels(&saved_inverse), &inverse, 2e-7);
}

/// Checks inference of some planes, which need not be of whole vectors.
fn check_inferences(device: Device, stream: Stream, element: Element, sizes: &[[usize; 3]]) {
    let memory = Memory { device, stream };
    let others = [Parameters { is_affine: false, ..Parameters::FLOATS }, Parameters { element, is_affine: true }];
    for (their, sizes) in [(Parameters::FLOATS, sizes), (others[0], &sizes[..3]), (others[1], &sizes[1..3])] {
        let types = Types { element, has_parameters_as_elements: their.element != Element::Float };
        let Some(engine) = emulated::compiled(Engine::load(device, Pass::Inference, types)) else { return };
        for &[images, channels, plane] in sizes {
            let mut random = StdRng::seed_from_u64(plane as u64);
            let x = Tensor::random(Planes { element, images, channels, plane }, 3.0, &mut random);
            for in_place in [false, true] {
                let what = format!("{element:?} {images} × {channels} × {plane}, {their:?}");
                check_inference(&memory, &engine, &x, their, in_place, &what);
            }
        }
    }
}

/// Checks both passes of training of some planes in some types; by the likely clusters, and if `is_whole` by those of other sizes.
fn check(device: Device, stream: Stream, elements: &[Element], sizes: &[[usize; 3]], is_whole: bool) {
    for &element in elements {
        check_with(device, stream, element, Parameters::FLOATS, sizes, is_whole);
        check_with(device, stream, element, Parameters { is_affine: false, ..Parameters::FLOATS }, &sizes[..1], false);
        if element != Element::Float {
            check_with(device, stream, element, Parameters { element, is_affine: true }, &sizes[..1], false);
        }
    }
}

fn check_with(
    device: Device,
    stream: Stream,
    element: Element,
    their: Parameters,
    sizes: &[[usize; 3]],
    is_whole: bool,
) {
    let room = Room::of(device).expect("a device tells its properties");
    // With little shared memory, most vectors are read again.
    let little = Room { shared_bytes: 8 << 10, ..room };
    let memory = Memory { device, stream };
    let types = Types { element, has_parameters_as_elements: their.element != Element::Float };
    let load = |pass| emulated::compiled(Engine::load(device, pass, types));
    let (Some(forward), Some(backward)) = (load(Pass::Forward), load(Pass::Backward)) else { return };
    for &[images, channels, plane] in sizes {
        let mut random = StdRng::seed_from_u64(plane as u64);
        let planes = Planes { element, images, channels, plane };
        let dy = Tensor::random(planes, 0.5, &mut random);
        // In two bytes, numbers far from 0 have no deviation left.
        let farthest = if element == Element::Float { 1e3 } else { 4.0 };
        for (index, apart) in [0.5, farthest].into_iter().enumerate() {
            let x = Tensor::random(planes, apart, &mut random);
            for (room, in_place) in [(room, false), (little, index == 0)] {
                for pass in [Pass::Forward, Pass::Backward] {
                    let all = shapes(pass.row().kept, &planes, &room);
                    let first = likely(&planes, &room, &all);
                    let others = if is_whole { &[0, all.len() / 2][..] } else { &[] };
                    for &place in others.iter().chain([&first]) {
                        let shape = all[place];
                        let what = format!("{element:?} {images} × {channels} × {plane}, {their:?}, {shape:?}");
                        match pass {
                            Pass::Forward => check_forward(&memory, &forward, shape, &x, their, in_place, &what),
                            _ => check_backward(&memory, &backward, shape, [&x, &dy], their, in_place, &what),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn on_a_gpu_as_in_double() {
    let Some(gpu) = on_gpu::first() else { return };
    for element in Element::ALL {
        check_inferences(Device::Cuda, gpu.stream.raw(), element, &FLAT_SIZES);
        check_inferences(Device::Cuda, gpu.stream.raw(), element, &[[128, 64, 3136], [33, 2047, 49], [7, 3, 50_177]]);
    }
    check(
        Device::Cuda,
        gpu.stream.raw(),
        &Element::ALL,
        &[[3, 8, 49], [16, 16, 196], [2, 8, 3136], [32, 24, 289], [5, 8, 1], [1, 8, 3]],
        true,
    );
}

/// Planes of one element, of fewer than a vector has, of whole vectors and of others; tensors with a rest, and without;
/// less than a vector, and more than a block's vectors, of few planes and of many.
const FLAT_SIZES: [[usize; 3]; 9] =
    [[1, 1, 1], [1, 3, 1], [5, 7, 1], [3, 5, 3], [2, 3, 49], [2, 8, 64], [4, 1, 13], [3, 67, 121], [9, 211, 13]];

fn check_emulated(test: &str, element: Element, sizes: &[[usize; 3]], is_whole: bool) {
    if emulated::is_child(test) {
        let stream = Device::Host.stream().expect("a stream");
        check(Device::Host, stream.raw(), &[element], sizes, is_whole);
    }
}

const SIZES: [[usize; 3]; 4] = [[3, 8, 49], [2, 8, 64], [5, 8, 1], [2, 8, 3]];

fn check_emulated_inference(test: &str, element: Element) {
    if emulated::is_child(test) {
        let stream = Device::Host.stream().expect("a stream");
        check_inferences(Device::Host, stream.raw(), element, &FLAT_SIZES);
    }
}

#[test]
fn inference_emulated_as_in_double_in_half() {
    check_emulated_inference("tests::results::inference_emulated_as_in_double_in_half", Element::Half);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn inference_emulated_as_in_double_in_float() {
    check_emulated_inference("tests::results::inference_emulated_as_in_double_in_float", Element::Float);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn inference_emulated_as_in_double_in_bfloat16() {
    check_emulated_inference("tests::results::inference_emulated_as_in_double_in_bfloat16", Element::Bfloat16);
}

#[test]
fn some_emulated_as_in_double() {
    check_emulated("tests::results::some_emulated_as_in_double", Element::Half, &SIZES[..2], false);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn floats_emulated_as_in_double() {
    check_emulated("tests::results::floats_emulated_as_in_double", Element::Float, &SIZES, true);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn halves_emulated_as_in_double() {
    check_emulated("tests::results::halves_emulated_as_in_double", Element::Half, &SIZES, true);
}

// Half has the same accesses.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn bfloat16_emulated_as_in_double() {
    check_emulated("tests::results::bfloat16_emulated_as_in_double", Element::Bfloat16, &SIZES, false);
}
