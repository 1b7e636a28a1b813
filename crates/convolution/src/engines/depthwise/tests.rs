use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::engine::Compiled;
use crate::engines::problem::{Computed, Convolution};
use crate::engines::tests::{Case, compile_without_spills, emulated_as_in_loops as in_loops};
use crate::engines::warpgroups::THREADS;
use gpu::Element;
use gpu::testing::on_gpu;

/// Images, channels, filters of each channel, and on each axis: the size of x, the filter, the stride, the padding and
/// the dilation.
pub type Sizes = ([usize; 3], [[usize; 5]; 3]);

/// An axis of one place.
const ONE: [usize; 5] = [1, 1, 1, 0, 1];

/// Few and many tiles, planes and channels; filters of one place, small and large, that are not square; strides that
/// divide a tile and do not; dilation; several filters of each channel; padding of none, and as large as the filter;
/// rows that are aligned or not; rests of x that no place reads; volumes; images of one row.
pub const SIZES: [Sizes; 22] = [
    ([2, 1, 5], [[5, 3, 1, 1, 1], [6, 3, 1, 1, 1], [8, 3, 1, 1, 1]]),
    ([3, 1, 9], [ONE, [9, 5, 1, 2, 1], [8, 5, 1, 2, 1]]),
    ([2, 3, 2], [ONE, [9, 3, 2, 1, 1], [11, 3, 2, 1, 1]]),
    ([2, 3, 1], [ONE, [8, 3, 1, 1, 1], [12, 3, 1, 1, 1]]),
    ([1, 2, 1], [ONE, [19, 7, 1, 3, 1], [21, 7, 1, 3, 1]]),
    ([2, 5, 1], [ONE, [9, 3, 2, 1, 1], [16, 3, 2, 1, 1]]),
    ([1, 3, 1], [ONE, [11, 5, 3, 2, 1], [13, 5, 3, 2, 1]]),
    ([1, 2, 1], [ONE, [14, 5, 4, 0, 1], [17, 3, 4, 1, 1]]),
    ([1, 2, 1], [ONE, [13, 3, 1, 2, 2], [15, 3, 1, 3, 3]]),
    ([1, 2, 1], [ONE, [12, 3, 2, 2, 2], [14, 2, 1, 0, 5]]),
    ([3, 4, 1], [ONE, [1, 1, 1, 0, 1], [50, 31, 1, 15, 1]]),
    ([1, 2, 1], [ONE, [20, 13, 1, 6, 1], [18, 11, 1, 5, 1]]),
    ([1, 1, 1], [ONE, [33, 31, 1, 15, 1], [34, 31, 1, 15, 1]]),
    ([2, 2, 1], [[5, 3, 1, 1, 1], [6, 3, 1, 1, 1], [7, 3, 1, 1, 1]]),
    ([1, 3, 1], [[6, 3, 2, 1, 1], [7, 3, 2, 1, 1], [9, 3, 2, 1, 1]]),
    ([1, 2, 1], [[7, 3, 1, 2, 2], [4, 1, 1, 0, 1], [5, 2, 3, 1, 1]]),
    ([40, 3, 1], [ONE, [7, 3, 1, 1, 1], [7, 3, 1, 1, 1]]),
    ([1, 1, 1], [ONE, [5, 1, 1, 0, 1], [300, 3, 1, 1, 1]]),
    ([1, 2, 1], [ONE, [70, 5, 1, 2, 1], [66, 5, 1, 2, 1]]),
    ([1, 2, 1], [ONE, [4, 3, 1, 5, 1], [6, 3, 2, 4, 1]]),
    ([1, 4, 1], [ONE, [1, 1, 3, 0, 1], [9, 2, 3, 0, 1]]),
    ([2, 1, 6], [[5, 3, 1, 1, 1], [9, 7, 2, 3, 1], [13, 7, 2, 3, 1]]),
];

/// Layers of nnU-Net, which is the first, ConvNeXt, MobileNet, EfficientNet, a Conformer, and networks for clips.
pub const LAYERS: [Sizes; 15] = [
    ([2, 1, 32], [[128, 3, 1, 1, 1], [128, 3, 1, 1, 1], [128, 3, 1, 1, 1]]),
    ([128, 96, 1], [ONE, [56, 7, 1, 3, 1], [56, 7, 1, 3, 1]]),
    ([128, 192, 1], [ONE, [28, 7, 1, 3, 1], [28, 7, 1, 3, 1]]),
    ([128, 384, 1], [ONE, [14, 7, 1, 3, 1], [14, 7, 1, 3, 1]]),
    ([128, 768, 1], [ONE, [7, 7, 1, 3, 1], [7, 7, 1, 3, 1]]),
    ([128, 64, 1], [ONE, [112, 3, 1, 1, 1], [112, 3, 1, 1, 1]]),
    ([128, 96, 1], [ONE, [112, 3, 2, 1, 1], [112, 3, 2, 1, 1]]),
    ([128, 144, 1], [ONE, [56, 3, 2, 1, 1], [56, 3, 2, 1, 1]]),
    ([128, 144, 1], [ONE, [56, 5, 2, 2, 1], [56, 5, 2, 2, 1]]),
    ([128, 240, 1], [ONE, [28, 3, 2, 1, 1], [28, 3, 2, 1, 1]]),
    ([128, 240, 1], [ONE, [28, 5, 2, 2, 1], [28, 5, 2, 2, 1]]),
    ([128, 672, 1], [ONE, [14, 5, 2, 2, 1], [14, 5, 2, 2, 1]]),
    ([32, 512, 1], [ONE, ONE, [1000, 31, 1, 15, 1]]),
    ([8, 128, 1], [[16, 3, 1, 1, 1], [28, 3, 1, 1, 1], [28, 3, 1, 1, 1]]),
    ([2, 1, 32], [[64, 3, 1, 1, 1], [128, 7, 2, 3, 1], [128, 7, 2, 3, 1]]),
];

/// A convolution of these sizes.
pub fn convolution(element: Element, direction: Direction, ([images, groups, each], axes): Sizes) -> Convolution {
    let of = |which: usize| axes.map(|axis| axis[which]);
    let y = axes
        .map(|[x, filter, stride, padding, dilation]| (x + 2 * padding - ((filter - 1) * dilation + 1)) / stride + 1);
    let [x, filter, stride, padding, dilation] = [0, 1, 2, 3, 4].map(of);
    let (is_exact, inputs, outputs) = (element == Element::Float, groups, each * groups);
    Convolution {
        element,
        is_exact,
        direction,
        images,
        inputs,
        outputs,
        groups,
        x,
        y,
        filter,
        stride,
        padding,
        dilation,
    }
}

/// Problems of these directions in all types in turn.
pub fn problems(directions: &[Direction]) -> impl Iterator<Item = ByChannel> {
    let elements = [Element::Half, Element::Float, Element::Bfloat16].into_iter().cycle();
    let cases = SIZES.into_iter().flat_map(|sizes| directions.iter().map(move |direction| (*direction, sizes)));
    cases
        .zip(elements)
        .map(|((direction, sizes), element)| ByChannel::of(&convolution(element, direction, sizes)).unwrap())
}

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::BackwardData];

fn engines() -> impl Iterator<Item = Depthwise> {
    problems(&DIRECTIONS).map(|of| Depthwise::new(Device::Host, &of, &[]).unwrap())
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::depthwise::tests::some_emulated_as_in_loops";
    in_loops(test, 71, engines(), |index, _| index < 14 && index % 2 == index / 4 % 2);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::depthwise::tests::emulated_as_in_loops", 71, engines(), |_, _| true);
}

#[test]
fn compiles_for_all_gpus_without_spills() {
    for capability in [80, 100] {
        compile_without_spills(capability, engines().take(4));
    }
    compile_without_spills(90, engines().skip(14).take(6));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(72);
    for of in problems(&DIRECTIONS) {
        let kernel = Compiled::<Depthwise>::new(device, &of, &[]).expect("compiled");
        Case::new(of, device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
    }
}

#[test]
fn other_convolutions_are_refused() {
    let of = convolution(Element::Half, Direction::Forward, SIZES[3]);
    let refusal = |of: Convolution| ByChannel::of(&of).err().map(|refusal| refusal.0);
    assert_eq!(refusal(of), None);
    let others = [
        (Convolution { outputs: 4, ..of }, "channels that share a filter"),
        (Convolution { groups: 1, ..of }, "channels that share a filter"),
        (Convolution { filter: [1, 33, 3], ..of }, "a filter of too many places"),
        (Convolution { stride: [1, 5, 1], ..of }, "strides that are too large"),
        (Convolution { dilation: [1, 1, 257], ..of }, "a dilation that is too large"),
        (Convolution { padding: [0, 257, 0], ..of }, "a padding that is too large"),
        (Convolution { is_exact: true, ..of }, "exact products of a type that is not float"),
    ];
    for (of, what) in others {
        assert_eq!(refusal(of), Some(what), "{of:?}");
    }
    let new = |of| Depthwise::new(Device::Host, &ByChannel::of(&of).unwrap(), &[]);
    assert!(new(of).is_some() && new(Convolution { images: 0, ..of }).is_none());
    assert!(new(Convolution { images: 1 << 40, ..of }).is_none());
    assert!(Depthwise::new(Device::Host, &ByChannel(of), &[(0, 1)]).is_none());
    // One tile reads too much for shared memory; too much of a row; and as much of a row as is allowed.
    for (axis, is_ours) in [([600, 32, 1, 0, 8], false), ([600, 9, 1, 0, 16], false), ([600, 9, 1, 0, 15], true)] {
        let of = convolution(Element::Half, Direction::Forward, ([1, 2, 1], [ONE, ONE, axis]));
        assert_eq!(new(of).is_some(), is_ours, "{axis:?}");
    }
    let high = [ONE, [4000, 32, 1, 0, 100], [600, 32, 1, 0, 3]];
    assert!(new(convolution(Element::Half, Direction::Forward, ([1, 2, 1], high))).is_none());
    let beyond = Convolution { y: [1, 1 << 29, 1], stride: [1, 2, 1], ..of };
    assert!(new(beyond).is_none());
}

/// Images of all sizes share a kernel, and so do paddings; of a gradient, those with one rest by the stride.
#[test]
fn images_share_a_kernel() {
    let options = |direction, side, stride, padding| {
        let axis = [side, 5, stride, padding, 1];
        let of = convolution(Element::Half, direction, ([3, 8, 1], [ONE, axis, axis]));
        Depthwise::new(Device::Host, &ByChannel::of(&of).unwrap(), &[]).unwrap().options()
    };
    for direction in DIRECTIONS {
        for side in [7, 14, 15, 112] {
            assert_eq!(options(direction, side, 2, 2), options(direction, 56, 2, 2), "{direction:?} {side}");
        }
        assert_eq!(options(direction, 56, 2, 0), options(direction, 56, 2, 2));
        assert_ne!(options(direction, 56, 1, 2), options(direction, 56, 2, 2));
    }
    assert_ne!(options(Direction::BackwardData, 56, 2, 1), options(Direction::BackwardData, 56, 2, 2));
}

/// The networks' layers have blocks with few idle threads.
#[test]
fn blocks_are_full() {
    for (side, channels, filter) in [(56, 96, 7), (28, 192, 7), (14, 384, 7), (7, 768, 7), (112, 64, 3), (224, 8, 3)] {
        let axis = [side, filter, 1, filter / 2, 1];
        let of = convolution(Element::Half, Direction::Forward, ([128, channels, 1], [ONE, axis, axis]));
        let engine = Depthwise::new(Device::Host, &ByChannel::of(&of).unwrap(), &[]).unwrap();
        let used = (engine.block.down * engine.block.right * engine.block.planes) as usize;
        assert!(4 * used >= 3 * THREADS, "{side}: {engine:?}");
    }
}
