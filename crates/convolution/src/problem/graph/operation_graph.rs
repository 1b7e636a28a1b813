//! A problem's operation graph, made of our own descriptors, and the proposals of cuDNN's heuristics for it.

use std::sync::Arc;

use cudnn_abi::*;

use crate::problem::graph::{Convolution, EngineConfiguration, Factor, Operation, Pointwise, Problem, Tensor};
use cudnn::graph::descriptor::{Owned, count, read_descriptors};
use cudnn::graph::{ConvolutionNames, Target};

/// A problem's finalized operation graph with all descriptors that it refers to. A clone shares the graph.
#[derive(Clone)]
pub struct OperationGraph(Arc<Parts>);

struct Parts {
    graph: Owned,
    target: Target,
    /// Tensors, operations and their parameters, which must live as long as the graph.
    _operations: Vec<Owned>,
}

impl OperationGraph {
    /// The graph of problem `problem` for `target`. Each tensor's unique id is its place plus 1.
    pub fn new(problem: &Problem, target: &Target) -> Result<Self, cudnnStatus_t> {
        let tensors = problem.tensors.iter().zip(1..).map(|(tensor, id)| self::tensor(tensor, id));
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        let mut held = Vec::with_capacity(problem.tensors.len() + problem.operations.len());
        let mut operations = Vec::with_capacity(problem.operations.len());
        for operation in &problem.operations {
            let (what, operation) = match operation {
                Operation::Convolution(convolution) => self::convolution(convolution, &tensors)?,
                Operation::Pointwise(pointwise) => self::pointwise(pointwise, &tensors)?,
            };
            held.push(what);
            operations.push(operation);
        }
        let mut graph = Owned::create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations.iter().collect::<Vec<_>>())?;
        graph.finalize()?;
        held.extend(tensors);
        held.extend(operations);
        Ok(Self(Arc::new(Parts { graph, target: target.clone(), _operations: held })))
    }

    /// The proposals of cuDNN's heuristics in `mode`, in their order. Takes tens of milliseconds on the real cuDNN.
    pub fn heuristics(&self, mode: cudnnBackendHeurMode_t) -> Result<Vec<EngineConfiguration>, cudnnStatus_t> {
        let mut heuristics = Owned::create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        heuristics.set_descriptors(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[&self.0.graph])?;
        heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &[mode])?;
        self.0.target.set_on(&mut heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)?;
        heuristics.finalize()?;
        // SAFETY: `heuristics` is live and finalized, and its results are finalized engine configurations.
        unsafe {
            let (heuristics, results) = (heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS);
            let room = count(heuristics, results, CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
            let found = read_descriptors(heuristics, results, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, room)?;
            found.iter().map(|found| EngineConfiguration::read(found.raw())).collect()
        }
    }

    /// The number of engines for the graph; global indices are below it. Some engines may not support the graph.
    pub fn engines(&self) -> Result<i64, cudnnStatus_t> {
        self.0.graph.get_one(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64)
    }

    /// The device that the graph is for.
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// The descriptor, valid as long as `self` or a clone.
    pub fn descriptor(&self) -> &Owned {
        &self.0.graph
    }
}

fn tensor(tensor: &Tensor, id: i64) -> Result<Owned, cudnnStatus_t> {
    let mut owned = Owned::create(CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    owned.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &[tensor.data_type])?;
    owned.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, &tensor.dims)?;
    owned.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, &tensor.strides)?;
    owned.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &[id])?;
    owned.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &[tensor.alignment])?;
    owned.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &[tensor.is_virtual])?;
    owned.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, &[tensor.is_by_value])?;
    owned.finalize()?;
    Ok(owned)
}

/// The tensor at a place that an operation names.
fn at(tensors: &[Owned], place: usize) -> Result<&Owned, cudnnStatus_t> {
    tensors.get(place).ok_or(CUDNN_STATUS_BAD_PARAM)
}

/// Sets a factor, in double where the operation computes in double, else in float.
fn set_factor(
    owned: &mut Owned,
    name: cudnnBackendAttributeName_t,
    compute_type: cudnnDataType_t,
    factor: Factor,
) -> Result<(), cudnnStatus_t> {
    match compute_type {
        CUDNN_DATA_DOUBLE => owned.set(name, CUDNN_TYPE_DOUBLE, &[factor.value()]),
        _ => owned.set(name, CUDNN_TYPE_FLOAT, &[factor.value() as f32]),
    }
}

/// The convolution's parameters and its operation.
fn convolution(convolution: &Convolution, tensors: &[Owned]) -> Result<(Owned, Owned), cudnnStatus_t> {
    let mut what = Owned::create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
    let compute_type = convolution.compute_type;
    let rank = convolution.stride.len() as i64;
    what.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &[compute_type])?;
    what.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &[convolution.mode])?;
    what.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, &[rank])?;
    what.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, &convolution.pre_padding)?;
    what.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, &convolution.post_padding)?;
    what.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, &convolution.stride)?;
    what.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, &convolution.dilation)?;
    what.finalize()?;

    let names = ConvolutionNames::of(convolution.direction);
    let mut operation = Owned::create(names.kind)?;
    operation.set_descriptors(names.convolution, &[&what])?;
    operation.set_descriptors(names.x, &[at(tensors, convolution.x)?])?;
    operation.set_descriptors(names.w, &[at(tensors, convolution.w)?])?;
    operation.set_descriptors(names.y, &[at(tensors, convolution.y)?])?;
    set_factor(&mut operation, names.alpha, compute_type, convolution.alpha)?;
    set_factor(&mut operation, names.beta, compute_type, convolution.beta)?;
    operation.finalize()?;
    Ok((what, operation))
}

/// The pointwise operation's parameters and the operation itself.
fn pointwise(pointwise: &Pointwise, tensors: &[Owned]) -> Result<(Owned, Owned), cudnnStatus_t> {
    let mut what = Owned::create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
    let compute_type = pointwise.compute_type;
    what.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &[pointwise.mode])?;
    what.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &[compute_type])?;
    for &(name, factor) in &pointwise.parameters {
        match name {
            CUDNN_ATTR_POINTWISE_NAN_PROPAGATION => {
                what.set(name, CUDNN_TYPE_NAN_PROPOGATION, &[factor.value() as cudnnNanPropagation_t])?;
            }
            CUDNN_ATTR_POINTWISE_AXIS => what.set(name, CUDNN_TYPE_INT64, &[factor.value() as i64])?,
            _ => what.set(name, CUDNN_TYPE_DOUBLE, &[factor.value()])?,
        }
    }
    what.finalize()?;

    let mut operation = Owned::create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
    operation.set_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&what])?;
    for &(name, place) in &pointwise.operands {
        operation.set_descriptors(name, &[at(tensors, place)?])?;
    }
    set_factor(&mut operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, compute_type, pointwise.alpha1)?;
    set_factor(&mut operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, compute_type, pointwise.alpha2)?;
    operation.finalize()?;
    Ok((what, operation))
}
