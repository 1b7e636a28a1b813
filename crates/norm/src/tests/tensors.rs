//! Tensors of a test, and their memory on a device.

use std::ffi::c_void;
use std::ptr::null_mut;

use half::{bf16, f16};
use rand::Rng;
use rand::rngs::StdRng;

use crate::shape::Planes;
use gpu::testing::buffers::{GUARD, between_nans, bits, bytes_of, read};
use gpu::{Buffer, Device, Element, Stream};

pub const EPSILON: f64 = 1e-5;
/// A tensor's numbers, each exact in its type, in NCHW.
pub struct Tensor {
    pub planes: Planes,
    pub numbers: Vec<f64>,
}

impl Tensor {
    /// Random numbers, whose channels' means are up to `apart` deviations from 0.
    pub fn random(planes: Planes, apart: f32, random: &mut StdRng) -> Self {
        let mut numbers = Vec::new();
        let means: Vec<f32> = (0..planes.channels).map(|_| apart * random.random_range(-1.0..=1.0)).collect();
        for channel in (0..planes.images).flat_map(|_| 0..planes.channels) {
            for _ in 0..planes.plane {
                let sum: f32 = (0..4).map(|_| random.random_range(-1.0..1.0)).sum();
                numbers.push(number(planes.element, &bits(planes.element, means[channel] + sum)));
            }
        }
        Self { planes, numbers }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.numbers.iter().flat_map(|&value| bits(self.planes.element, value as f32)).collect()
    }

    pub fn channel(&self, channel: usize) -> impl Iterator<Item = f64> + Clone {
        let Planes { images, channels, plane, .. } = self.planes;
        (0..images).flat_map(move |n| &self.numbers[(n * channels + channel) * plane..][..plane]).copied()
    }

    /// The channel of the element at a place.
    pub fn channel_of(&self, place: usize) -> usize {
        place / self.planes.plane % self.planes.channels
    }

    /// The mean and the variance of a channel.
    pub fn moments(&self, channel: usize) -> (f64, f64) {
        let count = (self.planes.images * self.planes.plane) as f64;
        let mean = self.channel(channel).sum::<f64>() / count;
        (mean, self.channel(channel).map(|x| (x - mean).powi(2)).sum::<f64>() / count)
    }
}

pub fn number(element: Element, bytes: &[u8]) -> f64 {
    match element {
        Element::Float => f32::from_ne_bytes(bytes.try_into().unwrap()).into(),
        Element::Half => f16::from_ne_bytes(bytes.try_into().unwrap()).into(),
        Element::Bfloat16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).into(),
    }
}

/// The largest distance, of numbers rounded to the type once and of float statistics before.
pub fn rounding(element: Element) -> f64 {
    match element {
        Element::Float => 2e-6,
        Element::Half => 6e-4,
        Element::Bfloat16 => 5e-3,
    }
}

/// Checks ||found - exact|| / ||exact||.
pub fn assert_near(what: &str, found: &[f64], exact: &[f64], most: f64) {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let apart = norm(&mut found.iter().zip(exact).map(|(found, exact)| found - exact));
    let error = apart / norm(&mut exact.iter().copied());
    assert!(error <= most, "{what}: {error:.1e}, and {most:.1e} accepted");
}

/// Memory of a test on a device.
pub struct Memory {
    pub device: Device,
    pub stream: Stream,
}

impl Memory {
    pub fn of(&self, bytes: &[u8]) -> Buffer {
        between_nans(self.device, bytes, self.stream)
    }

    pub fn floats(&self, values: &[f32]) -> Buffer {
        self.of(&bytes_of(values))
    }

    /// The bytes between the guards, which are untouched.
    pub fn read(&self, buffer: &Buffer, count: usize) -> Vec<u8> {
        let all = read(self.device, buffer, count + 2 * GUARD, self.stream);
        let guards = all[..GUARD].iter().chain(&all[GUARD + count..]);
        assert!(guards.copied().all(|byte| byte == 0xff), "something was written outside a tensor");
        all[GUARD..][..count].to_vec()
    }

    pub fn read_numbers(&self, buffer: &Buffer, element: Element, count: usize) -> Vec<f64> {
        let size = element.bytes();
        self.read(buffer, size * count).chunks_exact(size).map(|bytes| number(element, bytes)).collect()
    }

    pub fn read_floats(&self, buffer: &Buffer, count: usize) -> Vec<f64> {
        self.read_numbers(buffer, Element::Float, count)
    }

    pub fn read_tensor(&self, buffer: &Buffer, planes: &Planes) -> Vec<f64> {
        self.read_numbers(buffer, planes.element, planes.images * planes.channels * planes.plane)
    }
}

/// The numbers for each channel that a program owns.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    pub element: Element,
    /// There are a scale and a bias.
    pub is_affine: bool,
}

impl Parameters {
    pub const FLOATS: Self = Self { element: Element::Float, is_affine: true };

    /// Numbers as their type holds them.
    pub fn rounded(self, numbers: &[f32]) -> Vec<f64> {
        numbers.iter().map(|&value| number(self.element, &bits(self.element, value))).collect()
    }

    pub fn on(self, memory: &Memory, numbers: &[f32]) -> Buffer {
        memory.of(&numbers.iter().flat_map(|&value| bits(self.element, value)).collect::<Vec<_>>())
    }

    /// The place of a scale or a bias, if there is one.
    pub fn place(self, buffer: &Buffer) -> *mut c_void {
        if self.is_affine { start(buffer).cast() } else { null_mut() }
    }

    /// The largest distance of these numbers. `most` is that of floats.
    pub fn rounding(self, most: f64) -> f64 {
        if self.element == Element::Float { most } else { rounding(self.element) }
    }
}

pub fn start(buffer: &Buffer) -> *mut f32 {
    buffer.data().wrapping_byte_add(GUARD).cast()
}
