use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::depthwise::tests::{LAYERS, SIZES, Sizes, convolution};
use crate::engines::engine::Compiled;
use crate::engines::problem::Computed;
use crate::engines::tests::{Case, compile_without_spills, emulated_as_in_loops as in_loops};
use gpu::testing::on_gpu;

/// An axis of one place.
const ONE: [usize; 5] = [1, 1, 1, 0, 1];

/// Beside those of `Depthwise`: rows that are copied one, two and four numbers at a time; planes of several tiles along
/// each axis, and of several warps' tiles and blocks along a row; more planes than a block has; paddings of none, and
/// larger than the filter; filters of each depth of products; slices; several filters of each channel; long rows, and
/// short ones. With strides: those of MobileNet and EfficientNet; each of them, alike on both axes and not; with
/// filters of fewer places than that; rests that nothing reads; rows that are copied in each way. Last, planes that are
/// a block's tile and leave no room for their results in shared memory.
pub const OWN: [Sizes; 38] = [
    ([2, 2, 1], [ONE, [7, 7, 1, 3, 1], [7, 7, 1, 3, 1]]),
    ([33, 2, 1], [ONE, [7, 7, 1, 3, 1], [7, 7, 1, 3, 1]]),
    ([19, 3, 1], [ONE, [14, 5, 1, 2, 1], [14, 5, 1, 2, 1]]),
    ([2, 2, 1], [ONE, [56, 7, 1, 3, 1], [56, 7, 1, 3, 1]]),
    ([1, 2, 1], [ONE, [17, 3, 1, 1, 1], [65, 3, 1, 1, 1]]),
    ([1, 1, 1], [ONE, [130, 3, 1, 1, 1], [300, 5, 1, 2, 1]]),
    ([2, 1, 3], [ONE, [9, 3, 1, 2, 1], [12, 9, 1, 4, 1]]),
    ([1, 2, 1], [ONE, [6, 3, 1, 5, 1], [8, 3, 1, 6, 1]]),
    ([2, 2, 2], [[3, 1, 1, 0, 1], [6, 3, 1, 1, 1], [10, 10, 1, 5, 1]]),
    ([1, 1, 1], [ONE, [40, 32, 1, 15, 1], [44, 32, 1, 16, 1]]),
    ([3, 2, 2], [ONE, ONE, [999, 31, 1, 15, 1]]),
    ([2, 3, 1], [ONE, ONE, [1000, 17, 1, 0, 1]]),
    ([5, 1, 1], [ONE, ONE, [4500, 4, 1, 1, 1]]),
    ([2, 2, 1], [ONE, ONE, [7, 3, 1, 1, 1]]),
    ([2, 2, 1], [ONE, [1, 3, 1, 1, 1], [20, 3, 1, 1, 1]]),
    ([2, 2, 1], [ONE, [30, 3, 1, 1, 1], [1, 1, 1, 0, 1]]),
    ([1, 1, 1], [ONE, [3, 3, 1, 1, 1], [1100, 3, 1, 1, 1]]),
    ([3, 2, 1], [ONE, [5, 3, 1, 1, 1], [64, 11, 1, 5, 1]]),
    ([2, 1, 1], [ONE, [4, 3, 1, 1, 1], [128, 32, 1, 16, 1]]),
    ([9, 2, 1], [ONE, [28, 5, 2, 2, 1], [28, 5, 2, 2, 1]]),
    ([1, 2, 1], [ONE, [112, 3, 2, 1, 1], [112, 3, 2, 1, 1]]),
    ([19, 2, 1], [ONE, [14, 5, 2, 2, 1], [14, 5, 2, 2, 1]]),
    ([2, 1, 1], [ONE, [56, 3, 2, 1, 1], [56, 3, 2, 1, 1]]),
    ([2, 2, 1], [ONE, [57, 7, 2, 3, 1], [65, 7, 2, 3, 1]]),
    ([2, 1, 2], [ONE, [31, 3, 2, 0, 1], [32, 3, 2, 0, 1]]),
    ([1, 1, 1], [ONE, [20, 1, 2, 0, 1], [60, 2, 2, 0, 1]]),
    ([1, 2, 1], [ONE, [37, 3, 3, 1, 1], [50, 5, 3, 2, 1]]),
    ([1, 1, 1], [ONE, [50, 9, 4, 4, 1], [72, 11, 4, 1, 1]]),
    ([2, 1, 1], [ONE, [20, 3, 2, 1, 1], [20, 3, 1, 1, 1]]),
    ([1, 2, 1], [ONE, [17, 4, 1, 1, 1], [180, 3, 2, 2, 1]]),
    ([1, 1, 1], [ONE, [36, 31, 2, 15, 1], [70, 31, 2, 15, 1]]),
    ([1, 1, 2], [[3, 1, 1, 0, 1], [12, 5, 2, 1, 1], [24, 6, 3, 7, 1]]),
    ([2, 2, 1], [ONE, ONE, [2001, 5, 2, 2, 1]]),
    ([1, 2, 2], [ONE, ONE, [700, 10, 4, 3, 1]]),
    ([3, 1, 1], [ONE, ONE, [96, 3, 3, 0, 1]]),
    ([1, 2, 1], [ONE, [3, 3, 2, 0, 1], [40, 3, 2, 1, 1]]),
    ([3, 2, 1], [ONE, [1, 1, 4, 0, 1], [2, 2, 4, 0, 1]]),
    ([2, 1, 1], [ONE, [110, 3, 1, 1, 1], [88, 3, 1, 1, 1]]),
];

/// With more zeros behind the last slices, rows or columns.
pub fn with_zeros_behind(of: Convolution, zeros: [usize; 3]) -> Convolution {
    Convolution { y: [0, 1, 2].map(|axis| of.y[axis] + zeros[axis]), ..of }
}

/// In as many parts as for a GPU, in one, and in two: of few parts, a block takes several turns. Every fifth has more
/// zeros behind the last row and column, of some more than its filter is wide.
fn engines() -> impl Iterator<Item = Toeplitz> {
    let cases = OWN.into_iter().chain(SIZES);
    let cases = cases.flat_map(|sizes| [Direction::Forward, Direction::BackwardData].map(|way| (way, sizes)));
    let cases = cases.zip([Element::Half, Element::Bfloat16, Element::Bfloat16, Element::Half].into_iter().cycle());
    let engines = cases.enumerate().filter_map(|(number, ((direction, sizes), element))| {
        let of = convolution(element, direction, sizes);
        let zeros = if number % 5 == 4 { [0, number % 7, number % 9] } else { [0; 3] };
        let of = ByChannel::of(&with_zeros_behind(of, zeros)).ok()?;
        Toeplitz::new(Device::Host, &of, &[])
    });
    engines
        .zip([usize::MAX, 1, 2].into_iter().cycle())
        .map(|(engine, parts)| Toeplitz { parts: engine.parts.min(parts), ..engine })
}

fn has_strides(engine: &Toeplitz) -> bool {
    engine.of.0.stride != [1; 3]
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::toeplitz::tests::some_emulated_as_in_loops";
    let is_gradient = |engine: &Toeplitz| has_strides(engine) && engine.of.0.direction == Direction::BackwardData;
    in_loops(test, 73, engines(), |index, engine| index % 5 == 0 || index % 3 == 0 && is_gradient(engine));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::toeplitz::tests::emulated_as_in_loops", 73, engines(), |_, _| true);
}

#[test]
fn compiles_for_all_gpus_without_spills() {
    for capability in [80, 100] {
        compile_without_spills(capability, engines().take(4));
        compile_without_spills(capability, engines().filter(has_strides).step_by(5));
    }
    compile_without_spills(90, engines().step_by(3));
    compile_without_spills(90, engines().filter(has_strides));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(74);
    for engine in engines() {
        let kernel = Compiled::<Toeplitz>::new(device, engine.problem(), &[]).expect("compiled");
        Case::new(*engine.problem(), device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
    }
}

/// Blocks stay within the memory that they may take. Planes that are copied whole stay within their lines.
#[test]
fn tiles_fit() {
    let layers = LAYERS.into_iter().flat_map(|sizes| {
        [Direction::Forward, Direction::BackwardData].map(|way| convolution(Element::Half, way, sizes))
    });
    let layers = layers.filter_map(|of| Toeplitz::new(Device::Host, &ByChannel::of(&of).ok()?, &[]));
    let (mut wholes, mut staged) = (0, 0);
    for engine in layers.chain(engines()) {
        let Toeplitz { of, cut, parts } = engine;
        let ([rows, across], [lines, _], [columns, pitch]) = (axes(&of), cut.lines(&of), cut.columns(&of));
        assert!(cut.shared_bytes(&of) <= MOST_SHARED && cut.column_tiles <= MOST_COLUMN_TILES, "{engine:?}");
        // What the last of the results that read the same eights reads, and the first number of the next eight.
        let last = (across.up * TILE_COLUMNS - 1) * across.down + across.places - 1;
        assert!(last + across.up * cut.shift < (cut.depth * TILE_COLUMNS) * across.up + across.rest(), "{engine:?}");
        assert!(cut.shift < cut.piece && across.from.is_multiple_of(cut.piece), "{engine:?}");
        assert!(cut.planes <= Cut::count(&of) && (1..=cut.turns(&of)).contains(&parts), "{engine:?}");
        if cut.is_whole(&of) {
            let [above, before] = [rows, across].map(|axis| usize::try_from(axis.before()).unwrap());
            assert!((above + rows.from).div_ceil(rows.down) <= lines, "{engine:?}");
            assert!(before + cut.shift + across.from <= columns.min(pitch), "{engine:?}");
            wholes += 1;
        }
        staged += usize::from(cut.is_staged);
        assert!(!cut.is_staged || cut.is_whole(&of) && rows.to * across.to % cut.access(&of) == 0, "{engine:?}");
    }
    assert!(wholes > staged && staged > 20, "{wholes} {staged}");
}

/// Convolutions and gradients with filters of several sizes share a kernel, of images that are cut alike.
#[test]
fn filters_and_directions_share_a_kernel() {
    let options = |direction, side, filter| {
        let axis = [side, filter, 1, filter / 2, 1];
        let of = convolution(Element::Half, direction, ([3, 8, 1], [ONE, axis, axis]));
        Toeplitz::new(Device::Host, &ByChannel::of(&of).unwrap(), &[]).unwrap().options()
    };
    for filter in [3, 5, 7] {
        for direction in [Direction::Forward, Direction::BackwardData] {
            assert_eq!(options(direction, 14, filter), options(Direction::Forward, 10, 3), "{direction:?} {filter}");
        }
    }
    assert_ne!(options(Direction::Forward, 14, 3), options(Direction::Forward, 28, 3));
    // With strides, paddings and filters of one depth.
    let strided = |direction, side, filter, padding| {
        let axis = [side, filter, 2, padding, 1];
        let of = convolution(Element::Half, direction, ([3, 8, 1], [ONE, axis, axis]));
        Toeplitz::new(Device::Host, &ByChannel::of(&of).unwrap(), &[]).unwrap().options()
    };
    for direction in [Direction::Forward, Direction::BackwardData] {
        assert_eq!(strided(direction, 28, 3, 1), strided(direction, 28, 5, 2), "{direction:?}");
        assert_ne!(strided(direction, 28, 3, 1), options(direction, 28, 3), "{direction:?}");
    }
}

#[test]
fn other_convolutions_are_refused() {
    let of = convolution(Element::Half, Direction::Forward, OWN[0]);
    let is_taken = |of: Convolution| Toeplitz::new(Device::Host, &ByChannel::of(&of).unwrap(), &[]).is_some();
    assert!(is_taken(of) && is_taken(Convolution { direction: Direction::BackwardData, ..of }));
    for other in [
        Convolution { element: Element::Float, ..of },
        Convolution { direction: Direction::BackwardFilter, ..of },
        Convolution { stride: [2, 1, 1], ..of },
        Convolution { dilation: [1, 1, 2], ..of },
        Convolution { x: [3, 7, 7], y: [3, 7, 7], filter: [3, 7, 7], padding: [1, 3, 3], ..of },
        with_zeros_behind(of, [1, 0, 0]),
    ] {
        assert!(!is_taken(other), "{other:?}");
    }
}
