//! `examples/convnet.c`, a program that knows only cudnn.h, trained with a tuning database; and the measurements in its
//! reports.

mod fuzzed;
mod killed;
mod shared;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use convolution::problem::Problem;
use cudnn::Direction;
use serde_json::Value;

pub(super) use crate::hostdnn;
use crate::hostdnn::{Build, Program};
use crate::programs::Outcome;

/// The program.
pub fn convnet() -> Program {
    let files = ["convnet.c", "convnet/network.c", "convnet/options.c", "convnet/memory.c", "convnet/data.c"];
    let sources = files.into_iter().chain(["convnet/convolution.c"]).map(|file| format!("../../examples/{file}"));
    let sources: Vec<_> = sources.collect();
    let sources: Vec<_> = sources.iter().map(String::as_str).collect();
    Program::build("convnet", Build { sources: &sources, ..Build::default() })
}

/// The file of one of the networks that come with the program.
pub fn network(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/networks").join(name);
    path.to_str().unwrap().to_owned()
}

/// Writes a network of 3×3 convolutions of stride 1: batch, channels, height and width, filters of each.
pub fn write_network(path: &Path, layers: &[[usize; 4]]) {
    let mut text =
        String::from("network,layer,count,n,c,h,w,k,r,s,pad_h,pad_w,stride_h,stride_w,dilation_h,dilation_w,groups\n");
    for (number, [n, c, side, k]) in layers.iter().enumerate() {
        writeln!(text, "small,conv{number},1,{n},{c},{side},{side},{k},3,3,1,1,1,1,1,1,1").unwrap();
    }
    std::fs::write(path, text).unwrap();
}

/// A run's arguments and variables.
pub struct Run<'a> {
    pub program: &'a Program,
    /// The file that its report is written to.
    pub report: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl<'a> Run<'a> {
    /// A run of one iteration of a network.
    pub fn new(program: &'a Program, network: &str, report: &str) -> Self {
        let report = program.file(report);
        let arguments = [network, "--warmup", "0", "--iterations", "1", "--limit", "256KiB"].map(str::to_owned);
        let run = Self { program, report: report.clone(), arguments: arguments.into(), variables: Vec::new() };
        run.with("UCUDNN_REPORT", report)
    }

    /// Sets a variable.
    pub fn with(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().to_str().unwrap().to_owned()));
        self
    }

    /// Adds arguments.
    pub fn and(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// The run as a command, with libucudnn.so preloaded.
    pub fn command(&self) -> std::process::Command {
        let (arguments, variables) = self.parts();
        self.program.command(&arguments, &variables, true)
    }

    /// Runs with libucudnn.so preloaded; the program must succeed.
    pub fn preloaded(&self) -> Outcome {
        let (arguments, variables) = self.parts();
        self.program.preloaded(&arguments, &variables)
    }

    /// Runs without libucudnn.so; the program must succeed.
    pub fn plain(&self) -> Outcome {
        self.program.plain(&self.parts().0, &[])
    }

    fn parts(&self) -> (Vec<&str>, Vec<(&str, &str)>) {
        let arguments = self.arguments.iter().map(String::as_str).collect();
        (arguments, self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
    }

    /// The measurements of this run.
    pub fn timed(&self) -> Vec<Timed> {
        timed(&self.report)
    }

    /// The answers to its queries: the problem, the division and its bytes of workspace.
    pub fn answers(&self) -> Vec<(String, String, u64)> {
        let lines = hostdnn::report(&self.report).into_iter().filter(|line| line["event"] == "asked");
        let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
        lines.map(|line| (text(&line, "spec"), text(&line, "division"), line["workspace"].as_u64().unwrap())).collect()
    }
}

/// A micro-configuration that was measured, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timed {
    /// For a mini-batch of one image.
    pub kernel: Problem,
    pub batch: usize,
    /// True if it is a part whose sum is kept in float.
    pub summed: bool,
    pub algorithm: String,
}

/// The norms of all results, by layer and direction.
pub fn network_norms(figures: &Path) -> Vec<(String, f64)> {
    let figures: Value = serde_json::from_slice(&std::fs::read(figures).unwrap()).unwrap();
    let kernels = figures["kernels"].as_array().unwrap().iter();
    kernels
        .map(|kernel| (format!("{} {}", kernel["layer"], kernel["direction"]), kernel["norm"].as_f64().unwrap()))
        .collect()
}

/// The measurements in a report, which may end in the middle of a line.
pub fn timed(report: &Path) -> Vec<Timed> {
    lines(report).into_iter().map(|(timed, _)| timed).collect()
}

/// The measurements in a report, with the whole line of each.
pub fn lines(report: &Path) -> Vec<(Timed, Value)> {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.filter(|line| line["event"] == "timed");
    lines
        .map(|line| {
            let kernel = Problem::from_spec(line["spec"].as_str().unwrap()).unwrap();
            let batch = line["batch"].as_u64().unwrap() as usize;
            let half = kernel.direction == Direction::BackwardFilter && kernel.to_string().contains("half");
            let timed = Timed {
                kernel: kernel.with_batch(1),
                batch,
                summed: half && batch < kernel.batch(),
                algorithm: line["algorithm"].as_str().unwrap().to_owned(),
            };
            (timed, line)
        })
        .collect()
}

/// The micro-configurations that occur more than once.
pub fn repeated(timed: impl IntoIterator<Item = Timed>) -> Vec<Timed> {
    let mut counts: HashMap<Timed, usize> = HashMap::new();
    timed.into_iter().for_each(|timed| *counts.entry(timed).or_default() += 1);
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(timed, _)| timed).collect()
}
