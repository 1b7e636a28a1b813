use super::tile::{BLOCKS, COLUMNS, RESERVED, Tile};
use super::*;
use crate::engines::engine::{Compiled, Engine, compile};
use crate::engines::problem::FilterGradient;
use crate::engines::tests::{
    Case, compile_without_spills, emulated_as_in_loops as as_in_loops, gpu_for, on_a_gpu_as_on_the_host as on_a_gpu,
    print_time,
};
use gpu::testing::on_gpu;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;

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

fn computes<E: Engine>(of: E::Problem) -> bool {
    E::new(Device::Host, &of, &[]).is_some()
}

#[test]
fn others_are_not_for_us() {
    let [of, gradient] = both_ways([2, 64, 64], [7, 7], 1, Element::Half);
    assert!(computes::<SameConvolution>(of) && computes::<SameConvolution>(gradient));
    for other in [
        Correlation { element: Element::Float, ..of },
        Correlation { filter: 3, padding: 0, to: [5, 5], ..of },
        Correlation { filter: 3, padding: 2, to: [9, 9], ..of },
        Correlation { filter: 3, padding: 1, stride: 2, to: [4, 4], ..of },
        Correlation { depth: 60, ..of },
        Correlation { rows: 60, ..gradient },
        Correlation { images: 0, ..of },
    ] {
        assert!(!computes::<SameConvolution>(other), "{other:?}");
    }
    assert!(computes::<SameConvolution>(Correlation { rows: 60, ..of }));
    assert!(!computes::<ShiftedConvolution>(of));
    let [of, _] = both_ways([3, 64, 60], [6, 6], 3, Element::Half);
    assert!(computes::<ShiftedConvolution>(of));
    let tiny = Correlation { from: TINY, to: TINY, ..of };
    assert!(!computes::<ShiftedConvolution>(tiny) && !computes::<SameConvolution>(tiny));
    assert!(computes::<SameGradient>(filter_gradient(Correlation { rows: 64, ..tiny })));
    let wide = [4, 4000];
    assert!(!computes::<ShiftedConvolution>(Correlation { from: wide, to: wide, ..of }));
}

#[test]
fn blocks_fit_in_pairs_where_there_is_room() {
    for of in small() {
        let tile = Tile::of_correlation(&of, SHARED).unwrap();
        assert!(BLOCKS * (tile.shared_bytes() + RESERVED) <= SHARED + RESERVED && tile.stages > 1, "{tile:?}");
    }
    let of = small().next().unwrap();
    assert!(Tile::of_correlation(&of, 99 << 10).is_some_and(|tile| tile.shared_bytes() <= 99 << 10));
    assert_eq!(Tile::of_correlation(&of, 48 << 10), None);
}

fn same() -> impl Iterator<Item = SameConvolution> {
    let all = small().chain(with_strides());
    all.map(|of| SameConvolution { of, tile: Tile::of_correlation(&of, SHARED).unwrap() })
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::warpgroups::tests::some_emulated_as_in_loops";
    as_in_loops(test, 31, same(), |index, _| index % 19 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    as_in_loops("engines::warpgroups::tests::emulated_as_in_loops", 31, same(), |_, _| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    compile_without_spills(90, same());
}

#[test]
fn on_a_gpu_as_on_the_host() {
    on_a_gpu::<SameConvolution>(32, small().chain(with_strides()));
}

/// Prints the kernel's speed for layers of ResNet-50.
#[test]
fn on_a_gpu_at_layers_of_networks() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
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
        let Ok(kernel) = Compiled::<SameConvolution>::new(device, &of, &[]) else { return };
        let products = of.images * of.from[0] * of.from[1] * of.rows * of.depth * of.filter * of.filter;
        print_time(&kernel, products, stream);
        for kernel in shifted_on_a_gpu(of) {
            print_time(&kernel, products, stream);
        }
        if of.is_gradient {
            continue;
        }
        let Ok(kernel) = Compiled::<SameGradient>::new(device, &filter_gradient(of), &[]) else { continue };
        print_time(&kernel, products, stream);
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

/// The engines with narrow and with wide products, as far as they fit. None computes a 1×1 filter.
fn with_widths(of: Correlation, shared: usize) -> impl Iterator<Item = ShiftedConvolution> {
    let widths = [COLUMNS, shifted::WIDE].into_iter().filter(move |_| of.filter > 1);
    let tilings = widths.filter_map(move |columns| shifted::Tiling::with(&of, shared, columns));
    tilings.map(move |tiling| ShiftedConvolution { of, tiling })
}

fn shifted_on_a_gpu(of: Correlation) -> impl Iterator<Item = Compiled<ShiftedConvolution>> {
    let device = Device::Cuda;
    let engines = with_widths(of, device.shared_bytes(device.ordinal()).unwrap());
    engines.map(move |engine| {
        let code = compile(device, &engine).expect("compiled");
        Compiled { engine, code: Arc::new(Some(code)) }
    })
}

fn shifted_as_in_loops(test: &str, has: fn(usize) -> bool) {
    let ways = [(3, COLUMNS), (4, shifted::WIDE), (5, COLUMNS), (3, shifted::WIDE)];
    let engines = small_shifted().zip(ways.into_iter().cycle()).filter_map(|(of, (stages, columns))| {
        let mut tiling = shifted::Tiling::with(&of, SHARED, columns)?;
        tiling.stages = stages;
        Some(ShiftedConvolution { of, tiling })
    });
    as_in_loops(test, 36, engines, |index, _| has(index));
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
    compile_without_spills(90, small_shifted().flat_map(|of| with_widths(of, SHARED)));
}

#[test]
fn shifted_on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &gpu_for::<ShiftedConvolution>(&small_shifted().next().unwrap()) else {
        return;
    };
    let mut random = SmallRng::seed_from_u64(37);
    for kernel in small_shifted().flat_map(shifted_on_a_gpu) {
        Case::new(kernel.engine.of, device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
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
    let layers = [(128, 64, 224, 7, 2, 3), (16, 64, 256, 3, 1, 1), (128, 64, 224, 11, 4, 2), (128, 32, 299, 3, 2, 0)];
    for (images, rows, side, filter, stride, padding) in layers {
        let of = few_channels_of([images, 3, rows], [side; 2], [filter, stride, padding], Element::Half);
        let Ok(kernel) = Compiled::<FewChannels>::new(device, &of, &[]) else { return };
        print_time(&kernel, images * of.to[0] * of.to[1] * rows * 3 * filter * filter, stream);
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

fn few_channels_engines() -> impl Iterator<Item = FewChannels> {
    few_channels().map(|of| FewChannels::new(Device::Host, &of, &[]).expect("ours"))
}

#[test]
fn some_emulated_few_channels_as_in_loops() {
    let test = "engines::warpgroups::tests::some_emulated_few_channels_as_in_loops";
    as_in_loops(test, 38, few_channels_engines(), |index, _| [1, 3].contains(&index));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_few_channels_as_in_loops() {
    let test = "engines::warpgroups::tests::emulated_few_channels_as_in_loops";
    as_in_loops(test, 38, few_channels_engines(), |_, _| true);
}

#[test]
fn few_channels_compile_for_hopper_without_spills() {
    compile_without_spills(90, few_channels_engines());
}

#[test]
fn few_channels_on_a_gpu_as_on_the_host() {
    on_a_gpu::<FewChannels>(39, few_channels());
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

/// With clusters of these sizes, in turns.
fn gradients(clusters: &[usize]) -> impl Iterator<Item = SameGradient> + use<'_> {
    small_gradients().zip(clusters.iter().cycle()).map(|(of, &cluster)| {
        let tiling = same_gradient::Tiling::of(&of, SHARED, 1, 1).unwrap();
        SameGradient { of, tiling: same_gradient::Tiling { cluster, ..tiling } }
    })
}

fn gradients_as_in_loops(test: &str, has: fn(usize) -> bool) {
    as_in_loops(test, 34, gradients(&[1, 2, 4, 1, 8, 16, 2, 4]), |index, _| has(index));
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
    compile_without_spills(90, gradients(&[1, 2, 4, 8, 16]));
}

#[test]
fn gradients_on_a_gpu_as_on_the_host() {
    let [many, _] = both_ways([64, 64, 128], [14, 14], 3, Element::Half);
    on_a_gpu::<SameGradient>(35, small_gradients().chain([filter_gradient(many)]));
}
