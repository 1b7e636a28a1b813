use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::depthwise::tests::{LAYERS, SIZES, Sizes, convolution};
use crate::engines::engine::Compiled;
use crate::engines::problem::{Computed, Convolution};
use crate::engines::tests::{
    Case, compile_a_share_without_spills, compile_without_spills, emulated_as_in_loops as in_loops,
};
use crate::engines::toeplitz::tests::{OWN as MORE, with_zeros_behind};
use gpu::Element;
use gpu::testing::on_gpu;

/// An axis of one place.
const ONE: [usize; 5] = [1, 1, 1, 0, 1];

/// Rows that are copied two, four and eight numbers at a time, and written in pieces of one number to eight; as many
/// tiles as a block has warps, half and a quarter of these, and each of them with one column more or less; with tiles
/// that begin before the first column, and without; strips of images that are full, that have one more and one less;
/// filters of each number of rows, and of columns up to the widest; fewer rows than the filter has, and a row more than
/// whole steps; paddings of none, larger than the filter, and other than the filter's half; slices; several filters of
/// each channel.
pub const OWN: [Sizes; 24] = [
    ([17, 2, 1], [ONE, [56, 7, 1, 3, 1], [56, 7, 1, 3, 1]]),
    ([16, 1, 1], [ONE, [14, 7, 1, 3, 1], [64, 7, 1, 3, 1]]),
    ([15, 2, 1], [ONE, [15, 7, 1, 3, 1], [48, 7, 1, 3, 1]]),
    ([33, 2, 1], [ONE, [28, 7, 1, 3, 1], [28, 7, 1, 3, 1]]),
    ([31, 1, 2], [ONE, [9, 5, 1, 2, 1], [32, 5, 1, 2, 1]]),
    ([65, 1, 1], [ONE, [14, 7, 1, 3, 1], [14, 7, 1, 3, 1]]),
    ([64, 2, 1], [ONE, [8, 3, 1, 1, 1], [16, 3, 1, 1, 1]]),
    ([1, 1, 1], [ONE, [5, 3, 1, 1, 1], [18, 3, 1, 1, 1]]),
    ([3, 1, 1], [ONE, [6, 1, 1, 0, 1], [24, 9, 1, 4, 1]]),
    ([2, 2, 1], [ONE, [2, 2, 1, 0, 1], [40, 8, 1, 3, 1]]),
    ([5, 1, 1], [ONE, [3, 4, 1, 2, 1], [62, 4, 1, 1, 1]]),
    ([18, 1, 1], [ONE, [4, 6, 1, 3, 1], [60, 1, 1, 0, 1]]),
    ([2, 1, 1], [ONE, [7, 3, 1, 6, 1], [26, 3, 1, 5, 1]]),
    ([4, 2, 2], [[3, 1, 1, 0, 1], [10, 3, 1, 1, 1], [20, 5, 1, 2, 1]]),
    ([11, 2, 1], [[6, 1, 1, 0, 1], [7, 7, 1, 3, 1], [56, 3, 1, 1, 1]]),
    ([70, 1, 1], [ONE, [2, 3, 1, 1, 1], [2, 3, 1, 1, 1]]),
    ([2, 1, 1], [ONE, [20, 5, 1, 0, 1], [8, 7, 1, 0, 1]]),
    ([2, 1, 1], [ONE, [13, 5, 1, 4, 1], [52, 4, 1, 3, 1]]),
    ([2, 1, 1], [ONE, [12, 2, 1, 1, 1], [34, 2, 1, 1, 1]]),
    ([1, 1, 1], [ONE, [25, 7, 1, 0, 1], [58, 7, 1, 6, 1]]),
    ([19, 1, 1], [ONE, [22, 3, 1, 1, 1], [56, 3, 1, 1, 1]]),
    ([2, 1, 1], [ONE, [8, 7, 1, 3, 1], [10, 2, 1, 0, 1]]),
    ([2, 1, 1], [ONE, [8, 5, 1, 2, 1], [44, 6, 1, 1, 1]]),
    ([130, 1, 1], [ONE, [4, 3, 1, 1, 1], [6, 3, 1, 1, 1]]),
];

/// The shared memory of a block alone on an H200 and on an A100.
pub const SHARED: [usize; 2] = [227 << 10, 163 << 10];

/// In as many parts as there are strips, in one, and in two: of few parts, a block takes several strips. Every fifth has more
/// zeros behind the last row and column, of some more than its filter is wide.
fn engines() -> impl Iterator<Item = ToeplitzImages> {
    let cases = OWN.into_iter().chain(MORE).chain(SIZES);
    let cases = cases.flat_map(|sizes| [Direction::Forward, Direction::BackwardData].map(|way| (way, sizes)));
    let cases = cases.zip([Element::Half, Element::Bfloat16, Element::Bfloat16, Element::Half].into_iter().cycle());
    let engines = cases.enumerate().filter_map(|(number, ((direction, sizes), element))| {
        let of = convolution(element, direction, sizes);
        let zeros = if number % 5 == 4 { [0, number % 7, number % 9] } else { [0; 3] };
        let of = ByChannel::of(&with_zeros_behind(of, zeros)).ok()?;
        let is_ours = of.has_one_filter() && is_for_images(Device::Host, &of);
        Some((of, Cut::of(&of, SHARED[number % 2]).filter(|_| is_ours)?))
    });
    engines.zip([usize::MAX, 1, 2].into_iter().cycle()).map(|((of, cut), parts)| {
        let parts = cut.block.strips(&of).min(parts);
        ToeplitzImages { of, cut, parts }
    })
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::toeplitz_images::tests::some_emulated_as_in_loops";
    in_loops(test, 77, engines(), |index, _| index % 7 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::toeplitz_images::tests::emulated_as_in_loops", 77, engines(), |_, _| true);
}

#[test]
fn compiles_for_all_gpus_without_spills() {
    for capability in [80, 100] {
        compile_without_spills(capability, engines().step_by(4));
    }
    compile_a_share_without_spills(3, engines().map(|engine| (90, engine)));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(78);
    for engine in engines() {
        let kernel = Compiled::<ToeplitzImages>::new(device, engine.problem(), &[]).expect("compiled");
        Case::new(*engine.problem(), device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
    }
}

/// Blocks stay within the memory that they may take, and tiles within what they read. All kinds of cuts occur.
#[test]
fn tiles_fit() {
    let mut seen = std::collections::HashSet::new();
    for engine in engines() {
        let ToeplitzImages { of, cut, parts } = engine;
        let [rows, columns] = axes(&of);
        assert!((cut.shared_bytes(&columns, &of) + 1024) * cut.blocks <= SHARED[0] + 1024, "{engine:?}");
        assert!(columns.to + cut.lead <= 8 * cut.block.tiles() && cut.lead.is_multiple_of(2), "{engine:?}");
        assert!(cut.shift < cut.piece && columns.from.is_multiple_of(cut.piece), "{engine:?}");
        let first = columns.before() + (cut.lead + cut.shift) as i32;
        assert!(first % cut.piece as i32 == 0, "{engine:?}");
        assert!(cut.block.steps(rows.to) * cut.block.rows() >= rows.to + rows.places - 1, "{engine:?}");
        assert!((1..=cut.block.strips(&of)).contains(&parts), "{engine:?}");
        seen.extend([("tiles", cut.block.tiles()), ("piece", cut.piece), ("lead", cut.lead), ("stages", cut.stages)]);
        seen.insert(("blocks", cut.blocks));
        seen.insert(("access", Cut::access(&columns)));
    }
    for (what, all) in [
        ("tiles", &[2, 4, 8][..]),
        ("piece", &[2, 4, 8]),
        ("lead", &[0, 2, 4]),
        ("stages", &[2, 3]),
        ("blocks", &[2, 3]),
        ("access", &[1, 2, 4, 8]),
    ] {
        assert!(all.iter().all(|value| seen.contains(&(what, *value))), "{what}: {seen:?}");
    }
}

/// It is chosen for layers of many images, and not where images or channels are few.
#[test]
fn many_images_are_chosen() {
    let is_chosen = |([_, channels, each], axes): Sizes, images| {
        let of = convolution(Element::Bfloat16, Direction::Forward, ([images, channels, each], axes));
        !ToeplitzImages::choices(Device::Host, &ByChannel::of(&of).unwrap(), usize::MAX).is_empty()
    };
    let chosen: Vec<_> = LAYERS.into_iter().filter(|sizes| is_chosen(*sizes, 128)).collect();
    assert!(chosen.contains(&LAYERS[1]) && chosen.contains(&LAYERS[2]) && !chosen.contains(&LAYERS[5]), "{chosen:?}");
    assert!(!is_chosen(LAYERS[1], 1) && !is_chosen(LAYERS[1], 17));
}

#[test]
fn other_convolutions_are_refused() {
    let of = convolution(Element::Half, Direction::Forward, OWN[0]);
    let is_taken = |of: Convolution| ToeplitzImages::new(Device::Host, &ByChannel::of(&of).unwrap(), &[]).is_some();
    assert!(is_taken(of) && is_taken(Convolution { direction: Direction::BackwardData, ..of }));
    let wide = |width, filter| [width, filter, 1, filter / 2, 1];
    let sized = |rows, columns| convolution(Element::Half, Direction::Forward, ([17, 2, 1], [ONE, rows, columns]));
    for other in [
        Convolution { element: Element::Float, ..of },
        Convolution { direction: Direction::BackwardFilter, ..of },
        Convolution { stride: [1, 2, 1], ..of },
        Convolution { dilation: [1, 1, 2], ..of },
        // A sum over several filters of each channel.
        Convolution { direction: Direction::BackwardData, outputs: 2 * of.outputs, ..of },
        sized(wide(56, 9), wide(56, 7)),
        sized(wide(56, 7), wide(56, 11)),
        sized(wide(56, 7), wide(66, 7)),
        sized(wide(7, 7), wide(7, 7)),
        sized(ONE, wide(56, 7)),
    ] {
        assert!(!is_taken(other), "{other:?}");
    }
}
