use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::same::tile;
use super::tile::{BLOCKS, COLUMNS, RESERVED};
use super::*;
use crate::engines::CorrelationMemory;
use crate::engines::backward_filter::{FilterGradient, GradientMemory};
use crate::engines::tests::{CorrelationCase, GradientCase};
use gpu::testing::buffers::filled;
use gpu::testing::emulated;
use gpu::testing::on_gpu;
use gpu::testing::resources;
use gpu::{Buffer, Stream};

const SHARED: usize = 227 << 10;
/// Images of which a tile has too many for results that it writes itself.
const TINY: [usize; 2] = [3, 2];

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
        ([2, 328, 64], [8, 6], 1),
        ([5, 128, 48], [5, 8], 1),
        ([2, 64, 256], [17, 16], 1),
        ([10, 32, 32], [6, 7], 1),
        ([1, 64, 72], [1, 301], 1),
        ([2, 32, 72], [7, 7], 3),
        ([1, 32, 64], [14, 14], 3),
        ([2, 32, 136], [8, 8], 3),
        ([1, 32, 32], [9, 10], 5),
    ];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    shapes.flat_map(|((sizes, from, filter), element)| both_ways(sizes, from, filter, element))
}

/// 1×1 filters with strides, from images of even and odd lengths.
fn with_strides() -> impl Iterator<Item = Correlation> {
    let shapes = [([2, 72, 136], [14, 28]), ([3, 128, 64], [13, 14]), ([1, 64, 72], [31, 33])];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    shapes.map(|((sizes, from), element)| {
        let [of, _] = both_ways(sizes, from, 1, element);
        Correlation { stride: 2, to: from.map(|length| length.div_ceil(2)), ..of }
    })
}

#[test]
fn others_are_not_for_us() {
    let [of, gradient] = both_ways([2, 64, 64], [7, 7], 1, Element::Half);
    assert!(SameConvolution::computes(Device::Host, &of) && SameConvolution::computes(Device::Host, &gradient));
    for other in [
        Correlation { element: Element::Float, ..of },
        Correlation { filter: 3, padding: 0, to: [5, 5], ..of },
        Correlation { filter: 3, padding: 2, to: [9, 9], ..of },
        Correlation { filter: 3, padding: 1, stride: 2, to: [4, 4], ..of },
        Correlation { depth: 60, ..of },
        Correlation { rows: 60, ..gradient },
        Correlation { images: 0, ..of },
    ] {
        assert!(!SameConvolution::computes(Device::Host, &other), "{other:?}");
        assert!(SameConvolution::new(Device::Host, other).is_err());
    }
    assert!(SameConvolution::computes(Device::Host, &Correlation { rows: 60, ..of }));
    assert!(!ShiftedConvolution::computes(Device::Host, &of));
    let [of, _] = both_ways([3, 64, 60], [6, 6], 3, Element::Half);
    assert!(ShiftedConvolution::computes(Device::Host, &of));
    let tiny = Correlation { from: TINY, to: TINY, ..of };
    assert!(!ShiftedConvolution::computes(Device::Host, &tiny) && !SameConvolution::computes(Device::Host, &tiny));
    assert!(SameGradient::computes(Device::Host, &filter_gradient(Correlation { rows: 64, ..tiny })));
    let wide = [4, 4000];
    assert!(!ShiftedConvolution::computes(Device::Host, &Correlation { from: wide, to: wide, ..of }));
}

#[test]
fn blocks_fit_in_pairs_where_there_is_room() {
    for of in small() {
        let tile = tile(&of, SHARED).unwrap();
        assert!(BLOCKS * (tile.shared_bytes() + RESERVED) <= SHARED + RESERVED && tile.stages > 1, "{tile:?}");
    }
    let of = small().next().unwrap();
    assert!(tile(&of, 99 << 10).is_some_and(|tile| tile.shared_bytes() <= 99 << 10));
    assert_eq!(tile(&of, 48 << 10), None);
}

/// Compares a kernel's results with those of loops.
fn check(kernel: &SameConvolution, device: Device, stream: Stream, random: &mut SmallRng) {
    // SAFETY: the buffers are as large as the tensors, with guards around them.
    let run = |memory, alpha, beta| unsafe { kernel.run(stream, memory, alpha, beta) };
    CorrelationCase::new(kernel.of, device, stream, random).check(device, stream, kernel.tile, run);
}

/// On the CPU, under the emulator and adversarial schedules, the kernel agrees with loops, in those cases that `has`
/// chooses by their number. Runs in child processes whose cuDNN is hostdnn.
fn as_in_loops(test: &str, has: fn(usize) -> bool) {
    if !emulated::is_child(test) {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(31);
    for (index, of) in small().chain(with_strides()).enumerate() {
        if !has(index) {
            CorrelationCase::numbers(&of, &mut random);
            continue;
        }
        let tile = tile(&of, SHARED).unwrap();
        let Some(function) = emulated::compiled(same::compiled(device, &of, &tile)) else { return };
        let code = Arc::new(Some(function));
        check(&SameConvolution { of, tile, code }, device, stream, &mut random);
    }
}

#[test]
fn some_emulated_as_in_loops() {
    as_in_loops("engines::warpgroups::tests::some_emulated_as_in_loops", |index| index % 19 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    as_in_loops("engines::warpgroups::tests::emulated_as_in_loops", |_| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    let Some(nvrtc) = resources::nvrtc() else { return };
    for of in small().chain(with_strides()) {
        let tile = tile(&of, SHARED).unwrap();
        let compiled = resources::compile(nvrtc, &same::source(&of, &tile), 90);
        let spills = compiled.count(resources::STL) + compiled.count(resources::LDL);
        assert_eq!(spills, 0, "{of:?}, {tile:?}");
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
    for of in small().chain(with_strides()) {
        let kernel = SameConvolution::new(device, of).expect("compiled");
        check(&kernel, device, stream.raw(), &mut random);
    }
}

/// Prints the kernel's speed for layers of ResNet-50.
#[test]
fn on_a_gpu_at_layers_of_networks() {
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
        ([64, 64, 64], 224, 3),
        ([64, 64, 128], 112, 3),
        ([64, 128, 128], 112, 3),
        ([64, 128, 256], 56, 3),
        ([64, 256, 256], 56, 3),
        ([64, 256, 512], 28, 3),
        ([64, 512, 512], 28, 3),
        ([64, 512, 512], 14, 3),
        ([16, 64, 64], 256, 3),
        ([16, 128, 128], 128, 3),
        ([16, 256, 256], 64, 3),
        ([16, 512, 512], 32, 3),
        ([16, 1024, 512], 32, 3),
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
        println!("{of:?}, {:?}: {time:.3} ms, {:.0} TFLOP/s", kernel.tile, rate(time));
        for kernel in shifted_on_a_gpu(of) {
            let workspace = device.allocate(kernel.workspace()).unwrap();
            // SAFETY: as large as the tensors and the workspace.
            let run = || unsafe { kernel.run(stream.raw(), memory, workspace.data(), 1.0, 0.0) };
            let time = on_gpu::median(stream, || assert!(run()));
            println!("shifted, {:?}: {time:.3} ms, {:.0} TFLOP/s", kernel.tiling, rate(time));
        }
        if of.is_gradient {
            continue;
        }
        let Ok(kernel) = SameGradient::new(device, filter_gradient(of)) else { continue };
        let memory = GradientMemory { x: from, dy: to, dw: w, workspace: std::ptr::null_mut() };
        // SAFETY: as large as the tensors.
        let time = on_gpu::median(stream, || assert!(unsafe { kernel.run(stream.raw(), memory, 1.0, 0.0) }));
        println!("its filter's gradient, {:?}: {time:.3} ms, {:.0} TFLOP/s", kernel.tiling, rate(time));
    }
}

/// Several depths, several images in a tile and several tiles in an image, parts of rows' and of depths' tiles, rows
/// that are longer than a tile, small images.
fn small_shifted() -> impl Iterator<Item = Correlation> {
    let shapes = [
        ([2, 72, 136], [7, 7], 3),
        ([1, 136, 64], [14, 14], 3),
        ([1, 64, 200], [20, 16], 3),
        ([1, 32, 40], [3, 301], 3),
        ([20, 32, 32], [5, 6], 3),
        ([2, 72, 72], [9, 10], 5),
    ];
    let shapes = shapes.into_iter().zip([Element::Bfloat16, Element::Half].into_iter().cycle());
    let others = shapes.flat_map(|((sizes, from, filter), element)| both_ways(sizes, from, filter, element));
    small().filter(|of| of.filter > 1).chain(others)
}

/// The kernels with narrow and with wide products, as far as they fit. None computes a 1×1 filter.
fn shifted_on_a_gpu(of: Correlation) -> impl Iterator<Item = ShiftedConvolution> {
    let device = Device::Cuda;
    let shared = device.shared_bytes(device.ordinal()).unwrap();
    let widths = [COLUMNS, shifted::WIDE].into_iter().filter(move |_| of.filter > 1);
    let tilings = widths.filter_map(move |columns| shifted::Tiling::with(&of, shared, columns));
    tilings.map(move |tiling| {
        let code = shifted::compiled(device, &of, &tiling).expect("compiled");
        ShiftedConvolution { of, tiling, code: Arc::new(Some(code)) }
    })
}

/// Compares a kernel's results with those of loops.
fn check_shifted(kernel: &ShiftedConvolution, device: Device, stream: Stream, random: &mut SmallRng) {
    let case = CorrelationCase::new(kernel.of, device, stream, random);
    case.check_with_workspace(device, stream, kernel.workspace(), kernel.tiling, |memory, workspace, alpha, beta| {
        // SAFETY: the buffers are as large as the tensors, with guards around them.
        unsafe { kernel.run(stream, memory, workspace, alpha, beta) }
    });
}

fn shifted_as_in_loops(test: &str, has: fn(usize) -> bool) {
    if !emulated::is_child(test) {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(36);
    let ways = [(3, COLUMNS), (4, shifted::WIDE), (5, COLUMNS), (3, shifted::WIDE)];
    for (index, (of, (stages, columns))) in small_shifted().zip(ways.into_iter().cycle()).enumerate() {
        let Some(mut tiling) = shifted::Tiling::with(&of, SHARED, columns) else { continue };
        if !has(index) {
            CorrelationCase::numbers(&of, &mut random);
            continue;
        }
        tiling.stages = stages;
        let Some(code) = emulated::compiled(shifted::compiled(device, &of, &tiling)) else { return };
        let kernel = ShiftedConvolution { of, tiling, code: Arc::new(Some(code)) };
        check_shifted(&kernel, device, stream, &mut random);
    }
}

#[test]
fn some_emulated_shifted_as_in_loops() {
    // Narrow products and wide ones.
    let has = |index| [0, 5].contains(&index);
    shifted_as_in_loops("engines::warpgroups::tests::some_emulated_shifted_as_in_loops", has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_shifted_as_in_loops() {
    shifted_as_in_loops("engines::warpgroups::tests::emulated_shifted_as_in_loops", |_| true);
}

#[test]
fn shifted_compile_for_hopper_without_spills() {
    let Some(nvrtc) = resources::nvrtc() else { return };
    let ways = small_shifted().flat_map(|of| [COLUMNS, shifted::WIDE].map(|columns| (of, columns)));
    for (of, columns) in ways {
        let Some(tiling) = shifted::Tiling::with(&of, SHARED, columns) else { continue };
        let compiled = resources::compile(nvrtc, &shifted::source(&of, &tiling), 90);
        let spills = compiled.count(resources::STL) + compiled.count(resources::LDL);
        assert_eq!(spills, 0, "{of:?}, {tiling:?}");
    }
}

#[test]
fn shifted_on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    if !device.has_warpgroup_products(device.ordinal()) {
        println!("SKIPPED: the GPU has no products of warpgroups");
        return;
    }
    let mut random = SmallRng::seed_from_u64(37);
    for kernel in small_shifted().flat_map(shifted_on_a_gpu) {
        check_shifted(&kernel, device, stream.raw(), &mut random);
    }
}

#[test]
fn products_are_wide_where_that_is_faster() {
    let columns = |sizes, side| {
        let [of, _] = both_ways(sizes, [side; 2], 3, Element::Half);
        shifted::Tiling::of(&of, SHARED, 132).unwrap().product_columns
    };
    // Pairs of blocks with one depth, several depths, no room for pairs, and fewer blocks than multiprocessors.
    assert_eq!(columns([128, 64, 64], 56), COLUMNS);
    assert_eq!(columns([128, 256, 256], 14), shifted::WIDE);
    assert_eq!(columns([64, 64, 64], 224), shifted::WIDE);
    assert_eq!(columns([1, 512, 512], 14), COLUMNS);
}

#[test]
fn on_a_gpu_at_first_layers() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(40);
    let layers = [(128, 64, 224, 7, 2, 3), (16, 64, 256, 3, 1, 1), (128, 64, 224, 11, 4, 2), (128, 32, 299, 3, 2, 0)];
    for (images, rows, side, filter, stride, padding) in layers {
        let of = few_channels_of([images, 3, rows], [side; 2], [filter, stride, padding], Element::Half);
        let Ok(kernel) = FewChannels::new(device, of) else { return };
        let pixels = images * of.to[0] * of.to[1];
        let counts = [rows * 3 * filter * filter, images * 3 * side * side, rows * pixels];
        let tensors = counts.map(|count| filled(device, of.element, count, &mut random, stream.raw()));
        let [w, from, to] = tensors.each_ref().map(Buffer::data);
        let memory = CorrelationMemory { w, from, to };
        // SAFETY: as large as the tensors.
        let time = on_gpu::median(stream, || assert!(unsafe { kernel.run(stream.raw(), memory, 1.0, 0.0) }));
        let bytes = counts.into_iter().sum::<usize>() * of.element.bytes();
        println!("{of:?}, {:?}: {time:.3} ms, {:.2} TB/s", kernel.tile, bytes as f64 / time / 1e9);
    }
}

fn few_channels_of(
    [images, depth, rows]: [usize; 3],
    from: [usize; 2],
    [filter, stride, padding]: [usize; 3],
    element: Element,
) -> Correlation {
    let to = from.map(|length| (length + 2 * padding - filter) / stride + 1);
    let (is_exact, is_gradient) = (false, false);
    Correlation { element, is_exact, is_gradient, images, depth, rows, from, to, filter, stride, padding }
}

/// Convolutions of images with few channels: every width of copies, words and single numbers, images and rows that end
/// within a tile, several tiles of rows, filters of one and two pieces.
fn few_channels() -> impl Iterator<Item = Correlation> {
    let shapes = [
        ([2, 3, 64], [32, 40], [7, 2, 3]),
        ([3, 3, 40], [15, 15], [3, 2, 0]),
        ([2, 3, 136], [20, 22], [3, 1, 1]),
        ([1, 1, 8], [28, 28], [5, 1, 0]),
        ([2, 4, 64], [43, 40], [11, 4, 2]),
        ([2, 8, 96], [16, 24], [4, 4, 0]),
        ([60, 2, 24], [4, 8], [2, 1, 1]),
    ];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    shapes.map(|((sizes, from, filter), element)| few_channels_of(sizes, from, filter, element))
}

fn check_few_channels(kernel: &FewChannels, device: Device, stream: Stream, random: &mut SmallRng) {
    // SAFETY: the buffers are as large as the tensors, with guards around them.
    let run = |memory, alpha, beta| unsafe { kernel.run(stream, memory, alpha, beta) };
    CorrelationCase::new(kernel.of, device, stream, random).check(device, stream, kernel.tile, run);
}

fn few_channels_as_in_loops(test: &str, has: fn(usize) -> bool) {
    if !emulated::is_child(test) {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(38);
    for (index, of) in few_channels().enumerate() {
        if !has(index) {
            CorrelationCase::numbers(&of, &mut random);
            continue;
        }
        let tile = FewChannels::new(device, of).expect("ours").tile;
        let Some(code) = emulated::compiled(few_channels::compiled(device, &of, &tile)) else { return };
        check_few_channels(&FewChannels { of, tile, code: Arc::new(Some(code)) }, device, stream, &mut random);
    }
}

#[test]
fn some_emulated_few_channels_as_in_loops() {
    few_channels_as_in_loops("engines::warpgroups::tests::some_emulated_few_channels_as_in_loops", |index| {
        [1, 3].contains(&index)
    });
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_few_channels_as_in_loops() {
    few_channels_as_in_loops("engines::warpgroups::tests::emulated_few_channels_as_in_loops", |_| true);
}

#[test]
fn few_channels_compile_for_hopper_without_spills() {
    let Some(nvrtc) = resources::nvrtc() else { return };
    for of in few_channels() {
        let tile = FewChannels::new(Device::Host, of).expect("ours").tile;
        let compiled = resources::compile(nvrtc, &few_channels::source(&of, &tile), 90);
        let spills = compiled.count(resources::STL) + compiled.count(resources::LDL);
        assert_eq!(spills, 0, "{of:?}, {tile:?}");
    }
}

#[test]
fn few_channels_on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    if !device.has_warpgroup_products(device.ordinal()) {
        println!("SKIPPED: the GPU has no products of warpgroups");
        return;
    }
    let mut random = SmallRng::seed_from_u64(39);
    for of in few_channels() {
        let kernel = FewChannels::new(device, of).expect("compiled");
        check_few_channels(&kernel, device, stream.raw(), &mut random);
    }
}

/// The gradient of a convolution's filter.
fn filter_gradient(of: Correlation) -> FilterGradient {
    let Correlation { element, is_exact, images, depth, rows, from, to, filter, stride, padding, .. } = of;
    FilterGradient {
        element,
        is_exact,
        images,
        k: rows,
        c: depth,
        x: from,
        dy: to,
        filter: [filter; 2],
        stride,
        padding,
    }
}

fn small_gradients() -> impl Iterator<Item = FilterGradient> {
    let [tiny, _] = both_ways([3, 32, 40], TINY, 3, Element::Half);
    small().filter(|of| !of.is_gradient).chain([tiny]).chain(with_strides()).map(filter_gradient)
}

#[test]
fn clusters_share_out_the_pixels() {
    let cluster = |images, channels: [usize; 2], side: usize, multiprocessors, most| {
        let [of, _] = both_ways([images, channels[0], channels[1]], [side; 2], 1, Element::Half);
        same_gradient::Tiling::of(&filter_gradient(of), SHARED, multiprocessors, most).map(|tiling| tiling.cluster)
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
    // SAFETY: the buffers are as large as the tensors, with guards around them.
    let run = |memory, alpha, beta| unsafe { kernel.run(stream, memory, alpha, beta) };
    GradientCase::new(kernel.of, device, stream, random).check(device, stream, 0, kernel.tiling, run);
}

fn gradients_as_in_loops(test: &str, has: fn(usize) -> bool) {
    if !emulated::is_child(test) {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(34);
    let clusters = [1, 2, 4, 1, 8, 16, 2, 4].into_iter().cycle();
    for (index, (of, cluster)) in small_gradients().zip(clusters).enumerate() {
        if !has(index) {
            GradientCase::numbers(&of, &mut random);
            continue;
        }
        let tiling = same_gradient::Tiling { cluster, ..same_gradient::Tiling::of(&of, SHARED, 1, 1).unwrap() };
        let Some(function) = emulated::compiled(same_gradient::compiled(device, &of, &tiling)) else { return };
        let kernel = SameGradient { of, tiling, code: Arc::new(Some(function)) };
        check_gradient(&kernel, device, stream, &mut random);
    }
}

#[test]
fn some_emulated_gradients_as_in_loops() {
    gradients_as_in_loops("engines::warpgroups::tests::some_emulated_gradients_as_in_loops", |index| index % 9 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_gradients_as_in_loops() {
    gradients_as_in_loops("engines::warpgroups::tests::emulated_gradients_as_in_loops", |_| true);
}

#[test]
fn gradients_compile_for_hopper_without_spills() {
    let Some(nvrtc) = resources::nvrtc() else { return };
    for (of, cluster) in small_gradients().zip([1, 2, 4, 8, 16].into_iter().cycle()) {
        let tiling = same_gradient::Tiling { cluster, ..same_gradient::Tiling::of(&of, SHARED, 1, 1).unwrap() };
        let compiled = resources::compile(nvrtc, &same_gradient::source(&of, &tiling), 90);
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
