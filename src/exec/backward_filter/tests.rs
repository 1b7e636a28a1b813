use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::device::jit::resources;
use crate::device::{Buffer, OwnStream, on_a_gpu};
use crate::exec::emulated;
use crate::exec::in_memory::{GUARD, between_nans, bits, bytes_of, errors, read, small_whole_numbers, write};

fn gradient(
    [images, k, c]: [usize; 3],
    x: [usize; 2],
    filter: [usize; 2],
    stride: usize,
    padding: usize,
) -> FilterGradient {
    let [p, q] = [0, 1].map(|axis| (x[axis] + 2 * padding - filter[axis]) / stride + 1);
    FilterGradient {
        data_type: CUDNN_DATA_FLOAT,
        is_exact: false,
        images,
        k,
        c,
        x,
        dy: [p, q],
        filter,
        stride,
        padding,
    }
}

/// The same in every type, and of floats that are multiplied as such.
fn in_all_types(of: FilterGradient) -> [FilterGradient; 4] {
    let in_type = |data_type| FilterGradient { data_type, ..of };
    let others = [CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16].map(in_type);
    [of, FilterGradient { is_exact: true, ..of }, others[0], others[1]]
}

#[test]
fn tiles_fit_and_waste_little() {
    const SHARED: usize = 232_448;
    let sides = [(224, 1), (112, 1), (56, 1), (56, 2), (28, 1), (14, 1), (256, 1), (64, 1)];
    let shapes = sides.map(|(side, stride)| gradient([64, 64, 64], [side; 2], [3, 3], stride, 1));
    for of in shapes.into_iter().flat_map(in_all_types) {
        let tiling = Tiling::of(&of, SHARED).unwrap();
        assert!(tiling.shared_bytes(&of) <= SHARED);
        let pixels = tiling.tiles(&of) * tiling.rows * tiling.columns;
        assert!(pixels * 7 <= of.images * of.dy[0] * of.dy[1] * 8, "{tiling:?} of {of:?}");
    }
    // What no block can hold is not computed.
    assert_eq!(Tiling::of(&gradient([1, 1, 1], [8; 2], [3, 3], 1, 1), 10_000), None);
}

#[test]
fn others_are_not_for_us() {
    let of = gradient([2, 3, 10], [9, 9], [3, 3], 1, 1);
    assert!(of.is_for_us() && gradient([2, 3, 3], [9, 9], [7, 7], 1, 3).is_for_us());
    // Products of matrices are computed, if need be, and rows of odd length in half.
    let one_place = |sizes| gradient(sizes, [9, 9], [1, 1], 1, 0);
    assert!([[2, 32, 33], [2, 33, 32]].iter().all(|sizes| one_place(*sizes).is_fast()));
    assert!(one_place([2, 33, 33]).is_for_us() && !one_place([2, 33, 33]).is_fast());
    let half = FilterGradient { data_type: CUDNN_DATA_HALF, ..of };
    assert!(of.is_fast() && half.is_for_us() && !half.is_fast());
    assert!(FilterGradient { is_exact: true, ..one_place([2, 33, 33]) }.is_fast());
    for other in [
        FilterGradient { data_type: CUDNN_DATA_DOUBLE, ..of },
        FilterGradient { images: 0, ..of },
        FilterGradient { dy: [9, 10], ..of },
        FilterGradient { x: [1, 9], padding: 0, ..of },
        FilterGradient { x: [usize::MAX, 2], ..of },
        FilterGradient { c: usize::MAX, ..of },
        FilterGradient { k: 1 << 20, c: 1 << 20, ..of },
        gradient([2, 3, 10], [9, 9], [1, 3], 1, 0),
        gradient([2, 3, 10], [9, 9], [5, 5], 1, 1),
        gradient([2, 3, 2], [9, 9], [9, 9], 1, 1),
        gradient([2, 3, 10], [9, 9], [3, 3], 1, 3),
        gradient([2, 3, 10], [9, 9], [3, 3], 3, 1),
        gradient([2, 3, 10], [9, 9], [3, 3], 4, 1),
        gradient([2, 3, 10], [32, 32], [3, 3], 16, 1),
    ] {
        assert!(!other.is_for_us(), "{other:?}");
        assert_eq!(BackwardFilter::best_splits(Device::Host, &other, usize::MAX), None);
        assert!(BackwardFilter::new(Device::Host, other, 1).is_err());
    }
}

#[test]
fn a_limit_is_kept() {
    let of = gradient([32, 64, 64], [56, 56], [3, 3], 1, 1);
    let bytes = of.elements() * size_of::<f32>();
    for limit in [0, bytes, 2 * bytes, 5 * bytes + 1, usize::MAX] {
        let splits = BackwardFilter::best_splits(Device::Host, &of, limit).unwrap();
        let workspace = BackwardFilter::new(Device::Host, of, splits).unwrap().workspace();
        assert!(workspace <= limit, "{splits} parts in {limit} bytes");
        assert_eq!(splits == 1, limit < 2 * bytes);
    }
    // Where a sum would have too many terms, nothing is offered.
    let long = gradient([64, 64, 64], [224, 224], [3, 3], 1, 1);
    assert_eq!(BackwardFilter::best_splits(Device::Host, &long, 0), None);
    assert!(BackwardFilter::best_splits(Device::Host, &long, usize::MAX) >= Some(25));
    assert!(BackwardFilter::new(Device::Host, of, 0).is_err());
    assert!(BackwardFilter::new(Device::Host, of, usize::MAX).is_err());
}

/// Tensors of small whole numbers.
struct Case {
    of: FilterGradient,
    x: Buffer,
    dy: Buffer,
    dw: Buffer,
    held: Vec<u8>,
    /// What dw is to be where it adds to what it `held`, and where it does not.
    added: Vec<u8>,
    written: Vec<u8>,
}

impl Case {
    const ALPHA: f32 = 0.5;
    const BETA: f32 = 2.0;

    fn new(of: FilterGradient, device: Device, stream: Stream, random: &mut SmallRng) -> Self {
        let mut values = |count: usize| small_whole_numbers(of.data_type, count, random);
        let x = values(of.images * of.c * of.x[0] * of.x[1]);
        let dy = values(of.images * of.k * of.dy[0] * of.dy[1]);
        let held = values(of.elements());
        let compute = |beta: f32| {
            let mut dw = held.clone();
            let (x, dy) = (x.as_ptr().cast(), dy.as_ptr().cast());
            let memory = GradientMemory { x, dy, dw: dw.as_mut_ptr().cast(), workspace: std::ptr::null_mut() };
            // SAFETY: as large as the tensors, in memory that is aligned to more than elements are.
            unsafe { compute(&of, memory, Self::ALPHA, beta) };
            dw
        };
        let (added, written) = (compute(Self::BETA), compute(0.0));
        let (x, dy) = (between_nans(device, &x, stream), between_nans(device, &dy, stream));
        let dw = device.allocate(held.len() + GUARD).unwrap();
        Self { of, x, dy, dw, held, added, written }
    }

    /// Runs it in so many parts, in poisoned memory.
    fn check(&self, kernel: &BackwardFilter, device: Device, stream: Stream) {
        let Self { of, x, dy, dw, held, added, written } = self;
        let workspace = device.allocate(kernel.workspace() + GUARD).unwrap();
        let [x, dy] = [x, dy].map(|tensor| tensor.data().wrapping_byte_add(GUARD));
        let memory = GradientMemory { x, dy, dw: dw.data(), workspace: workspace.data() };
        let guard = [0xff; GUARD];
        for (beta, begin, expected) in [(Self::BETA, &held[..], added), (0.0, &vec![0xff; held.len()][..], written)] {
            write(device, dw, &[begin, &guard[..]].concat(), stream);
            write(device, &workspace, &vec![0xff; kernel.workspace() + GUARD], stream);
            // SAFETY: as large as the tensors.
            assert!(unsafe { kernel.run(stream, memory, Self::ALPHA, beta) });
            let found = read(device, dw, held.len() + GUARD, stream);
            let wrong = expected.iter().zip(&found).position(|(expected, found)| expected != found);
            let wrong = wrong.map(|byte| byte / of.element());
            assert_eq!(wrong, None, "{of:?} in {} parts, {:?}, beta {beta}", kernel.splits, kernel.tiling);
            let behind = read(device, &workspace, kernel.workspace() + GUARD, stream);
            assert!(found.ends_with(&guard) && behind.ends_with(&guard), "written behind the end");
        }
    }
}

/// Every width of accesses, tiles across rows and beyond images, channels that are no whole tile, both strides, paddings, in
/// every type.
fn small() -> impl Iterator<Item = FilterGradient> {
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
        // One place.
        gradient([2, 2, 66], [10, 16], [1, 1], 1, 0),
        gradient([1, 70, 30], [9, 20], [1, 1], 2, 0),
        gradient([2, 66, 3], [12, 32], [1, 1], 1, 0),
        gradient([1, 5, 24], [18, 36], [1, 1], 2, 0),
        // Of which only floats as such are computed, with few k and many, whose tiles are alike.
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

/// What the kernel does on the CPU, under the emulator and adversarial schedules, is what loops do. In a process of its own,
/// whose cuDNN is hostdnn.
#[test]
fn emulated_as_in_loops() {
    if !emulated::is_child("exec::backward_filter::tests::emulated_as_in_loops") {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(11);
    // Every shape, in one type or two.
    for (index, of) in small().step_by(3).enumerate() {
        // As much shared memory as a GPU has, for three tiles, and what many have.
        let shared = if index % 2 == 0 { 227 << 10 } else { 99 << 10 };
        let tiling = Tiling::of(&of, shared).unwrap();
        let Some(code) = emulated::compiled(Code::compiled(device, &of, &tiling)).map(Arc::new) else { return };
        let case = Case::new(of, device, stream, &mut random);
        // Shares as long as they may be, and shorter than what is copied ahead.
        let tiles = tiling.tiles(&of);
        for splits in [1, 3.min(tiles), tiles.min(8)] {
            let kernel = BackwardFilter::of_code(of, splits, tiling, code.clone()).unwrap();
            case.check(&kernel, device, stream);
        }
    }
}

/// ||dw - exact|| / ||exact|| and how much larger dw is on average, of positive numbers that no type of products has exactly,
/// where errors of one sign add up.
fn errors_of(kernel: &BackwardFilter, device: Device, stream: Stream, random: &mut SmallRng) -> (f64, f64) {
    let of = kernel.of;
    let mut values = |count: usize| -> Vec<f32> { (0..count).map(|_| random.random_range(0.5..2.0)).collect() };
    let x = values(of.images * of.c * of.x[0] * of.x[1]);
    let dy = values(of.images * of.k * of.dy[0] * of.dy[1]);
    let mut exact = vec![0_f32; of.elements()];
    let (x_data, dy_data) = (x.as_ptr().cast(), dy.as_ptr().cast());
    let memory = |x, dy, dw, workspace| GradientMemory { x, dy, dw, workspace };
    // SAFETY: as large as the tensors.
    unsafe { compute(&of, memory(x_data, dy_data, exact.as_mut_ptr().cast(), std::ptr::null_mut()), 1.0, 0.0) };
    let on_device = |values: &[f32]| {
        let buffer = device.allocate(4 * values.len()).unwrap();
        write(device, &buffer, &bytes_of(values), stream);
        buffer
    };
    let (x, dy) = (on_device(&x), on_device(&dy));
    let (dw, workspace) = (device.allocate(4 * exact.len()).unwrap(), device.allocate(kernel.workspace() + 4).unwrap());
    // SAFETY: likewise.
    assert!(unsafe { kernel.run(stream, memory(x.data(), dy.data(), dw.data(), workspace.data()), 1.0, 0.0) });
    let exact: Vec<f64> = exact.into_iter().map(f64::from).collect();
    errors(&read(device, &dw, 4 * exact.len(), stream), &exact)
}

/// Floats lose no more than products in TF32 must, and do not become smaller: cut off, two of them lose 7e-4 on average. Those
/// that are multiplied as such lose what floats do.
#[test]
fn emulated_floats_are_rounded_without_a_bias() {
    if !emulated::is_child("exec::backward_filter::tests::emulated_floats_are_rounded_without_a_bias") {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    for (is_exact, most, most_bias) in [(false, 1e-4, 5e-5), (true, 2e-7, 3e-8)] {
        let of = FilterGradient { is_exact, ..gradient([2, 3, 9], [16, 16], [3, 3], 1, 1) };
        let tiling = Tiling::of(&of, 227 << 10).unwrap();
        let Some(code) = emulated::compiled(Code::compiled(device, &of, &tiling)).map(Arc::new) else { return };
        let kernel = BackwardFilter::of_code(of, 1, tiling, code).unwrap();
        let (error, bias) = errors_of(&kernel, device, stream, &mut SmallRng::seed_from_u64(13));
        assert!(error < most && bias.abs() < most_bias, "{of:?}: {error:.1e}, of which {bias:.1e} is a bias");
    }
}

/// For all GPUs, each with its shared memory; and of what networks have nothing spills.
#[test]
fn compiles_for_all_gpus_without_spills() {
    let Some(nvrtc) = resources::nvrtc() else { return };
    let shapes =
        [([64, 64], [3, 3], 1, 1), ([28, 28], [3, 3], 1, 1), ([56, 56], [3, 3], 2, 1), ([64, 64], [2, 2], 2, 0)];
    let shapes = shapes.map(|(x, filter, stride, padding)| gradient([64, 64, 64], x, filter, stride, padding));
    let few = [gradient([64, 64, 3], [224, 224], [7, 7], 2, 3), gradient([64, 64, 3], [224, 224], [3, 3], 1, 1)];
    let one_place = gradient([16, 2, 64], [256, 256], [1, 1], 1, 0);
    let exact = [(56, 1), (56, 2), (7, 1)].map(|(side, stride)| gradient([64, 128, 64], [side; 2], [1, 1], stride, 0));
    let exact = exact.map(|of| FilterGradient { is_exact: true, ..of });
    for of in shapes.into_iter().chain(few).chain([one_place]).flat_map(in_all_types).chain(exact) {
        for (capability, kibibytes) in [(80, 163), (89, 99), (90, 227), (100, 227)] {
            let tiling = Tiling::of(&of, kibibytes << 10).unwrap();
            let compiled = resources::compile(nvrtc, &Code::source(&of, &tiling), capability);
            let spills = compiled.count(resources::STL) + compiled.count(resources::LDL);
            assert_eq!(spills, 0, "{capability}: {of:?}, {tiling:?}");
        }
    }
}

/// On a GPU it is what loops on the host find, and exact enough where a sum has as many terms as it may have.
#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some((_entered, stream)) = on_a_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(12);
    let larger = [
        gradient([1, 64, 64], [56, 56], [3, 3], 1, 1),
        gradient([2, 130, 70], [28, 28], [3, 3], 1, 1),
        gradient([3, 70, 130], [14, 14], [3, 3], 1, 1),
        gradient([1, 64, 64], [56, 56], [3, 3], 2, 1),
    ];
    for of in small().chain(larger.into_iter().flat_map(in_all_types)) {
        let case = Case::new(of, device, stream.raw(), &mut random);
        let best = BackwardFilter::best_splits(device, &of, usize::MAX).unwrap();
        for splits in [1, best] {
            case.check(&BackwardFilter::new(device, of, splits).expect("compiled"), device, stream.raw());
        }
    }
    let beyond = gradient([42, 8, 9], [56, 56], [3, 3], 1, 1);
    assert_eq!(BackwardFilter::best_splits(device, &beyond, 0), None);
    for (is_exact, least) in [(false, 1e-3), (true, 2e-6)] {
        let most = FilterGradient { images: 41, is_exact, ..beyond };
        let kernel = BackwardFilter::new(device, most, 1).expect("compiled");
        let (error, bias) = errors_of(&kernel, device, stream.raw(), &mut random);
        println!("sums of {} positive products: off by {error:.1e}, of which {bias:.1e} is a bias", 41 * 56 * 56);
        assert!(error < least, "{most:?}: {error:.1e}, of which {bias:.1e} is a bias");
    }
}

/// How fast it is there at networks' layers.
#[test]
fn on_a_gpu_at_networks_layers() {
    let device = Device::Cuda;
    let Some((_entered, stream)) = on_a_gpu::first() else { return };
    let layer =
        |(images, k, c, side, filter, stride)| gradient([images, k, c], [side; 2], [filter; 2], stride, filter / 2);
    let exact = LAYERS_OF_FLOATS.map(layer).map(|of| FilterGradient { is_exact: true, ..of });
    for of in LAYERS.map(layer).into_iter().flat_map(in_all_types).chain(exact) {
        let splits = BackwardFilter::best_splits(device, &of, usize::MAX).unwrap();
        let kernel = BackwardFilter::new(device, of, splits).expect("compiled");
        let time = time(&kernel, device, &stream);
        let products = of.images * of.dy[0] * of.dy[1] * of.elements();
        let rate = 2.0 * products as f64 / time / 1e9;
        println!("{of:?}, {:?}, {splits} parts: {time:.3} ms, {rate:.0} TFLOP/s", kernel.tiling);
    }
}

/// Images, k, c, the sides of x and of the filter, and the stride, of VGG-16, ResNet-18 and the U-Net.
const LAYERS: [(usize, usize, usize, usize, usize, usize); 12] = [
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

/// Those of ResNet-50 with filters of one place, which only floats as such are computed of.
const LAYERS_OF_FLOATS: [(usize, usize, usize, usize, usize, usize); 6] = [
    (128, 64, 256, 56, 1, 1),
    (128, 256, 64, 56, 1, 1),
    (128, 128, 512, 28, 1, 1),
    (128, 1024, 256, 14, 1, 1),
    (128, 512, 2048, 7, 1, 1),
    (128, 512, 256, 56, 1, 2),
];

/// The median of some runs, in milliseconds.
fn time(kernel: &BackwardFilter, device: Device, stream: &OwnStream) -> f64 {
    let of = kernel.of;
    let [x, dy] =
        [(of.c, of.x), (of.k, of.dy)].map(|(channels, [rows, columns])| of.images * channels * rows * columns);
    // Zeros would take less power, and less time.
    let mut random = SmallRng::seed_from_u64(14);
    let few: Vec<u8> = (0..1021).flat_map(|_| bits(of.data_type, random.random_range(-1.0..1.0))).collect();
    let filled = |elements: usize| {
        let bytes = few.repeat(elements.div_ceil(1021));
        let buffer = device.allocate(bytes.len()).unwrap();
        write(device, &buffer, &bytes, stream.raw());
        buffer
    };
    let (x, dy, dw) = (filled(x), filled(dy), filled(of.elements()));
    let workspace = device.allocate(kernel.workspace().max(1)).unwrap();
    let memory = GradientMemory { x: x.data(), dy: dy.data(), dw: dw.data(), workspace: workspace.data() };
    // SAFETY: as large as the tensors.
    on_a_gpu::median(stream, || assert!(unsafe { kernel.run(stream.raw(), memory, 1.0, 0.0) }))
}
