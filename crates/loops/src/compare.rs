//! The distance between two results.

use cudnn_abi::*;

/// Returns ‖ours − theirs‖ / ‖theirs‖. The two tensors have the same `dims` and `strides`, in elements; the slices hold
/// their memory, gaps included. An equal NaN or infinity in both is no difference: the program's data may cause one.
/// `None` for types other than double, float, half and bfloat16.
pub fn relative_error(
    data_type: cudnnDataType_t,
    dims: &[i64],
    strides: &[i64],
    ours: &[u8],
    theirs: &[u8],
) -> Option<f64> {
    let value: fn(&[u8], usize) -> f64 = match data_type {
        CUDNN_DATA_DOUBLE => |bytes, offset| f64::from_ne_bytes(at(bytes, offset)),
        CUDNN_DATA_FLOAT => |bytes, offset| f64::from(f32::from_ne_bytes(at(bytes, offset))),
        CUDNN_DATA_HALF => |bytes, offset| half::f16::from_ne_bytes(at(bytes, offset)).to_f64(),
        CUDNN_DATA_BFLOAT16 => |bytes, offset| half::bf16::from_ne_bytes(at(bytes, offset)).to_f64(),
        _ => return None,
    };
    let (mut difference, mut norm) = (0.0, 0.0);
    for mut index in 0..dims.iter().product::<i64>() {
        let mut offset = 0;
        for (dim, stride) in dims.iter().zip(strides).rev() {
            offset += index % dim * stride;
            index /= dim;
        }
        let (a, b) = (value(ours, offset as usize), value(theirs, offset as usize));
        if a != b && !(a.is_nan() && b.is_nan()) {
            difference += (a - b) * (a - b);
        }
        norm += if b.is_finite() { b * b } else { 0.0 };
    }
    Some(if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() })
}

/// The bytes of the number at an offset in elements.
fn at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[N * offset + i])
}
