//! Operation graphs.

use super::operation::Operation;
use super::program::Program;
use super::*;
use crate::convolution::{Algorithm, Direction};

/// The most operations of one graph.
const OPERATIONS_MAX: usize = 64;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, HANDLE).set_alone(),
        Attribute::many(CUDNN_ATTR_OPERATIONGRAPH_OPS, DESCRIPTOR, OPERATIONS_MAX).set_alone(),
        Attribute::one(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, INTEGER).get_alone(),
        Attribute::one(CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, BOOLEAN).or(0),
    ],
    finalize: |descriptor| {
        let operations = descriptor.descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS);
        require(!operations.is_empty(), "a graph has operations")?;
        require(operations.iter().all(|operation| Operation::is(operation.kind())), "operations of known kinds")?;
        require(operations.iter().all(|operation| operation.is_finalized()), "operations are finalized")?;
        let graph = Graph::new(operations);
        let count = Value::Integers(vec![graph.engines()]);
        descriptor.put(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, count);
        descriptor.made = Some(Made::Graph(Arc::new(graph)));
        Ok(())
    },
};

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
