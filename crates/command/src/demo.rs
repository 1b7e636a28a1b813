//! `ucudnn demo`: a network with and without the library, in a table and on a page.
//!
//! The script that measures, the program that it runs and hostdnn are the extra `ucudnn[demo]`. They lie below one folder
//! as they do in the repository. At its end, the script starts `ucudnn demo --show` for the table and the page.

mod measured;

use std::ffi::OsStr;
use std::num::NonZeroU32;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::Failure;
use crate::html;
use crate::naming;
use crate::output;
use crate::report::{self, lines, page};
use crate::run::{find_library, in_path};
use crate::text;
use crate::width::Width;
use measured::Measured;
use trust::Shown as _;

/// The folder of the extra's files, beside the command's own.
const FILES: &str = "../lib/ucudnn/demo";
/// The results, in the folder of a demo.
const MEASURED: &str = "demo.json";
const REPORT: &str = "report.jsonl";
const PAGE: &str = "demo.html";

/// Train AlexNet's convolutions with and without the library, and show what it gains
///
/// One program runs twice, unchanged and in turns: plain, and with the library in front of its cuDNN. Every result is
/// compared. It runs on the GPU if there is one, with a cuDNN 9 that the loader or this Python's packages have; otherwise
/// on hostdnn, a cuDNN that computes on the CPU, within half a minute. It ends with a table, and with a page for a browser
/// (demo.html in the folder of the results). The demo is the extra `ucudnn[demo]`.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    ucudnn demo\n  \
    ucudnn demo --batch 64 --output demo-64\n  \
    ucudnn demo --show demo-64")]
pub struct Options {
    /// Images in a mini-batch [default: 128 on a GPU, and fewer on the CPU]
    #[arg(long, value_name = "COUNT")]
    batch: Option<NonZeroU32>,

    /// The folder for the page and the results, which is made if it is missing
    #[arg(long, value_name = "FOLDER", default_value = "ucudnn-demo")]
    output: PathBuf,

    /// Run nothing: show the results in this folder, and write their page anew
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["batch", "output"])]
    show: Option<PathBuf>,

    #[command(flatten)]
    width: Width,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    match &options.show {
        Some(folder) => show(folder, options.width),
        None => start(options),
    }
}

/// Replaces this process with the script that measures. Returns only on failure.
fn start(options: &Options) -> Result<(), Failure> {
    let own = std::env::current_exe().and_then(|own| own.canonicalize());
    let own = own.map_err(|error| format!("where this command lies cannot be told: {error}"))?;
    let files = own.parent().unwrap_or(Path::new("/")).join(FILES);
    let script = files.join("scripts/demo.py");
    if !script.exists() {
        let missing =
            "the demo is not installed: pip install 'ucudnn[demo]', or make demo in a clone of the repository";
        return Err(Failure::Failed(missing.into()));
    }
    let script = trust::file(&script).map_err(|why| format!("{}: {why}", script.shown()))?;
    let library = find_library(None)?;
    let python = python()?;
    std::fs::create_dir_all(&options.output)
        .map_err(|error| format!("--output {}: {error}", options.output.shown()))?;

    let mut command = Command::new(&python);
    command.arg("-B").arg(script).arg("--quick");
    command.arg("--target").arg(library.parent().unwrap_or(Path::new("/"))).arg("--command").arg(own);
    command.arg("--convnet").arg(files.join("build/convnet")).arg("--output").arg(&options.output);
    if let Some(batch) = options.batch {
        command.arg("--batch").arg(batch.to_string());
    }
    let error = command.exec();
    Err(Failure::Failed(format!("{} cannot be run: {error}", python.shown())))
}

/// The Python beside the name by which this command was started, as pip's program does; else the one in PATH.
fn python() -> Result<PathBuf, String> {
    let name = OsStr::new("python3");
    let started = std::env::args_os().next().map(PathBuf::from);
    let beside = started.and_then(|started| Some(started.parent()?.join(name)));
    let beside = beside.filter(|python| python.is_absolute() && python.is_file());
    let missing = || "the demo needs Python: there is no python3 in PATH".to_owned();
    beside.or_else(|| in_path(name).next()).ok_or_else(missing)
}

/// Shows the results in a folder, and writes their page.
fn show(folder: &Path, width: Width) -> Result<(), Failure> {
    let measured = Measured::read(&folder.join(MEASURED))?;
    output::print(&(measured.part().text(width.columns()) + "\n"))?;

    let file = folder.join(REPORT);
    let report = lines::parse(&file, &text::read(&file)?)?;
    let mut decisions = report.decisions();
    naming::name(decisions.iter_mut(), &measured.network)?;
    let (parts, notes) = report::contents(&report, &decisions);

    let with_and_without = measured.part().html() + &page::pictures(&measured.decisions());
    let content = with_and_without + "<h1>What the library chose</h1>\n" + &page::content(&parts, &decisions, &notes);
    let file = folder.join(PAGE);
    std::fs::write(&file, html::page("ucudnn demo: with the library and without", &content))
        .map_err(|error| format!("{}: {error}", file.shown()))?;
    let file = std::path::absolute(&file).unwrap_or(file);
    output::print(&format!("Page: {} (open it in a browser)\n", file.shown()))
}
