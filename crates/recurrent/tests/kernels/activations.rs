//! The activations of cells, against double precision.

use hostdnn::emulator::{Launch, Module};

use super::sources::{self, ACTIVATIONS, Mutation};

const KERNEL: &str = r#"
#define THREADS 32
#include "common/activations.cuh"
struct Points { const float *x; float *logistics, *tangents; int count; };
KERNEL(kernel, Points) {
    for (int i = threadIdx.x; i < parameters.count; i += THREADS) {
        parameters.logistics[i] = logistic(parameters.x[i]);
        parameters.tangents[i] = hyperbolic_tangent(parameters.x[i]);
    }
}
"#;

/// The kernel's parameters.
#[repr(C)]
struct Points {
    x: *const f32,
    logistics: *mut f32,
    tangents: *mut f32,
    count: i32,
}

/// Logistics and hyperbolic tangents of all x.
fn compute(module: &Module, x: &[f32]) -> [Vec<f32>; 2] {
    let mut found = [vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]];
    let [logistics, tangents] = &mut found;
    let points = Points {
        x: x.as_ptr(),
        logistics: logistics.as_mut_ptr(),
        tangents: tangents.as_mut_ptr(),
        count: x.len() as i32,
    };
    let kernel = module.kernel(c"kernel").expect("a kernel");
    let launch = Launch { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], shared_bytes: 0, seed: None };
    // SAFETY: the parameters are the kernel's one struct, whose pointers are valid for `count` numbers.
    unsafe { kernel.launch(&launch, (&raw const points).cast()) }.expect("runs");
    found
}

/// Points of both signs, from the smallest normal numbers to where e^x overflows.
fn points() -> Vec<f32> {
    let magnitudes = (0..20_000).map(|i| 2_f32.powf(-126.0 + 133.0 * i as f32 / 20_000.0));
    let around = (0..20_000).map(|i| i as f32 * 1e-4);
    magnitudes.chain(around).flat_map(|x| [x, -x]).filter(|x| *x != 0.0).collect()
}

/// From 1 on a relative error of the power e^2x comes to at most 0.27 of itself in the tangent. So this allows for roundings
/// of the exponential's argument, the exponential, the sum, the quotient and the difference.
const MOST_OFF: f64 = 1.0;

/// The largest relative error of the tangents, in a float's roundings of 2^-23.
fn tangents_off(module: &Module, x: &[f32]) -> f64 {
    let [_, tangents] = compute(module, x);
    let off = |(x, found): (&f32, &f32)| {
        let exact = f64::from(*x).tanh();
        (f64::from(*found) / exact - 1.0).abs() / f64::from(f32::EPSILON)
    };
    largest(x.iter().zip(&tangents).map(off))
}

/// The largest error of the logistics, relative to the allowed one: two roundings, and the rounding of the exponent, as
/// a part of the result.
fn logistics_off(module: &Module, x: &[f32]) -> f64 {
    let [logistics, _] = compute(module, x);
    let off = |(x, found): (&f32, &f32)| {
        let exact = 1.0 / (1.0 + (-f64::from(*x)).exp());
        let allowed = 2.0 * f64::from(f32::EPSILON) * (1.0 + f64::from(x.abs()) / 2.0) * exact;
        (f64::from(*found) - exact).abs() / allowed.max(f64::from(f32::MIN_POSITIVE))
    };
    largest(x.iter().zip(&logistics).map(off))
}

/// NaN counts as the largest value.
fn largest(mut all: impl Iterator<Item = f64>) -> f64 {
    all.try_fold(0.0_f64, |most, off| if off.is_nan() { None } else { Some(off.max(most)) }).unwrap_or(f64::INFINITY)
}

#[test]
fn they_are_within_a_few_roundings_of_double_precision() {
    let Some(module) = sources::load_text("activations.cu", Some(KERNEL), &[], None) else { return };
    let x = points();
    let off = tangents_off(&module, &x);
    println!("tanh: {off:.2} roundings");
    assert!(off <= MOST_OFF, "{off}");
    let off = logistics_off(&module, &x);
    println!("logistic: {off:.2} of what it may be");
    assert!(off <= 1.0, "{off}");
    let [logistics, tangents] = compute(&module, &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, 1e30, -1e30]);
    assert_eq!((&logistics[..2], &tangents[..2]), (&[1.0, 0.0][..], &[1.0, -1.0][..]));
    assert!(logistics[2].is_nan() && tangents[2].is_nan());
    assert_eq!((&logistics[3..], &tangents[3..]), (&[0.5, 1.0, 0.0][..], &[0.0, 1.0, -1.0][..]));
    let [_, zeros] = compute(&module, &[0.0, -0.0]);
    assert_eq!([zeros[0].is_sign_negative(), zeros[1].is_sign_negative()], [false, true]);
}

/// Changes the point at which the tangent's formula switches, and every coefficient.
#[test]
fn what_is_off_is_found() {
    let mutations = [
        ("< 1 ?", "< 0.6f ?"),
        ("< 1 ?", "< 1.3f ?"),
        ("-0.000358452031f", "-0.00036f"),
        ("0.00230136467f", "0.002303f"),
        ("-0.00794610661f", "-0.007948f"),
        ("0.0214866567f", "0.021489f"),
        ("-0.0538798012f", "-0.053882f"),
        ("0.133323446f", "0.133326f"),
        ("-0.333332956f", "-0.333335f"),
        ("2.88539008f", "2.88540008f"),
    ];
    let x = points();
    for (from, to) in mutations {
        let mutation = Mutation { file: ACTIVATIONS, from, occurrence: 0, to };
        let Some(module) = sources::load_text("activations.cu", Some(KERNEL), &[], Some(&mutation)) else { return };
        let off = tangents_off(&module, &x);
        assert!(off > MOST_OFF, "{mutation:?}: {off}");
    }
    let mutation = Mutation { file: ACTIVATIONS, from: "-1.44269504f", occurrence: 0, to: "-1.44269604f" };
    let Some(module) = sources::load_text("activations.cu", Some(KERNEL), &[], Some(&mutation)) else { return };
    let off = logistics_off(&module, &x);
    assert!(off > 1.0, "{mutation:?}: {off}");
}
