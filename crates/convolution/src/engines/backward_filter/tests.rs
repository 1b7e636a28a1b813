mod on_a_gpu;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::engine::Compiled;
use crate::engines::tests::{
    Case, Mutation, compile_a_share_without_spills, emulated, emulated_as_in_loops, errors_of, mutants_disagree,
    print_time,
};
use gpu::Element;
use gpu::testing::emulated::is_child;

/// A gradient for these images, k and c; for x's size, and the filter's, with a stride and padding for both axes.
fn gradient(channels: [usize; 3], x: [usize; 2], filter: [usize; 2], stride: usize, padding: usize) -> GroupedGradient {
    let axis = |[rows, columns]: [usize; 2], slices| [slices, rows, columns];
    let axes = [axis(filter, 1), axis([stride; 2], 1), axis([padding; 2], 0), [1; 3]];
    of_axes(channels, axis(x, 1), axes)
}

/// Likewise of volumes, with filters, strides, paddings and dilations for each axis.
fn of_axes(
    [images, k, c]: [usize; 3],
    x: [usize; 3],
    [filter, stride, padding, dilation]: [[usize; 3]; 4],
) -> GroupedGradient {
    let reach = |axis: usize| dilation[axis] * (filter[axis] - 1);
    let dy = [0, 1, 2].map(|axis| (x[axis] + 2 * padding[axis] - reach(axis) - 1) / stride[axis] + 1);
    let (element, is_exact, groups) = (Element::Float, false, 1);
    GroupedGradient { element, is_exact, images, groups, k, c, x, dy, filter, stride, padding, dilation }
}

/// The same in groups, each with these channels.
fn in_groups(groups: usize, of: GroupedGradient) -> GroupedGradient {
    GroupedGradient { groups, ..of }
}

const WHOLE: Parts = Parts::InWorkspace(1);

fn in_parts(of: &GroupedGradient, parts: Parts) -> Option<BackwardFilterGemm> {
    BackwardFilterGemm::new(Device::Host, of, &parts.knobs())
}

/// The same problem in every type, and with exact float products.
fn in_all_types(of: GroupedGradient) -> [GroupedGradient; 4] {
    let in_type = |element| GroupedGradient { element, ..of };
    let others = [Element::Half, Element::Bfloat16].map(in_type);
    [of, GroupedGradient { is_exact: true, ..of }, others[0], others[1]]
}

#[test]
fn tiles_fit_and_waste_little() {
    const SHARED: usize = 232_448;
    let sides = [(224, 1), (112, 1), (56, 1), (56, 2), (28, 1), (14, 1), (256, 1), (64, 1)];
    let shapes = sides.map(|(side, stride)| gradient([64, 64, 64], [side; 2], [3, 3], stride, 1));
    for of in shapes.into_iter().flat_map(in_all_types) {
        for parts in Parts::in_clusters(&of, 16).chain([WHOLE]) {
            let tiling = Tiling::of(&of, parts, SHARED).unwrap();
            assert!(tiling.shared_bytes(&of) <= SHARED);
            let pixels = tiling.tiles(&of) * tiling.rows * tiling.columns;
            assert!(pixels * 7 <= of.images * of.dy.iter().product::<usize>() * 8, "{tiling:?} of {of:?}");
        }
    }
    // No tiling fits in this little shared memory.
    assert_eq!(Tiling::of(&gradient([1, 1, 1], [8; 2], [3, 3], 1, 1), WHOLE, 10_000), None);
}

#[test]
fn others_are_not_for_us() {
    let of = gradient([2, 3, 10], [9, 9], [3, 3], 1, 1);
    assert!(of.is_for_us() && gradient([2, 3, 3], [9, 9], [7, 7], 1, 3).is_for_us());
    // 1 × 1 filters and odd rows in half are supported but not fast.
    let one_place = |sizes| gradient(sizes, [9, 9], [1, 1], 1, 0);
    assert!([[2, 32, 33], [2, 33, 32]].iter().all(|sizes| one_place(*sizes).is_fast()));
    assert!(one_place([2, 33, 33]).is_for_us() && !one_place([2, 33, 33]).is_fast());
    let half = GroupedGradient { element: Element::Half, ..of };
    assert!(of.is_fast() && half.is_for_us() && !half.is_fast());
    assert!(GroupedGradient { is_exact: true, ..one_place([2, 33, 33]) }.is_fast());
    for other in [
        in_groups(2, GroupedGradient { k: 1, ..of }),
        in_groups(2, GroupedGradient { c: 1, ..of }),
        in_groups(2, GroupedGradient { c: 0, ..of }),
        GroupedGradient { images: 0, ..of },
        GroupedGradient { x: [1, usize::MAX, 2], ..of },
        GroupedGradient { images: 1 << 20, dy: [1 << 20, 1, 1], ..of },
        GroupedGradient { stride: [1, 0, 1], ..of },
        GroupedGradient { stride: [5, 1, 1], ..of },
        GroupedGradient { stride: [1, 1, 3], ..of },
        GroupedGradient { filter: [33, 1, 1], ..of },
        GroupedGradient { filter: [1, 3, 6], k: 3, c: 10, ..of },
        GroupedGradient { dilation: [0, 1, 1], ..of },
        GroupedGradient { dilation: [1, 257, 1], ..of },
        GroupedGradient { dilation: [1, 1, 4], padding: [0; 3], ..of },
        GroupedGradient { is_exact: true, dilation: [1, 1, 2], ..of },
        // Places that lie apart, of few channels: seven columns of a volume, and of a filter with many rows.
        of_axes([2, 3, 1], [3, 9, 9], [[3, 3, 7], [1; 3], [0; 3], [1; 3]]),
        of_axes([2, 3, 1], [1, 9, 9], [[1, 8, 7], [1; 3], [0; 3], [1; 3]]),
        GroupedGradient { c: usize::MAX, ..of },
        GroupedGradient { k: 1 << 20, c: 1 << 20, ..of },
        gradient([2, 3, 10], [9, 9], [7, 7], 1, 1),
        GroupedGradient { filter: [1, 1, 33], padding: [0; 3], ..gradient([2, 16, 16], [1, 40], [1, 3], 1, 0) },
        gradient([2, 3, 2], [9, 9], [9, 9], 1, 1),
        gradient([2, 3, 10], [9, 9], [3, 3], 1, 3),
        gradient([2, 3, 10], [9, 9], [3, 3], 3, 1),
        gradient([2, 3, 10], [9, 9], [3, 3], 4, 1),
        gradient([2, 3, 10], [32, 32], [3, 3], 16, 1),
    ] {
        assert!(!other.is_for_us(), "{other:?}");
        assert_eq!(BackwardFilterGemm::best_parts(Device::Host, &other, usize::MAX), []);
        assert!(in_parts(&other, WHOLE).is_none());
    }
}

#[test]
fn a_limit_is_kept() {
    let of = gradient([32, 64, 64], [56, 56], [3, 3], 1, 1);
    let bytes = of.elements() * size_of::<f32>();
    for limit in [0, bytes, 2 * bytes, 5 * bytes + 1, 33 * bytes, usize::MAX] {
        let best = BackwardFilterGemm::best_parts(Device::Host, &of, limit);
        for parts in &best {
            let workspace = in_parts(&of, *parts).unwrap().workspace();
            assert!(workspace <= limit, "{parts:?} in {limit} bytes");
        }
        // Divisions in smaller clusters, and without clusters, follow for devices with less support.
        let clusters: Vec<_> = best.iter().map(|parts| parts.cluster()).collect();
        assert_eq!(clusters, if limit < 33 * bytes { &[16, 8, 1][..] } else { &[1] }, "{best:?} in {limit} bytes");
    }
    // A sum with too many terms is divided into more parts, or starts anew after some tiles.
    let long = gradient([64, 64, 64], [224, 224], [3, 3], 1, 1);
    let without = BackwardFilterGemm::best_parts(Device::Host, &long, 0);
    assert!(without.iter().all(|parts| parts.cluster() > 1), "{without:?}");
    let tiling = BackwardFilterGemm::tiling(Device::Host, &long, without[0]).unwrap();
    let pixels = tiling.summed_tiles.map(|tiles| tiles * tiling.rows * tiling.columns);
    assert!(pixels.is_some_and(|pixels| (1 << 16..=1 << 17).contains(&pixels)), "{tiling:?}");
    let best = BackwardFilterGemm::best_parts(Device::Host, &long, usize::MAX);
    assert!(best[0].count() >= 25, "{best:?}");
    // Parts that do not come from `best_parts`.
    let in_cluster = |blocks, k_tile| Parts::InCluster { blocks, k_tile };
    assert!(in_parts(&of, in_cluster(16, 16)).is_some());
    let wrong = [in_cluster(3, 16), in_cluster(1, 16), in_cluster(32, 16), in_cluster(8, 8), in_cluster(8, 128)];
    let none = [0, usize::MAX].map(Parts::InWorkspace);
    for parts in wrong.into_iter().chain(none) {
        assert!(in_parts(&of, parts).is_none(), "{parts:?}");
    }
}

/// Without workspace, few blocks share the pixels in clusters. Many blocks need no sharing.
#[test]
fn clusters_share_the_pixels_of_few_blocks() {
    let best = |k, c| BackwardFilterGemm::best_parts(Device::Host, &gradient([32, k, c], [14, 14], [3, 3], 1, 1), 0);
    let few = best(64, 64);
    assert!(matches!(few[0], Parts::InCluster { blocks: 16, k_tile: ..64 }), "{few:?}");
    assert_eq!(best(512, 512), [WHOLE]);
}

/// Every copy width, tiles that span rows and exceed images, partial channel tiles, both strides, several paddings, in
/// every type.
fn small() -> impl Iterator<Item = GroupedGradient> {
    let shapes = [
        gradient([2, 5, 9], [12, 12], [3, 3], 1, 1),
        gradient([1, 70, 66], [8, 36], [3, 3], 1, 1),
        gradient([2, 3, 9], [9, 28], [3, 3], 1, 1),
        gradient([1, 4, 9], [16, 14], [3, 3], 1, 1),
        gradient([2, 2, 10], [7, 7], [3, 3], 1, 1),
        gradient([1, 3, 9], [18, 34], [3, 3], 1, 0),
        gradient([1, 3, 11], [28, 28], [3, 3], 2, 1),
        gradient([1, 2, 13], [16, 32], [2, 2], 2, 0),
        gradient([1, 3, 9], [10, 13], [3, 2], 1, 1),
        gradient([2, 3, 9], [12, 16], [3, 3], 1, 2),
        gradient([1, 2, 13], [11, 18], [2, 3], 1, 1),
        gradient([1, 3, 9], [13, 22], [3, 2], 2, 1),
        gradient([1, 2, 9], [9, 21], [3, 3], 2, 0),
        // Filters whose rows are divided among blocks.
        gradient([1, 66, 65], [12, 20], [5, 5], 1, 2),
        gradient([1, 3, 9], [14, 32], [4, 4], 1, 1),
        gradient([1, 3, 70], [17, 28], [5, 5], 2, 2),
        gradient([1, 34, 9], [9, 10], [5, 3], 1, 1),
        // 1 × 1 filters.
        gradient([2, 2, 66], [10, 16], [1, 1], 1, 0),
        gradient([1, 70, 30], [9, 20], [1, 1], 2, 0),
        gradient([2, 66, 3], [12, 32], [1, 1], 1, 0),
        gradient([1, 5, 24], [18, 36], [1, 1], 2, 0),
        // 1 × 1 filters that suit exact products only, with few k and many, whose tiles are alike.
        gradient([2, 64, 70], [8, 8], [1, 1], 1, 0),
        gradient([2, 130, 40], [8, 8], [1, 1], 1, 0),
        gradient([1, 66, 65], [9, 12], [1, 1], 2, 0),
        // Few channels.
        gradient([2, 66, 3], [40, 44], [7, 7], 2, 3),
        gradient([2, 3, 3], [12, 32], [3, 3], 1, 1),
        gradient([1, 5, 1], [14, 20], [7, 3], 1, 1),
        gradient([1, 3, 8], [18, 24], [3, 3], 2, 1),
        gradient([1, 2, 3], [9, 28], [5, 5], 1, 2),
        gradient([3, 2, 3], [10, 9], [3, 7], 1, 2),
    ];
    shapes.into_iter().flat_map(in_all_types)
}

/// Groups of every kind: several in a warp's eight c, one in several warps, those that divide no tile; joined as far as
/// sums fit into registers, or alone; the last ones by themselves.
fn grouped() -> impl Iterator<Item = GroupedGradient> + Clone {
    let shapes = [
        in_groups(20, gradient([2, 4, 4], [12, 12], [3, 3], 1, 1)),
        in_groups(9, gradient([1, 8, 8], [8, 36], [3, 3], 1, 1)),
        in_groups(5, gradient([2, 16, 16], [9, 28], [3, 3], 1, 1)),
        in_groups(3, gradient([1, 32, 32], [7, 14], [3, 3], 1, 1)),
        in_groups(5, gradient([1, 24, 24], [12, 16], [3, 3], 2, 1)),
        in_groups(3, gradient([1, 12, 20], [16, 14], [5, 5], 1, 2)),
        in_groups(17, gradient([2, 2, 6], [12, 12], [1, 1], 1, 0)),
        in_groups(2, gradient([1, 70, 66], [8, 12], [3, 3], 1, 1)),
        in_groups(3, gradient([1, 40, 4], [8, 16], [3, 3], 1, 0)),
        in_groups(4, gradient([1, 3, 40], [10, 12], [2, 2], 2, 0)),
        in_groups(2, gradient([1, 4, 4], [9, 12], [3, 3], 1, 1)),
        in_groups(2, gradient([1, 30, 130], [8, 8], [1, 1], 1, 0)),
    ];
    shapes.into_iter().flat_map(in_all_types)
}

/// Volumes, with slices in front, behind and between; axes that differ; dilation; filters of two and three places.
fn general() -> impl Iterator<Item = GroupedGradient> + Clone {
    let one = [1; 3];
    let shapes = [
        of_axes([1, 20, 24], [3, 8, 8], [[3; 3], one, one, one]),
        of_axes([2, 34, 9], [4, 7, 8], [[3; 3], [2; 3], one, one]),
        of_axes([2, 5, 10], [5, 6, 12], [[2, 1, 3], one, [0, 0, 1], one]),
        of_axes([1, 3, 2], [4, 12, 16], [[3; 3], one, one, one]),
        in_groups(3, of_axes([1, 8, 8], [4, 6, 8], [[3; 3], one, one, one])),
        of_axes([1, 5, 12], [7, 8, 8], [[3, 2, 2], [1, 2, 2], [4, 0, 0], [3, 1, 1]]),
        of_axes([2, 17, 10], [6, 5, 8], [[3, 1, 1], one, [1, 0, 0], one]),
        of_axes([1, 66, 12], [2, 6, 8], [one, [2, 1, 1], [0; 3], one]),
        of_axes([2, 9, 12], [1, 12, 16], [[1, 3, 3], one, [0, 2, 2], [1, 2, 2]]),
        of_axes([1, 9, 40], [1, 20, 16], [[1, 3, 3], one, [0, 12, 2], [1, 12, 2]]),
        of_axes([2, 5, 3], [1, 18, 16], [[1, 3, 3], [1, 2, 1], [0, 2, 2], [1, 3, 2]]),
        of_axes([1, 9, 70], [1, 9, 12], [[1, 1, 3], one, [0, 0, 1], one]),
        of_axes([2, 20, 30], [1, 12, 8], [[1, 3, 1], one, [0, 1, 0], one]),
        of_axes([2, 9, 12], [1, 12, 8], [[1, 7, 1], [1, 4, 2], [0, 3, 0], one]),
        of_axes([1, 6, 20], [1, 8, 16], [[1, 2, 1], [1, 3, 1], [0; 3], one]),
        of_axes([2, 9, 24], [1, 1, 48], [[1, 1, 5], one, [0, 0, 2], one]),
    ];
    shapes.into_iter().flat_map(in_all_types).filter(GroupedGradient::is_for_us)
}

/// Places that lie apart, or are many, in a filter's row: parts that begin aligned or anywhere, as many as a block has, more
/// and fewer; beside several rows and slices, with strides, in groups, of more channels than a tile.
fn separate() -> impl Iterator<Item = GroupedGradient> + Clone {
    let one = [1; 3];
    let of_a_row = |channels, width, places, stride, padding, dilation| {
        let axes = [[1, 1, places], [1, 1, stride], [0, 0, padding], [1, 1, dilation]];
        of_axes(channels, [1, 1, width], axes)
    };
    let shapes = [
        of_a_row([2, 17, 9], 300, 5, 1, 128, 64),
        of_a_row([1, 70, 66], 96, 3, 1, 8, 8),
        of_a_row([2, 9, 12], 45, 3, 1, 7, 7),
        of_a_row([1, 8, 8], 1, 3, 1, 9, 9),
        of_a_row([3, 10, 20], 50, 7, 1, 3, 1),
        of_a_row([1, 33, 40], 64, 8, 1, 5, 1),
        of_a_row([1, 20, 16], 61, 9, 1, 4, 1),
        of_a_row([2, 16, 24], 40, 25, 1, 12, 1),
        of_a_row([1, 16, 16], 70, 11, 2, 15, 3),
        of_a_row([1, 12, 9], 64, 4, 2, 0, 5),
        of_axes([1, 12, 16], [1, 14, 20], [[1, 7, 7], one, [0, 3, 3], one]),
        of_axes([2, 9, 24], [1, 20, 33], [[1, 3, 3], one, [0, 6, 6], [1, 6, 6]]),
        of_axes([1, 8, 8], [1, 16, 18], [[1, 3, 5], [1, 2, 2], [0, 1, 4], [1, 1, 3]]),
        of_axes([1, 9, 10], [4, 6, 16], [[2, 3, 3], one, [1, 2, 4], [2, 2, 4]]),
        of_axes([1, 8, 8], [3, 6, 9], [[3, 1, 7], one, [1, 0, 3], one]),
        in_groups(9, of_a_row([2, 4, 4], 40, 5, 1, 8, 4)),
        in_groups(3, of_a_row([1, 24, 16], 48, 7, 1, 36, 12)),
        in_groups(5, of_axes([1, 8, 8], [1, 9, 16], [[1, 7, 7], one, [0, 3, 3], one])),
    ];
    shapes.into_iter().flat_map(in_all_types).filter(GroupedGradient::is_for_us)
}

/// Every shape, in one type or two, in shares as long as possible, and in shares shorter than the tiles copied ahead.
/// The shared memory is that of large GPUs, for three tiles, and of many smaller ones. `has` gets a shape's number.
fn as_in_loops(test: &str, has: impl Fn(usize, &GroupedGradient) -> bool) {
    in_parts_as_in_loops(test, small(), &[1, 8], has);
}

/// Likewise of other shapes, in as many parts as `counts` says.
fn in_parts_as_in_loops(
    test: &str,
    shapes: impl Iterator<Item = GroupedGradient>,
    counts: &[usize],
    has: impl Fn(usize, &GroupedGradient) -> bool,
) {
    let engines = shapes.step_by(3).enumerate().flat_map(|(index, of)| {
        let shared = if index % 2 == 0 { 227 << 10 } else { 99 << 10 };
        let tiling = Tiling::of(&of, WHOLE, shared).unwrap();
        let tiles = tiling.tiles(&of);
        let in_parts = move |count: &usize| Parts::InWorkspace(tiles.min(*count));
        counts.iter().map(move |count| BackwardFilterGemm::of_tiling(of, in_parts(count), tiling).unwrap())
    });
    emulated_as_in_loops(test, 11, engines, |index, engine| has(index / counts.len(), &engine.of));
}

#[test]
fn some_emulated_as_in_loops() {
    as_in_loops("engines::backward_filter::tests::some_emulated_as_in_loops", |index, _| index % 17 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_in_tf32_as_in_loops() {
    let has = |_, of: &GroupedGradient| of.element == Element::Float && !of.is_exact;
    as_in_loops("engines::backward_filter::tests::emulated_in_tf32_as_in_loops", has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_in_exact_floats_as_in_loops() {
    as_in_loops("engines::backward_filter::tests::emulated_in_exact_floats_as_in_loops", |_, of| of.is_exact);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_in_half_as_in_loops() {
    let has = |_, of: &GroupedGradient| of.element == Element::Half && of.filter[1] < 5;
    as_in_loops("engines::backward_filter::tests::emulated_in_half_as_in_loops", has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_with_large_filters_in_half_as_in_loops() {
    let has = |_, of: &GroupedGradient| of.element == Element::Half && of.filter[1] >= 5;
    as_in_loops("engines::backward_filter::tests::emulated_with_large_filters_in_half_as_in_loops", has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_in_bfloat16_as_in_loops() {
    let has = |_, of: &GroupedGradient| of.element == Element::Bfloat16;
    as_in_loops("engines::backward_filter::tests::emulated_in_bfloat16_as_in_loops", has);
}

#[test]
fn some_groups_emulated_as_in_loops() {
    let has = |index, _: &GroupedGradient| index % 8 == 0;
    in_parts_as_in_loops("engines::backward_filter::tests::some_groups_emulated_as_in_loops", grouped(), &[1, 3], has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn groups_emulated_as_in_loops() {
    in_parts_as_in_loops("engines::backward_filter::tests::groups_emulated_as_in_loops", grouped(), &[1, 3], |_, _| {
        true
    });
}

#[test]
fn some_volumes_emulated_as_in_loops() {
    let has = |index, _: &GroupedGradient| index % 6 == 0;
    in_parts_as_in_loops("engines::backward_filter::tests::some_volumes_emulated_as_in_loops", general(), &[1, 3], has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn volumes_emulated_as_in_loops() {
    in_parts_as_in_loops(
        "engines::backward_filter::tests::volumes_emulated_as_in_loops",
        general(),
        &[1, 3],
        |_, _| true,
    );
}

#[test]
fn some_separate_columns_emulated_as_in_loops() {
    let test = "engines::backward_filter::tests::some_separate_columns_emulated_as_in_loops";
    in_parts_as_in_loops(test, separate(), &[1, 3], |index, _| index % 7 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn separate_columns_emulated_as_in_loops() {
    let test = "engines::backward_filter::tests::separate_columns_emulated_as_in_loops";
    in_parts_as_in_loops(test, separate(), &[1, 3], |_, _| true);
}

/// Each place reads its own part of x, and places behind the last one are left out.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_mutants_of_separate_columns_disagree() {
    let halves = separate().filter(|of| of.element == Element::Half && of.filter[2] % 8 != 0);
    let engines: Vec<_> = halves.step_by(5).take(3).map(|of| in_parts(&of, WHOLE).unwrap()).collect();
    let mutations = [
        Mutation::Errs(" - PADDING_COLUMNS - first_neighbour(part));", " - PADDING_COLUMNS);"),
        Mutation::Errs("if (s >= FILTER_COLUMNS) return;", ""),
        Mutation::Errs("in_group % of_row * BLOCK_COLUMNS,", "0,"),
    ];
    let test = "engines::backward_filter::tests::emulated_mutants_of_separate_columns_disagree";
    mutants_disagree(test, &engines, &mutations);
}

/// Clusters of all sizes, in every type and every division among warps. Some blocks receive quads from all others and
/// some receive none, in one turn or several.
fn in_clusters() -> Vec<(GroupedGradient, Parts)> {
    let half = |of| GroupedGradient { element: Element::Half, ..of };
    let bfloat16 = |of| GroupedGradient { element: Element::Bfloat16, ..of };
    let exact = |of| GroupedGradient { is_exact: true, ..of };
    let cases = [
        (half(gradient([17, 20, 9], [8, 12], [3, 3], 1, 1)), 16, 16),
        (half(gradient([5, 66, 65], [8, 12], [3, 3], 1, 1)), 4, 64),
        (bfloat16(gradient([9, 34, 9], [9, 9], [3, 3], 2, 1)), 8, 32),
        (gradient([9, 20, 66], [8, 12], [3, 3], 1, 1), 2, 16),
        (exact(gradient([8, 33, 9], [8, 12], [3, 3], 1, 1)), 8, 32),
        (exact(gradient([8, 130, 40], [8, 8], [1, 1], 1, 0)), 4, 128),
        (exact(gradient([17, 66, 65], [8, 8], [1, 1], 2, 0)), 16, 64),
        (half(gradient([12, 20, 3], [40, 44], [7, 7], 2, 3)), 2, 16),
        (exact(gradient([5, 34, 3], [12, 32], [3, 3], 1, 1)), 4, 32),
        (gradient([3, 20, 65], [8, 12], [5, 5], 1, 2), 2, 16),
        (half(gradient([3, 66, 3], [12, 32], [1, 1], 1, 0)), 2, 64),
        (half(gradient([5, 34, 40], [1, 64], [1, 7], 1, 3)), 4, 32),
    ];
    cases.map(|(of, blocks, k_tile)| (of, Parts::InCluster { blocks, k_tile })).to_vec()
}

/// The same for clusters. Sums start anew as early as possible.
fn in_clusters_as_in_loops(test: &str, has: fn(usize) -> bool) {
    let engines = in_clusters().into_iter().map(|(of, parts)| {
        let tiling = Tiling::of(&of, parts, 227 << 10).unwrap();
        let has_several = tiling.has_totals() && tiling.tiles(&of) > 4 * parts.count();
        let tiling = Tiling { summed_tiles: has_several.then_some(2), ..tiling };
        BackwardFilterGemm::of_tiling(of, parts, tiling).unwrap()
    });
    assert!(engines.clone().filter(|engine| engine.tiling.summed_tiles.is_some()).count() >= 2);
    emulated_as_in_loops(test, 16, engines, |index, _| has(index));
}

#[test]
fn some_emulated_in_clusters_as_in_loops() {
    let has = |index| index == 8;
    in_clusters_as_in_loops("engines::backward_filter::tests::some_emulated_in_clusters_as_in_loops", has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_in_clusters_as_in_loops() {
    in_clusters_as_in_loops("engines::backward_filter::tests::emulated_in_clusters_as_in_loops", |_| true);
}

/// TF32 products lose only what rounding must, without a bias towards zero; truncating two factors would lose 7e-4 on
/// average. Exact products lose only float's rounding.
#[test]
fn emulated_floats_are_rounded_without_a_bias() {
    if !is_child("engines::backward_filter::tests::emulated_floats_are_rounded_without_a_bias") {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    for (is_exact, most, most_bias) in [(false, 1e-4, 5e-5), (true, 2e-7, 3e-8)] {
        let of = GroupedGradient { is_exact, ..gradient([2, 3, 9], [16, 16], [3, 3], 1, 1) };
        let tiling = Tiling::of(&of, WHOLE, 227 << 10).unwrap();
        let Some(kernel) = emulated(BackwardFilterGemm::of_tiling(of, WHOLE, tiling).unwrap()) else { return };
        let (error, bias) = errors_of(&kernel, 0.5, device, stream, &mut SmallRng::seed_from_u64(13));
        assert!(error < most && bias.abs() < most_bias, "{of:?}: {error:.1e}, of which {bias:.1e} is a bias");
    }
}

/// Compiles for all GPUs with their shared memory. Nothing spills for the shapes of common networks.
#[test]
fn compiles_for_all_gpus_without_spills() {
    let shapes = [
        ([64, 64], [3, 3], 1, 1),
        ([28, 28], [3, 3], 1, 1),
        ([56, 56], [3, 3], 2, 1),
        ([64, 64], [2, 2], 2, 0),
        ([27, 27], [5, 5], 1, 2),
        ([28, 28], [3, 5], 1, 1),
    ];
    let shapes = shapes.map(|(x, filter, stride, padding)| gradient([64, 64, 64], x, filter, stride, padding));
    let few = [gradient([64, 64, 3], [224, 224], [7, 7], 2, 3), gradient([64, 64, 3], [224, 224], [3, 3], 1, 1)];
    let one_place = gradient([16, 2, 64], [256, 256], [1, 1], 1, 0);
    let exact = [(56, 1), (56, 2), (7, 1)].map(|(side, stride)| gradient([64, 128, 64], [side; 2], [1, 1], stride, 0));
    let exact = exact.map(|of| GroupedGradient { is_exact: true, ..of });
    let all = shapes.into_iter().chain(few).chain([one_place]).flat_map(in_all_types).chain(exact);
    // Every nineteenth has every type.
    let all = all.chain(grouped().chain(general()).step_by(19)).chain(separate().step_by(7));
    let gpus = [(80, 163), (89, 99), (90, 227), (100, 227)];
    let engines = gpus.into_iter().flat_map(|(capability, kibibytes)| {
        all.clone().flat_map(move |of| {
            // The smallest clusters: each block has the most sums left to add.
            let in_clusters = Parts::in_clusters(&of, 2).filter(move |_| capability == 90);
            in_clusters.chain([WHOLE]).map(move |parts| {
                let tiling = Tiling::of(&of, parts, kibibytes << 10).unwrap();
                let tiling = Tiling { summed_tiles: tiling.has_totals().then_some(500), ..tiling };
                (capability, BackwardFilterGemm { of, parts, tiling })
            })
        })
    });
    compile_a_share_without_spills(5, engines);
}
