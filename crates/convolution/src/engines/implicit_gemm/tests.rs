use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::tiling::{RESERVED, blocks_at_once, most_columns};
use super::*;
use crate::engines::engine::Compiled;
use crate::engines::problem::{Computed, Convolution};
use crate::engines::tests::{
    self, Mutation, compile_a_share_without_spills, emulated, errors_of, mutants_disagree, print_time,
};
use cudnn::convolution::Direction;
use gpu::Element;
use gpu::testing::emulated::is_child;
use gpu::testing::on_gpu;

const SHARED: usize = 227 << 10;
const MULTIPROCESSORS: usize = 132;

/// A convolution with these images, input and output channels, input size, filter side, stride and padding.
fn convolution(
    [images, depth, rows]: [usize; 3],
    from: [usize; 2],
    filter: usize,
    stride: usize,
    padding: usize,
) -> GroupedCorrelation {
    of_axes([images, 1, depth, rows], from, [[filter; 2], [stride; 2], [padding; 2], [1; 2]])
}

/// A convolution with these images, groups, and input and output channels of each; with filters, strides, paddings and
/// dilations for rows and columns.
fn of_axes(channels: [usize; 4], from: [usize; 2], axes: [[usize; 2]; 4]) -> GroupedCorrelation {
    let of_slices = [1, 1, 0, 1];
    let axis = |index: usize| [of_slices[index], axes[index][0], axes[index][1]];
    of_volumes(channels, [1, from[0], from[1]], [0, 1, 2, 3].map(axis))
}

/// Likewise of volumes.
fn of_volumes(
    [images, groups, depth, rows]: [usize; 4],
    from: [usize; 3],
    [filter, stride, padding, dilation]: [[usize; 3]; 4],
) -> GroupedCorrelation {
    let reach = |axis: usize| dilation[axis] * (filter[axis] - 1);
    let to = [0, 1, 2].map(|axis| (from[axis] + 2 * padding[axis] - reach(axis) - 1) / stride[axis] + 1);
    let (element, is_exact, is_gradient) = (Element::Float, false, false);
    GroupedCorrelation {
        element,
        is_exact,
        is_gradient,
        images,
        groups,
        depth,
        rows,
        from,
        to,
        filter,
        stride,
        padding,
        dilation,
    }
}

/// The input gradient of a convolution.
fn gradient(of: GroupedCorrelation) -> Option<GroupedCorrelation> {
    let forward = of.convolution();
    GroupedCorrelation::of(&Convolution { direction: Direction::BackwardData, ..forward }).ok()
}

/// The same correlation in every type, and with exact float products.
fn in_all_types(of: GroupedCorrelation) -> [GroupedCorrelation; 4] {
    let in_type = |element| GroupedCorrelation { element, ..of };
    let others = [Element::Half, Element::Bfloat16].map(in_type);
    [of, GroupedCorrelation { is_exact: true, ..of }, others[0], others[1]]
}

/// The convolution and its input gradient, if our kernel supports them.
fn both_ways(of: GroupedCorrelation) -> impl Iterator<Item = GroupedCorrelation> {
    [Some(of), gradient(of)].into_iter().flatten().filter(GroupedCorrelation::is_for_us)
}

#[test]
fn tiles_fit_and_waste_little() {
    let sides = [(224, 3), (112, 3), (56, 3), (28, 3), (14, 3), (7, 3), (27, 5), (13, 3), (56, 1), (14, 1), (7, 1)];
    for (side, filter) in sides {
        let of = convolution([128, 256, 256], [side; 2], filter, 1, filter / 2).flattened();
        for of in both_ways(of).flat_map(in_all_types) {
            let tiling = Tiling::of(&of, SHARED, MULTIPROCESSORS).unwrap();
            let (most, blocks) = (most_columns(&of), blocks_at_once(&of));
            assert!(blocks * (tiling.shared_bytes(&of) + RESERVED) <= SHARED + RESERVED, "{tiling:?} of {of:?}");
            assert!(tiling.images * tiling.rows * tiling.columns <= most);
            // Copies weigh more where products take less time.
            let columns = tiling.blocks(&of) / of.row_tiles() * most;
            let used = (of.images * of.to.iter().product::<usize>()) as f64 / columns as f64;
            assert!(used >= if of.is_exact { 0.75 } else { 0.6 }, "{used} in {tiling:?} of {of:?}");
        }
    }
    assert_eq!(Tiling::of(&convolution([1, 64, 64], [8; 2], 3, 1, 1), 10_000, MULTIPROCESSORS), None);
}

#[test]
fn others_are_not_for_us() {
    let of = convolution([2, 16, 32], [9, 9], 3, 1, 1);
    assert!(of.is_for_us() && gradient(convolution([2, 32, 16], [9, 9], 3, 1, 1)).unwrap().is_for_us());
    for other in [
        GroupedCorrelation { element: Element::Half, is_exact: true, ..of },
        GroupedCorrelation { images: 0, ..of },
        GroupedCorrelation { depth: 8, ..of },
        GroupedCorrelation { rows: 8, ..of },
        GroupedCorrelation { groups: 2, depth: 1, ..of },
        GroupedCorrelation { groups: 2, rows: 1, ..of },
        GroupedCorrelation { filter: [1, 0, 3], ..of },
        GroupedCorrelation { filter: [1, 1, 28], ..of },
        GroupedCorrelation { filter: [2, 7, 2], ..of },
        GroupedCorrelation { padding: [0, 3, 1], ..of },
        GroupedCorrelation { stride: [1, 0, 1], ..of },
        GroupedCorrelation { stride: [1, 1, 5], ..of },
        GroupedCorrelation { dilation: [1, 0, 1], ..of },
        GroupedCorrelation { dilation: [1, 1, 257], ..of },
        GroupedCorrelation { is_gradient: true, stride: [1, 5, 1], ..of },
        GroupedCorrelation { depth: usize::MAX, ..of },
        GroupedCorrelation { rows: 1 << 20, depth: 1 << 20, ..of },
        GroupedCorrelation { from: [1, 1 << 28, 1], to: [1, 1 << 28, 1], ..of },
    ] {
        assert!(!other.is_for_us(), "{other:?}");
        assert!(ImplicitGemm::new(Device::Host, &other, &[]).is_none());
    }
}

/// Every copy width, tiles that span and exceed rows and images, partial channel tiles, both strides, several paddings,
/// all filters; convolutions and input gradients, in every type.
fn small() -> impl Iterator<Item = GroupedCorrelation> {
    let shapes = [
        convolution([1, 16, 64], [12, 12], 3, 1, 1),
        convolution([3, 18, 70], [7, 7], 3, 1, 1),
        convolution([2, 33, 34], [9, 14], 3, 1, 1),
        convolution([1, 20, 40], [8, 36], 3, 1, 0),
        convolution([2, 17, 33], [6, 10], 3, 1, 2),
        convolution([2, 32, 32], [5, 6], 5, 1, 2),
        convolution([1, 35, 37], [8, 12], 5, 1, 0),
        convolution([2, 16, 32], [12, 16], 3, 2, 1),
        convolution([1, 16, 36], [11, 13], 5, 2, 1),
        convolution([3, 40, 32], [6, 6], 1, 1, 0),
        convolution([2, 32, 65], [7, 7], 1, 1, 0),
        convolution([2, 16, 32], [9, 10], 1, 2, 0),
        // More depth steps than shared memory holds at once.
        convolution([1, 136, 33], [4, 6], 1, 1, 0),
    ];
    shapes.into_iter().flat_map(both_ways).flat_map(in_all_types)
}

/// Groups of every size, joined or not, the last of them alone; dilation, up to one that leaves gaps in a tile; filters,
/// strides and paddings that differ for rows and columns; single rows.
fn general() -> impl Iterator<Item = GroupedCorrelation> {
    let [same, one] = [[1; 2], [0; 2]];
    let shapes = [
        // Groups: joined, joined to less than a matrix, alone, of several matrices, with an odd number of channels.
        of_axes([2, 8, 4, 4], [12, 12], [[3; 2], same, same, same]),
        of_axes([1, 7, 4, 4], [9, 11], [[3; 2], same, same, same]),
        of_axes([2, 5, 2, 6], [8, 8], [[3; 2], [2; 2], same, same]),
        of_axes([1, 3, 8, 8], [7, 7], [[3; 2], same, same, same]),
        of_axes([3, 2, 16, 16], [14, 14], [[3; 2], same, same, same]),
        of_axes([1, 2, 24, 24], [7, 14], [[3; 2], same, same, same]),
        of_axes([1, 3, 3, 5], [10, 6], [[5; 2], same, [2; 2], same]),
        of_axes([1, 2, 48, 20], [6, 6], [[3; 2], [2; 2], same, same]),
        of_axes([2, 3, 12, 36], [7, 9], [same, same, one, same]),
        of_axes([1, 9, 8, 8], [6, 8], [same, same, one, same]),
        of_axes([1, 2, 40, 6], [5, 5], [same, [2; 2], one, same]),
        // Strides: even and odd sizes, larger than the filter, different ones, beside dilation that shares a factor or not.
        of_axes([2, 9, 8, 8], [12, 16], [[3; 2], [2; 2], same, same]),
        of_axes([1, 3, 4, 4], [11, 13], [[3; 2], [2; 2], same, same]),
        of_axes([2, 2, 32, 32], [14, 14], [[3; 2], [2; 2], same, same]),
        of_axes([1, 1, 64, 64], [9, 8], [[3; 2], [2; 2], [0; 2], same]),
        of_axes([1, 2, 16, 16], [10, 15], [[3; 2], [3; 2], same, same]),
        of_axes([2, 3, 8, 6], [17, 16], [[5; 2], [4; 2], [2; 2], same]),
        of_axes([1, 2, 12, 12], [9, 12], [[2; 2], [4, 3], one, same]),
        of_axes([1, 1, 16, 32], [1, 40], [[1, 7], [1, 2], [0, 6], same]),
        of_axes([1, 1, 16, 32], [16, 18], [[3; 2], [2; 2], [2; 2], [2; 2]]),
        of_axes([1, 2, 8, 8], [24, 21], [[3, 2], [2, 3], [4, 5], [3, 5]]),
        of_axes([1, 1, 16, 32], [1, 99], [[1, 3], [1, 2], [0, 31], [1, 31]]),
        of_axes([2, 1, 40, 32], [7, 9], [same, [2; 2], one, same]),
        // Dilation.
        of_axes([2, 1, 16, 32], [12, 12], [[3; 2], same, [2; 2], [2; 2]]),
        of_axes([1, 1, 20, 40], [16, 20], [[3; 2], same, [6; 2], [6; 2]]),
        of_axes([1, 1, 16, 32], [33, 33], [[3; 2], same, [24; 2], [24; 2]]),
        of_axes([1, 1, 16, 32], [20, 24], [[3; 2], [2; 2], [7, 12], [7, 12]]),
        of_axes([1, 2, 4, 4], [18, 16], [[3; 2], same, [8; 2], [8; 2]]),
        // Rectangles and single rows.
        of_axes([1, 1, 24, 36], [9, 12], [[1, 7], same, [0, 3], same]),
        of_axes([2, 1, 16, 32], [12, 8], [[7, 1], same, [3, 0], same]),
        of_axes([1, 1, 16, 34], [8, 12], [[2, 4], [1, 2], [1, 0], same]),
        of_axes([1, 1, 17, 32], [9, 13], [[3, 5], [3, 1], [0, 2], [1, 3]]),
        of_axes([2, 1, 16, 32], [1, 50], [[1, 15], same, [0, 7], same]),
        of_axes([2, 4, 8, 8], [1, 40], [[1, 25], [1, 4], [0, 12], same]),
        // Volumes: slices in front, behind and between, several to a tile, in groups, dilated, with idle axes.
        of_volumes([1, 1, 16, 32], [3, 8, 8], [[3; 3], [1; 3], [1; 3], [1; 3]]),
        of_volumes([2, 1, 20, 34], [4, 7, 7], [[3; 3], [2; 3], [1; 3], [1; 3]]),
        of_volumes([2, 1, 16, 32], [4, 4, 5], [[3; 3], [1; 3], [1; 3], [1; 3]]),
        of_volumes([2, 1, 16, 32], [5, 6, 4], [[2, 1, 3], [1, 1, 1], [0, 0, 1], [1; 3]]),
        of_volumes([1, 3, 8, 8], [4, 6, 6], [[3; 3], [1; 3], [1; 3], [1; 3]]),
        of_volumes([1, 1, 16, 32], [7, 8, 8], [[3, 2, 2], [1, 2, 2], [4, 0, 0], [3, 1, 1]]),
        of_volumes([2, 1, 16, 32], [6, 5, 6], [[3, 1, 1], [1; 3], [1, 0, 0], [1; 3]]),
        of_volumes([2, 1, 16, 32], [3, 5, 12], [[1, 1, 3], [1; 3], [0, 0, 1], [1; 3]]),
        of_volumes([2, 1, 16, 32], [3, 6, 8], [[1, 3, 3], [1; 3], [0, 1, 1], [1; 3]]),
        of_volumes([2, 1, 18, 36], [2, 5, 6], [[1; 3], [1; 3], [0; 3], [1; 3]]),
        of_volumes([1, 1, 16, 32], [6, 6, 6], [[1; 3], [2; 3], [0; 3], [1; 3]]),
        of_volumes([1, 2, 8, 8], [5, 6, 8], [[3; 3], [2, 1, 2], [1; 3], [1; 3]]),
        of_volumes([2, 1, 16, 32], [5, 4, 6], [[2; 3], [2; 3], [0; 3], [1; 3]]),
    ];
    shapes.into_iter().flat_map(both_ways).flat_map(in_all_types)
}

/// Every shape, in a type or two at most; every `step`th is run. The shared memory is that of large GPUs, and of many smaller
/// ones.
fn as_in_loops(test: &str, step: usize) {
    let all = small().step_by(3).chain(general().step_by(5)).map(GroupedCorrelation::flattened);
    let engines = all.enumerate().map(|(index, of)| {
        let shared = if index % 2 == 0 || of.places() > 9 { SHARED } else { 99 << 10 };
        ImplicitGemm { of, tiling: Tiling::of(&of, shared, 1).unwrap() }
    });
    tests::emulated_as_in_loops(test, 21, engines, |index, _| index % step == 0);
}

#[test]
fn some_emulated_as_in_loops() {
    as_in_loops("engines::implicit_gemm::tests::some_emulated_as_in_loops", 9);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    as_in_loops("engines::implicit_gemm::tests::emulated_as_in_loops", 1);
}

/// Each result of a cell has its own places, and rows, columns and slices behind the last one are left out.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_mutants_disagree() {
    let strided = || general().filter(|of| is_divided(of) && of.element == Element::Half);
    let engine = |of| ImplicitGemm { of, tiling: Tiling::of(&of, SHARED, 1).unwrap() };
    let flat: Vec<_> = strided().filter(GroupedCorrelation::is_flat).step_by(3).take(3).map(engine).collect();
    let volumes: Vec<_> = strided().filter(|of| !of.is_flat()).take(2).map(engine).collect();
    let test = "engines::implicit_gemm::tests::emulated_mutants_disagree";
    let mutations = [
        Mutation::Errs("sums[result_column(s)][m][n]", "sums[0][m][n]"),
        Mutation::Errs("if (result_row(r % FILTER_ROWS) != tile.result_row) continue;", ""),
        Mutation::Errs("|| p >= of.p || q >= of.q) continue;", "|| q >= of.q) continue;"),
    ];
    mutants_disagree(test, &flat, &mutations);
    let mutations = [
        Mutation::Errs("if (result_slice(r / FILTER_ROWS) != tile.result_slice) continue;", ""),
        Mutation::Errs("if (CELL_SLICES > 1 && z >= of.z) continue;", ""),
    ];
    mutants_disagree(test, &volumes, &mutations);
}

/// TF32 products lose only what rounding must, without a bias towards zero. Exact products lose only float's rounding.
#[test]
fn emulated_floats_are_rounded_without_a_bias() {
    if !is_child("engines::implicit_gemm::tests::emulated_floats_are_rounded_without_a_bias") {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let shapes = [convolution([1, 16, 32], [6, 8], 3, 1, 1), convolution([1, 130, 32], [6, 8], 1, 1, 0)];
    let of_products = [(false, 4e-4, 5e-5), (true, 2e-7, 5e-8)];
    for (of, (is_exact, most, most_bias)) in shapes.into_iter().flat_map(|of| of_products.map(|most| (of, most))) {
        let of = GroupedCorrelation { is_exact, ..of }.flattened();
        let tiling = Tiling::of(&of, SHARED, 1).unwrap();
        let Some(kernel) = emulated(ImplicitGemm { of, tiling }) else { return };
        for least in [-2.0, 0.5] {
            let (error, bias) = errors_of(&kernel, least, device, stream, &mut SmallRng::seed_from_u64(22));
            assert!(error < most && bias.abs() < most_bias, "{of:?} from {least}: {error:.1e}, {bias:.1e} a bias");
        }
    }
}

/// Layers of ResNeXt-50, RegNet-Y, Inception-v3, DeepLab-v3 and nnU-Net, and of networks for sound.
fn networks() -> impl Iterator<Item = GroupedCorrelation> {
    let [same, one] = [[1; 2], [0; 2]];
    let three = |images, groups, channels, side, stride| {
        of_axes([images, groups, channels, channels], [side; 2], [[3; 2], [stride; 2], same, same])
    };
    let layers = [
        three(128, 32, 4, 56, 1),
        three(128, 32, 8, 56, 2),
        three(128, 32, 16, 28, 2),
        three(128, 32, 32, 14, 2),
        three(128, 32, 8, 28, 1),
        three(128, 32, 16, 14, 1),
        three(128, 32, 32, 7, 1),
        three(128, 8, 24, 28, 1),
        three(128, 16, 56, 14, 1),
        of_axes([128, 1, 192, 192], [17; 2], [[1, 7], same, [0, 3], same]),
        of_axes([128, 1, 192, 192], [17; 2], [[7, 1], same, [3, 0], same]),
        of_axes([16, 1, 512, 256], [33; 2], [[3; 2], same, [12; 2], [12; 2]]),
        of_axes([16, 1, 256, 256], [64; 2], [[3; 2], same, [2; 2], [2; 2]]),
        of_axes([16, 1, 512, 512], [1, 1024], [[1, 11], same, [0, 15], [1, 3]]),
        of_axes([64, 3, 80, 80], [28; 2], [same, same, one, same]),
        // nnU-Net.
        of_volumes([2, 1, 32, 32], [128; 3], [[3; 3], [1; 3], [1; 3], [1; 3]]),
        of_volumes([2, 1, 32, 64], [128; 3], [[3; 3], [2; 3], [1; 3], [1; 3]]),
        of_volumes([2, 1, 128, 256], [32; 3], [[3; 3], [2; 3], [1; 3], [1; 3]]),
        of_volumes([2, 1, 320, 320], [8; 3], [[3; 3], [1; 3], [1; 3], [1; 3]]),
    ];
    layers.into_iter().flat_map(both_ways).flat_map(in_all_types)
}

/// Compiles for all GPUs with their shared memory. Nothing spills for the shapes of common networks.
#[test]
fn compiles_for_all_gpus_without_spills() {
    let shapes =
        [([56, 56], 3, 1), ([14, 14], 3, 1), ([7, 7], 3, 1), ([27, 27], 5, 1), ([56, 56], 3, 2), ([14, 14], 1, 1)];
    let shapes = shapes.map(|(from, filter, stride)| convolution([64, 64, 64], from, filter, stride, filter / 2));
    let all = shapes.into_iter().flat_map(both_ways).flat_map(in_all_types);
    let strided = networks().chain(general()).filter(is_divided);
    // Every twenty-ninth has every type.
    let all = all.chain(networks().chain(general()).step_by(29)).chain(strided.step_by(7));
    let all: Vec<_> = all.map(GroupedCorrelation::flattened).collect();
    let gpus = [(80, 163), (89, 99), (90, 227), (100, 227)];
    let engines = gpus.into_iter().flat_map(|(capability, kibibytes)| {
        all.iter().filter_map(move |&of| {
            let tiling = Tiling::of(&of, kibibytes << 10, MULTIPROCESSORS);
            // Two depth steps of the largest filters exceed the shared memory.
            assert!(tiling.is_some() || capability == 89 && of.places() > 9, "{capability}: {of:?}");
            Some((capability, ImplicitGemm { of, tiling: tiling? }))
        })
    });
    compile_a_share_without_spills(7, engines);
}

/// Returns whether strides divide, as in gradients.
fn is_divided(of: &GroupedCorrelation) -> bool {
    of.is_gradient && of.stride != [1; 3]
}

#[test]
fn strided_gradients_on_a_gpu_as_on_the_host() {
    tests::on_a_gpu_as_on_the_host::<ImplicitGemm>(24, small().chain(general()).filter(is_divided));
}

/// Prints the kernel's speed in half for layers in groups and for input gradients with strides.
#[test]
fn on_a_gpu_at_layers_in_groups() {
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    for of in networks().filter(|of| of.element == Element::Half && (of.groups > 1 || is_divided(of))) {
        let kernel = Compiled::<ImplicitGemm>::new(Device::Cuda, &of, &[]).expect("compiled");
        let pixels = of.images * if of.is_gradient { &of.from } else { &of.to }.iter().product::<usize>();
        print_time(&kernel, pixels * of.groups * of.rows * of.depth * of.places(), stream);
    }
}

/// On a GPU the kernel agrees with loops on the host, and exact products are as accurate as floats.
#[test]
fn on_a_gpu_as_on_the_host() {
    tests::on_a_gpu_as_on_the_host::<ImplicitGemm>(23, small().chain(general()).filter(|of| !is_divided(of)));
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(25);
    let deep = convolution([1, 512, 64], [12, 12], 3, 1, 1);
    let exact = both_ways(deep).map(|of| GroupedCorrelation { is_exact: true, ..of });
    for (of, least) in exact.flat_map(|of| [(of, -2.0), (of, 0.5)]) {
        let kernel = Compiled::<ImplicitGemm>::new(device, &of, &[]).expect("compiled");
        let (error, bias) = errors_of(&kernel, least, device, stream.raw(), &mut random);
        println!("{of:?} from {least}: off by {error:.1e}, of which {bias:.1e} is a bias");
        assert!(error < 1e-6, "{of:?} from {least}: {error:.1e}, of which {bias:.1e} is a bias");
    }
}

/// Prints the kernel's speed for layers of common networks in exact floats, TF32, half and bfloat16.
#[test]
fn on_a_gpu_at_networks_layers() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    // Layers of VGG-16, ResNet-50, AlexNet and the U-Net.
    let layers = [
        ([64, 128, 128], 112, 3),
        ([64, 512, 512], 28, 3),
        ([128, 128, 128], 28, 3),
        ([128, 512, 256], 14, 1),
        ([512, 64, 192], 27, 5),
        ([16, 64, 64], 256, 3),
    ];
    let layers = layers.map(|(channels, side, filter)| convolution(channels, [side; 2], filter, 1, filter / 2));
    for of in layers.into_iter().flat_map(both_ways).flat_map(in_all_types).chain(networks()) {
        let kernel = Compiled::<ImplicitGemm>::new(device, &of, &[]).expect("compiled");
        print_time(
            &kernel,
            of.images * of.to.iter().product::<usize>() * of.groups * of.rows * of.depth * of.places(),
            stream,
        );
    }
}
