//! The computation of an operation graph: a convolution, a chain of functions of each element behind it, or such a
//! chain alone.
//!
//! The convolution writes to the graph's output, and the chain changes that in place: no intermediate result needs its
//! own memory. In two-byte types the convolution's result is therefore rounded once before the chain. If the chain
//! begins by adding a tensor of the output's size and type, this becomes the convolution's `beta`, so that the sum is
//! rounded only once and the tensor may be the output itself.

use super::operation::{Convolution, Operation, Pointwise};
use super::tensor::{Tensor, supported};
use super::*;
use crate::convolution::{Direction, Element, Problem};
use crate::elementwise::chain::{Chain, Function, Operand, Source, Step};
use std::collections::BTreeMap;

/// A convolution within a graph.
#[derive(Clone, Debug)]
pub struct Convolve {
    /// Shapes and strides; the output's are those of the graph's output.
    pub problem: Problem,
    /// Unique ids of x, w and y; the output's is the graph's.
    pub tensors: [i64; 3],
    /// Scales the result.
    pub alpha: f64,
    /// Scales the output's previous contents, or the residual.
    pub beta: f64,
    /// The unique id of the tensor that is copied to the output beforehand, and the copy.
    pub residual: Option<(i64, Chain)>,
}

/// The computation of an operation graph.
#[derive(Clone, Debug)]
pub struct Program {
    /// Runs first.
    pub convolution: Option<Convolve>,
    /// Runs then: its operands' unique ids (the first is the output if there was a convolution), and the chain.
    pub chain: Option<(Vec<i64>, Chain)>,
    /// The unique id of the result.
    pub output: i64,
    /// All tensors in memory.
    pub tensors: Vec<Tensor>,
}

/// A status of CUDNN_STATUS_NOT_SUPPORTED's family: graphs of another pattern.
fn pattern(holds: bool, rule: &'static str) -> Result {
    supported(holds, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, rule)
}

impl Program {
    /// The program of a graph of these operations, which come in any order.
    pub fn new(operations: &[Operation]) -> Result<Self> {
        let (mut convolutions, mut pointwise) = (Vec::new(), Vec::new());
        for operation in operations {
            match operation {
                Operation::Convolution(one) => convolutions.push(one.as_ref()),
                Operation::Pointwise(one) => pointwise.push(one.as_ref()),
            }
        }
        pattern(convolutions.len() <= 1, "graphs of one convolution")?;
        let convolution = convolutions.first().copied();
        let begin = convolution.map(output_of);
        let steps = in_order(begin, pointwise)?;
        let output = steps.last().map(|step| &step.y).or(begin).cloned();
        let output = output.ok_or_else(|| Error::new(CUDNN_STATUS_BAD_PARAM, "a graph has operations"))?;
        check_intermediates(begin, &steps, &output)?;
        let mut tensors: BTreeMap<i64, Tensor> = BTreeMap::new();
        let of_convolution = convolution.iter().flat_map(|c| [&c.x, &c.w, &c.y]);
        let of_steps = steps.iter().flat_map(|step| [Some(&step.x), step.b.as_ref(), Some(&step.y)]).flatten();
        for tensor in of_convolution.chain(of_steps) {
            tensor.check_supported()?;
            let known = tensors.entry(tensor.uid).or_insert_with(|| tensor.clone());
            pattern(known.is_same(tensor), "graphs in which one unique id is one tensor")?;
        }
        tensors.retain(|_, tensor| !tensor.is_virtual);
        let plain = output.is_injective();
        supported(plain, CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "outputs whose elements do not overlap")?;

        let mut steps = &steps[..];
        let mut begin = begin.map(|tensor| tensor.uid);
        let mut convolve = convolution.map(|convolution| Convolve::new(convolution, &output)).transpose()?;
        if let Some(convolve) = &mut convolve {
            pattern(steps.is_empty() || convolve.beta == 0.0, "graphs that keep nothing of an intermediate result")?;
            if let Some((first, rest)) = steps.split_first()
                && convolve.takes_residual(begin, first, &output)?
            {
                (begin, steps) = (Some(first.y.uid), rest);
            }
        }
        let chain = if steps.is_empty() { None } else { Some(chain(begin, steps, &output)?) };
        if let Some(convolve) = &convolve {
            let uses = convolve.tensors.iter().filter(|&&id| id == output.uid).count();
            pattern(uses == 1, "convolutions that are not in place")?;
        }
        Ok(Self { convolution: convolve, chain, output: output.uid, tensors: tensors.into_values().collect() })
    }

    /// The number of images of a convolution; otherwise the first extent of the result.
    pub fn batch(&self) -> usize {
        match &self.convolution {
            Some(convolve) => convolve.problem.batch,
            None => self.tensors.iter().find(|t| t.uid == self.output).map_or(1, |t| t.dims[0] as usize),
        }
    }
}

/// The tensor that a convolution computes.
fn output_of(convolution: &Convolution) -> &Tensor {
    match convolution.direction {
        Direction::Forward => &convolution.y,
        Direction::BackwardData => &convolution.x,
        Direction::BackwardFilter => &convolution.w,
    }
}

fn operands(step: &Pointwise) -> impl Iterator<Item = &Tensor> {
    [Some(&step.x), step.b.as_ref()].into_iter().flatten()
}

/// Pointwise operations in an order in which each one's virtual operands have been computed.
fn in_order<'a>(begin: Option<&Tensor>, mut waiting: Vec<&'a Pointwise>) -> Result<Vec<&'a Pointwise>> {
    let mut known: Vec<i64> = begin.map(|tensor| tensor.uid).into_iter().collect();
    let mut order = Vec::new();
    while !waiting.is_empty() {
        let ready = |step: &&Pointwise| operands(step).all(|t| !t.is_virtual || known.contains(&t.uid));
        let next = waiting.iter().position(ready);
        pattern(next.is_some(), "graphs whose virtual tensors are computed in them")?;
        let step = waiting.remove(next.unwrap_or(0));
        known.push(step.y.uid);
        order.push(step);
    }
    Ok(order)
}

/// Every intermediate result is virtual and used; the output is in memory.
fn check_intermediates(begin: Option<&Tensor>, steps: &[&Pointwise], output: &Tensor) -> Result {
    pattern(!output.is_virtual, "graphs whose last result is in memory")?;
    let mut computed: Vec<&Tensor> = begin.into_iter().chain(steps.iter().map(|step| &step.y)).collect();
    computed.pop();
    for (i, tensor) in computed.into_iter().enumerate() {
        pattern(tensor.is_virtual, "graphs with one result in memory")?;
        let later = &steps[if begin.is_some() { i } else { i + 1 }..];
        let used = later.iter().any(|step| operands(step).any(|operand| operand.uid == tensor.uid));
        pattern(used, "graphs that use what they compute")?;
    }
    Ok(())
}

impl Convolve {
    fn new(convolution: &Convolution, output: &Tensor) -> Result<Self> {
        let Convolution { direction, x, w, y, geometry, alpha, beta } = convolution;
        let direction = *direction;
        let inputs = match direction {
            Direction::Forward => [x, w],
            Direction::BackwardData => [w, y],
            Direction::BackwardFilter => [x, y],
        };
        pattern(inputs.iter().all(|tensor| !tensor.is_virtual), "convolutions of what is in memory")?;
        let replaced = output_of(convolution);
        supported(output.dims == replaced.dims, CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "outputs of the convolution's size")?;
        let types = [inputs[0].data_type, inputs[1].data_type, output.data_type];
        let element = match (types, geometry.compute_type) {
            ([CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT], CUDNN_DATA_FLOAT) => Some(Element::Float),
            ([CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE], CUDNN_DATA_DOUBLE) => Some(Element::Double),
            ([CUDNN_DATA_HALF, CUDNN_DATA_HALF, CUDNN_DATA_HALF], CUDNN_DATA_FLOAT | CUDNN_DATA_HALF) => {
                Some(Element::Half)
            }
            ([CUDNN_DATA_BFLOAT16, CUDNN_DATA_BFLOAT16, CUDNN_DATA_BFLOAT16], CUDNN_DATA_FLOAT) => {
                Some(Element::Bfloat16)
            }
            _ => None,
        };
        let rule = "convolutions of one data type, computed in a type that goes with it";
        supported(element.is_some(), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, rule)?;
        let spatial = geometry.spatial;
        supported(matches!(spatial, 2 | 3), CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "two or three spatial dimensions")?;
        let most = i64::from(i32::MAX);
        let small = (0..spatial).all(|i| {
            geometry.pre_padding[i].max(geometry.post_padding[i]) <= most / 4
                && (w.dims[i + 2] - 1).checked_mul(geometry.dilation[i]).is_some_and(|reach| reach < most)
                && geometry.stride[i] <= most
        });
        supported(small, CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "paddings, strides and windows that fit into 32 bits")?;
        let strides =
            |tensor: &Tensor| five(if tensor.uid == replaced.uid { &output.strides } else { &tensor.strides });
        let problem = Problem {
            direction,
            element: element.unwrap_or(Element::Float),
            batch: x.dims[0] as usize,
            groups: convolution.groups() as usize,
            in_channels: x.dims[1] as usize,
            out_channels: y.dims[1] as usize,
            input: triple(&x.dims[2..], 1),
            filter: triple(&w.dims[2..], 1),
            output: triple(&y.dims[2..], 1),
            pad: triple(&geometry.pre_padding, 0),
            stride: triple(&geometry.stride, 1),
            dilation: triple(&geometry.dilation, 1),
            x_strides: strides(x),
            w_strides: strides(w),
            y_strides: strides(y),
            flip: geometry.mode == CUDNN_CONVOLUTION,
        };
        let id = |tensor: &Tensor| if tensor.uid == replaced.uid { output.uid } else { tensor.uid };
        Ok(Self { problem, tensors: [id(x), id(w), id(y)], alpha: *alpha, beta: *beta, residual: None })
    }

    /// Takes over the step behind the convolution if it adds a tensor like the output. Returns whether it did.
    fn takes_residual(&mut self, result: Option<i64>, step: &Pointwise, output: &Tensor) -> Result<bool> {
        let Some(b) = &step.b else { return Ok(false) };
        if function(step)? != Function::Add || self.beta != 0.0 || step.alpha2 == 0.0 {
            return Ok(false);
        }
        let (of_result, of_other, other) = match (Some(step.x.uid) == result, Some(b.uid) == result) {
            (true, false) => (step.alpha1, step.alpha2, b),
            (false, true) => (step.alpha2, step.alpha1, &step.x),
            _ => return Ok(false),
        };
        if other.is_virtual || other.dims != output.dims || other.data_type != output.data_type {
            return Ok(false);
        }
        let copy = Chain::new(
            &extents(output),
            vec![operand(other, output)?],
            vec![Step { function: Function::Identity, a: (Source::Operand(0), 1.0), b: None }],
            operand(output, output)?,
        );
        self.alpha *= of_result;
        self.beta = of_other;
        self.residual = Some((other.uid, copy));
        Ok(true)
    }
}

/// The function of a step.
fn function(step: &Pointwise) -> Result<Function> {
    let of = &step.function;
    let compute = of.enumerator(CUDNN_ATTR_POINTWISE_MATH_PREC);
    let float = matches!(compute, CUDNN_DATA_FLOAT | CUDNN_DATA_DOUBLE);
    supported(float, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "pointwise operations in float or double")?;
    Ok(match of.enumerator(CUDNN_ATTR_POINTWISE_MODE) {
        CUDNN_POINTWISE_ADD => Function::Add,
        CUDNN_POINTWISE_MUL => Function::Multiply,
        CUDNN_POINTWISE_IDENTITY => Function::Identity,
        CUDNN_POINTWISE_RELU_FWD => Function::Relu {
            lower: of.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP),
            upper: of.real(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP),
            slope: of.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE),
            keeps_nan: of.enumerator(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN,
        },
        _ => {
            let reason = "supported are the pointwise modes ADD, MUL, IDENTITY and RELU_FWD";
            return Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, reason));
        }
    })
}

/// The operands' unique ids and the chain of the steps; the output holds `begin` beforehand.
fn chain(begin: Option<i64>, steps: &[&Pointwise], output: &Tensor) -> Result<(Vec<i64>, Chain)> {
    let (mut ids, mut operands) = (Vec::new(), Vec::new());
    if begin.is_some() {
        ids.push(output.uid);
        operands.push(operand(output, output)?);
    }
    let mut computed: Vec<i64> = Vec::new();
    let mut made = Vec::new();
    for step in steps {
        let mut source = |tensor: &Tensor| -> Result<Source> {
            if let Some(place) = computed.iter().position(|&uid| uid == tensor.uid) {
                return Ok(Source::Step(place));
            }
            if Some(tensor.uid) == begin {
                return Ok(Source::Operand(0));
            }
            // After a convolution, the output's old contents are overwritten.
            let overwritten = begin.is_some() && tensor.uid == output.uid;
            pattern(!overwritten, "graphs that read their output for nothing but the first addition")?;
            let place = ids.iter().position(|&uid| uid == tensor.uid);
            Ok(Source::Operand(place.map_or_else(
                || {
                    ids.push(tensor.uid);
                    operands.push(operand(tensor, output)?);
                    Ok(ids.len() - 1)
                },
                Ok::<_, Error>,
            )?))
        };
        let function = function(step)?;
        let binary = matches!(function, Function::Add | Function::Multiply);
        let b = if binary { step.b.as_ref() } else { None };
        pattern(binary == b.is_some(), "additions and multiplications of two tensors")?;
        made.push(Step {
            function,
            a: (source(&step.x)?, step.alpha1),
            b: b.map(|b| Ok::<_, Error>((source(b)?, step.alpha2))).transpose()?,
        });
        computed.push(step.y.uid);
    }
    pattern(operands.len() < Chain::OPERANDS_MAX, "pointwise operations of few tensors")?;
    Ok((ids, Chain::new(&extents(output), operands, made, operand(output, output)?)))
}

fn extents(tensor: &Tensor) -> Vec<usize> {
    tensor.dims.iter().map(|&dim| dim as usize).collect()
}

/// A tensor's strides along the output's indices: its extents are the output's, or 1 and repeated.
fn operand(tensor: &Tensor, output: &Tensor) -> Result<Operand> {
    let fits = tensor.dims.len() == output.dims.len()
        && tensor.dims.iter().zip(&output.dims).all(|(&dim, &of_output)| dim == of_output || dim == 1);
    supported(fits, CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "operands of the output's size, or repeated along dimensions")?;
    let strides = tensor.dims.iter().zip(&tensor.strides);
    let strides = strides.map(|(&dim, &stride)| if dim == 1 { 0 } else { stride as isize }).collect();
    Ok(Operand { data_type: tensor.data_type, strides })
}

/// d, h, w of two or three values; `unit` stands in for a missing d.
fn triple(values: &[i64], unit: usize) -> [usize; 3] {
    let mut all = [unit; 3];
    for (to, &from) in all.iter_mut().rev().zip(values.iter().rev()) {
        *to = from as usize;
    }
    all
}

/// Strides n, c, d, h, w of four or five.
fn five(strides: &[i64]) -> [usize; 5] {
    let [d, h, w] = triple(&strides[2..], 0);
    [strides[0] as usize, strides[1] as usize, d, h, w]
}
