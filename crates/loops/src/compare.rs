//! The distance between two results.

use cudnn_abi::*;

/// Returns ‖ours − theirs‖ / ‖theirs‖. The two tensors have the same `dims` and `strides`, in elements; the slices hold
/// their memory, gaps included. An equal NaN or infinity in both is no difference: the program's data may cause one.
pub fn relative_error(data_type: cudnnDataType_t, dims: &[i64], strides: &[i64], ours: &[u8], theirs: &[u8]) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    for mut index in 0..dims.iter().product::<i64>() {
        let mut offset = 0;
        for (dim, stride) in dims.iter().zip(strides).rev() {
            offset += index % dim * stride;
            index /= dim;
        }
        let (a, b) = (value(data_type, ours, offset as usize), value(data_type, theirs, offset as usize));
        if a != b && !(a.is_nan() && b.is_nan()) {
            difference += (a - b) * (a - b);
        }
        norm += if b.is_finite() { b * b } else { 0.0 };
    }
    if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }
}

/// The number at an offset in elements.
fn value(data_type: cudnnDataType_t, bytes: &[u8], offset: usize) -> f64 {
    fn at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
        std::array::from_fn(|i| bytes[N * offset + i])
    }
    match data_type {
        CUDNN_DATA_DOUBLE => f64::from_ne_bytes(at(bytes, offset)),
        CUDNN_DATA_FLOAT => f64::from(f32::from_ne_bytes(at(bytes, offset))),
        CUDNN_DATA_HALF => half::f16::from_ne_bytes(at(bytes, offset)).to_f64(),
        _ => half::bf16::from_ne_bytes(at(bytes, offset)).to_f64(),
    }
}
