//! Problems that the tests of several engines share, and the times of all engines on warpgroups.

use super::tile::{BLOCKS, RESERVED, Tile};
use super::*;
use crate::engines::engine::{Compiled, Engine};
use crate::engines::few_channels::FewChannels;
use crate::engines::few_channels::tests::few_channels_of;
use crate::engines::problem::FilterGradient;
use crate::engines::rolling::RollingConvolution;
use crate::engines::rolling_gradient::RollingGradient;
use crate::engines::same::SameConvolution;
use crate::engines::same_gradient::SameGradient;
use crate::engines::shifted::{self, ShiftedConvolution};
use crate::engines::shifted_gradient::ShiftedGradient;
use crate::engines::tests::print_time;
use gpu::OwnStream;
use gpu::testing::on_gpu;

pub const SHARED: usize = 227 << 10;
/// Images of which a tile has too many for results that it writes itself.
pub const TINY: [usize; 2] = [3, 2];

/// A convolution of these images, input and output channels, sizes of images and filter; and its input gradient.
pub fn both_ways(
    [images, depth, rows]: [usize; 3],
    from: [usize; 2],
    filter: usize,
    element: Element,
) -> [Correlation; 2] {
    let (is_exact, is_gradient, slices, to, stride, padding) = (false, false, Slices::ONE, from, 1, filter / 2);
    let of =
        Correlation { element, is_exact, is_gradient, images, depth, rows, slices, from, to, filter, stride, padding };
    [of, Correlation { is_gradient: true, depth: rows, rows: depth, ..of }]
}

/// Every width of copies, several images in a tile and several tiles in an image, parts of tiles of rows, columns and
/// depth, more stages than shared memory holds, both ways to share out a tile, all filters, rows shorter than a group.
pub fn small() -> impl Iterator<Item = Correlation> {
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
pub fn with_strides() -> impl Iterator<Item = Correlation> {
    let shapes = [([2, 72, 136], [14, 28]), ([3, 128, 64], [13, 14]), ([1, 64, 72], [31, 33])];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    shapes.map(|((sizes, from), element)| {
        let [of, _] = both_ways(sizes, from, 1, element);
        Correlation { stride: 2, to: from.map(|length| length.div_ceil(2)), ..of }
    })
}

/// Volumes, in which filters have one slice or several: one slice, fewer than the filter has, an odd number of them, rows
/// of one slice and of two, depths that end within a product and behind it, every width of copies.
pub fn volumes() -> impl Iterator<Item = Correlation> {
    let shapes = [
        ([2, 32, 32], [5, 3], [7, 7], 3),
        ([1, 72, 40], [3, 3], [8, 6], 3),
        ([2, 64, 32], [4, 1], [9, 10], 3),
        ([1, 32, 136], [1, 3], [6, 7], 3),
        ([3, 40, 32], [2, 5], [4, 8], 3),
        ([1, 32, 32], [4, 3], [3, 16], 5),
    ];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    shapes.flat_map(|((sizes, [count, slices], from, filter), element)| {
        let slices = Slices { count, filter: slices };
        both_ways(sizes, from, filter, element).map(|of| Correlation { slices, ..of })
    })
}

/// Every width of accesses; strips of several rows and parts of one; runs that begin and end anywhere in a volume, and
/// that go on in the next strip and volume; one slice; one chunk of channels and several, whole and not; one tile of
/// results' channels and several, whole and not.
pub fn rolling_volumes() -> impl Iterator<Item = Correlation> {
    let shapes = [
        ([2, 32, 32], 5, [7, 7]),
        ([1, 40, 72], 3, [12, 24]),
        ([2, 24, 40], 1, [1, 1]),
        ([1, 56, 64], 9, [1, 5]),
        ([2, 96, 32], 2, [130, 2]),
        ([1, 64, 32], 3, [2, 340]),
        ([2, 16, 40], 2, [9, 3]),
    ];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    let own = shapes.flat_map(|((sizes, count, from), element)| {
        both_ways(sizes, from, 3, element).map(|of| Correlation { slices: Slices { count, filter: 3 }, ..of })
    });
    own.chain(volumes().filter(|of| of.filter == 3 && of.slices.filter == 3))
}

pub fn computes<E: Engine>(of: E::Problem) -> bool {
    E::new(Device::Host, &of, &[]).is_some()
}

/// The gradient of a convolution's filter.
pub fn filter_gradient(of: Correlation) -> FilterGradient {
    let Correlation { element, is_exact, images, depth, rows, slices, from, to, filter, stride, padding, .. } = of;
    FilterGradient {
        element,
        is_exact,
        images,
        k: rows,
        c: depth,
        slices,
        x: from,
        dy: to,
        filter: [filter; 2],
        stride,
        padding,
    }
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
        for kernel in shifted::tests::on_a_gpu(of) {
            print_time(&kernel, products, stream);
        }
        if of.is_gradient {
            continue;
        }
        print_gradient::<ShiftedGradient>(filter_gradient(of), products, stream);
        let Ok(kernel) = Compiled::<SameGradient>::new(device, &filter_gradient(of), &[]) else { continue };
        print_time(&kernel, products, stream);
    }
}

/// Prints the times of an engine's choices, if it computes the gradient.
fn print_gradient<E: Engine<Problem = FilterGradient>>(of: FilterGradient, products: usize, stream: &OwnStream) {
    for knobs in E::choices(Device::Cuda, &of, usize::MAX) {
        print_time(&Compiled::<E>::new(Device::Cuda, &of, &knobs).unwrap(), products, stream);
    }
}

/// Prints the kernels' speed for layers of nnU-Net's 3-D network, whose slices are as many as rows.
#[test]
fn on_a_gpu_at_layers_of_volumes() {
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let layers = [
        ([2, 32, 32], 128),
        ([2, 64, 32], 128),
        ([2, 64, 64], 64),
        ([2, 128, 64], 64),
        ([2, 128, 128], 32),
        ([2, 256, 128], 32),
        ([2, 256, 256], 16),
        ([2, 320, 320], 8),
        ([2, 320, 320], 4),
    ];
    for (of, side) in
        layers.into_iter().flat_map(|(sizes, side)| both_ways(sizes, [side; 2], 3, Element::Half).map(|of| (of, side)))
    {
        let of = Correlation { slices: Slices { count: side, filter: 3 }, ..of };
        let products = of.images * side.pow(3) * of.rows * of.depth * 27;
        if let Ok(kernel) = Compiled::<RollingConvolution>::new(Device::Cuda, &of, &[]) {
            print_time(&kernel, products, stream);
        }
        for kernel in shifted::tests::on_a_gpu(of) {
            print_time(&kernel, products, stream);
        }
        if !of.is_gradient {
            print_gradient::<RollingGradient>(filter_gradient(of), products, stream);
            print_gradient::<ShiftedGradient>(filter_gradient(of), products, stream);
        }
    }
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
