//! Operation graphs.

use super::operation::Operation;
use super::program::Program;
use super::tensor::Tensor;
use super::*;
use crate::convolution::{Algorithm, Direction};
use std::collections::{HashMap, HashSet};

/// The most operations of one graph.
const OPERATIONS_MAX: usize = 1024;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, HANDLE)
            .answering(CUDNN_STATUS_NOT_INITIALIZED, BAD_PARAM)
            .null(Null::Refused(CUDNN_STATUS_BAD_PARAM_NULL_POINTER))
            .unreadable(NOT_SUPPORTED),
        Attribute::many(CUDNN_ATTR_OPERATIONGRAPH_OPS, DESCRIPTOR, OPERATIONS_MAX)
            .counting(i64::MIN, OPERATIONS_MAX as i64)
            .null(Null::Refused(CUDNN_STATUS_BAD_PARAM_NULL_POINTER))
            .appending(check_operation)
            .unreadable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, INTEGER).unsettable(BAD_PARAM),
        Attribute::one(CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, BOOLEAN).or(0),
        Attribute::one(CUDNN_ATTR_OPERATIONGRAPH_IS_SAME_TOPOLOGY, DESCRIPTOR)
            .unsettable(BAD_PARAM)
            .unfilled(BAD_PARAM),
    ],
    finalize: |descriptor| {
        let operations = descriptor.descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS);
        require(!operations.is_empty(), "a graph has operations")?;
        check_nodes(operations)?;
        let graph = Graph::new(operations);
        let count = Value::Integers(vec![graph.engines()]);
        descriptor.put(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, count);
        descriptor.made = Some(Made::Graph(Arc::new(graph)));
        Ok(())
    },
    ..Kind::USUAL
};

/// Operations are finalized when they are set.
fn check_operation(operation: &Descriptor) -> Result {
    require(Operation::is(operation.kind()), "operations of kinds that are known here")?;
    let early = || Error::new(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "operations are finalized");
    if operation.is_finalized() { Ok(()) } else { Err(early()) }
}

/// A unique id is one tensor in all operations, computed by at most one of them, and none needs its own result.
fn check_nodes(operations: &[Arc<Descriptor>]) -> Result {
    let mut known: HashMap<i64, Vec<(Tensor, usize)>> = HashMap::new();
    let mut nodes = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let (read, computed) = operation::tensors(operation)?;
        for tensor in read.iter().chain(&computed) {
            let others = known.entry(tensor.uid).or_default();
            let same = others.iter().all(|(other, of)| *of == i || other == tensor);
            require(same, "operations that share a unique id share the tensor")?;
            others.push((tensor.clone(), i));
        }
        let ids = |tensors: Vec<Tensor>| tensors.into_iter().map(|tensor| tensor.uid).collect::<HashSet<_>>();
        nodes.push((ids(read), ids(computed)));
    }
    let mut computed = HashSet::new();
    require(nodes.iter().flat_map(|(_, ids)| ids).all(|&id| computed.insert(id)), "a tensor is computed once")?;
    // Take away operations that wait for no other until none is left; what an operation reads in place is no circle.
    while !nodes.is_empty() {
        let waiting: HashSet<i64> = nodes.iter().flat_map(|(_, ids)| ids).copied().collect();
        let before = nodes.len();
        nodes.retain(|(read, own)| read.iter().any(|id| waiting.contains(id) && !own.contains(id)));
        require(nodes.len() < before, "no operation needs its own result")?;
    }
    Ok(())
}

/// A finalized operation graph: what it computes, and which engines there are for graphs like it.
#[derive(Debug)]
pub struct Graph {
    /// How it is computed; an error if it is not.
    pub program: Result<Arc<Program>>,
    /// The direction of its convolution, if it has one.
    direction: Option<Direction>,
}

impl Graph {
    fn new(operations: &[Arc<Descriptor>]) -> Self {
        let operations: Result<Vec<_>> = operations.iter().map(|operation| Operation::of(operation)).collect();
        let direction = operations.iter().flatten().find_map(|operation| match operation {
            Operation::Convolution(convolution) => Some(convolution.direction),
            Operation::Pointwise(_) => None,
        });
        Self { program: operations.and_then(|operations| Program::new(&operations)).map(Arc::new), direction }
    }

    /// What a finalized descriptor of an operation graph holds.
    pub fn of(descriptor: &Descriptor) -> Result<&Arc<Self>> {
        match &descriptor.made {
            Some(Made::Graph(graph)) => Ok(graph),
            _ => Err(Error::new(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation graph that is finalized")),
        }
    }

    /// Engines by global index, whether or not they compute this graph: a convolution's are its direction's algorithms
    /// under their ids in the legacy API; other graphs have one.
    pub fn engines(&self) -> i64 {
        self.direction.map_or(1, |direction| Algorithm::all(direction).len() as i64)
    }
}
