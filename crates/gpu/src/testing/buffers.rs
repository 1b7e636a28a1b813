//! Device memory in tests of our kernels: inputs to write, and results to read.

use half::{bf16, f16};
use rand::Rng;
use rand::rngs::SmallRng;

use crate::{Buffer, Device, Element, Stream};

/// Bytes before and after the memory that a kernel may touch.
pub const GUARD: usize = 256;

/// Writes the first bytes of a buffer.
pub fn write(device: Device, to: &Buffer, bytes: &[u8], stream: Stream) {
    // SAFETY: the tests pass buffers of at least `bytes.len()` bytes.
    assert!(unsafe { device.write(to.data(), bytes, stream) });
}

/// Reads the first `count` bytes of a buffer.
pub fn read(device: Device, from: &Buffer, count: usize, stream: Stream) -> Vec<u8> {
    let mut bytes = vec![0; count];
    // SAFETY: the tests pass buffers of at least `count` bytes.
    assert!(unsafe { device.read(&mut bytes, from.data(), stream) });
    bytes
}

/// A buffer with these bytes at offset [`GUARD`], between NaNs that kernels must not read.
pub fn between_nans(device: Device, bytes: &[u8], stream: Stream) -> Buffer {
    let buffer = device.allocate(bytes.len() + 2 * GUARD).unwrap();
    write(device, &buffer, &[&[0xff; GUARD][..], bytes, &[0xff; GUARD]].concat(), stream);
    buffer
}

/// The bytes of a value in this type.
pub fn bits(element: Element, value: f32) -> Vec<u8> {
    match element {
        Element::Float => value.to_ne_bytes().to_vec(),
        Element::Half => f16::from_f32(value).to_ne_bytes().to_vec(),
        Element::Bfloat16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
    }
}

/// The bytes of `count` small whole numbers. Their products and sums are exact in every product type and in float, in
/// any order.
pub fn small_whole_numbers(element: Element, count: usize, random: &mut SmallRng) -> Vec<u8> {
    (0..count).flat_map(|_| bits(element, random.random_range(-4..=4) as f32)).collect()
}

/// A buffer of random numbers, a few of them repeated. Multiplying them takes more power than zeros, and so more time.
pub fn filled(device: Device, element: Element, count: usize, random: &mut SmallRng, stream: Stream) -> Buffer {
    let few: Vec<u8> = (0..1021).flat_map(|_| bits(element, random.random_range(-1.0..1.0))).collect();
    let bytes = few.repeat(count.div_ceil(1021));
    let buffer = device.allocate(bytes.len()).unwrap();
    write(device, &buffer, &bytes, stream);
    buffer
}

/// The bytes of float values.
pub fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Returns ||found - exact|| / ||exact||, and the mean relative excess of `found` over `exact`.
pub fn errors(found: &[u8], exact: &[f64]) -> (f64, f64) {
    let found = found.chunks_exact(4).map(|value| f64::from(f32::from_ne_bytes(value.try_into().unwrap())));
    let (mut squares, mut all, mut along) = (0.0, 0.0, 0.0);
    for (found, exact) in found.zip(exact) {
        squares += (found - exact).powi(2);
        all += exact.powi(2);
        along += (found - exact) * exact;
    }
    ((squares / all).sqrt(), along / all)
}
