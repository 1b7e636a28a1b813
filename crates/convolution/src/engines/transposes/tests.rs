use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use super::*;
use gpu::Buffer;
use gpu::testing::emulated;
use gpu::testing::on_gpu;

#[test]
fn what_a_gpu_would_run_covers_every_element() {
    for element in [2, 4] {
        for rows in [1, 3, 4, 8, 12, 64, 96, 128, 1000] {
            for columns in [1, 4, 7, 8, 49, 64, 196, 300, 3136] {
                let matrices = Matrices::packed(70_000, rows, columns);
                let way = way_of(matrices, element);
                let (blocks, shared) = way.blocks(matrices, element);
                assert!(shared <= SHARED);
                let covered = blocks
                    * match way {
                        Way::Registers(r, c) => TILES * 8 * r * 4 * c,
                        Way::Rows => STRIP * columns,
                        Way::Columns => STRIP * rows,
                        Way::FewRows => THREADS * EACH * rows,
                        Way::FewColumns => THREADS * EACH * columns,
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
    let matrices = Matrices::packed(3, 5, 7);
    let from: Vec<half::f16> = (0..105).map(|i| half::f16::from_f32(i as f32 / 8.0)).collect();
    let (mut once, mut twice) = (vec![half::f16::NAN; 105], vec![half::f16::NAN; 105]);
    let mut sum = vec![f32::NAN; 105];
    let stream = std::ptr::null_mut();
    let there = written(matrices, from.as_ptr().cast(), once.as_mut_ptr().cast());
    let once_there = once.as_mut_ptr().cast::<c_void>();
    let back = matrices.transposed();
    let [begun, added] = [true, false].map(|begins| summed(back, once_there, sum.as_mut_ptr().cast(), begins));
    // SAFETY: each vector has as many elements as the matrices.
    unsafe {
        assert!(transposes.run(stream, &[there]));
        assert!(transposes.run(stream, &[written(back, once_there, twice.as_mut_ptr().cast()), begun]));
        assert!(transposes.run(stream, &[added]));
    }
    assert_eq!(from, twice);
    assert_eq!(once[1], from[7]);
    assert!(sum.iter().zip(&from).all(|(sum, value)| *sum == 2.0 * value.to_f32()));
}

fn written(matrices: Matrices, from: *const c_void, to: *mut c_void) -> Transposition {
    Transposition { matrices, from, to: Destination::Tensor(to) }
}

fn summed(matrices: Matrices, from: *const c_void, sum: *mut c_void, begins: bool) -> Transposition {
    Transposition { matrices, from, to: Destination::Sum(sum, begins) }
}

/// On the CPU, under the emulator and adversarial schedules, the kernels agree with the loops bit for bit, all in one
/// launch and, if `alone`, one at a time. Runs in child processes whose cuDNN is hostdnn.
fn as_in_loops(test: &str, data_types: &[cudnnDataType_t], alone: bool) {
    if !emulated::is_child(test) {
        return;
    }
    let mut random = SmallRng::seed_from_u64(8);
    for &data_type in data_types {
        let loops = Transposes::new(Device::Host, data_type).unwrap();
        let compiled = Transposes::compiled(Device::Host, data_type, loops.element);
        let Some(kernels) = emulated::compiled(compiled) else { return };
        let shapes = shapes(&SMALL_SHAPES, &[35, 1100], loops.element);
        let mut cases: Vec<Case> = shapes.map(|shape| Case::new(shape, &loops, &mut random)).collect();
        for (way, _) in Way::ALL.iter().filter(|(way, _)| way.is_for(loops.element)) {
            let there_is = cases.iter().any(|case| way_of(case.matrices, loops.element) == *way);
            assert!(there_is, "no shape for {way:?} of {} bytes", loops.element);
        }
        for together in if alone { vec![1, cases.len()] } else { vec![cases.len()] } {
            for cases in cases.chunks_mut(together) {
                cases.iter_mut().for_each(Case::poison);
                for begins in [true, false] {
                    let each: Vec<_> = cases.iter().flat_map(|case| case.both(begins)).collect();
                    // SAFETY: the buffers are as large as the matrices, and the sums have a float for each element.
                    assert!(unsafe { kernels.run(std::ptr::null_mut(), &each) });
                }
                cases.iter().for_each(|case| case.check(&loops));
            }
        }
    }
}

#[test]
fn floats_emulated_as_in_loops() {
    as_in_loops("engines::transposes::tests::floats_emulated_as_in_loops", &[CUDNN_DATA_FLOAT], false);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    let data_types = [CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT];
    as_in_loops("engines::transposes::tests::emulated_as_in_loops", &data_types, true);
}

/// The packed shapes, and images whose few channels are padded to one access, in both directions.
fn shapes(packed: &[(usize, usize, usize)], places: &[usize], element: usize) -> impl Iterator<Item = Matrices> {
    let packed: Vec<_> =
        packed.iter().map(|&(images, rows, columns)| Matrices::packed(images, rows, columns)).collect();
    let few = [2, 3, ACCESS / element].into_iter().flat_map(|channels| {
        let matrices = places.iter().map(move |&places| Matrices::packed(3, channels, places));
        matrices.map(|matrices| Matrices { transposed_pitch: ACCESS / element, ..matrices })
    });
    let few: Vec<_> = few.flat_map(|matrices| [matrices, matrices.transposed()]).collect();
    packed.into_iter().chain(few)
}

fn way_of(matrices: Matrices, element: usize) -> Way {
    Way::ALL.iter().map(|(way, _)| *way).find(|way| way.admits(matrices, element)).unwrap()
}

/// Matrices in host memory, and their destinations.
struct Case {
    matrices: Matrices,
    /// The size of the transposed matrices in bytes.
    bytes: usize,
    from: Buffer,
    to: Buffer,
    sum: Buffer,
}

impl Case {
    fn new(matrices: Matrices, loops: &Transposes, random: &mut SmallRng) -> Self {
        let [read, written] = [matrices, matrices.transposed()].map(Matrices::elements);
        let (bytes, read) = (written * loops.element, read * loops.element);
        let memory = |bytes: usize| Device::Host.allocate(bytes + GUARD).unwrap();
        let it = Self { matrices, bytes, from: memory(read), to: memory(bytes), sum: memory(4 * written) };
        // SAFETY: the buffer has `read` bytes.
        let values = unsafe { std::slice::from_raw_parts_mut(it.from.data().cast::<u8>(), read) };
        random.fill_bytes(values);
        // No NaN: a sum may change its bits.
        values.iter_mut().skip(loops.element - 1).step_by(loops.element).for_each(|high| *high &= 0xbb);
        it
    }

    fn poison(&mut self) {
        // SAFETY: the buffers have these sizes.
        unsafe {
            self.to.data().write_bytes(0xff, self.bytes + GUARD);
            self.sum.data().write_bytes(0xff, 4 * self.matrices.transposed().elements() + GUARD);
        }
    }

    /// The transposition into `to`, and the one into the sum if the matrices can be summed.
    fn both(&self, begins: bool) -> impl Iterator<Item = Transposition> {
        let (matrices, from) = (self.matrices, self.from.data());
        let sum = is_summed(matrices).then(|| summed(matrices, from, self.sum.data(), begins));
        std::iter::once(written(matrices, from, self.to.data())).chain(sum)
    }

    /// Compares the kernels' results with those of the loops.
    fn check(&self, loops: &Transposes) {
        let (matrices, from, sums) = (self.matrices, self.from.data(), 4 * self.matrices.transposed().elements());
        let (mut to, mut sum) = (vec![0xff_u8; self.bytes + GUARD], vec![0xff_u8; sums + GUARD]);
        let begun_and_added = [true, false].map(|begins| summed(matrices, from, sum.as_mut_ptr().cast(), begins));
        // SAFETY: the buffers and vectors are as large as the matrices, and the sums have a float for each element.
        unsafe {
            loops.run(std::ptr::null_mut(), &[written(matrices, from, to.as_mut_ptr().cast())]);
            for one in begun_and_added.iter().filter(|_| is_summed(matrices)) {
                loops.run(std::ptr::null_mut(), &[*one]);
            }
            let found = |memory: &Buffer, bytes| std::slice::from_raw_parts(memory.data().cast::<u8>(), bytes);
            assert!(found(&self.to, self.bytes + GUARD) == to, "{matrices:?}");
            assert!(found(&self.sum, sums + GUARD) == sum, "the sum of {matrices:?}");
        }
    }
}

/// Sums have no padding between rows.
fn is_summed(matrices: Matrices) -> bool {
    matrices.transposed_pitch == matrices.rows
}

/// Shapes for each variant of packed matrices.
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

/// Bytes behind a buffer's data that nothing may write.
const GUARD: usize = 256;
/// Matrices with more elements are not summed, because the host would take long.
const MOST_SUMMED: usize = 1 << 21;

/// On a GPU all variants agree with the host bit for bit. Prints their rates in bytes a second.
#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(7);
    for (data_type, name) in [(CUDNN_DATA_HALF, "half"), (CUDNN_DATA_BFLOAT16, "bfloat16"), (CUDNN_DATA_FLOAT, "float")]
    {
        let host = Transposes::new(Device::Host, data_type).unwrap();
        let transposes = Transposes::of(device, data_type).expect("compiled");
        for matrices in shapes(&SHAPES, &[50_176], host.element) {
            let Matrices { images, rows, columns, .. } = matrices;
            let [bytes, written_bytes] =
                [matrices, matrices.transposed()].map(|matrices| matrices.elements() * host.element);
            let sums = matrices.transposed().elements() * size_of::<f32>();
            let mut values = vec![0; bytes];
            random.fill_bytes(&mut values);
            if host.element == 2 {
                // No NaN: a sum may change its bits.
                values.chunks_exact_mut(2).for_each(|value| value[1] &= 0xbb);
            } else {
                values.chunks_exact_mut(4).for_each(|value| value[3] &= 0xbf);
            }
            let from = device.allocate(bytes).unwrap();
            let poison = vec![0xff; written_bytes + GUARD];
            let (to, sum) = (device.allocate(written_bytes + GUARD).unwrap(), device.allocate(sums).unwrap());
            let (mut expected, mut found) = (poison.clone(), vec![0; written_bytes + GUARD]);
            let (mut expected_sum, mut found_sum) = (vec![0_f32; sums / size_of::<f32>()], vec![0; sums]);
            let is_summed = is_summed(matrices) && matrices.elements() <= MOST_SUMMED;
            // SAFETY: each buffer is as long as the matrices, and as the slice copied to or from it.
            unsafe {
                assert!(
                    device.write(from.data(), &values, stream.raw()) && device.write(to.data(), &poison, stream.raw())
                );
                assert!(transposes.run(stream.raw(), &[written(matrices, from.data(), to.data())]));
                for begins in [true, false].into_iter().filter(|_| is_summed) {
                    assert!(transposes.run(stream.raw(), &[summed(matrices, from.data(), sum.data(), begins)]));
                    let expected_sum = expected_sum.as_mut_ptr().cast();
                    host.run(stream.raw(), &[summed(matrices, values.as_ptr().cast(), expected_sum, begins)]);
                }
                assert!(device.read(&mut found, to.data(), stream.raw()));
                assert!(device.read(&mut found_sum, sum.data(), stream.raw()));
                let expected = expected.as_mut_ptr().cast();
                host.run(stream.raw(), &[written(matrices, values.as_ptr().cast(), expected)]);
            }
            assert!(found == expected, "{name} {matrices:?}");
            let found_sum = found_sum.chunks_exact(4).map(|sum| f32::from_ne_bytes(sum.try_into().unwrap()));
            assert!(!is_summed || found_sum.eq(expected_sum), "the sum of {name} {matrices:?}");
            let way = way_of(matrices, host.element);
            let time = |launches: &[&[Transposition]]| {
                on_gpu::median(stream, || {
                    // SAFETY: the buffers are as long as the matrices; the sum's floats hold at least as many bytes.
                    unsafe { launches.iter().for_each(|launch| assert!(transposes.run(stream.raw(), launch))) };
                })
            };
            let [one, other] = [to.data(), sum.data()].map(|to| written(matrices, from.data(), to));
            let [alone, apart, together] = [time(&[&[one]]), time(&[&[one], &[other]]), time(&[&[one, other]])];
            // SAFETY: the buffers are as long as the matrices; the sum's floats hold at least as many bytes.
            unsafe {
                assert!(device.write(to.data(), &poison, stream.raw()));
                assert!(device.write(sum.data(), &poison[..written_bytes], stream.raw()));
                assert!(transposes.run(stream.raw(), &[one, other]));
                for to in [to.data(), sum.data()] {
                    assert!(device.read(&mut found[..written_bytes], to, stream.raw()));
                    assert!(found[..written_bytes] == expected[..written_bytes], "two at once: {name} {matrices:?}");
                }
            }
            let rate = (bytes + written_bytes) as f64 / alone / 1e9;
            println!(
                "{name} {images} × {rows} × {columns} {way:?}: {rate:.2} TB/s; two at once {:.2} of one by one",
                together / apart
            );
        }
    }
}

/// Images, rows and columns: tensors and filters of layers in both directions, and shapes that only `Any` transposes.
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
