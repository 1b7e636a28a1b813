//! Graphs as text. Tuning results are stored under this text, and processes exchange graphs in it.

use std::fmt::{self, Write};

use cudnn_abi::*;

use crate::problem::graph::{Convolution, Factor, Operation, Pointwise, Problem, Tensor};
use cudnn::names::{DIRECTIONS, MODES, Names, TYPES, list, named, value};

const POINTWISE_MODES: &Names = &[
    ("add", CUDNN_POINTWISE_ADD),
    ("mul", CUDNN_POINTWISE_MUL),
    ("sub", CUDNN_POINTWISE_SUB),
    ("div", CUDNN_POINTWISE_DIV),
    ("min", CUDNN_POINTWISE_MIN),
    ("max", CUDNN_POINTWISE_MAX),
    ("identity", CUDNN_POINTWISE_IDENTITY),
    ("relu", CUDNN_POINTWISE_RELU_FWD),
    ("tanh", CUDNN_POINTWISE_TANH_FWD),
    ("sigmoid", CUDNN_POINTWISE_SIGMOID_FWD),
    ("elu", CUDNN_POINTWISE_ELU_FWD),
    ("gelu", CUDNN_POINTWISE_GELU_FWD),
    ("softplus", CUDNN_POINTWISE_SOFTPLUS_FWD),
    ("swish", CUDNN_POINTWISE_SWISH_FWD),
    ("gelu-tanh", CUDNN_POINTWISE_GELU_APPROX_TANH_FWD),
    ("relu-backward", CUDNN_POINTWISE_RELU_BWD),
    ("tanh-backward", CUDNN_POINTWISE_TANH_BWD),
    ("sigmoid-backward", CUDNN_POINTWISE_SIGMOID_BWD),
];

const OPERANDS: &Names = &[
    ("x", CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
    ("b", CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
    ("t", CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
    ("y", CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
    ("dx", CUDNN_ATTR_OPERATION_POINTWISE_DXDESC),
    ("dy", CUDNN_ATTR_OPERATION_POINTWISE_DYDESC),
];

const PARAMETERS: &Names = &[
    ("nan-propagation", CUDNN_ATTR_POINTWISE_NAN_PROPAGATION),
    ("lower-clip", CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP),
    ("upper-clip", CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP),
    ("lower-clip-slope", CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE),
    ("elu-alpha", CUDNN_ATTR_POINTWISE_ELU_ALPHA),
    ("softplus-beta", CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA),
    ("swish-beta", CUDNN_ATTR_POINTWISE_SWISH_BETA),
    ("axis", CUDNN_ATTR_POINTWISE_AXIS),
];

/// Separates the tensors and the operations.
const SEPARATOR: &str = " | ";

impl Problem {
    /// The whole graph as one line of text. Equal problems have equal texts, and [`Self::from_spec`] reads them back:
    ///
    /// `graph half:8x16x9x9@1296x1x144x16/16/batched half:4x16x3x3@144x1x48x16/16 … | F x=0 w=1 y=2 compute=float
    /// mode=correlation pre=1x1 post=1x1 stride=1x1 dilation=1x1 alpha=1.0 beta=0.0 | relu compute=float x=2 y=3
    /// alpha1=1.0 alpha2=1.0 lower-clip=0.0`
    ///
    /// A tensor has a type, dimensions, after `@` strides in elements, after `/` an alignment in bytes, then its flags:
    /// batched, virtual, value. Operations refer to tensors by place, from 0.
    pub fn spec(&self) -> String {
        let mut text = String::with_capacity(512);
        text.push_str("graph");
        // Writing to a string does not fail.
        for tensor in &self.tensors {
            let (data_type, dims, strides) =
                (named(TYPES, tensor.data_type), list(&tensor.dims), list(&tensor.strides));
            let _ = write!(text, " {data_type}:{dims}@{strides}/{}", tensor.alignment);
            for (name, holds) in flags(tensor) {
                text.push_str(if holds { name } else { "" });
            }
        }
        for operation in &self.operations {
            text.push_str(SEPARATOR);
            let _ = match operation {
                Operation::Convolution(convolution) => write_convolution(&mut text, convolution),
                Operation::Pointwise(pointwise) => write_pointwise(&mut text, pointwise),
            };
        }
        text
    }

    /// Reads the text of [`Self::spec`], and nothing else. `Err` names the part that is wrong, and why.
    pub fn from_spec(text: &str) -> Result<Self, String> {
        let mut parts = text.split(SEPARATOR);
        let mut tensors = parts.next().unwrap_or_default().split(' ');
        if tensors.next() != Some("graph") {
            return Err(format!("{text:?} is no operation graph: it must start with \"graph \""));
        }
        let tensors = tensors.map(tensor).collect::<Result<Vec<_>, _>>()?;
        let operations = parts.map(|text| operation(text, &tensors)).collect::<Result<Vec<_>, _>>()?;
        let convolutions = operations.iter().filter(|operation| matches!(operation, Operation::Convolution(_))).count();
        if convolutions != 1 {
            return Err(format!("it has {convolutions} convolutions: it must have one"));
        }
        let problem = Self { tensors, operations };
        // One problem has one text: this rejects leading zeros, and a number where a name exists.
        let canonical = problem.spec();
        if canonical == text { Ok(problem) } else { Err(format!("it reads as {canonical:?}, and differs from that")) }
    }
}

/// The flags that follow a tensor's alignment, each with whether the tensor has it.
fn flags(tensor: &Tensor) -> [(&'static str, bool); 3] {
    [("/batched", tensor.is_batched), ("/virtual", tensor.is_virtual), ("/value", tensor.is_by_value)]
}

/// A factor as text: its shortest decimal, or the bits of a NaN.
struct Written(Factor);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0.value();
        if value.is_nan() { write!(f, "bits{:x}", value.to_bits()) } else { write!(f, "{value:?}") }
    }
}

fn write_convolution(text: &mut String, convolution: &Convolution) -> fmt::Result {
    let Convolution { direction, x, w, y, .. } = convolution;
    write!(
        text,
        "{direction} x={x} w={w} y={y} compute={} mode={} pre={} post={} stride={} dilation={} alpha={} beta={}",
        named(TYPES, convolution.compute_type),
        named(MODES, convolution.mode),
        list(&convolution.pre_padding),
        list(&convolution.post_padding),
        list(&convolution.stride),
        list(&convolution.dilation),
        Written(convolution.alpha),
        Written(convolution.beta),
    )
}

fn write_pointwise(text: &mut String, pointwise: &Pointwise) -> fmt::Result {
    write!(text, "{} compute={}", named(POINTWISE_MODES, pointwise.mode), named(TYPES, pointwise.compute_type))?;
    for &(name, place) in &pointwise.operands {
        write!(text, " {}={place}", named(OPERANDS, name))?;
    }
    write!(text, " alpha1={} alpha2={}", Written(pointwise.alpha1), Written(pointwise.alpha2))?;
    for &(name, value) in &pointwise.parameters {
        write!(text, " {}={}", named(PARAMETERS, name), Written(value))?;
    }
    Ok(())
}

/// Reads any count of numbers, each at least `least`.
fn numbers(what: &str, text: &str, least: i64) -> Result<Vec<i64>, String> {
    let values: Option<Vec<i64>> = text.split('x').map(|number| number.parse().ok()).collect();
    values
        .filter(|values| values.iter().all(|&value| value >= least))
        .ok_or_else(|| format!("{what} is {text:?}: it must be numbers of at least {least}, with x between them"))
}

fn tensor(text: &str) -> Result<Tensor, String> {
    let parts = || {
        let (data_type, rest) = text.split_once(':')?;
        let (dims, rest) = rest.split_once('@')?;
        let (strides, rest) = rest.split_once('/')?;
        Some((data_type, dims, strides, rest))
    };
    let malformed = || format!("{text:?} is not a tensor's type:dims@strides/alignment");
    let (data_type, dims, strides, rest) = parts().ok_or_else(malformed)?;
    let (alignment, flags) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let holds = |flag: &str| flags.split('/').any(|name| name == flag);
    let tensor = Tensor {
        data_type: value("a tensor's type", TYPES, data_type)?,
        dims: numbers("a tensor's dimensions", dims, 1)?,
        strides: numbers("a tensor's strides", strides, 0)?,
        alignment: alignment.parse().map_err(|_| malformed())?,
        is_virtual: holds("virtual"),
        is_by_value: holds("value"),
        is_batched: holds("batched"),
    };
    if tensor.dims.len() == tensor.strides.len() { Ok(tensor) } else { Err(malformed()) }
}

/// The `key=value` fields of an operation, in order.
struct Fields<'a>(std::iter::Peekable<std::str::Split<'a, char>>);

impl<'a> Fields<'a> {
    /// Takes the next field if its key is among `names`.
    fn next_of(&mut self, names: &Names) -> Option<(i32, &'a str)> {
        let (key, value) = self.0.peek()?.split_once('=')?;
        let name = names.iter().find(|(name, _)| *name == key)?.1;
        self.0.next();
        Some((name, value))
    }

    /// Takes the next field, whose key must be `key`.
    fn value(&mut self, key: &str) -> Result<&'a str, String> {
        let field = self.0.next().unwrap_or_default();
        let value = field.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        value.ok_or_else(|| format!("{key}=… is expected where {field:?} stands"))
    }

    fn factor(&mut self, key: &str) -> Result<Factor, String> {
        factor(key, self.value(key)?)
    }

    fn place(&mut self, key: &str, tensors: &[Tensor]) -> Result<usize, String> {
        place(key, self.value(key)?, tensors)
    }
}

fn factor(what: &str, text: &str) -> Result<Factor, String> {
    let value = match text.strip_prefix("bits") {
        Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
        None => text.parse().ok(),
    };
    value.map(Factor::new).ok_or_else(|| format!("{what} is {text:?}: it must be a number"))
}

fn place(what: &str, text: &str, tensors: &[Tensor]) -> Result<usize, String> {
    let place = text.parse().ok().filter(|&place| place < tensors.len());
    place.ok_or_else(|| format!("{what} is {text:?}: it must be the place of one of {} tensors", tensors.len()))
}

fn operation(text: &str, tensors: &[Tensor]) -> Result<Operation, String> {
    let mut fields = text.split(' ');
    let name = fields.next().unwrap_or_default();
    let mut fields = Fields(fields.peekable());
    let direction = DIRECTIONS.into_iter().find(|direction| direction.to_string() == name);
    let operation = match direction {
        Some(direction) => {
            let convolution = Convolution {
                direction,
                x: fields.place("x", tensors)?,
                w: fields.place("w", tensors)?,
                y: fields.place("y", tensors)?,
                compute_type: value("compute", TYPES, fields.value("compute")?)?,
                mode: value("mode", MODES, fields.value("mode")?)?,
                pre_padding: numbers("pre", fields.value("pre")?, 0)?,
                post_padding: numbers("post", fields.value("post")?, 0)?,
                stride: numbers("stride", fields.value("stride")?, 1)?,
                dilation: numbers("dilation", fields.value("dilation")?, 1)?,
                alpha: fields.factor("alpha")?,
                beta: fields.factor("beta")?,
            };
            Operation::Convolution(convolution)
        }
        None => {
            let mode = value("the operation", POINTWISE_MODES, name)?;
            let compute_type = value("compute", TYPES, fields.value("compute")?)?;
            let mut operands = Vec::new();
            while let Some((name, text)) = fields.next_of(OPERANDS) {
                operands.push((name, place("an operand", text, tensors)?));
            }
            let (alpha1, alpha2) = (fields.factor("alpha1")?, fields.factor("alpha2")?);
            let mut parameters = Vec::new();
            while let Some((name, text)) = fields.next_of(PARAMETERS) {
                parameters.push((name, factor("a parameter", text)?));
            }
            Operation::Pointwise(Pointwise { mode, compute_type, operands, alpha1, alpha2, parameters })
        }
    };
    fields.0.next().map_or(Ok(operation), |field| Err(format!("{field:?} is not expected behind {name}")))
}

/// Writes the form used in log lines: `F half 128x64x56x56 * 64x64x3x3 pad 1x1 stride 1x1 nhwc + add + relu`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, operation) in self.operations.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { " + " })?;
            match operation {
                Operation::Convolution(convolution) => self.write_short(f, convolution)?,
                Operation::Pointwise(pointwise) => f.write_str(&named(POINTWISE_MODES, pointwise.mode))?,
            }
        }
        Ok(())
    }
}

impl Problem {
    fn write_short(&self, f: &mut fmt::Formatter<'_>, convolution: &Convolution) -> fmt::Result {
        let (x, w) = (&self.tensors[convolution.x], &self.tensors[convolution.w]);
        let (pre, post) = (&convolution.pre_padding, &convolution.post_padding);
        write!(f, "{} {} {} * {}", convolution.direction, named(TYPES, x.data_type), list(&x.dims), list(&w.dims))?;
        write!(f, " pad {}", list(pre))?;
        if pre != post {
            write!(f, " to {}", list(post))?;
        }
        write!(f, " stride {}", list(&convolution.stride))?;
        if convolution.dilation.iter().any(|&d| d != 1) {
            write!(f, " dilation {}", list(&convolution.dilation))?;
        }
        if let (Some(&channels), Some(&of_group @ 1..)) = (x.dims.get(1), w.dims.get(1))
            && channels != of_group
        {
            write!(f, " groups {}", channels / of_group)?;
        }
        let channels_last = x.strides.get(1) == Some(&1) && x.dims.get(1).is_some_and(|&channels| channels > 1);
        f.write_str(if channels_last { " nhwc" } else { "" })
    }
}

#[cfg(test)]
mod tests;
