use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::device::Buffer;
use crate::exec::emulated;

/// Bytes behind dw and the workspace, where nothing may be written.
const GUARD: usize = 256;

fn gradient(
    [images, k, c]: [usize; 3],
    x: [usize; 2],
    filter: [usize; 2],
    stride: usize,
    padding: usize,
) -> FilterGradient {
    let [p, q] = [0, 1].map(|axis| (x[axis] + 2 * padding - filter[axis]) / stride + 1);
    FilterGradient { data_type: CUDNN_DATA_FLOAT, images, k, c, x, dy: [p, q], filter, stride, padding }
}

const TYPES: [cudnnDataType_t; 3] = [CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];

/// An element's bits.
fn bits(data_type: cudnnDataType_t, value: f32) -> Vec<u8> {
    match data_type {
        CUDNN_DATA_HALF => f16::from_f32(value).to_ne_bytes().to_vec(),
        CUDNN_DATA_BFLOAT16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    }
}

#[test]
fn tiles_fit_and_waste_little() {
    const SHARED: usize = 232_448;
    let sides = [(224, 1), (112, 1), (56, 1), (56, 2), (28, 1), (14, 1), (256, 1), (64, 1)];
    for ((side, stride), data_type) in sides.iter().flat_map(|side| TYPES.map(|data_type| (*side, data_type))) {
        let of = FilterGradient { data_type, ..gradient([64, 64, 64], [side; 2], [3, 3], stride, 1) };
        let tiling = Tiling::of(&of, SHARED).unwrap();
        assert!(tiling.shared_bytes(&of) <= SHARED);
        let pixels = tiling.tiles(&of) * tiling.rows * tiling.columns;
        assert!(pixels * 7 <= of.images * of.dy[0] * of.dy[1] * 8, "{tiling:?} of {of:?}");
    }
    // Halves in rows of odd length begin where nothing is copied from.
    let odd = FilterGradient { data_type: CUDNN_DATA_HALF, ..gradient([1, 1, 1], [7; 2], [3, 3], 1, 1) };
    assert_eq!(Tiling::of(&odd, SHARED), None);
    // What no block can hold is not computed.
    assert_eq!(Tiling::of(&gradient([1, 1, 1], [8; 2], [3, 3], 1, 1), 10_000), None);
}

#[test]
fn others_are_not_for_us() {
    let of = gradient([2, 3, 4], [9, 9], [3, 3], 1, 1);
    assert!(of.is_for_us());
    for other in [
        FilterGradient { data_type: CUDNN_DATA_DOUBLE, ..of },
        FilterGradient { filter: [1, 1], ..of },
        FilterGradient { filter: [5, 5], ..of },
        FilterGradient { stride: 3, ..of },
        FilterGradient { padding: 3, ..of },
        FilterGradient { images: 0, ..of },
        FilterGradient { k: 1 << 20, c: 1 << 20, ..of },
    ] {
        assert!(!other.is_for_us(), "{other:?}");
    }
}

#[test]
fn a_limit_is_kept() {
    let of = gradient([64, 64, 64], [56, 56], [3, 3], 1, 1);
    let bytes = of.elements() * size_of::<f32>();
    for limit in [0, bytes, 2 * bytes, 5 * bytes + 1, usize::MAX] {
        let splits = BackwardFilter::best_splits(Device::Host, &of, limit).unwrap();
        let workspace = BackwardFilter::new(Device::Host, of, splits).unwrap().workspace();
        assert!(workspace <= limit, "{splits} parts in {limit} bytes");
        assert_eq!(splits == 1, limit < 2 * bytes);
    }
    assert!(BackwardFilter::new(Device::Host, of, 0).is_err());
    assert!(BackwardFilter::new(Device::Host, of, usize::MAX).is_err());
}

/// Tensors of small whole numbers, whose products and sums are exact in every type of products and in float, in whatever
/// order.
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
        let mut values = |count: usize| -> Vec<u8> {
            (0..count).flat_map(|_| bits(of.data_type, random.random_range(-4..=4) as f32)).collect()
        };
        let x = values(of.images * of.c * of.x[0] * of.x[1]);
        let dy = values(of.images * of.k * of.dy[0] * of.dy[1]);
        let held = values(of.elements());
        let compute = |beta: f32| {
            let mut dw = held.clone();
            let (x, dy) = (x.as_ptr().cast(), dy.as_ptr().cast());
            let memory = Memory { x, dy, dw: dw.as_mut_ptr().cast(), workspace: std::ptr::null_mut() };
            // SAFETY: as large as the tensors, in memory that is aligned to more than elements are.
            unsafe { compute(&of, memory, Self::ALPHA, beta) };
            dw
        };
        let (added, written) = (compute(Self::BETA), compute(0.0));
        let on_device = |bytes: &[u8]| {
            let buffer = device.allocate(bytes.len() + GUARD).unwrap();
            write(device, &buffer, bytes, stream);
            buffer
        };
        let (x, dy, dw) = (on_device(&x), on_device(&dy), on_device(&held));
        Self { of, x, dy, dw, held, added, written }
    }

    /// Runs it in so many parts, in poisoned memory.
    fn check(&self, kernel: &BackwardFilter, device: Device, stream: Stream) {
        let Self { of, x, dy, dw, held, added, written } = self;
        let workspace = device.allocate(kernel.workspace() + GUARD).unwrap();
        let memory = Memory { x: x.data(), dy: dy.data(), dw: dw.data(), workspace: workspace.data() };
        let guard = [0xff; GUARD];
        for (beta, begin, expected) in
            [(Self::BETA, &held[..], added), (0.0, &vec![0xff; held.len()][..], written)]
        {
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

fn write(device: Device, to: &Buffer, bytes: &[u8], stream: Stream) {
    // SAFETY: a buffer of so many bytes.
    assert!(unsafe { device.write(to.data(), bytes, stream) });
}

fn read(device: Device, from: &Buffer, count: usize, stream: Stream) -> Vec<u8> {
    let mut bytes = vec![0; count];
    // SAFETY: a buffer of so many bytes.
    assert!(unsafe { device.read(&mut bytes, from.data(), stream) });
    bytes
}

/// Every width of accesses, tiles across rows and beyond images, channels that are no whole tile, both strides, paddings, in
/// every type.
fn small() -> impl Iterator<Item = FilterGradient> {
    let shapes = [
        gradient([2, 5, 3], [12, 12], [3, 3], 1, 1),
        gradient([1, 70, 66], [8, 36], [3, 3], 1, 1),
        gradient([2, 3, 2], [9, 28], [3, 3], 1, 1),
        gradient([1, 4, 9], [16, 14], [3, 3], 1, 1),
        gradient([2, 2, 3], [7, 7], [3, 3], 1, 1),
        gradient([1, 3, 2], [18, 34], [3, 3], 1, 0),
        gradient([1, 3, 4], [28, 28], [3, 3], 2, 1),
        gradient([1, 2, 3], [16, 32], [2, 2], 2, 0),
        gradient([1, 3, 2], [10, 13], [3, 2], 1, 1),
        gradient([2, 3, 2], [12, 16], [3, 3], 1, 2),
    ];
    let of_types = shapes.into_iter().flat_map(|of| TYPES.map(|data_type| FilterGradient { data_type, ..of }));
    of_types.filter(|of| of.data_type == CUDNN_DATA_FLOAT || [of.x[1], of.dy[1]].iter().all(|width| width % 2 == 0))
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
    for of in small() {
        let tiling = Tiling::of(&of, device.shared_bytes(0).unwrap()).unwrap();
        let Some(code) = emulated::compiled(Code::compiled(device, &of, &tiling)).map(Arc::new) else { return };
        let case = Case::new(of, device, stream, &mut random);
        for splits in [1, 3].into_iter().filter(|splits| *splits <= tiling.tiles(&of)) {
            let kernel = BackwardFilter::of_code(of, splits, tiling, code.clone()).unwrap();
            case.check(&kernel, device, stream);
        }
    }
}

/// On a GPU it is what loops on the host find.
#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    if device.count() == 0 {
        eprintln!("skipped: there is no GPU");
        return;
    }
    let _entered = device.enter(0).expect("a context");
    let stream = device.stream().expect("a stream");
    let mut random = SmallRng::seed_from_u64(12);
    let larger = [
        gradient([4, 64, 64], [56, 56], [3, 3], 1, 1),
        gradient([3, 130, 70], [28, 28], [3, 3], 1, 1),
        gradient([3, 70, 130], [14, 14], [3, 3], 1, 1),
        gradient([2, 64, 64], [56, 56], [3, 3], 2, 1),
    ];
    let larger = larger.into_iter().flat_map(|of| TYPES.map(|data_type| FilterGradient { data_type, ..of }));
    for of in small().chain(larger) {
        let case = Case::new(of, device, stream.raw(), &mut random);
        let best = BackwardFilter::best_splits(device, &of, usize::MAX).unwrap();
        for splits in [1, best] {
            case.check(&BackwardFilter::new(device, of, splits).expect("compiled"), device, stream.raw());
        }
    }
}
