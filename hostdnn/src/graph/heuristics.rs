//! Heuristics: an operation graph's engine configurations, best first. A graph that is not computed here has none.

use super::operation_graph::Graph;
use super::*;

/// More results than there are.
const RESULTS_MAX: usize = 1 << 20;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_ENGINEHEUR_MODE, &[CUDNN_TYPE_HEUR_MODE]).or(CUDNN_HEUR_MODE_INSTANT as i64),
        Attribute::one(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, DESCRIPTOR),
        Attribute::many(CUDNN_ATTR_ENGINEHEUR_RESULTS, DESCRIPTOR, RESULTS_MAX).get_alone(),
        Attribute::one(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, INTEGER_32).or(0),
        Attribute::one(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, DESCRIPTOR),
    ],
    finalize: |descriptor| {
        let graph = descriptor.descriptors(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).first();
        let graph = graph.ok_or_else(|| Error::new(CUDNN_STATUS_BAD_PARAM, "the graph is missing"))?.clone();
        let mode = descriptor.enumerator(CUDNN_ATTR_ENGINEHEUR_MODE);
        require((0..CUDNN_HEUR_MODES_COUNT).contains(&mode), "mode is a cudnnBackendHeurMode_t")?;
        let choices = match &Graph::of(&graph)?.program {
            Ok(program) => engines::ranked(program, mode == CUDNN_HEUR_MODE_FALLBACK),
            Err(_) => Vec::new(),
        };
        let results: Result<_> = choices.iter().map(|choice| engine_configuration::write(&graph, choice)).collect();
        let results = Value::Descriptors(results?);
        descriptor.put(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, results);
        Ok(())
    },
};
