//! The canonical text of functions: for reports, messages and the database.
//!
//! ```text
//! states 256 256
//! parameters 768x256 768
//! pulls 256
//! pushes 256
//! function 2:
//!   %0 = gather 0, 1
//!   %1 = matmul P0, %0
//!   push 0, %1
//! ```
//! Values have the numbers of their operations. A pull of width 0 is of indices; the children of a function are a
//! number of slots or `any`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::declaration::{Arity, Declaration, Function, ParameterSize};
use super::operation::{Op, Operand, Operation};

impl Display for Operation {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(self.op.name())?;
        let (mut inputs, mut arguments) = (self.inputs.iter(), self.arguments.iter());
        for (place, operand) in self.op.operands().iter().enumerate() {
            to.write_str(if place == 0 { " " } else { ", " })?;
            match operand {
                Operand::Value(_) => write!(to, "%{}", inputs.next().expect("an operation has 3 inputs at most"))?,
                // The shortest text that reads back as the same number.
                Operand::Constant => write!(to, "{:?}", self.constant)?,
                _ => {
                    let sign = if *operand == Operand::Parameter { "P" } else { "" };
                    write!(to, "{sign}{}", arguments.next().expect("an operation has 2 arguments at most"))?;
                }
            }
        }
        Ok(())
    }
}

impl Display for Function {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        writeln!(to, "function {}:", self.children)?;
        for (number, operation) in self.operations.iter().enumerate() {
            if operation.op.is_sink() {
                writeln!(to, "  {operation}")?;
            } else {
                writeln!(to, "  %{number} = {operation}")?;
            }
        }
        Ok(())
    }
}

impl Display for ParameterSize {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.rows)?;
        if self.columns > 0 { write!(to, "x{}", self.columns) } else { Ok(()) }
    }
}

impl Display for Declaration {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        fn line<T: Display>(to: &mut Formatter<'_>, name: &str, numbers: &[T]) -> fmt::Result {
            to.write_str(name)?;
            numbers.iter().try_for_each(|number| write!(to, " {number}"))?;
            to.write_str("\n")
        }
        line(to, "states", &self.states)?;
        line(to, "parameters", &self.parameters)?;
        line(to, "pulls", &self.pulls)?;
        line(to, "pushes", &self.pushes)?;
        self.functions.iter().try_for_each(|function| write!(to, "{function}"))
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not a number that is accepted here"))
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let op = Op::named(name).ok_or_else(|| format!("`{name}` is no operation"))?;
        let words: Vec<_> = rest.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let operands = op.operands();
        if words.len() != operands.len() {
            return Err(format!("{name} takes {} operands, not {}", operands.len(), words.len()));
        }
        let mut read = Operation::new(op, &[], &[]);
        let (mut inputs, mut arguments) = (read.inputs.iter_mut(), read.arguments.iter_mut());
        for (operand, word) in operands.iter().zip(words) {
            let sign = match operand {
                Operand::Value(_) => "%",
                Operand::Parameter => "P",
                _ => "",
            };
            let digits = word.strip_prefix(sign).ok_or_else(|| format!("`{word}` does not begin with {sign}"))?;
            match operand {
                Operand::Value(_) => *inputs.next().expect("at most 3") = number(digits)?,
                Operand::Constant => read.constant = number(digits)?,
                _ => *arguments.next().expect("at most 2") = number(digits)?,
            }
        }
        Ok(read)
    }
}

impl FromStr for ParameterSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rows, columns) = text.split_once('x').map_or((text, None), |(rows, columns)| (rows, Some(columns)));
        Ok(Self { rows: number(rows)?, columns: columns.map_or(Ok(0), number)? })
    }
}

impl FromStr for Declaration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        fn numbers<T: FromStr<Err: Display>>(words: &str) -> Result<Vec<T>, String> {
            words.split_whitespace().map(|word| word.parse().map_err(|why| format!("`{word}`: {why}"))).collect()
        }
        let mut read = Self::default();
        for (place, line) in text.lines().enumerate() {
            let said = |why: String| format!("line {}: {why}", place + 1);
            let line = line.trim();
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            match first {
                "" => {}
                "states" => read.states = numbers(rest).map_err(said)?,
                "parameters" => read.parameters = numbers(rest).map_err(said)?,
                "pulls" => read.pulls = numbers(rest).map_err(said)?,
                "pushes" => read.pushes = numbers(rest).map_err(said)?,
                "function" => {
                    let children = match rest.strip_suffix(':') {
                        Some("any") => Arity::Any,
                        Some(slots) => Arity::Exactly(number(slots).map_err(said)?),
                        None => return Err(said("a function's line ends with `:`".into())),
                    };
                    read.functions.push(Function { children, operations: vec![] });
                }
                _ => {
                    let operations = match read.functions.last_mut() {
                        Some(function) => &mut function.operations,
                        None => return Err(said(format!("`{line}` stands in no function"))),
                    };
                    let (place, operation) =
                        line.split_once('=').map_or(("", line), |(place, rest)| (place.trim(), rest));
                    let operation: Operation = operation.parse().map_err(said)?;
                    let expected =
                        if operation.op.is_sink() { String::new() } else { format!("%{}", operations.len()) };
                    if place != expected {
                        return Err(said(format!("`{place}` stands where `{expected}` is next")));
                    }
                    operations.push(operation);
                }
            }
        }
        Ok(read)
    }
}
