//! Pointwise operations' functions.

use super::*;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_POINTWISE_MODE, &[CUDNN_TYPE_POINTWISE_MODE]).or(0),
        Attribute::one(CUDNN_ATTR_POINTWISE_MATH_PREC, DATA_TYPE).or(CUDNN_DATA_FLOAT as i64),
        Attribute::one(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, &[CUDNN_TYPE_NAN_PROPOGATION]).or(0),
        Attribute::one(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, DOUBLE).or_real(0.0),
        Attribute::one(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, DOUBLE).or_real(f64::MAX),
        Attribute::one(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, DOUBLE).or_real(0.0),
        Attribute::one(CUDNN_ATTR_POINTWISE_ELU_ALPHA, DOUBLE).or_real(1.0),
        Attribute::one(CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, DOUBLE).or_real(1.0),
        Attribute::one(CUDNN_ATTR_POINTWISE_SWISH_BETA, DOUBLE).or_real(1.0),
        Attribute::one(CUDNN_ATTR_POINTWISE_AXIS, INTEGER).or(-1),
    ],
    finalize: |_| Ok(()),
};
