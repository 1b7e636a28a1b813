//! The RNN API, by C programs that know only `cudnn.h`: plain on hostdnn, and with `libucudnn.so` preloaded, whose GPU
//! kernels are emulated. The top of each, in `tests/c/rnn*.c`, says which checks it makes itself.

mod choice;
mod database;
mod faults;
mod hostile;
mod numerics;
mod sizes;
mod tensor;
mod trained_choice;
mod training;

use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::hostdnn::{Build, Program, report};

/// Our GPU kernels wherever they can run, by the model's first choice.
const FORCE: [(&str, &str); 2] = [("UCUDNN_RNN", "force"), ("UCUDNN_RNN_TOP_K", "1")];

/// Compiles `tests/c/{name}.c` with the sources that programs of the RNN API share.
pub fn program(name: &str) -> Program {
    program_with(name, &[])
}

/// Likewise with more sources.
fn program_with(name: &str, more: &[&str]) -> Program {
    let main = format!("{name}.c");
    let sources = [&[main.as_str(), "rnn.c", "kernel.c"], more].concat();
    Program::build(name, Build { sources: &sources, options: &["-pthread"], ..Build::default() })
}

/// The report's lines on RNNs.
fn decisions(path: &Path) -> Vec<Value> {
    report(path).into_iter().filter(|line| line["event"] == "rnn").collect()
}

/// Changes a database. The statement must find rows to change.
fn change_database(database: &Path, statement: &str) {
    let changed = Connection::open(database).unwrap().execute(statement, []).unwrap();
    assert!(changed > 0, "{statement}");
}
