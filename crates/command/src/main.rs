//! `ucudnn`, the command: runs programs on the library, tunes and plans networks ahead of time, and shows the results.
//!
//! | module | contents |
//! | --- | --- |
//! | `run` | starting a program with the library in front of its cuDNN |
//! | `tune`, `plan`, `db` | filling the tuning database, planning from it, maintaining it |
//! | `doctor` | the parts that the library would use, and whether a program reaches it |
//! | `python` | the Python of a program, or in PATH, whose packages may hold cuDNN |
//! | `demo` | a network with and without the library, in a table and on a page |
//! | `report` | a run's `UCUDNN_REPORT` as tables, or as a page |
//! | `plot` | pictures of reports and plans |
//! | `network` | the layers of a network, from a CSV file or a report |
//! | `naming` | their names, for the kernels of reports and plans |
//! | `decisions` | the common part of plans and reports: how each convolution problem is run, and its cost |
//! | `normalization` | batch normalization: tensors in words, and results |
//! | `recurrent` | recurrent networks: their descriptions and their results |
//! | `vertex_net` | dynamic nets, as reports have them |
//! | `division_text` | the text of a configuration, taken apart |
//! | `sets` | the choices for each problem, and Workspace Reuse and Division over them |
//! | `times` | the kinds of times in a plan |
//! | `shell` | completions and manual pages |
//! | `table`, `width`, `quantity` | text for people |
//! | `part`, `html` | a part of a report, for a terminal or for a page |
//! | `text`, `output`, `style` | a file's text; the streams that the command writes to; the looks of what it writes |
//! | `kernel_versions` | the versions of the GPU kernels, for `make gpu-truth` |
//! | `failure`, `interrupt` | how a command fails, and how Ctrl-C ends it |
//!
//! The command prints through `output` alone: Rust's macros panic where a write fails. It adds no logic of its own to
//! the library's planner and database. Only `tune`, `plan --device`, `run --dlopen` and `doctor` load a cuDNN.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod contests;
mod db;
mod decisions;
mod demo;
mod division_text;
mod doctor;
mod failure;
mod html;
mod interrupt;
mod kernel_versions;
mod naming;
mod network;
mod normalization;
mod output;
mod part;
mod plan;
mod plot;
mod python;
mod quantity;
mod recurrent;
mod report;
mod run;
mod sets;
mod shell;
mod style;
mod table;
mod text;
mod times;
mod tune;
mod vertex_net;
mod width;
mod workload;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;

/// Makes programs that use cuDNN faster, unchanged: convolutions, recurrent networks and batch normalization.
#[derive(Parser)]
#[command(
    name = "ucudnn",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 110,
    after_help = "What the library is good for, without a program of your own:\n\n  \
        ucudnn demo\n\n\
        A first session, for a program that is short of memory:\n\n  \
        ucudnn run --workspace-limit 64MiB --report run.jsonl ./program\n  \
        ucudnn report run.jsonl\n  \
        ucudnn run --total-workspace-size 512MiB --report wd.jsonl ./program\n  \
        ucudnn plot division wd.jsonl -o wd.svg\n\n\
        Whether the library reaches the program:\n\n  \
        ucudnn doctor -- ./program\n\n\
        Exit status: 0 done, 1 failed, 2 wrong usage; `ucudnn run` ends as the program does, with 127 if it is not \
        found, and with 126 if it cannot be run."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Options),
    Demo(demo::Options),
    Report(report::Options),
    Tune(tune::Options),
    Plan(plan::Options),
    Plot(plot::Options),
    Db(db::Options),
    Doctor(doctor::Options),
    #[command(hide = true)]
    Kernels(kernel_versions::Options),
    Completions(shell::Completions),
    Man(shell::Manual),
}

fn main() -> ExitCode {
    // Rust ignores SIGPIPE; a command whose reader has left ends quietly, as others do.
    // SAFETY: no other thread runs yet, and the default action installs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let ended = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(error) if error.use_stderr() => {
            output::explain(&error.render().ansi().to_string());
            return ExitCode::from(2);
        }
        Err(help) => output::print(&help.render().ansi().to_string()),
    };
    let Err(failure) = ended else { return ExitCode::SUCCESS };
    let (why, status) = failure.told();
    output::tell_failure(&why);
    ExitCode::from(status)
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(options) => run::run(options),
        Command::Demo(options) => demo::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Plot(options) => plot::run(&options),
        Command::Db(options) => db::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Kernels(options) => kernel_versions::run(&options),
        Command::Completions(options) => shell::completions(&options, Cli::command()),
        Command::Man(options) => shell::manual(&options, Cli::command()),
    }
}
