//! The kernel on this machine's GPU, if there is one.

use super::*;
use gpu::testing::on_gpu::{Gpu, first};

fn compiled(of: GroupedGradient, parts: Parts) -> Compiled<BackwardFilterGemm> {
    Compiled::new(Device::Cuda, &of, &parts.knobs()).expect("compiled")
}

/// The kernel agrees with loops on the host.
#[test]
fn as_on_the_host() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &first() else { return };
    let mut random = SmallRng::seed_from_u64(12);
    let larger = [
        gradient([1, 64, 64], [56, 56], [3, 3], 1, 1),
        gradient([2, 130, 70], [28, 28], [3, 3], 1, 1),
        gradient([3, 70, 130], [14, 14], [3, 3], 1, 1),
        gradient([1, 64, 64], [56, 56], [3, 3], 2, 1),
    ];
    for of in small().chain(grouped()).chain(general()).chain(larger.into_iter().flat_map(in_all_types)) {
        let case = Case::new(of, device, stream.raw(), &mut random);
        let best = BackwardFilterGemm::best_parts(device, &of, usize::MAX)[0];
        for parts in [WHOLE, best] {
            case.check(&compiled(of, parts), device, stream.raw());
        }
    }
    for (of, parts) in in_clusters() {
        if BackwardFilterGemm::tiling(device, &of, parts).is_some() {
            let case = Case::new(of, device, stream.raw(), &mut random);
            case.check(&compiled(of, parts), device, stream.raw());
        }
    }
}

#[test]
fn separate_columns_as_on_the_host() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &first() else { return };
    let mut random = SmallRng::seed_from_u64(17);
    for of in separate() {
        let case = Case::new(of, device, stream.raw(), &mut random);
        let best = BackwardFilterGemm::best_parts(device, &of, usize::MAX)[0];
        case.check(&compiled(of, best), device, stream.raw());
    }
}

/// Prints the kernel's speed in half where places lie apart, or are many, and for layers in groups.
#[test]
fn at_wide_rows_and_groups() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &first() else { return };
    let one = [1; 3];
    let shapes = [
        of_axes([4, 480, 480], [1, 1, 4096], [[1, 1, 5], one, [0, 0, 128], [1, 1, 64]]),
        of_axes([8, 256, 256], [1, 1, 4096], [[1, 1, 3], one, [0, 0, 16], [1, 1, 16]]),
        of_axes([16, 256, 512], [1, 33, 33], [[1, 3, 3], one, [0, 12, 12], [1, 12, 12]]),
        of_axes([32, 192, 192], [1, 16, 16], [[1, 1, 7], one, [0, 0, 3], one]),
        of_axes([16, 128, 128], [1, 28, 28], [[1, 7, 7], one, [0, 3, 3], one]),
        in_groups(32, of_axes([128, 8, 8], [1, 56, 56], [[1, 3, 3], [1, 2, 2], [0, 1, 1], one])),
        in_groups(32, of_axes([128, 16, 16], [1, 28, 28], [[1, 3, 3], [1, 2, 2], [0, 1, 1], one])),
        in_groups(32, of_axes([128, 32, 32], [1, 14, 14], [[1, 3, 3], [1, 2, 2], [0, 1, 1], one])),
    ];
    for of in shapes.map(|of| GroupedGradient { element: Element::Half, ..of }) {
        let best = BackwardFilterGemm::best_parts(device, &of, usize::MAX)[0];
        let products = of.elements() * of.images * of.dy.iter().product::<usize>();
        print_time(&compiled(of, best), products, stream);
    }
}

/// The result is accurate for the most terms that one sum may have, and for sums that start anew.
#[test]
fn of_many_pixels() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &first() else { return };
    let mut random = SmallRng::seed_from_u64(15);
    let mut gradients = vec![(WHOLE, gradient([41, 8, 9], [56, 56], [3, 3], 1, 1))];
    if device.cluster_blocks(device.ordinal()) >= 16 {
        let in_cluster = Parts::InCluster { blocks: 16, k_tile: 16 };
        gradients.push((in_cluster, gradient([25 * 41, 2, 9], [56, 56], [3, 3], 1, 1)));
    }
    for (parts, of) in gradients {
        for (is_exact, least) in [(false, 1e-3), (true, 2e-6)] {
            let most = GroupedGradient { is_exact, ..of };
            let (error, bias) = errors_of(&compiled(most, parts), 0.5, device, stream.raw(), &mut random);
            let summed = most.images * 56 * 56;
            println!("sums of {summed} positive products: off by {error:.1e}, of which {bias:.1e} is a bias");
            assert!(error < least, "{most:?}: {error:.1e}, of which {bias:.1e} is a bias");
        }
    }
}

/// Prints the kernel's speed for layers of common networks.
#[test]
fn at_networks_layers() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &first() else { return };
    let layer =
        |(images, k, c, side, filter, stride)| gradient([images, k, c], [side; 2], [filter; 2], stride, filter / 2);
    let exact = LAYERS_OF_FLOATS.map(layer).map(|of| GroupedGradient { is_exact: true, ..of });
    let of_groups = GROUPS.map(|(groups, channels, side, stride)| {
        in_groups(groups, gradient([128, channels, channels], [side; 2], [3, 3], stride, 1))
    });
    // A layer of nnU-Net.
    let volume = |(k, c, side, stride)| of_axes([2, k, c], [side; 3], [[3; 3], [stride; 3], [1; 3], [1; 3]]);
    let volumes = [(32, 32, 128, 1), (64, 32, 128, 2), (256, 128, 32, 2), (320, 320, 8, 1)].map(volume);
    let layers = LAYERS.map(layer).into_iter().chain(of_groups).chain(volumes);
    for of in layers.flat_map(in_all_types).chain(exact) {
        for limit in [usize::MAX, 0] {
            let Some(parts) = BackwardFilterGemm::best_parts(device, &of, limit).first().copied() else { continue };
            print_time(&compiled(of, parts), of.images * of.dy.iter().product::<usize>() * of.elements(), stream);
        }
    }
}

/// Images, k, c, the sides of x and of the filter, and the stride, of AlexNet, VGG-16, ResNet-18 and the U-Net.
const LAYERS: [(usize, usize, usize, usize, usize, usize); 13] = [
    (512, 192, 64, 27, 5, 1),
    (64, 64, 3, 224, 3, 1),
    (64, 64, 64, 224, 3, 1),
    (64, 128, 128, 112, 3, 1),
    (64, 256, 256, 56, 3, 1),
    (64, 512, 512, 28, 3, 1),
    (64, 512, 512, 14, 3, 1),
    (256, 64, 3, 224, 7, 2),
    (256, 64, 64, 56, 3, 1),
    (256, 256, 256, 14, 3, 1),
    (256, 64, 128, 56, 3, 2),
    (16, 64, 128, 256, 3, 1),
    (16, 2, 64, 256, 1, 1),
];

/// The 1 × 1 layers of ResNet-50, where our kernel is fast only with exact float products.
const LAYERS_OF_FLOATS: [(usize, usize, usize, usize, usize, usize); 6] = [
    (128, 64, 256, 56, 1, 1),
    (128, 256, 64, 56, 1, 1),
    (128, 128, 512, 28, 1, 1),
    (128, 1024, 256, 14, 1, 1),
    (128, 512, 2048, 7, 1, 1),
    (128, 512, 256, 56, 1, 2),
];

/// Groups, the channels of each, the side of x, and the stride, of ResNeXt-50 and RegNet-Y.
const GROUPS: [(usize, usize, usize, usize); 7] =
    [(32, 4, 56, 1), (32, 8, 56, 2), (32, 8, 28, 1), (32, 16, 14, 1), (32, 32, 7, 1), (8, 24, 28, 1), (16, 56, 14, 1)];
