use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;

use super::*;
use crate::engines::engine::{Compiled, compile};
use crate::engines::tests::{Case, compile_a_share_without_spills, emulated_as_in_loops as in_loops, gpu_for};
use crate::engines::warpgroups::tests::{SHARED, both_ways, small, volumes};
use gpu::Element;
use gpu::testing::on_gpu::Gpu;

/// Several depths, several images in a tile and several tiles in an image, parts of rows' and of depths' tiles, rows
/// that are longer than a tile, small images; volumes.
fn small_of_several_places() -> impl Iterator<Item = Correlation> {
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
    small().filter(|of| of.filter > 1).chain(others).chain(volumes())
}

/// The engines with narrow and with wide products, as far as they fit. None computes a 1×1 filter.
fn with_widths(of: Correlation, shared: usize) -> impl Iterator<Item = ShiftedConvolution> {
    let widths = [COLUMNS, WIDE].into_iter().filter(move |_| of.filter > 1);
    let tilings = widths.filter_map(move |columns| Tiling::with(&of, shared, columns));
    tilings.map(move |tiling| ShiftedConvolution { of, tiling })
}

pub fn on_a_gpu(of: Correlation) -> impl Iterator<Item = Compiled<ShiftedConvolution>> {
    let device = Device::Cuda;
    let engines = with_widths(of, device.shared_bytes(device.ordinal()).unwrap());
    engines.map(move |engine| {
        let kernels = compile(device, &engine).expect("compiled");
        engine.allow(device, &kernels).expect("allowed");
        Compiled { engine, kernels: Arc::new(Some(kernels)) }
    })
}

fn as_in_loops(test: &str, has: fn(usize) -> bool) {
    let ways = [(3, COLUMNS), (4, WIDE), (5, COLUMNS), (3, WIDE)];
    let engines = small_of_several_places().zip(ways.into_iter().cycle()).filter_map(|(of, (stages, columns))| {
        let mut tiling = Tiling::with(&of, SHARED, columns)?;
        tiling.stages = stages;
        Some(ShiftedConvolution { of, tiling })
    });
    in_loops(test, 36, engines, |index, _| has(index));
}

#[test]
fn some_emulated_as_in_loops() {
    // Narrow products and wide ones, and two slices of a volume at once.
    let has = |index| [0, 5, 20].contains(&index);
    as_in_loops("engines::shifted::tests::some_emulated_as_in_loops", has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    as_in_loops("engines::shifted::tests::emulated_as_in_loops", |_| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    let engines = small_of_several_places().flat_map(|of| with_widths(of, SHARED));
    compile_a_share_without_spills(11, engines.map(|engine| (90, engine)));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &gpu_for::<ShiftedConvolution>(&small_of_several_places().next().unwrap()) else {
        return;
    };
    let mut random = SmallRng::seed_from_u64(37);
    for kernel in small_of_several_places().flat_map(on_a_gpu) {
        Case::new(kernel.engine.of, device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
    }
}

#[test]
fn products_are_wide_where_that_is_faster() {
    let columns = |sizes, side| {
        let [of, _] = both_ways(sizes, [side; 2], 3, Element::Half);
        Tiling::of(&of, SHARED, 132).unwrap().product_columns
    };
    // Pairs of blocks with one depth, several depths, no room for pairs, and fewer blocks than multiprocessors.
    assert_eq!(columns([128, 64, 64], 56), COLUMNS);
    assert_eq!(columns([128, 256, 256], 14), WIDE);
    assert_eq!(columns([64, 64, 64], 224), WIDE);
    assert_eq!(columns([1, 512, 512], 14), COLUMNS);
}
