//! From cuDNN's descriptors to their convolution problem, with the checks that every convolution function shares.

use crate::convolution::{Direction, Element, Problem};
use crate::descriptor::{ConvolutionDescriptor, FilterDescriptor, TensorDescriptor};
use crate::error::{Result, require, support};
use cudnn_abi::*;

/// The convolution problem of four descriptors, by the names of the forward direction: `y = x * w`.
pub fn problem(
    direction: Direction,
    x: &TensorDescriptor,
    w: &FilterDescriptor,
    conv: &ConvolutionDescriptor,
    y: &TensorDescriptor,
) -> Result<Problem> {
    conv.check_shapes(x, w)?;
    require(y.dims().len() == x.dims().len(), "input and output have as many dimensions")?;
    require(
        x.data_type() == w.data_type() && x.data_type() == y.data_type(),
        "input, filter and output have one data type",
    )?;
    require(y.dims()[0] == x.dims()[0], "input and output have as many images")?;
    require(y.dims()[1] == w.dims()[0], "output channels are the filter's")?;
    require(y.dims()[1] % conv.groups() == 0, "the groups share out the output channels")?;
    let spatial = conv.rank();
    for i in 0..spatial {
        let extent = conv.output_extent(x, w, i)?;
        require(y.dims()[i + 2] == extent, "the output has the extents that follow from the input")?;
    }
    support(matches!(spatial, 2 | 3), "a convolution is in two or three dimensions")?;
    let element = match (x.data_type(), conv.compute_type) {
        (CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT) => Some(Element::Float),
        (CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE) => Some(Element::Double),
        (CUDNN_DATA_HALF, CUDNN_DATA_FLOAT | CUDNN_DATA_HALF) => Some(Element::Half),
        (CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT) => Some(Element::Bfloat16),
        _ => None,
    };
    support(element.is_some(), "data in float, double, half or bfloat16, computed in a type that goes with it")?;
    support(!x.is_reversed() && !y.is_reversed(), "strides are not negative")?;
    let output_is_plain = match direction {
        Direction::Forward => y.is_injective(),
        Direction::BackwardData => x.is_injective(),
        Direction::BackwardFilter => true,
    };
    support(output_is_plain, "the output's elements do not overlap")?;
    // y's extents have 32 bits; pads that are so large that the extents wrap around must be refused.
    let fits = (0..spatial).all(|i| i64::from(conv.pad[i]) * 2 + i64::from(x.dims()[i + 2]) <= i64::from(i32::MAX));
    support(fits, "padded extents fit into 32 bits")?;
    let windows_fit =
        (0..spatial).all(|i| i64::from(w.dims()[i + 2] - 1) * i64::from(conv.dilation[i]) < i64::from(i32::MAX));
    support(windows_fit, "dilated extents fit into 32 bits")?;
    Ok(Problem {
        direction,
        element: element.unwrap_or(Element::Float),
        batch: x.dims()[0] as usize,
        groups: conv.groups() as usize,
        in_channels: x.dims()[1] as usize,
        out_channels: y.dims()[1] as usize,
        input: triple(&x.dims()[2..], 1),
        filter: triple(&w.dims()[2..], 1),
        output: triple(&y.dims()[2..], 1),
        pad: triple(&conv.pad[..spatial], 0),
        stride: triple(&conv.stride[..spatial], 1),
        dilation: triple(&conv.dilation[..spatial], 1),
        x_strides: five(x.strides()),
        w_strides: five(&w.strides()[..spatial + 2]),
        y_strides: five(y.strides()),
        flip: conv.mode == CUDNN_CONVOLUTION,
    })
}

/// d, h, w of two or three values; `unit` stands in for a missing d.
fn triple(values: &[i32], unit: usize) -> [usize; 3] {
    let mut all = [unit; 3];
    for (to, &from) in all.iter_mut().rev().zip(values.iter().rev()) {
        *to = from as usize;
    }
    all
}

/// Strides n, c, d, h, w of four or five.
fn five(strides: &[i32]) -> [usize; 5] {
    let [d, h, w] = triple(&strides[2..], 0);
    [strides[0] as usize, strides[1] as usize, d, h, w]
}

/// Bytes of one element.
pub fn element_size(element: Element) -> usize {
    match element {
        Element::Half | Element::Bfloat16 => 2,
        Element::Float => 4,
        Element::Double => 8,
    }
}
