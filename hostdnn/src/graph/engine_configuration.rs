//! Engine configurations: an engine and the values of its knobs.

use super::engines::{Choice, knobs};
use super::operation_graph::Graph;
use super::*;

/// The most knobs of one engine.
const KNOBS_MAX: usize = CUDNN_KNOB_TYPE_COUNTS as usize - 1;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_ENGINECFG_ENGINE, DESCRIPTOR).answering(ATTRIBUTE_TYPE, NOT_SUPPORTED),
        Attribute::made(CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO, DESCRIPTOR, NOT_SUPPORTED).unreadable(NOT_SUPPORTED),
        Attribute::many(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, DESCRIPTOR, KNOBS_MAX)
            .counting(0, KNOBS_MAX as i64)
            .answering(BAD_PARAM, BAD_PARAM)
            .listing(Listing::Requested)
            .admitting(check_choice)
            .vetted(check_choices),
        Attribute::one(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, INTEGER).unsettable(NOT_SUPPORTED).or(0),
        Attribute::one(CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, INTEGER_32).unfilled(NOT_SUPPORTED),
    ],
    finalize,
    ..Kind::USUAL
};

pub const KNOB_CHOICE: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &[CUDNN_TYPE_KNOB_TYPE]).or(-1),
        Attribute::one(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, INTEGER).or(-1),
    ],
    finalize: |_| Ok(()),
    ..Kind::USUAL
};

/// A value of -1 leaves a knob at its default; any other must be one of the knob's values.
fn finalize(descriptor: &mut Descriptor) -> Result {
    let (graph, choice) = read(descriptor)?;
    let Ok(program) = &graph.program else { return Ok(()) };
    for &(kind, value) in &choice.knobs {
        let knob = knobs(program, choice.engine).iter().find(|knob| knob.kind == kind);
        if !knob.is_some_and(|knob| (knob.least..=knob.most).contains(&value)) {
            let reason = format!("engine {} has no knob {kind} that stands at {value}", choice.engine);
            return Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED, reason));
        }
    }
    Ok(())
}

/// Knob choices are finalized when they are set.
fn check_choice(choice: &Descriptor) -> Result {
    require(choice.kind() == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "knob choices")?;
    let early = || Error::new(CUDNN_STATUS_NOT_INITIALIZED, "knob choices are finalized");
    if choice.is_finalized() { Ok(()) } else { Err(early()) }
}

/// Each knob is chosen once.
fn check_choices(value: &Value) -> Result {
    let Value::Descriptors(choices) = value else { return Ok(()) };
    let knob = |choice: &Descriptor| choice.enumerator(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
    let twice = choices.iter().enumerate().any(|(i, one)| choices[..i].iter().any(|other| knob(other) == knob(one)));
    require(!twice, "each knob is chosen once")
}

/// The graph and the choice that a configuration names.
pub fn read(descriptor: &Descriptor) -> Result<(Arc<Graph>, Choice)> {
    let early = (BAD_PARAM, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    let engine =
        descriptor.finalized(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "the engine", early)?;
    let graph = engine.finalized(
        CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
        CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
        "the operation graph",
        early,
    )?;
    let choices = descriptor.descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES).iter().filter_map(|choice| {
        let value = choice.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
        (value != -1).then(|| (choice.enumerator(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE), value))
    });
    let choice = Choice { engine: engine.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), knobs: choices.collect() };
    Ok((Graph::of(graph)?.clone(), choice))
}

/// The finalized configuration of a choice, with a value for every knob.
pub fn write(graph: &Arc<Descriptor>, choice: &Choice) -> Result<Arc<Descriptor>> {
    let number = |value| Value::Integers(vec![value]);
    let engine = Descriptor::made_of(
        CUDNN_BACKEND_ENGINE_DESCRIPTOR,
        [
            (CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, Value::Descriptors(vec![graph.clone()])),
            (CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, number(choice.engine)),
        ],
    )?;
    let choices: Result<Vec<_>> = choice
        .knobs
        .iter()
        .map(|&(kind, value)| {
            Descriptor::made_of(
                CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                [
                    (CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, number(kind.into())),
                    (CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, number(value)),
                ],
            )
        })
        .collect();
    Descriptor::made_of(
        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        [
            (CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, Value::Descriptors(vec![engine])),
            (CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, Value::Descriptors(choices?)),
        ],
    )
}
