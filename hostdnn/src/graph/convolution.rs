//! Convolutions: padding, strides and dilation.

use super::*;

/// The most spatial dimensions.
const SPATIAL_MAX: usize = 6;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, DATA_TYPE).or(CUDNN_DATA_FLOAT as i64),
        Attribute::one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[CUDNN_TYPE_CONVOLUTION_MODE])
            .read_as(DATA_TYPE, ATTRIBUTE_TYPE)
            .or(0),
        Attribute::one(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, INTEGER)
            .answering(BAD_PARAM, BAD_PARAM)
            .vetted(check_32_bits)
            .or(0),
        Attribute::many(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, INTEGER, SPATIAL_MAX),
        Attribute::many(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, INTEGER, SPATIAL_MAX),
        Attribute::many(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, INTEGER, SPATIAL_MAX),
        Attribute::many(CUDNN_ATTR_CONVOLUTION_DILATIONS, INTEGER, SPATIAL_MAX),
    ],
    finalize: |descriptor| {
        let geometry = Geometry::of(descriptor);
        geometry.check()?;
        let all = [
            (CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, geometry.pre_padding),
            (CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, geometry.post_padding),
        ];
        for (name, padding) in all {
            descriptor.put(name, CUDNN_TYPE_INT64, Value::Integers(padding));
        }
        Ok(())
    },
    ..Kind::USUAL
};

/// Every value fits into 32 bits.
fn check_32_bits(value: &Value) -> Result {
    let Value::Integers(values) = value else { return Ok(()) };
    require(values.iter().all(|&value| value <= i32::MAX.into()), "a number of 32 bits")
}

/// The settings of a convolution descriptor.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The type of the sums of products.
    pub compute_type: cudnnDataType_t,
    /// Convolution, which flips the filter, or cross-correlation.
    pub mode: cudnnConvolutionMode_t,
    /// Spatial dimensions.
    pub spatial: usize,
    /// Zeros before each dimension.
    pub pre_padding: Vec<i64>,
    /// Zeros behind each dimension.
    pub post_padding: Vec<i64>,
    /// Steps of the filter in each dimension.
    pub stride: Vec<i64>,
    /// The distance of the filter's elements in each dimension.
    pub dilation: Vec<i64>,
}

impl Geometry {
    /// Reads a descriptor.
    pub fn of(descriptor: &Descriptor) -> Self {
        let spatial = usize::try_from(descriptor.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)).unwrap_or(0);
        // Unset padding is 0.
        let padding = |name| match descriptor.integers(name) {
            [] => vec![0; spatial.min(SPATIAL_MAX)],
            set => set.to_vec(),
        };
        Self {
            compute_type: descriptor.enumerator(CUDNN_ATTR_CONVOLUTION_COMP_TYPE),
            mode: descriptor.enumerator(CUDNN_ATTR_CONVOLUTION_CONV_MODE),
            spatial,
            pre_padding: padding(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
            post_padding: padding(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
            stride: descriptor.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES).to_vec(),
            dilation: descriptor.integers(CUDNN_ATTR_CONVOLUTION_DILATIONS).to_vec(),
        }
    }

    fn check(&self) -> Result {
        require((1..=SPATIAL_MAX).contains(&self.spatial), "one to six spatial dimensions")?;
        let lists = [&self.pre_padding, &self.post_padding, &self.stride, &self.dilation];
        require(lists.iter().all(|list| list.len() == self.spatial), "one number for each spatial dimension")?;
        require(self.pre_padding.iter().chain(&self.post_padding).all(|&pad| pad >= 0), "padding is not negative")?;
        require(self.stride.iter().chain(&self.dilation).all(|&step| step > 0), "strides and dilations are positive")
    }

    /// The output's extent in spatial dimension `i`; `None` if the filter does not fit.
    pub fn output_extent(&self, input: i64, filter: i64, i: usize) -> Option<i64> {
        let window = (filter - 1).checked_mul(self.dilation[i])?.checked_add(1)?;
        let padded = input.checked_add(self.pre_padding[i])?.checked_add(self.post_padding[i])?;
        (padded >= window).then(|| (padded - window) / self.stride[i] + 1)
    }
}
