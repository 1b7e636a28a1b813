//! Packets whose lowest bit is a phase: what their first value loses.

use half::{bf16, f16};
use hostdnn::emulator::Launch;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ucudnn_recurrent::configuration::Element;

use super::sources::{self, Mutation, PHASED};

const KERNEL: &str = r#"
#define THREADS 32
#include "common/phased.cuh"
struct Values { const Element *from; Element *to; unsigned epoch; int count; };
KERNEL(kernel, Values) {
    for (int i = threadIdx.x; i < parameters.count; i += THREADS) {
        PhasedPacket<Element, 4> packet = {};
        packet.value[0] = parameters.from[i];
        packet.set_epoch(parameters.epoch);
        parameters.to[i] = packet.value[0];
    }
}
"#;

/// The kernel's parameters.
#[repr(C)]
struct Values {
    from: *const u8,
    to: *mut u8,
    epoch: u32,
    count: i32,
}

/// A number's value, given its bits.
fn value(element: Element, bits: u32) -> f64 {
    match element {
        Element::Float => f32::from_bits(bits).into(),
        Element::Half => f16::from_bits(bits as u16).into(),
        Element::Bfloat16 => bf16::from_bits(bits as u16).into(),
    }
}

/// All numbers of two bytes, or many floats, as bits. A NaN of the GPU's has more than its last bit.
fn numbers(element: Element) -> Vec<u32> {
    let mut random = StdRng::seed_from_u64(3);
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 0.0, -0.0].map(f32::to_bits);
    let all: Vec<u32> = match element {
        Element::Float => special.into_iter().chain((0..1 << 16).map(|_| random.random())).collect(),
        _ => (0..1 << 16).collect(),
    };
    let has_more = |&bits: &u32| value(element, bits).is_nan() == value(element, bits & !1).is_nan();
    all.into_iter().filter(has_more).collect()
}

/// The bits of all numbers as packets of an exchange have them.
fn packed(element: Element, epoch: u32, mutation: Option<&Mutation>) -> Option<Vec<u32>> {
    let module = sources::load_text("phased.cu", Some(KERNEL), &[element.option()], mutation)?;
    let size = element.bytes();
    let from: Vec<u8> = numbers(element).iter().flat_map(|bits| bits.to_ne_bytes()[..size].to_vec()).collect();
    let mut to = vec![0; from.len()];
    let count = (from.len() / size) as i32;
    let values = Values { from: from.as_ptr(), to: to.as_mut_ptr(), epoch, count };
    let launch = Launch { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0, seed: None };
    // SAFETY: the parameters are the kernel's one struct, whose pointers are valid for `count` numbers.
    unsafe { module.kernel(c"kernel").expect("a kernel").launch(&launch, (&raw const values).cast()) }.expect("runs");
    let bits = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
    Some(to.chunks(size).map(bits).collect())
}

/// By how many of its last places a number changed, in the mean of all finite numbers but the largest.
fn mean_change(element: Element, mutation: Option<&Mutation>) -> Option<f64> {
    let sign = 1 << (8 * element.bytes() - 1);
    let change = |(from, to): (u32, u32)| f64::from((to & !1) & !sign) - f64::from(from & !sign);
    let changes: Vec<f64> = numbers(element).into_iter().zip(packed(element, 1, mutation)?).map(change).collect();
    Some(changes.iter().sum::<f64>() / changes.len() as f64)
}

#[test]
fn a_value_is_rounded_to_a_bit_less() {
    for element in [Element::Float, Element::Half, Element::Bfloat16] {
        for (epoch, phase) in [(1, 1), (2, 1), (3, 0), (4, 0), (u32::MAX, 0), (0, 0)] {
            let Some(found) = packed(element, epoch, None) else { return };
            for (from, to) in numbers(element).into_iter().zip(found) {
                let (before, after) = (value(element, from), value(element, to & !1));
                assert_eq!(to % 2, phase, "{element:?} {from:x}");
                assert_eq!((before.is_nan(), before.is_infinite()), (after.is_nan(), after.is_infinite()), "{from:x}");
                assert!((to & !1).abs_diff(from) <= 1, "{element:?} {from:x} became {to:x}");
            }
        }
        // As many go up as down.
        let cut_off = Mutation { file: PHASED, from: "bits % 4 == 3 &&", occurrence: 0, to: "false &&" };
        let Some((rounded, cut_off)) = mean_change(element, None).zip(mean_change(element, Some(&cut_off))) else {
            return;
        };
        println!("{element:?}: {rounded:.4} of a last place, {cut_off:.4} without rounding");
        assert!(rounded.abs() < 0.02 && cut_off < -0.4, "{element:?}: {rounded} {cut_off}");
    }
}
