//! The names of cuDNN's enumerators in our texts.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::convolution::Direction;

/// The directions, in the order in which their texts are tried.
pub const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];

/// The names of a cuDNN enumeration's values. A value without a name is written as its number.
pub type Names = [(&'static str, c_int)];

pub const TYPES: &Names = &[
    ("float", CUDNN_DATA_FLOAT),
    ("double", CUDNN_DATA_DOUBLE),
    ("half", CUDNN_DATA_HALF),
    ("bfloat16", CUDNN_DATA_BFLOAT16),
];
pub const MODES: &Names = &[("convolution", CUDNN_CONVOLUTION), ("correlation", CUDNN_CROSS_CORRELATION)];
pub const MATH_TYPES: &Names = &[
    ("default", CUDNN_DEFAULT_MATH),
    ("tensor-op", CUDNN_TENSOR_OP_MATH),
    ("tensor-op-conversion", CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION),
    ("fma", CUDNN_FMA_MATH),
];

pub fn named(names: &Names, value: c_int) -> String {
    let name = names.iter().find(|(_, named)| *named == value);
    name.map_or_else(|| value.to_string(), |(name, _)| (*name).to_owned())
}

pub fn value(what: &str, names: &Names, text: &str) -> Result<c_int, String> {
    let value = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    value.or_else(|| text.parse().ok()).ok_or_else(|| {
        let known: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        format!("{what} is {text:?}: it must be one of {}, or a number of cuDNN's", known.join(", "))
    })
}

pub fn list(values: &[impl ToString]) -> String {
    let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
    texts.join("x")
}
