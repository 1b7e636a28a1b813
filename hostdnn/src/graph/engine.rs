//! Engines of an operation graph, and their knobs and layouts.

use super::engines::{knobs, numerical_notes};
use super::operation_graph::Graph;
use super::*;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, DESCRIPTOR).answering(ATTRIBUTE_TYPE, NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, INTEGER).answering(BAD_PARAM, BAD_PARAM).or(-1),
        Attribute::made(CUDNN_ATTR_ENGINE_KNOB_INFO, DESCRIPTOR, NOT_SUPPORTED).listing(Listing::RequestedOrAll),
        Attribute::made(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, &[CUDNN_TYPE_NUMERICAL_NOTE], NOT_SUPPORTED)
            .listing(Listing::RequestedOrAll),
        Attribute::made(CUDNN_ATTR_ENGINE_LAYOUT_INFO, DESCRIPTOR, BAD_PARAM).listing(Listing::Requested),
        Attribute::made(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, &[CUDNN_TYPE_BEHAVIOR_NOTE], NOT_SUPPORTED)
            .listing(Listing::RequestedOrAll),
        Attribute::one(CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, INTEGER_32).or(0),
        device_properties::attribute(CUDNN_ATTR_ENGINE_DEVICEPROP),
        Attribute::one(CUDNN_ATTR_ENGINE_DISABLE_CLUSTER_COOPERATIVE, BOOLEAN).or(0),
    ],
    finalize,
    ..Kind::USUAL
};

pub const KNOB_INFO: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_KNOB_INFO_TYPE, &[CUDNN_TYPE_KNOB_TYPE]).unsettable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, INTEGER).unsettable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, INTEGER).unsettable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_KNOB_INFO_STRIDE, INTEGER).unsettable(NOT_SUPPORTED),
    ],
    finalize: |info| require(info.value(CUDNN_ATTR_KNOB_INFO_TYPE).is_some(), "an engine fills this"),
    ..Kind::USUAL
};

/// No engine here prefers a layout: these descriptors are always empty.
pub const LAYOUT_INFO: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_LAYOUT_INFO_TENSOR_UID, INTEGER).unsettable(NOT_SUPPORTED).or(0),
        Attribute::made(CUDNN_ATTR_LAYOUT_INFO_TYPES, &[CUDNN_TYPE_LAYOUT_TYPE], NOT_SUPPORTED),
    ],
    finalize: |_| Ok(()),
    ..Kind::USUAL
};

/// Any global index of the graph is an engine, whether or not it computes the graph: its plans report that.
fn finalize(descriptor: &mut Descriptor) -> Result {
    let graph = descriptor.finalized(
        CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
        CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
        "the operation graph",
        (CUDNN_STATUS_BAD_PARAM_NULL_POINTER, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED),
    )?;
    let graph = Graph::of(graph)?.clone();
    device_properties::check(descriptor, CUDNN_ATTR_ENGINE_DEVICEPROP)?;
    require(descriptor.integer(CUDNN_ATTR_ENGINE_SM_COUNT_TARGET) >= 0, "a number of processors, or 0 for all")?;
    let index = descriptor.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    if !(0..graph.engines()).contains(&index) {
        return Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED, format!("of {} engines, not {index}", graph.engines())));
    }
    let Ok(program) = &graph.program else { return Ok(()) };
    let infos: Result<Vec<_>> = knobs(program, index)
        .iter()
        .map(|knob| {
            let number = |value| Value::Integers(vec![value]);
            Descriptor::made_of(
                CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR,
                [
                    (CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, number(knob.kind.into())),
                    (CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, number(knob.least)),
                    (CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, number(knob.most)),
                    (CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, number(1)),
                ],
            )
        })
        .collect();
    let notes = numerical_notes(program, index).into_iter().map(i64::from).collect();
    descriptor.put(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR, Value::Descriptors(infos?));
    descriptor.put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, Value::Integers(notes));
    Ok(())
}
