use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use super::*;
use crate::exec::emulated;

#[test]
fn what_a_gpu_would_run_covers_every_element() {
    for element in [2, 4] {
        for rows in [1, 3, 4, 8, 12, 64, 96, 128, 1000] {
            for columns in [1, 4, 7, 8, 49, 64, 196, 300, 3136] {
                let matrices = Matrices { images: 70_000, rows, columns };
                let (way, _) = Way::ALL.iter().find(|(way, _)| way.admits(matrices, element)).unwrap();
                let Launch { grid, shared_bytes, .. } = way.launch(matrices, element);
                assert!(shared_bytes as usize <= SHARED && grid[1] == MOST_IMAGES as u32);
                let covered = grid[0] as usize
                    * match *way {
                        Way::Registers(r, c) => TILES * 8 * r * 4 * c,
                        Way::Rows => STRIP * columns,
                        Way::Columns => STRIP * rows,
                        Way::Any => SQUARE * SQUARE,
                    };
                assert!(covered >= rows * columns, "{way:?} {matrices:?}");
            }
        }
    }
}

#[test]
fn twice_transposed_is_the_same_and_sums_are_in_float() {
    let transposes = Transposes::new(Device::Host, CUDNN_DATA_HALF).unwrap();
    let matrices = Matrices { images: 3, rows: 5, columns: 7 };
    let from: Vec<half::f16> = (0..105).map(|i| half::f16::from_f32(i as f32 / 8.0)).collect();
    let (mut once, mut twice) = (vec![half::f16::NAN; 105], vec![half::f16::NAN; 105]);
    let mut sum = vec![f32::NAN; 105];
    let stream = std::ptr::null_mut();
    // SAFETY: as many elements each.
    unsafe {
        assert!(transposes.run(stream, matrices, from.as_ptr().cast(), once.as_mut_ptr().cast()));
        let back = matrices.transposed();
        assert!(transposes.run(stream, back, once.as_ptr().cast(), twice.as_mut_ptr().cast()));
        for begins in [true, false] {
            assert!(transposes.add(stream, back, once.as_ptr().cast(), sum.as_mut_ptr().cast(), begins));
        }
    }
    assert_eq!(from, twice);
    assert_eq!(once[1], from[7]);
    assert!(sum.iter().zip(&from).all(|(sum, value)| *sum == 2.0 * value.to_f32()));
}

/// What the kernels do on the CPU, under the emulator and adversarial schedules, is what the loops do, bit for bit. In a
/// process of its own, whose cuDNN is hostdnn.
#[test]
fn emulated_as_in_loops() {
    if !emulated::is_child("exec::transposes::tests::emulated_as_in_loops") {
        return;
    }
    let mut random = SmallRng::seed_from_u64(8);
    for data_type in [CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT] {
        let loops = Transposes::new(Device::Host, data_type).unwrap();
        let compiled = Transposes::compiled(Device::Host, data_type, loops.element);
        let Some(kernels) = emulated::compiled(compiled) else { return };
        let mut ways = Vec::new();
        for (images, rows, columns) in SMALL_SHAPES {
            let matrices = Matrices { images, rows, columns };
            let (way, _) = Way::ALL.iter().find(|(way, _)| way.admits(matrices, loops.element)).unwrap();
            ways.push(*way);
            let bytes = matrices.elements() * loops.element;
            let aligned = || Device::Host.allocate(bytes + GUARD).unwrap();
            let (from, found) = (aligned(), aligned());
            let mut expected = vec![0xff_u8; bytes + GUARD];
            let (mut sum, mut expected_sum) =
                (vec![f32::NAN; matrices.elements()], vec![f32::NAN; matrices.elements()]);
            let stream = std::ptr::null_mut();
            // SAFETY: buffers of so many bytes, and as many sums as elements.
            let found = unsafe {
                let values = std::slice::from_raw_parts_mut(from.data().cast::<u8>(), bytes);
                random.fill_bytes(values);
                // No NaN, whose bits a sum may change.
                values.iter_mut().skip(loops.element - 1).step_by(loops.element).for_each(|high| *high &= 0xbb);
                found.data().write_bytes(0xff, bytes + GUARD);
                assert!(kernels.run(stream, matrices, from.data(), found.data()), "{way:?} {matrices:?}");
                assert!(loops.run(stream, matrices, from.data(), expected.as_mut_ptr().cast()));
                for begins in [true, false] {
                    assert!(kernels.add(stream, matrices, from.data(), sum.as_mut_ptr().cast(), begins));
                    assert!(loops.add(stream, matrices, from.data(), expected_sum.as_mut_ptr().cast(), begins));
                }
                std::slice::from_raw_parts(found.data().cast::<u8>(), bytes + GUARD)
            };
            assert!(found == expected, "{way:?} {matrices:?}");
            assert!(sum == expected_sum, "the sum of {way:?} {matrices:?}");
        }
        let all =
            Way::ALL.iter().filter(|(way, _)| way.admits(Matrices { images: 0, rows: 0, columns: 0 }, loops.element));
        for (way, _) in all {
            assert!(ways.contains(way), "no shape for {way:?} of {} bytes", loops.element);
        }
    }
}

/// Shapes for each way.
const SMALL_SHAPES: [(usize, usize, usize); 11] = [
    (3, 16, 72),
    (2, 72, 40),
    (2, 24, 20),
    (2, 20, 24),
    (5, 12, 20),
    (2, 64, 35),
    (2, 35, 64),
    (1, 128, 9),
    (1, 9, 128),
    (3, 33, 41),
    (2, 1, 7),
];

/// Bytes between a buffer's data and its end, where nothing may be written.
const GUARD: usize = 256;
/// More elements than these are not summed: the host takes long.
const MOST_SUMMED: usize = 1 << 21;

/// On the GPU `run` and `add` do what they do on the host, bit for bit, in every way; and how many bytes a second.
#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    if device.count() == 0 {
        eprintln!("skipped: there is no GPU");
        return;
    }
    let _entered = device.enter(0).expect("a context");
    let stream = device.stream().expect("a stream");
    let mut random = SmallRng::seed_from_u64(7);
    for (data_type, name) in [(CUDNN_DATA_HALF, "half"), (CUDNN_DATA_BFLOAT16, "bfloat16"), (CUDNN_DATA_FLOAT, "float")]
    {
        let host = Transposes::new(Device::Host, data_type).unwrap();
        let transposes = Transposes::of(device, data_type).expect("compiled");
        for (images, rows, columns) in SHAPES {
            let matrices = Matrices { images, rows, columns };
            let bytes = matrices.elements() * host.element;
            let mut values = vec![0; bytes];
            random.fill_bytes(&mut values);
            if host.element == 2 {
                // No NaN, whose bits a sum may change.
                values.chunks_exact_mut(2).for_each(|value| value[1] &= 0xbb);
            } else {
                values.chunks_exact_mut(4).for_each(|value| value[3] &= 0xbf);
            }
            let from = device.allocate(bytes).unwrap();
            let (poison, sums) = (vec![0xff; bytes + GUARD], matrices.elements() * size_of::<f32>());
            let (to, sum) = (device.allocate(bytes + GUARD).unwrap(), device.allocate(sums).unwrap());
            let (mut expected, mut found) = (poison.clone(), vec![0; bytes + GUARD]);
            let (mut expected_sum, mut found_sum) = (vec![0_f32; matrices.elements()], vec![0; sums]);
            // SAFETY: buffers as long as what is copied, and as the matrices.
            unsafe {
                assert!(
                    device.write(from.data(), &values, stream.raw()) && device.write(to.data(), &poison, stream.raw())
                );
                assert!(transposes.run(stream.raw(), matrices, from.data(), to.data()));
                for begins in [true, false].into_iter().filter(|_| matrices.elements() <= MOST_SUMMED) {
                    assert!(transposes.add(stream.raw(), matrices, from.data(), sum.data(), begins));
                    host.add(stream.raw(), matrices, values.as_ptr().cast(), expected_sum.as_mut_ptr().cast(), begins);
                }
                assert!(device.read(&mut found, to.data(), stream.raw()));
                assert!(device.read(&mut found_sum, sum.data(), stream.raw()));
                host.run(stream.raw(), matrices, values.as_ptr().cast(), expected.as_mut_ptr().cast());
            }
            assert!(found == expected, "{name} {matrices:?}");
            let found_sum = found_sum.chunks_exact(4).map(|sum| f32::from_ne_bytes(sum.try_into().unwrap()));
            assert!(matrices.elements() > MOST_SUMMED || found_sum.eq(expected_sum), "the sum of {name} {matrices:?}");
            let (way, _) = Way::ALL.iter().find(|(way, _)| way.admits(matrices, host.element)).unwrap();
            let mut times: Vec<f64> = (0..9)
                .map(|_| {
                    let from_here = device.mark(stream.raw()).unwrap();
                    // SAFETY: as above.
                    unsafe { transposes.run(stream.raw(), matrices, from.data(), to.data()) };
                    let to_here = device.mark(stream.raw()).unwrap();
                    device.synchronize(stream.raw());
                    let crate::device::Elapsed::Ready(time) = to_here.since(&from_here) else { panic!("no time") };
                    time
                })
                .collect();
            times.sort_by(f64::total_cmp);
            println!("{name} {images} × {rows} × {columns} {way:?}: {:.2} TB/s", 2.0 * bytes as f64 / times[4] / 1e9);
        }
    }
}

/// Images, rows and columns: layers' tensors and filters, both ways round, and what fits no way but the last.
const SHAPES: [(usize, usize, usize); 21] = [
    (32, 64, 50_176),
    (32, 50_176, 64),
    (256, 256, 784),
    (256, 1024, 196),
    (256, 196, 1024),
    (256, 2048, 49),
    (256, 49, 2048),
    (512, 512, 9),
    (512, 9, 512),
    (64, 3, 50_176),
    (64, 50_176, 3),
    (96, 32, 3136),
    (70_000, 8, 8),
    (70_000, 64, 5),
    (70_000, 5, 64),
    (70_000, 3, 5),
    (3, 96, 49),
    (3, 49, 96),
    (1, 4, 4),
    (1, 12, 20),
    (2, 129, 1001),
];
