//! Tests group normalization's kernels against loops in double precision: on a GPU where there is one, and emulated.

use std::ptr::null_mut;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::tensors::{EPSILON, Memory, Parameters, Tensor, assert_near, number, rounding, start};
use crate::calls::{GroupBackward, GroupForward, partial_bytes};
use crate::kernels::{Engine, likely, shapes};
use crate::pass::Pass;
use crate::shape::{Cut, Groups, Planes, Room, Shape};
use crate::subject::{Normalization, Plain};
use gpu::testing::buffers::bits;
use gpu::testing::{emulated, on_gpu};
use gpu::{Device, Element, Stream};

fn subject(pass: Pass, planes: Planes, groups: usize) -> Normalization {
    let has_parameters_as_elements = planes.element != Element::Float;
    Normalization { pass, plain: Plain::Native, planes, groups: Some(groups), has_parameters_as_elements }
}

/// A tensor's groups, and weights for each of its channels.
struct Grouped<'a> {
    x: &'a Tensor,
    groups: usize,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Grouped<'_> {
    fn channels(&self) -> usize {
        self.x.planes.channels / self.groups
    }

    /// The numbers of all groups, image by image, of a tensor like x.
    fn of<'a>(&self, tensor: &'a Tensor) -> impl Iterator<Item = &'a [f64]> + use<'a> {
        tensor.numbers.chunks_exact(self.channels() * self.x.planes.plane)
    }

    /// The channel of the element at a place.
    fn channel_of(&self, place: usize) -> usize {
        place / self.x.planes.plane % self.x.planes.channels
    }

    /// The group of the element at a place, counted over all images.
    fn group_of(&self, place: usize) -> usize {
        place / (self.channels() * self.x.planes.plane)
    }

    /// The mean of each group, and 1 / √(variance + epsilon).
    fn statistics(&self) -> Vec<(f64, f64)> {
        let of = |numbers: &[f64]| {
            let count = numbers.len() as f64;
            let mean = numbers.iter().sum::<f64>() / count;
            let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            (mean, 1.0 / (variance + EPSILON).sqrt())
        };
        self.of(self.x).map(of).collect()
    }
}

/// Random weights and biases, exact in the type; ones and zeros if they are not affine.
fn numbers(their: Parameters, planes: &Planes) -> [Vec<f32>; 2] {
    let mut random = StdRng::seed_from_u64(planes.channels as u64);
    [(1.0, 0.5..2.0), (0.0, -2.0..2.0)].map(|(otherwise, range)| {
        let one = |_| if their.is_affine { random.random_range(range.clone()) } else { otherwise };
        (0..planes.channels).map(one).collect()
    })
}

/// Normalizes and checks y and the statistics.
fn check_forward(memory: &Memory, engine: &Engine, shape: Shape, its: &Grouped, their: Parameters, what: &str) {
    let (x, planes, groups) = (its.x, its.x.planes, its.groups);
    let [weight, bias] =
        [&its.weight, &its.bias].map(|numbers| numbers.iter().map(|&it| it as f32).collect::<Vec<_>>());
    let (input, output) = (memory.of(&x.bytes()), memory.of(&vec![0xff; x.bytes().len()]));
    let (weights, biases) = (their.on(memory, &weight), their.on(memory, &bias));
    let nans = vec![f32::NAN; planes.images * groups];
    let (saved_mean, saved_inverse) = (their.on(memory, &nans), their.on(memory, &nans));
    let forward = GroupForward {
        shape,
        groups: Groups::new(&planes, groups),
        x: start(&input).cast(),
        y: start(&output).cast(),
        weight: their.place(&weights),
        bias: their.place(&biases),
        saved_mean: start(&saved_mean).cast(),
        saved_inverse: start(&saved_inverse).cast(),
        epsilon: EPSILON,
    };
    let subject = subject(Pass::GroupForward, planes, groups);
    // SAFETY: the buffers have the sizes of the tensor, of its channels and of its groups.
    unsafe { engine.launch(memory.stream, &subject, &Cut::Clusters(shape), forward) }.unwrap();
    let statistics = its.statistics();
    let normal = |(place, x): (usize, &f64)| {
        let ((mean, inverse), channel) = (statistics[its.group_of(place)], its.channel_of(place));
        (x - mean) * inverse * its.weight[channel] + its.bias[channel]
    };
    let expected: Vec<_> = x.numbers.iter().enumerate().map(normal).collect();
    // What rounding takes from a mean in float, y gets back: also where means are far from 0.
    assert_near(&format!("{what}: y"), &memory.read_tensor(&output, &planes), &expected, rounding(planes.element));
    let (means, inverses): (Vec<_>, Vec<_>) = statistics.into_iter().unzip();
    let read = |buffer| memory.read_numbers(buffer, their.element, nans.len());
    // A mean near 0 is a sum that cancels.
    assert_near(&format!("{what}: mean"), &read(&saved_mean), &means, their.rounding(3e-7));
    assert_near(&format!("{what}: inverse deviation"), &read(&saved_inverse), &inverses, their.rounding(1e-7));
}

/// Computes gradients and checks them: those of parameters if they are `wanted`.
fn check_backward(
    memory: &Memory,
    engine: &Engine,
    shape: Shape,
    its: &Grouped,
    dy: &Tensor,
    (their, wanted): (Parameters, bool),
    what: &str,
) {
    let (x, planes, groups) = (its.x, its.x.planes, its.groups);
    let weight: Vec<_> = its.weight.iter().map(|&it| it as f32).collect();
    let exact = |value: f64| number(their.element, &bits(their.element, value as f32));
    // As the type holds them, which is how they come.
    let statistics: Vec<_> =
        its.statistics().into_iter().map(|(mean, inverse)| (exact(mean), exact(inverse))).collect();
    let of = |numbers: &dyn Fn(&(f64, f64)) -> f64| {
        their.on(memory, &statistics.iter().map(|pair| numbers(pair) as f32).collect::<Vec<_>>())
    };
    let (saved_mean, saved_inverse) = (of(&|pair| pair.0), of(&|pair| pair.1));
    let (input, gradient) = (memory.of(&x.bytes()), memory.of(&dy.bytes()));
    let output = memory.of(&vec![0xff; x.bytes().len()]);
    let weights = their.on(memory, &weight);
    let nans = vec![f32::NAN; planes.channels];
    let (dweight, dbias) = (their.on(memory, &nans), their.on(memory, &nans));
    let subject = subject(Pass::GroupBackward, planes, groups);
    let partial = memory.of(&vec![0xff; partial_bytes(&subject, &shape)]);
    let place = |buffer| if wanted { start(buffer).cast() } else { null_mut() };
    let backward = GroupBackward {
        shape,
        groups: Groups::new(&planes, groups),
        x: start(&input).cast(),
        dy: start(&gradient).cast(),
        dx: start(&output).cast(),
        weight: their.place(&weights),
        saved_mean: start(&saved_mean).cast(),
        saved_inverse: start(&saved_inverse).cast(),
        dweight: place(&dweight),
        dbias: place(&dbias),
        partial: place(&partial),
    };
    // SAFETY: the buffers have the sizes of the tensor, of its channels and of its groups.
    unsafe { backward.launch(engine, memory.stream, &subject, &Cut::Clusters(shape)) }.unwrap();
    let normal = |place: usize| {
        let (mean, inverse) = statistics[its.group_of(place)];
        (x.numbers[place] - mean) * inverse
    };
    let mut of_groups = vec![(0.0, 0.0); statistics.len()];
    let mut of_channels = vec![(0.0, 0.0); planes.channels];
    for (place, dy) in dy.numbers.iter().enumerate() {
        let channel = its.channel_of(place);
        let (of_group, of_channel) = (&mut of_groups[its.group_of(place)], &mut of_channels[channel]);
        *of_group = (of_group.0 + its.weight[channel] * dy, of_group.1 + its.weight[channel] * dy * normal(place));
        *of_channel = (of_channel.0 + dy, of_channel.1 + dy * normal(place));
    }
    let count = (its.channels() * planes.plane) as f64;
    let dx_of = |(place, dy): (usize, &f64)| {
        let group = its.group_of(place);
        let ((of_dy, of_product), weighted) = (of_groups[group], its.weight[its.channel_of(place)] * dy);
        statistics[group].1 * (weighted - of_dy / count - normal(place) * of_product / count)
    };
    let expected: Vec<_> = dy.numbers.iter().enumerate().map(dx_of).collect();
    assert_near(&format!("{what}: dx"), &memory.read_tensor(&output, &planes), &expected, rounding(planes.element));
    let found = |buffer| memory.read_numbers(buffer, their.element, planes.channels);
    if wanted {
        let (dbiases, dweights): (Vec<_>, Vec<_>) = of_channels.into_iter().unzip();
        assert_near(&format!("{what}: dweight"), &found(&dweight), &dweights, their.rounding(1e-6));
        assert_near(&format!("{what}: dbias"), &found(&dbias), &dbiases, their.rounding(1e-6));
    } else {
        assert!([&dweight, &dbias].into_iter().all(|buffer| found(buffer).into_iter().all(f64::is_nan)), "{what}");
    }
}

/// The most clusters that are emulated with all their blocks.
const MOST_LARGEST: usize = 2;

/// Checks both passes of tensors in a type: images, channels, groups, and the elements of a plane. By the likely clusters
/// and the largest ones, and by single blocks with little shared memory, which read most vectors again.
fn check(device: Device, stream: Stream, element: Element, sizes: &[[usize; 4]]) {
    let room = Room::of(device).expect("a device tells its properties");
    let little = Room { shared_bytes: 8 << 10, ..room };
    let memory = Memory { device, stream };
    let types = subject(Pass::GroupForward, Planes { element, images: 1, channels: 1, plane: 1 }, 1).types();
    let load = |pass| emulated::compiled(Engine::load(device, pass, types));
    let (Some(forward), Some(backward)) = (load(Pass::GroupForward), load(Pass::GroupBackward)) else { return };
    for (index, &[images, channels, groups, plane]) in sizes.iter().enumerate() {
        let mut random = StdRng::seed_from_u64(plane as u64);
        let planes = Planes { element, images, channels, plane };
        let reduced = planes.of_groups(groups);
        let dy = Tensor::random(planes, 0.5, &mut random);
        // In two bytes, numbers far from 0 have no deviation left.
        let farthest = if element == Element::Float { 1e3 } else { 4.0 };
        let apart = if index % 2 == 0 { 0.5 } else { farthest };
        let x = Tensor { planes, ..Tensor::random(reduced, apart, &mut random) };
        let their = Parameters { element, is_affine: index % 3 != 2 };
        let [weight, bias] = numbers(their, &planes).map(|numbers| their.rounded(&numbers));
        let its = Grouped { x: &x, groups, weight, bias };
        let is_emulated_whole = device != Device::Host || reduced.channels <= MOST_LARGEST;
        for (room, place) in [(room, None), (room, Some(usize::MAX)), (little, Some(0))] {
            if place == Some(usize::MAX) && !is_emulated_whole {
                continue;
            }
            for pass in [Pass::GroupForward, Pass::GroupBackward] {
                let all = shapes(pass.row().kept, &reduced, &room);
                let place = place.unwrap_or_else(|| likely(&reduced, &room, &all));
                let shape = all[place.min(all.len() - 1)];
                let what = format!("{element:?} {images} × {channels} × {plane} in {groups}, {their:?}, {shape:?}");
                match pass {
                    Pass::GroupForward => check_forward(&memory, &forward, shape, &its, their, &what),
                    _ => {
                        let wanted = (their, index % 4 != 1);
                        check_backward(&memory, &backward, shape, &its, &dy, wanted, &what);
                    }
                }
            }
        }
    }
}

/// Planes of whole vectors, of others, of fewer elements than a vector has and of one; groups of one channel, of several
/// and of all; groups that begin within a vector. Of the first group most blocks of the largest cluster have nothing.
const SIZES: [[usize; 4]; 12] = [
    [1, 4, 1, 24],
    [2, 8, 2, 64],
    [2, 12, 3, 49],
    [3, 16, 1, 72],
    [2, 8, 8, 33],
    [4, 24, 6, 1],
    [4, 6, 2, 3],
    [8, 9, 3, 11],
    [1, 16, 2, 2053],
    [34, 4, 1, 8],
    [1, 6, 2, 4096],
    [1, 2, 1, 16_384],
];

#[test]
fn on_a_gpu_as_in_double() {
    let Some(gpu) = on_gpu::first() else { return };
    for element in Element::ALL {
        check(Device::Cuda, gpu.stream.raw(), element, &SIZES);
        let large = [[2, 32, 8, 32_768], [4, 320, 32, 1024], [3, 64, 32, 289 * 8], [130, 48, 4, 25]];
        check(Device::Cuda, gpu.stream.raw(), element, &large);
    }
}

fn check_emulated(test: &str, element: Element, sizes: &[[usize; 4]]) {
    if emulated::is_child(test) {
        let stream = Device::Host.stream().expect("a stream");
        check(Device::Host, stream.raw(), element, sizes);
    }
}

#[test]
fn some_emulated_as_in_double() {
    check_emulated("tests::groups::some_emulated_as_in_double", Element::Half, &SIZES[..3]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn floats_emulated_as_in_double() {
    check_emulated("tests::groups::floats_emulated_as_in_double", Element::Float, &SIZES);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn halves_emulated_as_in_double() {
    check_emulated("tests::groups::halves_emulated_as_in_double", Element::Half, &SIZES);
}

// Half has the same accesses.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn bfloat16_emulated_as_in_double() {
    check_emulated("tests::groups::bfloat16_emulated_as_in_double", Element::Bfloat16, &SIZES[3..7]);
}
