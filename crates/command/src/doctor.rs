//! `ucudnn doctor`: what the library would use here, and whether a program's calls of cuDNN reach it.

mod bindings;
mod facts;
mod program;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use guest::settings;

use crate::Failure;
use crate::output;
use crate::python;
use crate::run::prepare;
use crate::style::{self, styled};
use bindings::{Bindings, Files, Libtorch};
use facts::Fact;
use trust::Shown as _;

/// The name of the program's part in the verdict.
const PROGRAM: &str = "the program";
/// The most functions that are named for a library.
const MOST_NAMED: usize = 8;

/// Check what the library would use here, and whether a program's calls of cuDNN reach it
///
/// Shows libucudnn.so, the cuDNN behind it, the GPU and its driver, NVRTC, the tuning database, the solver, and the
/// settings. With a program, runs it under the library and the loader's own report (LD_DEBUG=bindings), and says how many
/// functions of cuDNN were bound to libucudnn.so, and which were bound past it. cuDNN and NVRTC are then looked for as the
/// program would find them. The program's standard output goes to standard error. The last line is the next step. The exit
/// status is 0 if everything that is needed can be used, 127 or 126 if there is no such program or it cannot be run, and 1
/// otherwise.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    ucudnn doctor\n  \
    ucudnn doctor -- ./train --epochs 1\n  \
    ucudnn doctor --seconds 60 -- python train.py")]
pub struct Options {
    /// The library to check [default: libucudnn.so beside this command or in ../lib]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Start the program as `ucudnn run --dlopen` does
    #[arg(long, requires = "command")]
    dlopen: bool,

    /// The most seconds that the program runs
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = crate::tune::seconds)]
    seconds: f64,

    /// A program that calls cuDNN, and its arguments
    #[arg(trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let in_effect = facts::settings();
    // It runs first: the cuDNN that it finds is the one that counts.
    let program = match options.command.is_empty() {
        true => None,
        false => Some(under_the_library(options)?),
    };
    python::search_its_packages(program.as_ref().map(|program| program.file.as_path()));
    let real = program.as_ref().and_then(|program| program.run.bindings.real.as_deref());
    let mut facts = facts::all(options.library.as_deref(), real);
    output::print(&(facts::text(&facts) + &in_effect))?;
    if let Some(Program { run, .. }) = program {
        let mut text = format!("\n{} {}.\n", options.command[0].shown(), run.end);
        if run.is_reported {
            text += &bound(&run.bindings, options.dlopen);
            text += &operators(&run.bindings.libtorch);
        } else {
            text += "The loader reported nothing: the program is linked statically, and cannot be reached.\n";
        }
        output::print(&text)?;
        let is_reached = !run.bindings.ours.is_empty() && run.bindings.past.is_empty();
        facts.push(Fact { name: PROGRAM, text: String::new(), is_usable: is_reached });
    }
    let unusable: Vec<_> = facts.iter().filter(|fact| !fact.is_usable).map(|fact| fact.name).collect();
    output::print(&format!("\n{} {}.\n", styled("Next:", style::HEADING), next(options, &unusable)))?;
    match unusable[..] {
        [] => Ok(()),
        _ => Err(Failure::Failed(format!("not usable: {}", unusable.join(", ")))),
    }
}

/// A program that has run.
struct Program {
    /// Its file.
    file: PathBuf,
    run: program::Run,
}

/// Runs the program with the library in front of its cuDNN.
fn under_the_library(options: &Options) -> Result<Program, Failure> {
    let prepared = prepare(&options.command, options.library.as_deref(), options.dlopen, false)?;
    let file = PathBuf::from(prepared.command.get_program());
    let files = Files { library: prepared.library, disguise: prepared.disguise };
    let run = program::run(prepared.command, &files, Duration::from_secs_f64(options.seconds))?;
    Ok(Program { file, run })
}

/// The step after this one.
fn next(options: &Options, unusable: &[&str]) -> String {
    match unusable.first() {
        Some(&facts::LIBRARY) => "install the library beside this command, or name it with --library".into(),
        Some(&facts::CUDNN) => {
            "name the program's cuDNN 9 in UCUDNN_CUDNN_LIBRARY; for a program in Python, start the doctor with it"
                .into()
        }
        Some(&facts::DRIVER | &facts::GPU) => "see what nvidia-smi says; in a container, give it the GPU".into(),
        Some(&facts::NVRTC) => "install NVRTC, which comes with PyTorch and CUDA, or leave out UCUDNN_RNN=force".into(),
        Some(&facts::DATABASE) => "name another file in UCUDNN_DATABASE, or set it to off".into(),
        Some(_) if options.dlopen => "see docs/troubleshooting.md: a static cuDNN cannot be reached".into(),
        Some(_) => "ucudnn doctor --dlopen -- PROGRAM, if the program opens cuDNN by name".into(),
        None if options.command.is_empty() => {
            "ucudnn doctor -- PROGRAM, which says whether the program's calls reach the library".into()
        }
        None if !settings::get().is_on => "unset UCUDNN, which is off".into(),
        None => {
            let dlopen = if options.dlopen { "--dlopen " } else { "" };
            format!("ucudnn run {dlopen}--report run.jsonl PROGRAM, and then ucudnn report run.jsonl")
        }
    }
}

/// Says where a program's functions of cuDNN were bound.
fn bound(bindings: &Bindings, dlopen: bool) -> String {
    let mut text = String::new();
    if bindings.ours.is_empty() && bindings.past.is_empty() {
        return match dlopen {
            false => "cuDNN was never called through the linker: try --dlopen, if the program opens cuDNN by name.\n",
            true => "cuDNN was never called through the linker, nor by its name. A static cuDNN cannot be reached.\n",
        }
        .into();
    }
    text += &format!("{} bound to libucudnn.so.\n", functions(bindings.ours.len()));
    for (library, functions) in &bindings.past {
        let library = library.shown();
        text += &format!("{} bound past it, to {library}: {}.\n", self::functions(functions.len()), named(functions));
    }
    if !bindings.past.is_empty() {
        text += match dlopen {
            false => "Try --dlopen, if the program opens cuDNN by name; or link it with libucudnn.so first.\n",
            true => "The program opens cuDNN by path, or is linked with it in a way that comes first.\n",
        };
    }
    if let Some(real) = &bindings.real {
        text += &format!("The cuDNN behind libucudnn.so was {}.\n", real.shown());
    }
    text
}

/// Says whether our kernels can take the place of PyTorch's own.
fn operators(libtorch: &Libtorch) -> String {
    let stay = "PyTorch's own operators stay as they are";
    match libtorch {
        Libtorch::Absent => String::new(),
        Libtorch::Complete => {
            "PyTorch's own operators can run on our kernels: its libtorch_cpu.so has all functions that they need.\n"
                .into()
        }
        Libtorch::Lacks(name) => {
            format!("{stay}: its libtorch has no {name}. PyTorch has all functions from 2.10 on.\n")
        }
        Libtorch::Loaded => format!(
            "{stay}: the library did not look for libtorch's functions. It looks at the first handle of cuDNN, on a GPU, \
             unless UCUDNN, UCUDNN_POLICY or UCUDNN_TORCH is off.\n"
        ),
    }
}

fn functions(count: usize) -> String {
    if count == 1 { "1 function of cuDNN was".into() } else { format!("{count} functions of cuDNN were") }
}

/// The first names of a set, and how many there are more.
fn named(functions: &BTreeSet<String>) -> String {
    let first: Vec<&str> = functions.iter().take(MOST_NAMED).map(String::as_str).collect();
    let more = functions.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    first.join(", ") + &more.map_or_else(String::new, |more| format!(" and {more} more"))
}
