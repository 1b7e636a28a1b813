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
    FilterGradient { images, k, c, x, dy: [p, q], filter, stride, padding }
}

#[test]
fn tiles_fit_and_waste_little() {
    const SHARED: usize = 232_448;
    for (side, stride) in [(224, 1), (112, 1), (56, 1), (56, 2), (28, 1), (14, 1), (256, 1), (64, 1)] {
        let of = gradient([64, 64, 64], [side; 2], [3, 3], stride, 1);
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
    let of = gradient([2, 3, 4], [9, 9], [3, 3], 1, 1);
    assert!(of.is_for_us());
    for other in [
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

/// Tensors of small whole numbers, whose products and sums are exact in TF32 and float, in whatever order.
struct Case {
    of: FilterGradient,
    x: Buffer,
    dy: Buffer,
    dw: Buffer,
    /// What dw is to be, where it was and is added to what it `held`.
    expected: Vec<f32>,
    held: Vec<f32>,
}

impl Case {
    const ALPHA: f32 = 0.5;
    const BETA: f32 = 2.0;

    fn new(of: FilterGradient, device: Device, stream: Stream, random: &mut SmallRng) -> Self {
        let mut values = |count: usize| -> Vec<f32> { (0..count).map(|_| random.random_range(-4..=4) as f32).collect() };
        let x = values(of.images * of.c * of.x[0] * of.x[1]);
        let dy = values(of.images * of.k * of.dy[0] * of.dy[1]);
        let held = values(of.elements());
        let mut expected = held.clone();
        let memory = Memory {
            x: x.as_ptr().cast(),
            dy: dy.as_ptr().cast(),
            dw: expected.as_mut_ptr().cast(),
            workspace: std::ptr::null_mut(),
        };
        // SAFETY: as large as the tensors.
        unsafe { compute(&of, memory, Self::ALPHA, Self::BETA) };
        let on_device = |values: &[f32]| {
            let buffer = device.allocate(size_of_val(values) + GUARD).unwrap();
            assert!(write(device, &buffer, values, stream));
            buffer
        };
        let dw = device.allocate(4 * of.elements() + GUARD).unwrap();
        Self { of, x: on_device(&x), dy: on_device(&dy), dw, expected, held }
    }

    /// Runs it in so many parts, in poisoned memory.
    fn check(&self, kernel: &BackwardFilter, device: Device, stream: Stream) {
        let Self { of, x, dy, dw, expected, held } = self;
        let workspace = device.allocate(kernel.workspace() + GUARD).unwrap();
        let memory = Memory { x: x.data(), dy: dy.data(), dw: dw.data(), workspace: workspace.data() };
        let guard = vec![f32::NAN; GUARD / 4];
        let poison = vec![f32::NAN; kernel.workspace() / 4 + guard.len()];
        for adds in [true, false] {
            let begin = if adds { held.clone() } else { vec![f32::NAN; held.len()] };
            assert!(write(device, dw, &[&begin[..], &guard].concat(), stream));
            assert!(write(device, &workspace, &poison, stream));
            let beta = if adds { Self::BETA } else { 0.0 };
            // SAFETY: as large as the tensors.
            assert!(unsafe { kernel.run(stream, memory, Self::ALPHA, beta) });
            let found = read(device, dw, held.len() + guard.len(), stream);
            let expected = expected.iter().zip(held);
            let expected = expected.map(|(sum, held)| if adds { *sum } else { sum - Self::BETA * held });
            let wrong = expected.zip(&found).position(|(expected, found)| expected != *found);
            assert_eq!(wrong, None, "{of:?} in {} parts, {:?}", kernel.splits, kernel.tiling);
            let behind = read(device, &workspace, poison.len(), stream);
            assert!(found[held.len()..].iter().chain(&behind[kernel.workspace() / 4..]).all(|value| value.is_nan()));
        }
    }
}

fn write(device: Device, to: &Buffer, values: &[f32], stream: Stream) -> bool {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    // SAFETY: a buffer of so many bytes.
    unsafe { device.write(to.data(), &bytes, stream) }
}

fn read(device: Device, from: &Buffer, count: usize, stream: Stream) -> Vec<f32> {
    let mut bytes = vec![0; 4 * count];
    // SAFETY: a buffer of so many bytes.
    assert!(unsafe { device.read(&mut bytes, from.data(), stream) });
    bytes.chunks_exact(4).map(|value| f32::from_ne_bytes(value.try_into().unwrap())).collect()
}

/// Every width of accesses, tiles across rows and beyond images, channels that are no whole tile, both strides, paddings.
fn small() -> [FilterGradient; 9] {
    [
        gradient([2, 5, 3], [12, 12], [3, 3], 1, 1),
        gradient([1, 70, 66], [8, 36], [3, 3], 1, 1),
        gradient([2, 3, 2], [9, 28], [3, 3], 1, 1),
        gradient([1, 4, 9], [16, 14], [3, 3], 1, 1),
        gradient([2, 2, 3], [7, 7], [3, 3], 1, 1),
        gradient([1, 3, 2], [18, 34], [3, 3], 1, 0),
        gradient([1, 3, 4], [28, 28], [3, 3], 2, 1),
        gradient([1, 2, 3], [16, 32], [2, 2], 2, 0),
        gradient([1, 3, 2], [10, 13], [3, 2], 1, 1),
    ]
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
    for of in small().into_iter().chain(larger) {
        let case = Case::new(of, device, stream.raw(), &mut random);
        let best = BackwardFilter::best_splits(device, &of, usize::MAX).unwrap();
        for splits in [1, best] {
            case.check(&BackwardFilter::new(device, of, splits).expect("compiled"), device, stream.raw());
        }
    }
}
