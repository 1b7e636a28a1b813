//! Operation graphs.

use super::operation::Operation;
use super::program::Program;
use super::tensor::Tensor;
use super::tensor_cores;
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

/// A tensor that one operation computes and another reads is the same for both. At most one operation computes it, and
/// no operation needs its own result.
fn check_nodes(operations: &[Arc<Descriptor>]) -> Result {
    let nodes: Result<Vec<_>> = operations.iter().map(|operation| operation::tensors(operation)).collect();
    let nodes = nodes?;
    let mut computed: HashMap<i64, (usize, &Tensor)> = HashMap::new();
    for (i, (_, results)) in nodes.iter().enumerate() {
        for tensor in results {
            require(computed.insert(tensor.uid, (i, tensor)).is_none(), "a tensor is computed once")?;
        }
    }
    // The operations whose results each operation waits for. Reading a tensor in place is no cycle.
    let mut waits: Vec<(usize, HashSet<usize>)> = Vec::new();
    for (i, (read, _)) in nodes.iter().enumerate() {
        let mut others = HashSet::new();
        for tensor in read {
            if let Some(&(other, same)) = computed.get(&tensor.uid)
                && other != i
            {
                require(same.is_same(tensor), "a tensor is the same where it is computed and where it is read")?;
                others.insert(other);
            }
        }
        waits.push((i, others));
    }
    while !waits.is_empty() {
        let waiting: HashSet<usize> = waits.iter().map(|&(i, _)| i).collect();
        let before = waits.len();
        waits.retain(|(_, others)| !others.is_disjoint(&waiting));
        require(waits.len() < before, "no operation needs its own result")?;
    }
    Ok(())
}

/// A finalized operation graph: its program, and the engines for graphs like it.
#[derive(Debug)]
pub struct Graph {
    /// The computation; an error if hostdnn has none for this graph.
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

    /// The graph of a finalized descriptor.
    pub fn of(descriptor: &Descriptor) -> Result<&Arc<Self>> {
        match &descriptor.made {
            Some(Made::Graph(graph)) => Ok(graph),
            _ => Err(Error::new(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation graph that is finalized")),
        }
    }

    /// The number of engines by global index, whether or not they compute this graph: a convolution's engines are its
    /// direction's algorithms under their ids in the legacy API; other graphs have one.
    pub fn engines(&self) -> i64 {
        self.direction.map_or(1, |direction| tensor_cores::end(Algorithm::all(direction).len() as i64))
    }
}
