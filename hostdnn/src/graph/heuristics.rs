//! Heuristics: an operation graph's engine configurations, best first. A graph that is not computed here has none,
//! and a mode that is not cuDNN's gives none.

use super::operation_graph::Graph;
use super::*;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_ENGINEHEUR_MODE, &[CUDNN_TYPE_HEUR_MODE]).or(-1),
        Attribute::one(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, DESCRIPTOR),
        Attribute::made(CUDNN_ATTR_ENGINEHEUR_RESULTS, DESCRIPTOR, BAD_PARAM).listing(Listing::Fresh),
        Attribute::one(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, INTEGER_32).or(0),
        device_properties::attribute(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP),
    ],
    finalize: |descriptor| {
        let graph = descriptor.finalized(
            CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
            CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
            "the operation graph",
            (BAD_PARAM, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED),
        )?;
        let graph = graph.clone();
        device_properties::check(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)?;
        let processors = descriptor.integer(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET);
        require(processors >= 0, "a number of processors, or 0 for all")?;
        let mode = descriptor.enumerator(CUDNN_ATTR_ENGINEHEUR_MODE);
        let choices = match (&Graph::of(&graph)?.program, mode) {
            (Ok(program), CUDNN_HEUR_MODE_INSTANT | CUDNN_HEUR_MODE_A | CUDNN_HEUR_MODE_B) => engines::ranked(program),
            (Ok(program), CUDNN_HEUR_MODE_FALLBACK) => vec![engines::fallback(program)],
            _ => Vec::new(),
        };
        let results: Result<_> = choices.iter().map(|choice| engine_configuration::write(&graph, choice)).collect();
        let results = Value::Descriptors(results?);
        descriptor.put(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, results);
        Ok(())
    },
    ..Kind::USUAL
};
