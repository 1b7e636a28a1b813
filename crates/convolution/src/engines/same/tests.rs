use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::gradient::{self, SameGradient};
use super::*;
use crate::engines::backward_filter::{self, FilterGradient, GradientMemory};
use gpu::Buffer;
use gpu::testing::buffers::{GUARD, between_nans, filled, read, small_whole_numbers, write};
use gpu::testing::emulated;
use gpu::testing::on_gpu;
use gpu::testing::resources;

const SHARED: usize = 227 << 10;

/// A convolution of these images, input and output channels, sizes of images and filter; and its input gradient.
fn both_ways([images, depth, rows]: [usize; 3], from: [usize; 2], filter: usize, element: Element) -> [Correlation; 2] {
    let (is_exact, is_gradient, stride, padding) = (false, false, 1, filter / 2);
    let of =
        Correlation { element, is_exact, is_gradient, images, depth, rows, from, to: from, filter, stride, padding };
    [of, Correlation { is_gradient: true, depth: rows, rows: depth, ..of }]
}

/// Every width of copies, several images in a tile and several tiles in an image, parts of tiles of rows, columns and
/// depth, more stages than shared memory holds, both ways to share out a tile, all filters, rows shorter than a group.
fn small() -> impl Iterator<Item = Correlation> {
    let shapes = [
        ([3, 64, 64], [7, 7], 1),
        ([2, 72, 136], [7, 7], 1),
        ([1, 40, 200], [14, 14], 1),
        ([2, 328, 64], [4, 6], 1),
        ([5, 128, 48], [5, 2], 1),
        ([2, 64, 256], [17, 16], 1),
        ([40, 32, 32], [1, 1], 1),
        ([1, 64, 72], [1, 301], 1),
        ([2, 16, 72], [7, 7], 3),
        ([1, 32, 64], [14, 14], 3),
        ([2, 24, 136], [8, 8], 3),
        ([3, 16, 40], [3, 2], 3),
        ([1, 16, 32], [9, 10], 5),
    ];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    shapes.flat_map(|((sizes, from, filter), element)| both_ways(sizes, from, filter, element))
}

#[test]
fn others_are_not_for_us() {
    let [of, gradient] = both_ways([2, 64, 64], [7, 7], 1, Element::Half);
    assert!(SameConvolution::computes(Device::Host, &of) && SameConvolution::computes(Device::Host, &gradient));
    for other in [
        Correlation { element: Element::Float, ..of },
        Correlation { filter: 3, padding: 0, to: [5, 5], ..of },
        Correlation { filter: 3, padding: 2, to: [9, 9], ..of },
        Correlation { stride: 2, to: [4, 4], ..of },
        Correlation { depth: 60, ..of },
        Correlation { rows: 60, ..gradient },
        Correlation { images: 0, ..of },
    ] {
        assert!(!SameConvolution::computes(Device::Host, &other), "{other:?}");
        assert!(SameConvolution::new(Device::Host, other).is_err());
    }
    assert!(SameConvolution::computes(Device::Host, &Correlation { rows: 60, ..of }));
}

#[test]
fn blocks_fit_in_pairs_where_there_is_room() {
    for of in small() {
        let tiling = Tiling::of(&of, SHARED).unwrap();
        assert!(BLOCKS * (tiling.shared_bytes() + RESERVED) <= SHARED + RESERVED && tiling.stages > 1, "{tiling:?}");
    }
    let of = small().next().unwrap();
    assert!(Tiling::of(&of, 99 << 10).is_some_and(|tiling| tiling.shared_bytes() <= 99 << 10));
    assert_eq!(Tiling::of(&of, 48 << 10), None);
}

/// Tensors of small whole numbers, whose sums are exact.
struct Case {
    of: Correlation,
    w: Buffer,
    from: Buffer,
    to: Buffer,
    held: Vec<u8>,
    /// The expected output when adding to `held`, and when not.
    added: Vec<u8>,
    written: Vec<u8>,
}

impl Case {
    const ALPHA: f32 = 0.5;
    const BETA: f32 = 2.0;

    fn new(of: Correlation, device: Device, stream: Stream, random: &mut SmallRng) -> Self {
        let mut values = |count: usize| small_whole_numbers(of.element, count, random);
        let pixels = of.images * of.from[0] * of.from[1];
        let (w, from, held) =
            (values(of.rows * of.depth * of.filter * of.filter), values(of.depth * pixels), values(of.rows * pixels));
        let expected = |beta: f32| {
            let mut to = held.clone();
            let memory =
                CorrelationMemory { w: w.as_ptr().cast(), from: from.as_ptr().cast(), to: to.as_mut_ptr().cast() };
            // SAFETY: the vectors are as large as the tensors, and the allocator aligns them for elements.
            unsafe { compute(&of, memory, Self::ALPHA, beta) };
            to
        };
        let (added, written) = (expected(Self::BETA), expected(0.0));
        let [w, from] = [w, from].map(|bytes| between_nans(device, &bytes, stream));
        let to = device.allocate(held.len() + 2 * GUARD).unwrap();
        Self { of, w, from, to, held, added, written }
    }

    /// Runs the kernel in poisoned memory and compares its result.
    fn check(&self, kernel: &SameConvolution, device: Device, stream: Stream) {
        let Self { of, w, from, to, held, added, written } = self;
        let [w, from, data] = [w, from, to].map(|tensor| tensor.data().wrapping_byte_add(GUARD));
        let guard = [0xff; GUARD];
        for (beta, begin, expected) in [(Self::BETA, held, added), (0.0, &vec![0xff; held.len()], written)] {
            write(device, to, &[&guard[..], begin, &guard].concat(), stream);
            let memory = CorrelationMemory { w, from, to: data };
            // SAFETY: the buffers are as large as the tensors, with guards around them.
            assert!(unsafe { kernel.run(stream, memory, Self::ALPHA, beta) });
            let found = read(device, to, held.len() + 2 * GUARD, stream);
            let inside = &found[GUARD..found.len() - GUARD];
            let wrong = expected.iter().zip(inside).position(|(expected, found)| expected != found);
            let wrong = wrong.map(|byte| byte / of.element.bytes());
            assert_eq!(wrong, None, "{of:?}, {:?}, beta {beta}", kernel.tiling);
            assert!(found.starts_with(&guard) && found.ends_with(&guard), "written beside it");
        }
    }
}

/// On the CPU, under the emulator and adversarial schedules, the kernel agrees with loops. Runs in child processes
/// whose cuDNN is hostdnn.
#[test]
fn emulated_as_in_loops() {
    if !emulated::is_child("engines::same::tests::emulated_as_in_loops") {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(31);
    for of in small() {
        let tiling = Tiling::of(&of, SHARED).unwrap();
        let Some(function) = emulated::compiled(compiled(device, &of, &tiling)) else { return };
        let code = Arc::new(Some(function));
        Case::new(of, device, stream, &mut random).check(&SameConvolution { of, tiling, code }, device, stream);
    }
}

#[test]
fn compiles_for_hopper_without_spills() {
    let Some(nvrtc) = resources::nvrtc() else { return };
    for of in small() {
        let tiling = Tiling::of(&of, SHARED).unwrap();
        let compiled = resources::compile(nvrtc, &source(&of, &tiling), 90);
        let spills = compiled.count(resources::STL) + compiled.count(resources::LDL);
        assert_eq!(spills, 0, "{of:?}, {tiling:?}");
    }
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    if !device.has_warpgroup_products(device.ordinal()) {
        println!("SKIPPED: the GPU has no products of warpgroups");
        return;
    }
    let mut random = SmallRng::seed_from_u64(32);
    for of in small() {
        let kernel = SameConvolution::new(device, of).expect("compiled");
        Case::new(of, device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
    }
}

/// Prints the kernel's speed for layers of ResNet-50.
#[test]
fn on_a_gpu_at_resnet_50_s_layers() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(33);
    let layers = [
        ([128, 64, 256], 56, 1),
        ([128, 256, 64], 56, 1),
        ([128, 512, 128], 28, 1),
        ([128, 256, 1024], 14, 1),
        ([128, 1024, 256], 14, 1),
        ([128, 2048, 512], 7, 1),
        ([128, 512, 2048], 7, 1),
        ([128, 64, 64], 56, 3),
        ([128, 128, 128], 28, 3),
        ([128, 256, 256], 14, 3),
        ([128, 512, 512], 7, 3),
    ];
    let layers = layers.into_iter();
    for of in layers.flat_map(|(sizes, side, filter)| both_ways(sizes, [side; 2], filter, Element::Half)) {
        let Ok(kernel) = SameConvolution::new(device, of) else { return };
        let pixels = of.images * of.from[0] * of.from[1];
        let counts = [of.rows * of.depth * of.filter * of.filter, of.depth * pixels, of.rows * pixels];
        let tensors = counts.map(|count| filled(device, of.element, count, &mut random, stream.raw()));
        let [w, from, to] = tensors.each_ref().map(Buffer::data);
        let memory = CorrelationMemory { w, from, to };
        // SAFETY: as large as the tensors.
        let time = on_gpu::median(stream, || assert!(unsafe { kernel.run(stream.raw(), memory, 1.0, 0.0) }));
        let rate = |time: f64| 2.0 * (counts[0] * pixels) as f64 / time / 1e9;
        println!("{of:?}, {:?}: {time:.3} ms, {:.0} TFLOP/s", kernel.tiling, rate(time));
        if of.is_gradient {
            continue;
        }
        let Ok(kernel) = SameGradient::new(device, filter_gradient(of)) else { return };
        let memory = GradientMemory { x: from, dy: to, dw: w, workspace: std::ptr::null_mut() };
        // SAFETY: as large as the tensors.
        let time = on_gpu::median(stream, || assert!(unsafe { kernel.run(stream.raw(), memory, 1.0, 0.0) }));
        println!("its filter's gradient, {:?}: {time:.3} ms, {:.0} TFLOP/s", kernel.tiling, rate(time));
    }
}

/// The gradient of a convolution's filter.
fn filter_gradient(of: Correlation) -> FilterGradient {
    let Correlation { element, is_exact, images, depth, rows, from, filter, padding, .. } = of;
    FilterGradient {
        element,
        is_exact,
        images,
        k: rows,
        c: depth,
        x: from,
        dy: from,
        filter: [filter; 2],
        stride: 1,
        padding,
    }
}

fn small_gradients() -> impl Iterator<Item = FilterGradient> {
    small().filter(|of| !of.is_gradient).map(filter_gradient)
}

#[test]
fn clusters_share_out_the_pixels() {
    let cluster = |images, channels: [usize; 2], side: usize, multiprocessors, most| {
        let [of, _] = both_ways([images, channels[0], channels[1]], [side; 2], 1, Element::Half);
        gradient::Tiling::of(&filter_gradient(of), SHARED, multiprocessors, most).map(|tiling| tiling.cluster)
    };
    // 16 tiles of 128 x 128 on 264 places.
    assert_eq!(cluster(128, [256, 1024], 14, 132, 16), Some(16));
    assert_eq!(cluster(128, [512, 2048], 7, 132, 16), Some(4));
    assert_eq!(cluster(128, [2048, 2048], 14, 132, 16), Some(1));
    // Few pixels are not worth many blocks.
    assert_eq!(cluster(1, [256, 256], 14, 132, 16), Some(1));
    // More than 2^17 pixels are too many for one sum.
    assert_eq!(cluster(128, [4096, 4096], 56, 132, 16), Some(4));
    assert_eq!(cluster(128, [4096, 4096], 56, 132, 2), None);
}

fn check_gradient(kernel: &SameGradient, device: Device, stream: Stream, random: &mut SmallRng) {
    let of = kernel.of;
    let mut values = |count: usize| small_whole_numbers(of.element, count, random);
    let pixels = of.images * of.x[0] * of.x[1];
    let (x, dy, held) =
        (values(of.c * pixels), values(of.k * pixels), values(of.k * of.c * of.filter[0] * of.filter[1]));
    let on_device = [&x, &dy].map(|bytes| between_nans(device, bytes, stream));
    let to = device.allocate(held.len() + 2 * GUARD).unwrap();
    let [of_x, of_dy, dw] = [&on_device[0], &on_device[1], &to].map(|tensor| tensor.data().wrapping_byte_add(GUARD));
    let guard = [0xff; GUARD];
    let workspace = std::ptr::null_mut();
    for (beta, begin) in [(2.0, held.clone()), (0.0, vec![0xff; held.len()])] {
        let mut expected = held.clone();
        let memory = GradientMemory {
            x: x.as_ptr().cast(),
            dy: dy.as_ptr().cast(),
            dw: expected.as_mut_ptr().cast(),
            workspace,
        };
        // SAFETY: the vectors are as large as the tensors, and the allocator aligns them for elements.
        unsafe { backward_filter::compute(&of, memory, 0.5, beta) };
        write(device, &to, &[&guard[..], &begin, &guard].concat(), stream);
        // SAFETY: the buffers are as large as the tensors, with guards around them.
        assert!(unsafe { kernel.run(stream, GradientMemory { x: of_x, dy: of_dy, dw, workspace }, 0.5, beta) });
        let found = read(device, &to, held.len() + 2 * GUARD, stream);
        let inside = &found[GUARD..found.len() - GUARD];
        let wrong = expected.iter().zip(inside).position(|(expected, found)| expected != found);
        assert_eq!(wrong.map(|byte| byte / 2), None, "{of:?}, {:?}, beta {beta}", kernel.tiling);
        assert!(found.starts_with(&guard) && found.ends_with(&guard), "written beside it");
    }
}

#[test]
fn emulated_gradients_as_in_loops() {
    if !emulated::is_child("engines::same::tests::emulated_gradients_as_in_loops") {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(34);
    for (of, cluster) in small_gradients().zip([1, 2, 4, 1, 8, 16, 2, 4].into_iter().cycle()) {
        let tiling = gradient::Tiling { cluster, ..gradient::Tiling::of(&of, SHARED, 1, 1).unwrap() };
        let Some(function) = emulated::compiled(gradient::compiled(device, &of, &tiling)) else { return };
        let kernel = SameGradient { of, tiling, code: Arc::new(Some(function)) };
        check_gradient(&kernel, device, stream, &mut random);
    }
}

#[test]
fn gradients_compile_for_hopper_without_spills() {
    let Some(nvrtc) = resources::nvrtc() else { return };
    for (of, cluster) in small_gradients().zip([1, 2, 4, 8, 16].into_iter().cycle()) {
        let tiling = gradient::Tiling { cluster, ..gradient::Tiling::of(&of, SHARED, 1, 1).unwrap() };
        let compiled = resources::compile(nvrtc, &gradient::source(&of, &tiling), 90);
        let spills = compiled.count(resources::STL) + compiled.count(resources::LDL);
        assert_eq!(spills, 0, "{of:?}, {tiling:?}");
    }
}

#[test]
fn gradients_on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    if !device.has_warpgroup_products(device.ordinal()) {
        println!("SKIPPED: the GPU has no products of warpgroups");
        return;
    }
    let mut random = SmallRng::seed_from_u64(35);
    let many = both_ways([64, 64, 128], [14, 14], 3, Element::Half)[0];
    for of in small_gradients().chain([filter_gradient(many)]) {
        let kernel = SameGradient::new(device, of).expect("compiled");
        check_gradient(&kernel, device, stream.raw(), &mut random);
    }
}
