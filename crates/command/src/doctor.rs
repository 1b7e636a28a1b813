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
use bindings::{Bindings, Files};
use facts::Fact;
use trust::Shown as _;

/// The most functions that are named for a library.
const MOST_NAMED: usize = 8;

/// Check what the library would use here, and whether a program's calls of cuDNN reach it
///
/// Shows libucudnn.so, the cuDNN behind it, the GPU and its driver, NVRTC, the tuning database, the solver, and the
/// settings. With a program, runs it under the library and the loader's own report (LD_DEBUG=bindings), and says how many
/// functions of cuDNN were bound to libucudnn.so, and which were bound past it. The program's standard output goes to
/// standard error. The exit status is 0 if everything that is needed can be used, and 1 otherwise.
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
    let prepared = match options.command.is_empty() {
        true => None,
        false => Some(prepare(&options.command, options.library.as_deref(), options.dlopen, false)?),
    };
    let in_effect = facts::settings();
    // The facts below need variables of this process that the program must not get.
    let before = [settings::LOG, settings::REPORT, python::PREFIX].map(|name| (name, std::env::var_os(name)));
    python::search_its_packages();
    let mut facts = facts::all(options.library.as_deref());
    output::print(&(facts::text(&facts) + &in_effect))?;
    if let Some(mut prepared) = prepared {
        for (name, value) in before {
            match value {
                Some(value) => prepared.command.env(name, value),
                None => prepared.command.env_remove(name),
            };
        }
        let files = Files { library: prepared.library, disguise: prepared.disguise };
        let run = program::run(prepared.command, &files, Duration::from_secs_f64(options.seconds))?;
        let name = options.command[0].shown();
        let mut text = format!("\n{name} {}.\n", run.end);
        if run.is_reported {
            text += &bound(&run.bindings, options.dlopen);
        } else {
            text += "The loader reported nothing: the program is linked statically, and cannot be reached.\n";
        }
        output::print(&text)?;
        let is_reached = !run.bindings.ours.is_empty() && run.bindings.past.is_empty();
        facts.push(Fact { name: "the program", text: String::new(), is_usable: is_reached });
    }
    let unusable: Vec<_> = facts.iter().filter(|fact| !fact.is_usable).map(|fact| fact.name).collect();
    match unusable[..] {
        [] => Ok(()),
        _ => Err(Failure::Failed(format!("not usable: {}", unusable.join(", ")))),
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

fn functions(count: usize) -> String {
    if count == 1 { "1 function of cuDNN was".into() } else { format!("{count} functions of cuDNN were") }
}

/// The first names of a set, and how many there are more.
fn named(functions: &BTreeSet<String>) -> String {
    let first: Vec<&str> = functions.iter().take(MOST_NAMED).map(String::as_str).collect();
    let more = functions.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    first.join(", ") + &more.map_or_else(String::new, |more| format!(" and {more} more"))
}
