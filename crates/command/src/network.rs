//! The layers of a network with their convolution problems, read from a CSV file as in `examples/networks`.

use std::path::Path;

use clap::{Args, ValueEnum};
use convolution::problem::any::AnyProblem;
use convolution::problem::{Problem, graph};
use cudnn::Direction;
use cudnn::tensor::Tensor;
use cudnn_abi::*;
use trust::Shown as _;

/// The choices that a file of layers leaves open.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Network (of a CSV file)")]
pub struct Shapes {
    /// Images in a mini-batch [default: the file's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub batch: Option<i32>,
    /// Type of all tensors [default: float]
    #[arg(long = "type", value_name = "TYPE")]
    pub data_type: Option<Type>,
    /// Layout of all tensors [default: nchw]
    #[arg(long)]
    pub format: Option<Format>,
    /// The convolutions' math type; half runs on tensor cores only by tensor-op [default: default]
    #[arg(long)]
    pub math: Option<Math>,
    /// The kernels' API: legacy (cudnnConvolution…) or graph (cudnnBackend…, as PyTorch uses) [default: legacy]
    #[arg(long)]
    pub api: Option<Api>,
    /// Only these layers, by their names in the file
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub layers: Vec<String>,
    /// Only these directions: F, BD, BF
    #[arg(long, value_name = "F,BD,BF", value_delimiter = ',', value_parser = direction)]
    pub directions: Vec<Direction>,
    /// No BackwardData for the first layer, whose input needs no gradient
    #[arg(long)]
    pub skip_first_bd: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Type {
    Float,
    Half,
    Bfloat16,
    Double,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Nchw,
    Nhwc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Math {
    Default,
    TensorOp,
    Fma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Api {
    Legacy,
    Graph,
}

/// An option's value as the command line takes it.
pub fn name_of<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn direction(text: &str) -> Result<Direction, String> {
    let all = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];
    all.into_iter().find(|direction| direction.to_string() == text).ok_or_else(|| "expected F, BD or BF".into())
}

/// One layer of a network in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The layer's name; its three problems, and repeated layers, share it.
    pub name: String,
    pub problem: AnyProblem,
    /// The number of such layers in the network.
    pub count: usize,
}

/// The layers of a network, in the file's order, each in F, BD and BF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    pub name: String,
    pub layers: Vec<Layer>,
}

/// The columns of a network file, in order; numbers have a least value.
const COLUMNS: [(&str, i32); 17] = [
    ("network", 0),
    ("layer", 0),
    ("count", 1),
    ("n", 1),
    ("c", 1),
    ("h", 1),
    ("w", 1),
    ("k", 1),
    ("r", 1),
    ("s", 1),
    ("pad_h", 0),
    ("pad_w", 0),
    ("stride_h", 1),
    ("stride_w", 1),
    ("dilation_h", 1),
    ("dilation_w", 1),
    ("groups", 1),
];
/// The largest count in a row.
const MOST_REPEATS: i32 = 10_000;
/// The longest name, in bytes.
const NAME_LENGTH: usize = 56;

/// The fields of a row.
struct Row<'a> {
    layer: &'a str,
    count: i32,
    image: [i32; 4],
    k: i32,
    filter: [i32; 2],
    pad: [i32; 2],
    stride: [i32; 2],
    dilation: [i32; 2],
    groups: i32,
}

/// The position of an error.
struct At<'a> {
    file: &'a Path,
    line: usize,
}

impl At<'_> {
    fn complain(&self, what: std::fmt::Arguments) -> String {
        format!("{}:{}: {what}", self.file.shown(), self.line)
    }
}

/// Reads a CSV file's text; `file` only appears in messages.
pub fn parse(file: &Path, text: &str, shapes: &Shapes) -> Result<Network, String> {
    if shapes.api == Some(Api::Graph) && shapes.math.is_some() {
        return Err("--math is of the legacy API; in --api graph engines tell what they do to numbers".into());
    }
    let mut network = Network { name: String::new(), layers: Vec::new() };
    let mut names = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = At { file, line: index + 1 };
        if index == 0 {
            check_header(&at, line)?;
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let (name, row) = read_row(&at, line)?;
        if network.name.is_empty() {
            network.name = name.to_owned();
        } else if network.name != name {
            let expected = &network.name;
            return Err(
                at.complain(format_args!("network: one file holds one network: expected {expected}, not {name}"))
            );
        }
        names.push(row.layer.to_owned());
        if shapes.layers.is_empty() || shapes.layers.iter().any(|only| only == row.layer) {
            let first = names.len() == 1;
            network.layers.extend(layers(&at, &row, shapes, first)?);
        }
    }
    if names.is_empty() {
        return Err(format!("{}: it names no layers; a file starts with the line {}", file.shown(), header()));
    }
    if let Some(unknown) = shapes.layers.iter().find(|only| !names.contains(only)) {
        return Err(format!("{}: no layer is called {unknown}; there are {}", file.shown(), names.join(", ")));
    }
    if network.layers.is_empty() {
        return Err(format!("{}: no kernel of it is left by the options", file.shown()));
    }
    Ok(network)
}

fn header() -> String {
    COLUMNS.map(|(name, _)| name).join(",")
}

fn check_header(at: &At, line: &str) -> Result<(), String> {
    let fields = split(at, line)?;
    match COLUMNS.iter().zip(fields).enumerate().find(|(_, ((name, _), field))| name != field) {
        Some((index, ((name, _), field))) => {
            Err(at.complain(format_args!("column {}: the header names it {name}, not {field:?}", index + 1)))
        }
        None => Ok(()),
    }
}

fn split<'a>(at: &At, line: &'a str) -> Result<[&'a str; COLUMNS.len()], String> {
    let fields: Vec<&str> = line.split(',').collect();
    let (expected, found) = (COLUMNS.len(), fields.len());
    fields.try_into().map_err(|_| at.complain(format_args!("a row has {expected} fields, not {found}: {}", header())))
}

fn read_row<'a>(at: &At, line: &'a str) -> Result<(&'a str, Row<'a>), String> {
    let fields = split(at, line)?;
    let wrong = |index: usize, accepted: &str| {
        let (column, field) = (COLUMNS[index].0, fields[index]);
        Err(at.complain(format_args!("{column} (column {}): expected {accepted}, not {field:?}", index + 1)))
    };
    // Names become parts of file names and tables.
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    for (index, field) in fields.iter().enumerate().take(2) {
        if field.is_empty() || field.len() > NAME_LENGTH || !field.chars().all(safe) {
            return wrong(index, "a name of up to 56 letters, digits, '.', '_' and '-'");
        }
    }
    let mut numbers = [0; COLUMNS.len()];
    for (index, (_, least)) in COLUMNS.iter().enumerate().skip(2) {
        match fields[index].parse::<i32>() {
            Ok(number) if number >= *least => numbers[index] = number,
            _ if *least == 0 => return wrong(index, "an integer of 0 or more"),
            _ => return wrong(index, "a positive integer"),
        }
    }
    let [_, _, count, n, c, h, w, k, r, s, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups] = numbers;
    if count > MOST_REPEATS {
        return wrong(2, "at most 10000");
    }
    if c % groups != 0 || k % groups != 0 {
        return wrong(16, &format!("a divisor of c = {c} and k = {k}"));
    }
    let row = Row {
        layer: fields[1],
        count,
        image: [n, c, h, w],
        k,
        filter: [r, s],
        pad: [pad_h, pad_w],
        stride: [stride_h, stride_w],
        dilation: [dilation_h, dilation_w],
        groups,
    };
    Ok((fields[0], row))
}

/// The problems of a row, as a program sets their descriptors: tensors packed in the layout, cross-correlation, half
/// data summed in float.
fn layers(at: &At, row: &Row, shapes: &Shapes, first: bool) -> Result<Vec<Layer>, String> {
    let Row { layer, count, image: [n, c, h, w], k, filter: [r, s], pad, stride, dilation, groups } = *row;
    let n = shapes.batch.unwrap_or(n);
    let mut out = [0; 2];
    for (axis, (name, image, filter)) in [("h", h, r), ("w", w, s)].into_iter().enumerate() {
        let padded = i64::from(image) + 2 * i64::from(pad[axis]);
        let reach = (i64::from(filter) - 1) * i64::from(dilation[axis]) + 1;
        if reach > padded {
            let what = format_args!("the filter reaches over {reach} rows or columns, and {name} padded has {padded}");
            return Err(at.complain(what));
        }
        out[axis] = ((padded - reach) / i64::from(stride[axis]) + 1) as i32;
    }
    let data_type = match shapes.data_type.unwrap_or(Type::Float) {
        Type::Float => CUDNN_DATA_FLOAT,
        Type::Half => CUDNN_DATA_HALF,
        Type::Bfloat16 => CUDNN_DATA_BFLOAT16,
        Type::Double => CUDNN_DATA_DOUBLE,
    };
    let channels_last = shapes.format == Some(Format::Nhwc);
    let too_large = || at.complain(format_args!("a tensor of this layer has more elements than cuDNN counts (2^31)"));
    let tensor = |dims| packed(data_type, channels_last, dims).ok_or_else(too_large);
    let (x, y) = (tensor([n, c, h, w])?, tensor([n, k, out[0], out[1]])?);
    let problem = |direction| Problem {
        direction,
        rank: 4,
        x,
        w_type: data_type,
        w_format: if channels_last { CUDNN_TENSOR_NHWC } else { CUDNN_TENSOR_NCHW },
        w_dims: [k, c / groups, r, s, 0],
        y,
        pad: [pad[0], pad[1], 0],
        stride: [stride[0], stride[1], 0],
        dilation: [dilation[0], dilation[1], 0],
        mode: CUDNN_CROSS_CORRELATION,
        compute_type: if data_type == CUDNN_DATA_DOUBLE { CUDNN_DATA_DOUBLE } else { CUDNN_DATA_FLOAT },
        math_type: match shapes.math.unwrap_or(Math::Default) {
            Math::Default => CUDNN_DEFAULT_MATH,
            Math::TensorOp => CUDNN_TENSOR_OP_MATH,
            Math::Fma => CUDNN_FMA_MATH,
        },
        groups,
    };
    let wanted = |direction: &Direction| shapes.directions.is_empty() || shapes.directions.contains(direction);
    let layer = |direction| {
        let skipped = first && shapes.skip_first_bd && direction == Direction::BackwardData;
        let problem = match shapes.api {
            None | Some(Api::Legacy) => AnyProblem::Convolution(problem(direction)),
            Some(Api::Graph) => AnyProblem::Graph(graph::Problem::of_convolution(&problem(direction))),
        };
        Layer { name: layer.to_owned(), problem, count: count as usize - usize::from(skipped) }
    };
    let all = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];
    Ok(all.into_iter().filter(wanted).map(layer).filter(|layer| layer.count > 0).collect())
}

/// A tensor without gaps, as `cudnnSetTensor4dDescriptor` makes it; `None` if it has more elements than cuDNN counts.
fn packed(data_type: cudnnDataType_t, channels_last: bool, dims: [i32; 4]) -> Option<Tensor> {
    let [n, c, h, w] = dims;
    let plane = h.checked_mul(w)?;
    let image = plane.checked_mul(c)?;
    image.checked_mul(n)?;
    let strides = if channels_last { [image, 1, w * c, c, 0] } else { [image, plane, w, 1, 0] };
    Some(Tensor { data_type, dims: [n, c, h, w, 0], strides })
}
