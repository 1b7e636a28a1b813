//! Numbers in the tensors' types.

use gpu::Element;
use half::{bf16, f16};

/// The bytes of numbers.
pub fn bytes(element: Element, numbers: &[f64]) -> Vec<u8> {
    let of = |number: &f64| match element {
        Element::Float => (*number as f32).to_le_bytes().to_vec(),
        Element::Half => f16::from_f64(*number).to_le_bytes().to_vec(),
        Element::Bfloat16 => bf16::from_f64(*number).to_le_bytes().to_vec(),
    };
    numbers.iter().flat_map(of).collect()
}

/// The numbers of bytes.
pub fn numbers(element: Element, bytes: &[u8]) -> Vec<f64> {
    let of = |bytes: &[u8]| match (element, bytes) {
        (Element::Float, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (Element::Half, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
        (_, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
        _ => unreachable!("an element has 2 or 4 bytes"),
    };
    bytes.chunks_exact(element.bytes()).map(of).collect()
}

/// The numbers as elements hold them.
pub fn rounded(element: Element, values: &mut [f64]) {
    let bytes = bytes(element, values);
    values.copy_from_slice(&numbers(element, &bytes));
}

/// The distance of 1 from the next number.
pub fn epsilon(element: Element) -> f64 {
    match element {
        Element::Float => f64::from(f32::EPSILON),
        Element::Half => f16::EPSILON.to_f64(),
        Element::Bfloat16 => bf16::EPSILON.to_f64(),
    }
}
