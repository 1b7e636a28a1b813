//! Pointwise operations' functions. Any value is allowed until a graph is computed, and nothing is read back.

use super::*;

const fn one(name: cudnnBackendAttributeName_t, types: &'static [cudnnBackendAttributeType_t]) -> Attribute {
    Attribute::one(name, types).answering(BAD_PARAM, BAD_PARAM).unreadable(NOT_SUPPORTED)
}

pub const KIND: Kind = Kind {
    attributes: &[
        one(CUDNN_ATTR_POINTWISE_MODE, &[CUDNN_TYPE_POINTWISE_MODE]).or(CUDNN_POINTWISE_ADD as i64),
        one(CUDNN_ATTR_POINTWISE_MATH_PREC, DATA_TYPE).or(CUDNN_DATA_FLOAT as i64),
        one(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, &[CUDNN_TYPE_NAN_PROPOGATION]).or(CUDNN_NOT_PROPAGATE_NAN as i64),
        one(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, SCALE).or_real(0.0),
        one(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, SCALE).or_real(f64::MAX),
        one(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, SCALE).or_real(0.0),
        one(CUDNN_ATTR_POINTWISE_ELU_ALPHA, SCALE).or_real(1.0),
        one(CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, SCALE).or_real(1.0),
        one(CUDNN_ATTR_POINTWISE_SWISH_BETA, SCALE).or_real(1.0),
        one(CUDNN_ATTR_POINTWISE_AXIS, INTEGER).or(-1),
    ],
    unknown_get: NOT_SUPPORTED,
    finalize: |_| Ok(()),
    ..Kind::USUAL
};
