//! Reads a net's description.

use std::ffi::c_int;

use guest::refusal::Refusal;
use vertex::function::{
    Arity, Declaration, Function, MOST_FUNCTIONS, MOST_OPERATIONS, MOST_PARAMETERS, MOST_PULLS_AND_PUSHES, MOST_STATES,
    Op, Operation, ParameterSize, USER_OPERATIONS,
};

use super::given::{bad, count, numbers};
use super::types::*;

fn widths(given: &[c_int], name: &str) -> Result<Vec<usize>, Refusal> {
    let width = |(place, width): (usize, &c_int)| {
        usize::try_from(*width).map_err(|_| bad(format!("{name}[{place}] is {width}; it is not negative")))
    };
    given.iter().enumerate().map(width).collect()
}

/// Reads a description into a declaration.
///
/// # Safety
/// Its pointers are null, or to as many numbers as its counts say.
pub unsafe fn declaration(given: &ucudnnVertexNetDescription_t) -> Result<Declaration, Refusal> {
    let states = count(given.stateCount, "stateCount", MOST_STATES)?;
    let parameters = count(given.parameterCount, "parameterCount", MOST_PARAMETERS)?;
    let pulls = count(given.pullCount, "pullCount", MOST_PULLS_AND_PUSHES)?;
    let pushes = count(given.pushCount, "pushCount", MOST_PULLS_AND_PUSHES)?;
    let functions = count(given.functionCount, "functionCount", MOST_FUNCTIONS)?;
    // SAFETY: the caller promises the arrays.
    let (states, pulls, pushes, sizes, functions) = unsafe {
        (
            numbers(given.stateWidths, states, "stateWidths")?,
            numbers(given.pullWidths, pulls, "pullWidths")?,
            numbers(given.pushWidths, pushes, "pushWidths")?,
            numbers(given.parameterSizes, parameters, "parameterSizes")?,
            numbers(given.functions, functions, "functions")?,
        )
    };
    let rows: Vec<_> = sizes.iter().map(|size| size[0]).collect();
    let columns: Vec<_> = sizes.iter().map(|size| size[1]).collect();
    let sizes = widths(&rows, "the rows of parameterSizes")?.into_iter();
    let sizes = sizes.zip(widths(&columns, "the columns of parameterSizes")?);
    let mut declaration = Declaration {
        states: widths(states, "stateWidths")?,
        parameters: sizes.map(|(rows, columns)| ParameterSize { rows, columns }).collect(),
        pulls: widths(pulls, "pullWidths")?,
        pushes: widths(pushes, "pushWidths")?,
        functions: vec![],
    };
    for (place, function) in functions.iter().enumerate() {
        let children = match function.children {
            -1 => Arity::Any,
            slots => Arity::Exactly(
                usize::try_from(slots)
                    .map_err(|_| bad(format!("function {place}: children is {slots}; -1, 0 or more are accepted")))?,
            ),
        };
        let name = |field| format!("function {place}: {field}");
        let operations = count(function.operationCount, &name("operationCount"), MOST_OPERATIONS)?;
        // SAFETY: the caller promises the operations.
        let operations = unsafe { numbers(function.operations, operations, &name("operations"))? };
        let read = |(number, given): (usize, &ucudnnVertexOperation_t)| {
            operation(given).map_err(|why| bad(format!("function {place}, operation {number}: {why}")))
        };
        let operations = operations.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        declaration.functions.push(Function { children, operations });
    }
    Ok(declaration)
}

fn operation(given: &ucudnnVertexOperation_t) -> Result<Operation, String> {
    let op = usize::try_from(given.op).ok().and_then(Op::of_user);
    let op = op.ok_or_else(|| format!("op is {}; 0 to {} are accepted", given.op, USER_OPERATIONS - 1))?;
    let mut read = Operation::with_constant(op, 0, given.constant);
    for (input, given) in read.inputs.iter_mut().zip(given.inputs) {
        *input = usize::try_from(given).map_err(|_| format!("`{}`: input {given}; it is not negative", op.name()))?;
    }
    for (argument, given) in read.arguments.iter_mut().zip(given.arguments) {
        *argument =
            usize::try_from(given).map_err(|_| format!("`{}`: argument {given}; it is not negative", op.name()))?;
    }
    let (inputs, arguments) = (read.inputs().len(), read.arguments().len());
    let is_free = read.inputs[inputs..].iter().chain(&read.arguments[arguments..]).all(|unused| *unused == 0);
    if !is_free || !(op.has_constant() || given.constant == 0.0) {
        let constant = if op.has_constant() { "its constant" } else { "no constant" };
        let takes = format!("it takes {inputs} inputs, {arguments} arguments and {constant}");
        return Err(format!("`{}`: {takes}; the other fields are 0", op.name()));
    }
    Ok(read)
}
