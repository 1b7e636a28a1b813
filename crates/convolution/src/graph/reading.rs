//! Reads a program's operation graph as a convolution problem: one convolution, alone or with pointwise operations. We
//! do not plan a graph that has anything else in it.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudnn_abi::*;

use super::operation_graph::Graph;
use super::shadow::{Content, Shadow};
use crate::plans::graph::operands::MOST_TENSORS;
use crate::plans::graph::operands::Operands;
use crate::problem::graph::{Convolution, Factor, Operation, Pointwise, Problem, Tensor};
use cudnn::graph::ConvolutionNames;
use cudnn::tensor::element_size;

/// Reads an operation graph's shadow, once. `None` if we do not plan the graph.
pub fn graph(shadow: &Shadow) -> Option<Arc<Graph>> {
    shadow.graph.get_or_init(|| Reading::default().graph(&shadow.content()).map(Arc::new)).clone()
}

/// Reads a program's variant pack for an operation graph. `None` if the pack holds more than addresses (other
/// shapes or strides), lacks some, or would be refused by cuDNN.
pub fn operands(pack: &Shadow, graph: &Graph) -> Option<Operands> {
    let content = pack.content();
    const KNOWN: [cudnnBackendAttributeName_t; 3] =
        [CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_ATTR_VARIANT_PACK_WORKSPACE];
    if !content.is_finalized || content.is_opaque || !content.names().all(|name| KNOWN.contains(&name)) {
        return None;
    }
    let ids = content.elements::<8>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)?;
    let data = content.elements::<8>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)?;
    if ids.len() != data.len() {
        return None;
    }
    let mut pointers = [ptr::null_mut(); MOST_TENSORS];
    for ((tensor, id), pointer) in graph.problem.tensors.iter().zip(&graph.ids).zip(&mut pointers) {
        if !tensor.is_virtual {
            let given = ids.iter().position(|known| i64::from_ne_bytes(*known) == *id)?;
            *pointer = address(data[given]);
            if pointer.is_null() {
                return None;
            }
        }
    }
    let workspace = match content.elements::<8>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
        Some([workspace]) => address(*workspace),
        _ => ptr::null_mut(),
    };
    Some(Operands { pointers, workspace })
}

/// Reads a pointer from the bytes in which the program set it.
fn address(bytes: [u8; 8]) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::from_ne_bytes(bytes))
}

/// The tensors read so far, and their ids.
#[derive(Default)]
struct Reading {
    ids: Vec<i64>,
    tensors: Vec<Tensor>,
}

/// The parameters of a pointwise operation besides its mode and precision.
const PARAMETERS: [cudnnBackendAttributeName_t; 7] = [
    CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
    CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP,
    CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
    CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
    CUDNN_ATTR_POINTWISE_ELU_ALPHA,
    CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA,
    CUDNN_ATTR_POINTWISE_SWISH_BETA,
];
/// The tensors of a pointwise operation.
const OPERANDS: [cudnnBackendAttributeName_t; 6] = [
    CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_DYDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
];

/// Returns `Some` if the program set no attributes besides these.
fn has_only(content: &Content, names: &[&[cudnnBackendAttributeName_t]]) -> Option<()> {
    let known = |name| names.iter().any(|names| names.contains(&name));
    (!content.is_opaque && content.names().all(known)).then_some(())
}

impl Reading {
    fn graph(mut self, content: &Content) -> Option<Graph> {
        has_only(content, &[&[CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_OPS]])?;
        let operations = content.descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS)?;
        let operations: Vec<_> = operations.iter().map(|operation| self.operation(operation)).collect::<Option<_>>()?;
        let is_convolution = |operation: &&Operation| matches!(operation, Operation::Convolution(_));
        if operations.iter().filter(is_convolution).count() != 1 || self.tensors.len() > MOST_TENSORS {
            return None;
        }
        let Self { ids, tensors } = self;
        let mut problem = Problem { tensors, operations };
        mark_batched(&mut problem)?;
        Some(Graph { problem: Arc::new(problem), ids })
    }

    fn operation(&mut self, shadow: &Shadow) -> Option<Operation> {
        let content = shadow.content();
        if shadow.kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR {
            return self.pointwise(&content).map(Operation::Pointwise);
        }
        let names = ConvolutionNames::of_kind(shadow.kind)?;
        self.convolution(&content, names).map(Operation::Convolution)
    }

    fn convolution(&mut self, content: &Content, names: &ConvolutionNames) -> Option<Convolution> {
        let ConvolutionNames { direction, kind: _, convolution, x, w, y, alpha, beta } = *names;
        has_only(content, &[&[alpha, beta, convolution, x, w, y]])?;
        let (x, w, y) = (content.descriptor(x)?, content.descriptor(w)?, content.descriptor(y)?);
        let (x, w, y) = (self.tensor(x)?, self.tensor(w)?, self.tensor(y)?);
        let factor = |name, default| content.attribute(name).map_or(Some(default), |_| content.number(name));
        let described = content.descriptor(convolution)?.content();
        let list = |name| described.integers(name);
        has_only(
            &described,
            &[&[
                CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                CUDNN_ATTR_CONVOLUTION_DILATIONS,
                CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
                CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
            ]],
        )?;
        Some(Convolution {
            direction,
            x,
            w,
            y,
            compute_type: described.enumerator(CUDNN_ATTR_CONVOLUTION_COMP_TYPE)?,
            mode: described.enumerator(CUDNN_ATTR_CONVOLUTION_CONV_MODE)?,
            pre_padding: list(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)?,
            post_padding: list(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)?,
            stride: list(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)?,
            dilation: list(CUDNN_ATTR_CONVOLUTION_DILATIONS)?,
            alpha: Factor::new(factor(alpha, 1.0)?),
            beta: Factor::new(factor(beta, 0.0)?),
        })
    }

    fn pointwise(&mut self, content: &Content) -> Option<Pointwise> {
        const OWN: [cudnnBackendAttributeName_t; 3] = [
            CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1,
            CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2,
        ];
        has_only(content, &[&OWN, &OPERANDS])?;
        let factor = |name| content.attribute(name).map_or(Some(1.0), |_| content.number(name)).map(Factor::new);
        let mut operands = Vec::new();
        for name in OPERANDS.into_iter().filter(|name| content.attribute(*name).is_some()) {
            operands.push((name, self.tensor(content.descriptor(name)?)?));
        }
        let described = content.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)?.content();
        has_only(&described, &[&[CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC], &PARAMETERS])?;
        let mut parameters = Vec::new();
        for name in PARAMETERS.into_iter().filter(|name| described.attribute(*name).is_some()) {
            let value = described.number(name).or_else(|| described.enumerator(name).map(f64::from))?;
            parameters.push((name, Factor::new(value)));
        }
        let mode = described.enumerator(CUDNN_ATTR_POINTWISE_MODE)?;
        // Index values count from the tensor's start, but a micro-batch would count its images from 0.
        if mode == CUDNN_POINTWISE_GEN_INDEX {
            return None;
        }
        Some(Pointwise {
            mode,
            compute_type: described.enumerator(CUDNN_ATTR_POINTWISE_MATH_PREC)?,
            operands,
            alpha1: factor(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1)?,
            alpha2: factor(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2)?,
            parameters,
        })
    }

    /// Returns the tensor's place.
    fn tensor(&mut self, shadow: &Shadow) -> Option<usize> {
        let content = shadow.content();
        has_only(
            &content,
            &[&[
                CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
                CUDNN_ATTR_TENSOR_DATA_TYPE,
                CUDNN_ATTR_TENSOR_DIMENSIONS,
                CUDNN_ATTR_TENSOR_STRIDES,
                CUDNN_ATTR_TENSOR_UNIQUE_ID,
                CUDNN_ATTR_TENSOR_IS_VIRTUAL,
                CUDNN_ATTR_TENSOR_IS_BY_VALUE,
                CUDNN_ATTR_TENSOR_REORDERING_MODE,
                CUDNN_ATTR_TENSOR_VECTOR_COUNT,
            ]],
        )?;
        let plain =
            content.enumerator(CUDNN_ATTR_TENSOR_REORDERING_MODE).is_none_or(|m| m == CUDNN_TENSOR_REORDERING_NONE)
                && content.integer(CUDNN_ATTR_TENSOR_VECTOR_COUNT).is_none_or(|count| count == 1);
        let tensor = Tensor {
            data_type: content.enumerator(CUDNN_ATTR_TENSOR_DATA_TYPE)?,
            dims: content.integers(CUDNN_ATTR_TENSOR_DIMENSIONS)?,
            strides: content.integers(CUDNN_ATTR_TENSOR_STRIDES)?,
            alignment: content.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)?,
            is_virtual: content.is_set(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
            is_by_value: content.is_set(CUDNN_ATTR_TENSOR_IS_BY_VALUE),
            is_batched: false,
        };
        let known_type = tensor.is_virtual || element_size(tensor.data_type).is_some();
        let sound = tensor.dims.len() == tensor.strides.len()
            && (4..=5).contains(&tensor.dims.len())
            && tensor.dims.iter().all(|&dim| dim > 0)
            && tensor.strides.iter().all(|&stride| stride >= 0)
            && tensor.bytes().is_some();
        if !(plain && known_type && sound) {
            return None;
        }
        let id = content.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID)?;
        match self.ids.iter().position(|known| *known == id) {
            // Two descriptors with one id must agree on the tensor.
            Some(place) => (self.tensors[place] == tensor).then_some(place),
            None => {
                self.ids.push(id);
                self.tensors.push(tensor);
                Some(self.tensors.len() - 1)
            }
        }
    }
}

/// Marks the tensors whose first dimension is the mini-batch. `None` if that cannot be decided.
fn mark_batched(problem: &mut Problem) -> Option<()> {
    let Convolution { x, w, y, .. } = *problem.convolution();
    let batch = problem.tensors[x].dims[0];
    let rank = problem.tensors[x].dims.len();
    if problem.tensors[y].dims[0] != batch || [x, y].contains(&w) || x == y {
        return None;
    }
    for place in 0..problem.tensors.len() {
        let tensor = &mut problem.tensors[place];
        if place == w {
            continue;
        }
        tensor.is_batched = match tensor.dims[0] {
            first if first == batch && batch > 1 => true,
            1 if batch > 1 => false,
            // A mini-batch of one image is never cut.
            1 => place == x || place == y,
            _ => return None,
        };
        if tensor.is_by_value && tensor.is_batched || tensor.dims.len() != rank {
            return None;
        }
    }
    // The filter must not be another operation's operand, since that operation's operands are cut.
    let uses = |operation: &Operation| matches!(operation, Operation::Pointwise(p) if p.operands.iter().any(|(_, place)| *place == w));
    (!problem.operations.iter().any(uses)).then_some(())
}
