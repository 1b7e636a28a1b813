//! Checks a declaration: the types of its values and the rules of vertex functions.

use std::fmt::{self, Display, Formatter};

use super::declaration::{Arity, Declaration, Function};
use super::operation::{Op, Operand, Operation, Sort, Value};

/// The most vertex functions of a net.
pub const MOST_FUNCTIONS: usize = 16;
/// The most operations of a function.
pub const MOST_OPERATIONS: usize = 512;
/// The most parameters.
pub const MOST_PARAMETERS: usize = 64;
/// The most states.
pub const MOST_STATES: usize = 8;
/// The most inputs, and the most outputs.
pub const MOST_PULLS_AND_PUSHES: usize = 64;
/// The largest width.
pub const MOST_WIDTH: usize = 65_536;
/// The most slots of a function.
const MOST_SLOTS: usize = 65_535;

/// What a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// The vertex has one.
    Vertex,
    /// Each of its children has one.
    Child,
}

/// The type of an operation's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// It makes no value.
    Nothing,
    /// An index of the vertex.
    Index,
    /// So many numbers.
    Vector {
        /// The vertex's, or each child's.
        domain: Domain,
        /// How many.
        width: usize,
    },
}

impl Type {
    /// The width of a vector; 0 for the others.
    pub fn width(self) -> usize {
        if let Type::Vector { width, .. } = self { width } else { 0 }
    }

    /// Each child has one.
    pub fn is_of_children(self) -> bool {
        matches!(self, Type::Vector { domain: Domain::Child, .. })
    }
}

/// A declaration that is not accepted: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The function, if one is to blame.
    pub function: Option<usize>,
    /// Its operation.
    pub operation: Option<usize>,
    /// The mistake, and the values that are accepted.
    pub why: String,
}

impl Display for Refused {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        if let Some(function) = self.function {
            write!(to, "function {function}")?;
            if let Some(operation) = self.operation {
                write!(to, ", operation {operation}")?;
            }
            to.write_str(": ")?;
        }
        to.write_str(&self.why)
    }
}

impl std::error::Error for Refused {}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { function: None, operation: None, why }
    }
}

/// A checked net.
#[derive(Clone, Debug)]
pub struct Net {
    declaration: Declaration,
    /// The types of each function's values.
    types: Vec<Vec<Type>>,
    warnings: Vec<String>,
}

impl Net {
    /// Checks a declaration.
    pub fn new(declaration: Declaration) -> Result<Self, Refused> {
        check_sizes(&declaration)?;
        let mut types = vec![];
        for (place, function) in declaration.functions.iter().enumerate() {
            let refused = |(operation, why)| Refused { function: Some(place), operation, why };
            types.push(check_function(&declaration, function).map_err(refused)?);
        }
        check_states(&declaration)?;
        for output in 0..declaration.pushes.len() {
            if !declaration.functions.iter().any(|function| has(function, Op::Push, output)) {
                return Err(format!("output {output} is pushed by no function").into());
            }
        }
        let warnings = unused(&declaration);
        Ok(Self { declaration, types, warnings })
    }

    /// The declaration.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// The types of a function's values.
    pub fn types(&self, function: usize) -> &[Type] {
        &self.types[function]
    }

    /// What the user may not have meant.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The inputs of indices and the parameters that they look up, one pair a lookup.
    pub fn lookups(&self) -> impl Iterator<Item = (usize, usize)> {
        self.declaration.functions.iter().flat_map(|function| {
            let lookups = function.operations.iter().filter(|operation| operation.op == Op::Lookup);
            lookups.map(|lookup| (function.operations[lookup.inputs[0]].arguments[0], lookup.arguments[0]))
        })
    }

    /// The kind of a vertex by the number of its slots: the function for just as many, else the first for any number.
    pub fn kind_of(&self, slots: usize) -> Option<usize> {
        let functions = &self.declaration.functions;
        let of = |arity| functions.iter().position(|function| function.children == arity);
        of(Arity::Exactly(slots)).or_else(|| of(Arity::Any))
    }
}

fn has(function: &Function, op: Op, number: usize) -> bool {
    function.operations.iter().any(|operation| operation.op == op && operation.arguments[0] == number)
}

fn check_sizes(declaration: &Declaration) -> Result<(), Refused> {
    let counts = [
        ("functions", declaration.functions.len(), 1, MOST_FUNCTIONS),
        ("states", declaration.states.len(), 0, MOST_STATES),
        ("parameters", declaration.parameters.len(), 0, MOST_PARAMETERS),
        ("inputs", declaration.pulls.len(), 0, MOST_PULLS_AND_PUSHES),
        ("outputs", declaration.pushes.len(), 1, MOST_PULLS_AND_PUSHES),
    ];
    for (what, count, least, most) in counts {
        if !(least..=most).contains(&count) {
            return Err(format!("a net has {least} to {most} {what}, not {count}").into());
        }
    }
    let matrices = declaration.parameters.iter();
    let widths = [
        ("state", &declaration.states, 1),
        ("the rows of parameter", &matrices.clone().map(|size| size.rows).collect(), 1),
        ("the columns of parameter", &matrices.map(|size| size.columns).collect(), 0),
        ("input", &declaration.pulls, 0),
        ("output", &declaration.pushes, 1),
    ];
    // A table of rows to look up may be long.
    let is_table = |number| {
        let takes = |operation: &Operation| operation.op == Op::Lookup && operation.arguments[0] == number;
        declaration.functions.iter().flat_map(|function| &function.operations).any(takes)
    };
    for (what, widths, least) in widths {
        for (number, width) in widths.iter().enumerate() {
            let most = if what.starts_with("the rows") && is_table(number) { i32::MAX as usize } else { MOST_WIDTH };
            if !(least..=most).contains(width) {
                return Err(format!("{what} {number}: a width is {least} to {most}, not {width}").into());
            }
        }
    }
    Ok(())
}

/// Returns the types of a function's values, or the place that is refused and the reason.
fn check_function(declaration: &Declaration, function: &Function) -> Result<Vec<Type>, (Option<usize>, String)> {
    if let Arity::Exactly(slots @ MOST_SLOTS..) = function.children
        && slots > MOST_SLOTS
    {
        return Err((None, format!("a vertex has at most {MOST_SLOTS} children, not {slots}")));
    }
    if !(1..=MOST_OPERATIONS).contains(&function.operations.len()) {
        let count = function.operations.len();
        return Err((None, format!("a function has 1 to {MOST_OPERATIONS} operations, not {count}")));
    }
    let mut types = vec![];
    for (place, operation) in function.operations.iter().enumerate() {
        let refused = |why: String| (Some(place), format!("`{operation}`: {why}"));
        if operation.op.is_of_derivatives() {
            return Err(refused(format!("{} is in derivatives alone", operation.op.name())));
        }
        types.push(type_of(declaration, function.children, &types, operation).map_err(refused)?);
        let before = &function.operations[..place];
        let once = matches!(operation.op, Op::Scatter | Op::Push);
        let is_again = |other: &Operation| (other.op, other.arguments[0]) == (operation.op, operation.arguments[0]);
        if let Some(first) = before.iter().position(|other| once && is_again(other)) {
            let (what, done) = if operation.op == Op::Push { ("output", "pushed") } else { ("state", "scattered") };
            let number = operation.arguments[0];
            return Err(refused(format!("{what} {number} is {done} by operation {first} already; once is accepted")));
        }
    }
    Ok(types)
}

/// Every function hands on each state that any takes from its children.
fn check_states(declaration: &Declaration) -> Result<(), Refused> {
    for state in 0..declaration.states.len() {
        let takes = |operation: &Operation| match operation.op {
            Op::Gather => operation.arguments[1] == state,
            Op::Children => operation.arguments[0] == state,
            _ => false,
        };
        let taker = declaration.functions.iter().position(|function| function.operations.iter().any(takes));
        let missing = declaration.functions.iter().position(|function| !has(function, Op::Scatter, state));
        if let (Some(taker), Some(missing)) = (taker, missing) {
            let why = format!("state {state} is not scattered; function {taker} takes it from any child");
            return Err(Refused { function: Some(missing), operation: None, why });
        }
    }
    Ok(())
}

/// The operations whose results go nowhere.
fn unused(declaration: &Declaration) -> Vec<String> {
    let mut warnings = vec![];
    for (number, function) in declaration.functions.iter().enumerate() {
        let mut used = vec![false; function.operations.len()];
        for (place, operation) in function.operations.iter().enumerate().rev() {
            if operation.op.is_sink() || used[place] {
                operation.inputs().iter().for_each(|input| used[*input] = true);
            } else {
                warnings.push(format!("function {number}, operation {place}: `{operation}`: its result is not used"));
            }
        }
    }
    warnings
}

/// The type of an operation's result, behind operations with these types; or why it is refused.
pub(crate) fn type_of(
    declaration: &Declaration,
    children: Arity,
    types: &[Type],
    operation: &Operation,
) -> Result<Type, String> {
    use Domain::{Child, Vertex};
    check_operands(declaration, types, operation)?;
    let [first, second] = operation.arguments;
    let vector = |domain, width| Ok(Type::Vector { domain, width });
    let accepted_width = |width| match width <= MOST_WIDTH {
        true => Ok(width),
        false => Err(format!("a width of {width}; at most {MOST_WIDTH} is accepted")),
    };
    // The domain and width of an input that must be a vector.
    let of = |input: usize| match types.get(operation.inputs[input]) {
        Some(Type::Vector { domain, width }) => (*domain, *width),
        _ => (Vertex, 0),
    };
    let of_vertex = |input: usize, what: &str| match of(input).0 {
        Vertex => Ok(()),
        Child => Err(format!("%{} is each child's; {what} a value of the vertex", operation.inputs[input])),
    };
    let of_children = |input: usize| match of(input).0 {
        Child => Ok(()),
        Vertex => Err(format!("%{} is the vertex's; a value of each child is accepted", operation.inputs[input])),
    };
    let same_width = |input: usize, width: usize, of_what: &str| match of(input).1 {
        its if its == width => Ok(()),
        its => Err(format!("%{} has a width of {its}; {of_what} {width}", operation.inputs[input])),
    };
    let in_slots = || match children {
        Arity::Exactly(slots) if first < slots => Ok(()),
        Arity::Exactly(slots) => Err(format!("slot {first} of {slots} slots; 0 to the last one are accepted")),
        Arity::Any => Err("a function for any number of children has no slots; take `children`".into()),
    };
    let parameter = || declaration.parameters[first];
    let matrix = || match parameter() {
        size if size.columns > 0 => Ok(size),
        size => Err(format!("parameter {first} is a vector of {}; a matrix is accepted", size.rows)),
    };
    let plain = || match parameter() {
        size if size.columns == 0 => Ok(size.rows),
        size => Err(format!("parameter {first} is a matrix of {}x{}; a vector is accepted", size.rows, size.columns)),
    };
    match operation.op {
        Op::Pull => match declaration.pulls[first] {
            0 => Err(format!("input {first} has indices; `pullIndex` takes them")),
            width => vector(Vertex, width),
        },
        Op::PullIndex => match declaration.pulls[first] {
            0 => Ok(Type::Index),
            width => Err(format!("input {first} has a width of {width}; one of indices (0) is accepted")),
        },
        Op::Lookup => vector(Vertex, matrix()?.columns),
        Op::Gather => in_slots().and_then(|()| vector(Vertex, declaration.states[second])),
        Op::Children => vector(Child, declaration.states[first]),
        Op::Matmul => {
            let size = matrix()?;
            same_width(0, size.columns, &format!("parameter {first} takes"))?;
            accepted_width(size.rows).and_then(|width| vector(of(0).0, width)) // a table may have more rows
        }
        Op::MatmulTransposed => {
            let size = matrix()?;
            same_width(0, size.rows, &format!("parameter {first}, transposed, takes"))?;
            vector(of(0).0, size.columns)
        }
        Op::Bias | Op::Gain => {
            same_width(0, plain()?, &format!("parameter {first} has"))?;
            vector(of(0).0, of(0).1)
        }
        op if op.sort() == Sort::Element && operation.inputs().len() == 2 => {
            let ((domain, width), (other, its)) = (of(0), of(1));
            if width != its && width != 1 && its != 1 {
                let [x, y, _] = operation.inputs;
                return Err(format!("%{x} has a width of {width}, %{y} of {its}; equal ones, or 1, are accepted"));
            }
            vector(domain.max(other), width.max(its))
        }
        op if op.has_constant() && !operation.constant.is_finite() => {
            Err(format!("{} is no finite constant", operation.constant))
        }
        Op::SumChildren | Op::MeanChildren | Op::MaxChildren => of_children(0).and_then(|()| vector(Vertex, of(0).1)),
        Op::SoftmaxChildren => of_children(0).and_then(|()| vector(Child, of(0).1)),
        Op::Sum => vector(of(0).0, 1),
        Op::Concat => accepted_width(of(0).1 + of(1).1).and_then(|width| vector(of(0).0.max(of(1).0), width)),
        Op::Slice => match of(0).1 {
            whole if second > 0 && first.checked_add(second).is_some_and(|end| end <= whole) => vector(of(0).0, second),
            whole => Err(format!("{second} elements from {first} of %{}, which has {whole}", operation.inputs[0])),
        },
        Op::Scatter | Op::Take | Op::Own | Op::Push | Op::PushGradient | Op::PullGradient => {
            let (what, width) = match operation.op {
                Op::Scatter | Op::Take | Op::Own => ("state", declaration.states[first]),
                Op::PullGradient => ("input", declaration.pulls[first]),
                _ => ("output", declaration.pushes[first]),
            };
            if matches!(operation.op, Op::Take | Op::Own | Op::PushGradient) {
                return vector(Vertex, width);
            }
            of_vertex(0, &format!("{what} {first} takes"))?;
            same_width(0, width, &format!("{what} {first} has"))?;
            Ok(Type::Nothing)
        }
        Op::MeanGradient | Op::Spread => of_vertex(0, "it takes").and_then(|()| vector(Child, of(0).1)),
        Op::MaxGradient => {
            of_children(0)?;
            of_vertex(1, "it takes")?;
            same_width(1, of(0).1, "x has")?;
            vector(Child, of(0).1)
        }
        Op::Kept => vector(Vertex, second),
        Op::KeptOfChildren => vector(Child, second),
        Op::Keep => Ok(Type::Nothing),
        Op::Widen => same_width(0, 1, "it takes").and_then(|()| vector(of(0).0, first)),
        Op::Zeros => vector(Vertex, first),
        Op::Give => {
            in_slots()?;
            of_vertex(0, "a slot takes")?;
            same_width(0, declaration.states[second], "the state has")?;
            Ok(Type::Nothing)
        }
        Op::GiveChildren => {
            same_width(0, declaration.states[first], "the state has")?;
            of_children(0).map(|()| Type::Nothing)
        }
        Op::Accumulate => {
            let size = matrix()?;
            same_width(0, size.rows, "the parameter's rows are")?;
            same_width(1, size.columns, "the parameter's columns are")?;
            Ok(Type::Nothing)
        }
        Op::AccumulateBias => same_width(0, plain()?, "the parameter has").map(|()| Type::Nothing),
        Op::AccumulateRow => same_width(1, matrix()?.columns, "the parameter has").map(|()| Type::Nothing),
        op if op.sort() == Sort::Element || op == Op::Softmax => vector(of(0).0, of(0).1),
        op => unreachable!("{} has a type", op.name()),
    }
}

/// Inputs are earlier values of the right sort, and numbers name something that was declared.
fn check_operands(declaration: &Declaration, types: &[Type], operation: &Operation) -> Result<(), String> {
    let (mut inputs, mut arguments) = (operation.inputs.iter(), operation.arguments.iter());
    for operand in operation.op.operands() {
        let (what, count) = match operand {
            Operand::Value(name) => {
                let value = *inputs.next().expect("an operation has 3 inputs at most");
                check_value(types, value, *name == "index")?;
                continue;
            }
            Operand::Constant => continue,
            Operand::Number(_) => {
                arguments.next();
                continue;
            }
            Operand::Parameter => ("parameter", declaration.parameters.len()),
            Operand::State => ("state", declaration.states.len()),
            Operand::Input => ("input", declaration.pulls.len()),
            Operand::Output => ("output", declaration.pushes.len()),
        };
        let number = *arguments.next().expect("an operation has 2 arguments at most");
        if number >= count {
            return Err(format!("{what} {number} of {count}; numbers begin with 0"));
        }
    }
    Ok(())
}

fn check_value(types: &[Type], value: Value, is_index: bool) -> Result<(), String> {
    match types.get(value) {
        None => Err(format!("%{value} comes later; earlier values are accepted")),
        Some(Type::Nothing) => Err(format!("operation {value} makes no value")),
        Some(Type::Index) if !is_index => Err(format!("%{value} is an index; only `lookup` takes one")),
        Some(Type::Vector { .. }) if is_index => Err(format!("%{value} is no index; `pullIndex` makes one")),
        Some(_) => Ok(()),
    }
}
