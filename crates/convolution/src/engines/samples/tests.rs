use cudnn_abi::{CUDNN_DATA_FLOAT, CUDNN_DATA_HALF};

use super::*;
use gpu::testing::emulated;
use gpu::testing::on_gpu;

/// Images, channels, height, width, down, right.
const SHAPES: [[usize; 6]; 9] = [
    [2, 3, 4, 6, 2, 2],
    [3, 65, 7, 7, 2, 2],
    [1, 5, 9, 10, 3, 1],
    [2, 64, 5, 8, 1, 4],
    [1, 1, 1, 1, 2, 3],
    [70_000, 2, 2, 2, 2, 2],
    [64, 256, 56, 56, 2, 2],
    [64, 512, 28, 28, 2, 2],
    [64, 1024, 14, 14, 2, 2],
];

fn sampling([images, channels, height, width, down, right]: [usize; 6]) -> Sampling {
    Sampling { images, channels, height, width, down, right }
}

/// Elements of `bytes` bytes each, all different.
fn values(elements: usize, bytes: usize) -> Vec<u8> {
    (0..elements).flat_map(|i| ((i as u32).wrapping_mul(2_654_435_761) | 1).to_ne_bytes()[..bytes].to_vec()).collect()
}

#[test]
fn samples_are_where_they_belong() {
    for shape @ [images, channels, height, width, down, right] in SHAPES.into_iter().take(5) {
        let (sampling, samples) = (sampling(shape), Samples::new(Device::Host, 4).unwrap());
        let from: Vec<u32> = (1..).take(images * channels * height * width).collect();
        let mut gathered = vec![u32::MAX; images * channels * sampling.sampled()];
        let mut back = vec![u32::MAX; from.len()];
        let stream = std::ptr::null_mut();
        // SAFETY: the vectors have as many elements as the tensors.
        unsafe {
            assert!(samples.run(Move::Gather, stream, sampling, from.as_ptr().cast(), gathered.as_mut_ptr().cast()));
            assert!(samples.run(Move::Scatter, stream, sampling, gathered.as_ptr().cast(), back.as_mut_ptr().cast()));
        }
        for (i, (value, back)) in from.iter().zip(&back).enumerate() {
            let (column, row) = (i % width, i / width % height);
            let expected = if row % down == 0 && column % right == 0 { *value } else { 0 };
            assert_eq!(*back, expected, "{shape:?} {i}");
        }
        // The second sample of the first channel is the next sampled pixel.
        if width > right {
            assert_eq!(gathered[channels], from[right], "{shape:?}");
        }
    }
}

/// On the CPU, under the emulator and adversarial schedules, the kernels agree with the loops bit for bit.
#[test]
fn emulated_as_in_loops() {
    if !emulated::is_child("engines::samples::tests::emulated_as_in_loops") {
        return;
    }
    for element in [2, 4] {
        let loops = Samples::new(Device::Host, element).unwrap();
        let Some(kernels) = emulated::compiled(Samples::compiled(Device::Host, element)) else { return };
        let mut ways = Vec::new();
        for shape in SMALL_SHAPES {
            let sampling = sampling(shape);
            ways.push(Way::ALL.iter().find(|(way, _)| way.admits(sampling, element)).unwrap().0);
            let [all, some] = [sampling.height * sampling.width, sampling.sampled()]
                .map(|pixels| sampling.images * sampling.channels * pixels * element);
            for (from_bytes, to_bytes, kind) in [(all, some, Move::Gather), (some, all, Move::Scatter)] {
                let [from, to] = [from_bytes, to_bytes + GUARD].map(|bytes| Device::Host.allocate(bytes).unwrap());
                let mut expected = vec![0xff_u8; to_bytes + GUARD];
                let given = values(from_bytes / element, element);
                // SAFETY: the buffers have the sizes that the calls are given.
                let found = unsafe {
                    from.data().copy_from(given.as_ptr().cast(), given.len());
                    to.data().write_bytes(0xff, to_bytes + GUARD);
                    let run = |samples: &Samples, to: *mut c_void| {
                        samples.run(kind, std::ptr::null_mut(), sampling, from.data(), to)
                    };
                    assert!(run(&kernels, to.data()) && run(&loops, expected.as_mut_ptr().cast()));
                    std::slice::from_raw_parts(to.data().cast::<u8>(), to_bytes + GUARD)
                };
                assert!(found == expected, "{sampling:?}, {kind:?}");
            }
        }
        for (way, _) in Way::ALL.iter().filter(|(way, _)| way.is_for(element)) {
            assert!(ways.contains(way), "no shape for {way:?} of {element} bytes");
        }
    }
}

/// Shapes for each variant.
const SMALL_SHAPES: [[usize; 6]; 8] = [
    [2, 72, 5, 8, 2, 2],
    [2, 16, 4, 24, 3, 2],
    [3, 8, 3, 12, 1, 2],
    [2, 24, 7, 14, 2, 2],
    [1, 64, 2, 2, 2, 2],
    [2, 70, 7, 7, 2, 2],
    [2, 5, 9, 10, 3, 1],
    [1, 8, 6, 9, 2, 4],
];

/// Bytes behind a buffer's data that nothing may write.
const GUARD: usize = 256;

/// On a GPU the kernels agree with the host bit for bit. Prints their times.
#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    for data_type in [CUDNN_DATA_HALF, CUDNN_DATA_FLOAT] {
        let samples = Samples::of(device, data_type).expect("compiled");
        let host = Samples::new(Device::Host, samples.element).unwrap();
        for shape in SHAPES {
            let sampling = sampling(shape);
            let [all, some] = [sampling.height * sampling.width, sampling.sampled()]
                .map(|pixels| sampling.images * sampling.channels * pixels * samples.element);
            for (from_bytes, to_bytes, kind) in [(all, some, Move::Gather), (some, all, Move::Scatter)] {
                let given = values(from_bytes / samples.element, samples.element);
                let poison = vec![0xff; to_bytes + GUARD];
                let (from, to) = (device.allocate(from_bytes).unwrap(), device.allocate(to_bytes + GUARD).unwrap());
                let (mut expected, mut found) = (poison.clone(), vec![0; to_bytes + GUARD]);
                let run = |samples: &Samples, from: *const c_void, to: *mut c_void| {
                    // SAFETY: the buffers are as long as the tensors.
                    unsafe { samples.run(kind, stream.raw(), sampling, from, to) }
                };
                // SAFETY: each buffer is as long as the slice copied to or from it.
                unsafe {
                    assert!(device.write(from.data(), &given, stream.raw()));
                    assert!(device.write(to.data(), &poison, stream.raw()));
                    assert!(run(&samples, from.data(), to.data()));
                    assert!(device.read(&mut found, to.data(), stream.raw()));
                }
                run(&host, given.as_ptr().cast(), expected.as_mut_ptr().cast());
                assert!(found == expected, "{sampling:?}, {kind:?}");
                let time = on_gpu::median(stream, || {
                    run(&samples, from.data(), to.data());
                });
                println!("{} bytes {shape:?} {kind:?}: {:.1} µs", samples.element, time * 1e3);
            }
        }
    }
}
