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
/// each axis, and of several warps' tiles along a row; more planes than a block has; paddings of none, and larger than
/// the filter; filters of each depth of products; slices; several filters of each channel; long rows, and short ones.
pub const OWN: [Sizes; 16] = [
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
];

fn engines() -> impl Iterator<Item = Toeplitz> {
    let cases = OWN.into_iter().chain(SIZES);
    let cases = cases.flat_map(|sizes| [Direction::Forward, Direction::BackwardData].map(|way| (way, sizes)));
    let cases = cases.zip([Element::Half, Element::Bfloat16, Element::Bfloat16, Element::Half].into_iter().cycle());
    cases.filter_map(|((direction, sizes), element)| {
        let of = ByChannel::of(&convolution(element, direction, sizes)).ok()?;
        Toeplitz::new(Device::Host, &of, &[])
    })
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::toeplitz::tests::some_emulated_as_in_loops";
    in_loops(test, 73, engines(), |index, _| index % 5 == 0);
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
    }
    compile_without_spills(90, engines().step_by(3));
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

/// Blocks and threads cover each result once, and blocks stay within what they may take.
#[test]
fn tiles_fit() {
    for sizes in LAYERS.into_iter().chain(OWN).chain(SIZES) {
        let of = convolution(Element::Half, Direction::Forward, sizes);
        let Some(engine) = ByChannel::of(&of).ok().and_then(|of| Toeplitz::new(Device::Host, &of, &[])) else {
            continue;
        };
        let Cut { piece, shift, steps, column_tiles, planes, .. } = engine.cut;
        assert!(engine.cut.shared_bytes(&engine.of) <= MOST_SHARED && column_tiles <= MOST_COLUMN_TILES, "{engine:?}");
        assert!(TILE_COLUMNS - 1 + of.filter[2] + shift <= steps * DEPTH && shift < piece, "{engine:?}");
        assert!((1..=engine.cut.turns(&engine.of)).contains(&engine.parts), "{engine:?}");
        assert!(of.x[2].is_multiple_of(piece) && planes <= Cut::count(&engine.of), "{engine:?}");
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
        Convolution { stride: [1, 2, 1], ..of },
        Convolution { dilation: [1, 1, 2], ..of },
        Convolution { x: [3, 7, 7], y: [3, 7, 7], filter: [3, 7, 7], padding: [1, 3, 3], ..of },
    ] {
        assert!(!is_taken(other), "{other:?}");
    }
}
