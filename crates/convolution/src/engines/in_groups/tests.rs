use super::*;
use crate::engines::engine::Compiled;
use crate::engines::problem::{Computed, Convolution};
use crate::engines::tests::{
    Mutation, compile_a_share_without_spills, emulated_as_in_loops, mutants_disagree,
    on_a_gpu_as_on_the_host as on_a_gpu, print_time,
};
use cudnn::convolution::Direction;
use gpu::testing::on_gpu;

const SHARED: usize = 227 << 10;

/// A convolution with these images, groups, and inputs and outputs of each; with x's size, and filters, strides and
/// paddings for rows and columns.
fn convolution([images, groups, inputs, outputs]: [usize; 4], x: [usize; 2], axes: [[usize; 2]; 3]) -> Convolution {
    let [filter, stride, padding] = axes;
    let y = [0, 1].map(|axis| (x[axis] + 2 * padding[axis] - filter[axis]) / stride[axis] + 1);
    let with = |first: usize, [rows, columns]: [usize; 2]| [first, rows, columns];
    Convolution {
        element: Element::Half,
        is_exact: false,
        direction: Direction::Forward,
        images,
        inputs: groups * inputs,
        outputs: groups * outputs,
        groups,
        x: with(1, x),
        y: with(1, y),
        filter: with(1, filter),
        stride: with(1, stride),
        padding: with(0, padding),
        dilation: [1; 3],
    }
}

/// Convolutions and input gradients, in half and bfloat16 in turns, that the engine computes.
fn both_ways(all: impl IntoIterator<Item = Convolution>) -> impl Iterator<Item = GroupedCorrelation> {
    let ways = [Direction::Forward, Direction::BackwardData];
    let elements = [Element::Half, Element::Bfloat16, Element::Bfloat16, Element::Half].into_iter().cycle();
    let all = all.into_iter().flat_map(move |of| ways.map(|direction| Convolution { direction, ..of })).zip(elements);
    let of = all.filter_map(|(of, element)| GroupedCorrelation::of(&Convolution { element, ..of }).ok());
    of.filter(|of| of.is_for_us() && is_ours(of))
}

/// Groups of each size, joined or not, the last of them alone, with as many inputs as outputs or not; one pixel, odd and
/// even widths, of each access; one row and several in a tile, and images that are no whole tiles; filters that are no
/// squares; strides that are alike and not, and larger than the filter; no padding, and as much as the filter reaches.
fn small() -> impl Iterator<Item = GroupedCorrelation> {
    let [three, one, none] = [[3; 2], [1; 2], [0; 2]];
    both_ways([
        convolution([2, 8, 4, 4], [12, 12], [three, one, one]),
        convolution([1, 7, 4, 4], [9, 11], [three, one, one]),
        convolution([3, 3, 8, 8], [7, 7], [three, one, one]),
        convolution([2, 2, 16, 16], [14, 14], [three, one, one]),
        convolution([1, 2, 32, 32], [7, 7], [three, one, one]),
        convolution([2, 2, 32, 32], [8, 6], [three, [2; 2], one]),
        convolution([1, 3, 24, 24], [5, 10], [three, one, one]),
        convolution([1, 4, 3, 5], [6, 9], [three, one, none]),
        convolution([2, 5, 2, 6], [8, 8], [three, [2; 2], one]),
        convolution([1, 3, 12, 20], [9, 4], [[1, 5], one, [0, 2]]),
        convolution([1, 2, 20, 9], [6, 8], [[3, 2], one, [2, 1]]),
        convolution([2, 9, 8, 8], [12, 16], [three, [2; 2], one]),
        convolution([1, 3, 8, 8], [13, 15], [three, [2; 2], one]),
        convolution([1, 5, 4, 4], [11, 14], [three, [1, 2], one]),
        convolution([1, 2, 16, 16], [10, 9], [three, [2, 1], none]),
        convolution([1, 2, 16, 16], [17, 13], [three, [3, 4], one]),
        convolution([1, 3, 8, 8], [13, 12], [three, [3, 2], one]),
        convolution([2, 4, 8, 8], [9, 12], [one, [2; 2], none]),
        convolution([1, 2, 12, 12], [9, 12], [[2; 2], [2; 2], none]),
        convolution([1, 4, 8, 8], [1, 1], [three, one, one]),
        convolution([1, 4, 8, 8], [1, 70], [[1, 9], one, [0, 4]]),
        convolution([1, 2, 8, 8], [40, 3], [[4, 2], one, [3, 1]]),
        convolution([1, 4, 4, 4], [30, 56], [three, one, one]),
        convolution([1, 2, 8, 8], [56, 28], [three, [2; 2], one]),
    ])
}

/// Tiles as a GPU of this shared memory has them, or of fewer rows; as many parts as for a GPU, one, and two: a block then
/// goes through several tiles, which reuse its shared memory.
fn engines() -> impl Iterator<Item = InGroups> {
    small().zip([usize::MAX, 1, 3].into_iter().cycle()).enumerate().map(|(index, (of, most_rows))| {
        let rows = InGroups::rows(&of, SHARED).unwrap().min(most_rows);
        let engine = InGroups::of_rows(of, rows, 132);
        InGroups { parts: engine.parts.min([usize::MAX, 1, 2][index % 3]), ..engine }
    })
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::in_groups::tests::some_emulated_as_in_loops";
    emulated_as_in_loops(test, 81, engines(), |index, _| index % 6 == 1);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops_all() {
    emulated_as_in_loops("engines::in_groups::tests::emulated_as_in_loops_all", 81, engines(), |_, _| true);
}

/// Barriers, zeros beside images and between groups, and the results of a cell are all needed.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_mutants_disagree() {
    let in_turns = engines().filter(|engine| engine.parts < 3 && engine.of.images > 1).step_by(2).take(4);
    let strided = engines().filter(|engine| engine.of.is_gradient && engine.of.stride != [1; 3]).take(1);
    let engines: Vec<_> = in_turns.chain(strided).collect();
    let mutations = [
        Mutation::Races("        // Nobody reads the tile before any more.\n        barrier();\n", ""),
        Mutation::Races("x);\n        barrier();\n", "x);\n"),
        Mutation::Races("    barrier();\n    const Word *const its", "    const Word *const its"),
        Mutation::Errs("    clear_sides(x);\n", ""),
        Mutation::Errs("in_group != d / DEPTH || ", ""),
        Mutation::Errs("h < of.height ? channels", "h <= of.height ? channels"),
        Mutation::Errs("sums[result_of_place(r, s)][t]", "sums[0][t]"),
    ];
    mutants_disagree("engines::in_groups::tests::emulated_mutants_disagree", &engines, &mutations);
}

#[test]
fn on_a_gpu_as_on_the_host() {
    on_a_gpu::<InGroups>(82, small());
}

/// Layers of ResNeXt-50 and RegNet-Y.
fn layers() -> impl Iterator<Item = GroupedCorrelation> {
    let three = |groups, channels, side, stride| {
        convolution([128, groups, channels, channels], [side; 2], [[3; 2], [stride; 2], [1; 2]])
    };
    both_ways([
        three(32, 4, 56, 1),
        three(32, 8, 56, 2),
        three(32, 8, 28, 1),
        three(32, 16, 28, 2),
        three(32, 16, 14, 1),
        three(32, 32, 14, 2),
        three(32, 32, 7, 1),
        three(8, 24, 28, 1),
    ])
}

#[test]
fn compiles_for_all_gpus_without_spills() {
    let gpus = [(80, 163), (90, 227), (100, 227), (89, 99)];
    let engines = gpus.into_iter().flat_map(|(capability, kibibytes)| {
        let rows = move |of: &GroupedCorrelation| InGroups::rows(of, kibibytes << 10).unwrap();
        layers().chain(small()).map(move |of| (capability, InGroups::of_rows(of, rows(&of), 132)))
    });
    compile_a_share_without_spills(5, engines);
}

/// Prints the kernel's speed for layers of common networks.
#[test]
fn on_a_gpu_at_layers() {
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    for of in layers() {
        let kernel = Compiled::<InGroups>::new(Device::Cuda, &of, &[]).expect("compiled");
        let pixels = of.images * if of.is_gradient { &of.from } else { &of.to }.iter().product::<usize>();
        print_time(&kernel, pixels * of.groups * of.rows * of.depth * of.places(), stream);
    }
}

#[test]
fn others_are_not_for_us() {
    let of = small().next().unwrap();
    let is_ours = |of: &GroupedCorrelation| InGroups::new(Device::Host, of, &[]).is_some();
    assert!(is_ours(&of));
    let larger = |depth, rows| GroupedCorrelation { depth, rows, ..of };
    assert!(is_ours(&larger(32, 32)) && is_ours(&GroupedCorrelation { groups: 1000, ..of }));
    for other in [
        GroupedCorrelation { element: Element::Float, ..of },
        GroupedCorrelation { groups: 1, depth: 32, rows: 32, ..of },
        GroupedCorrelation { dilation: [1, 2, 2], padding: [0, 2, 2], ..of },
        GroupedCorrelation { filter: [1, 2, 5], padding: [0, 1, 2], ..of },
        GroupedCorrelation { filter: [3, 3, 3], ..of },
        GroupedCorrelation { from: [1, 12, 100_000], to: [1, 12, 100_000], ..of },
        GroupedCorrelation { is_gradient: true, stride: [1, 3, 3], ..of },
        GroupedCorrelation { images: 0, ..of },
        larger(33, 32),
        larger(32, 33),
    ] {
        assert!(!is_ours(&other), "{other:?}");
    }
}

/// Tiles fit into what the kernel's blocks share, and read few rows twice.
#[test]
fn tiles_fit_and_reread_little() {
    for of in layers() {
        let rows = InGroups::rows(&of, SHARED).unwrap();
        assert!(
            blocks_at_once(&of) * (bytes(&of, pixels(&of, rows)) + RESERVED) <= SHARED + RESERVED,
            "{rows}: {of:?}"
        );
        let read = of.cells()[1].div_ceil(rows) * pixels(&of, rows);
        assert!(read * 2 <= 3 * pixels(&of, of.cells()[1]), "{rows}: {of:?}");
    }
}
