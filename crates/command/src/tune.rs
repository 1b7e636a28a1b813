//! `ucudnn tune`: measures a network's convolution problems ahead of time, into the tuning database.

mod networks;
mod norms;
mod progress;
mod timed;
mod vertex_nets;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use convolution::problem::any::AnyProblem;
use cudnn::library;
use guest::settings::{self, MOST_SECONDS, Settings};
use planner::BatchSizePolicy;
use tuning::ahead::{self, Budget, Goal, Job};
use tuning::database::Database;
use tuning::executable::Executable;

use crate::Failure;
use crate::interrupt;
use crate::network::{Layer, Shapes};
use crate::output;
use crate::python;
use crate::quantity;
use crate::table::{Side, Table};
use crate::width::Width;
use crate::workload::{Place, Problems};
use progress::Bar;
use trust::Shown as _;

/// Measure a network's kernels on this machine's device, for later runs and plans
///
/// Times the micro-batches of each kernel on this command's own buffers, and keeps the results in the tuning database.
/// Programs that run on ucudnn find them there at their start, and so does `ucudnn plan`. Known results are not
/// measured again, so a command that was stopped (Ctrl-C) continues where it was.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    # for any limit and any total\n  \
    ucudnn tune examples/networks/alexnet.csv --batch 128\n  \
    # what a run at this limit will ask for\n  \
    ucudnn tune run.jsonl --limit 64MiB\n  \
    # on all GPUs of this kind at once\n  \
    ucudnn tune net.csv --type half --math tensor-op --devices all\n  \
    # recurrent networks: one in words, and those that a run ran\n  \
    ucudnn tune --rnn 'LSTM hidden=256 layers=2 batch=1,10 steps=100 type=half'\n  \
    ucudnn tune --rnn 'LSTM hidden=256 batch=64 steps=100 type=half training=yes'\n  \
    ucudnn tune --rnn run.jsonl --top-k 20\n  \
    # batch normalization: a tensor in words, and those that a run ran\n  \
    ucudnn tune --norm '128x64x56x56 half' --norm run.jsonl\n  \
    # the kernels of the dynamic nets that a run made\n  \
    ucudnn tune --dynamic run.jsonl")]
pub struct Options {
    /// A network's CSV file, as in examples/networks, or a run's report
    #[arg(required_unless_present_any = ["rnn", "norm", "dynamic"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    shapes: Shapes,

    /// Time recurrent networks instead: those of a run's report or a JSON file, or one in words
    ///
    /// In words: the cell (LSTM, GRU, tanh, ReLU), hidden=N and steps=N, and every key that differs from PyTorch's
    /// default for one layer: input=N (default: hidden), layers=N, directions=2, bias=none|input|recurrent|double,
    /// type=float|half|bfloat16, math=default|tensor-op|fma, algorithm=standard|persist-static|persist-dynamic|
    /// persist-static-small-h (cuDNN's), layout=sequence-major|batch-major|packed, padded=no, full=no (sequences of
    /// many lengths), batch=N,N,…, and training=yes (forward and backward; else inference). A JSON file has one object of
    /// these keys per network. cuDNN and the configurations of our kernels that the performance model ranks best are timed
    /// on generated data.
    #[arg(long, value_name = "NETWORK", conflicts_with = "file", verbatim_doc_comment)]
    rnn: Vec<String>,

    /// The number K of configurations to time per recurrent network, in training K forward and K back
    /// [default: UCUDNN_RNN_TOP_K, or 5]
    #[arg(long, value_name = "K", requires = "rnn", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,

    /// Time batch normalization instead: of a run's report, or of a tensor in words
    ///
    /// In words: images, channels and the sizes of a plane, and a type (float, half, bfloat16; default: float), such as
    /// '128x64x56x56 half'. The tensor is packed with its channels first. All passes, forward and backward in training and
    /// in inference, are timed on generated data, by cuDNN and by our kernels.
    #[arg(long, value_name = "TENSOR", conflicts_with_all = ["file", "rnn"])]
    norm: Vec<String>,

    /// Make the kernels of dynamic nets instead: those of a run's report
    ///
    /// A program finds them on disk, where it would compile them for a second or two at a net's first call.
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["file", "rnn", "norm"])]
    dynamic: Vec<PathBuf>,

    /// Measure only the kernels' micro-batches that programs use under these limits
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = quantity::read_bytes)]
    limit: Vec<usize>,

    /// Measure what dividing a total of up to this may use [default: any total, unless --limit is given]
    #[arg(long, value_name = "SIZE", value_parser = quantity::read_bytes)]
    total: Option<usize>,

    /// Micro-batch sizes: powerOfTwo, all or undivided [default: powerOfTwo]
    #[arg(long, value_name = "POLICY", default_value_t = BatchSizePolicy::PowerOfTwo, hide_default_value = true)]
    sizes: BatchSizePolicy,

    /// Algorithms to measure: match (of the class of cuDNN's own choice), allowed (all that the type of mathematics
    /// allows), any, or deterministic [default: match]
    #[arg(long, value_name = "CLASS")]
    numerics: Option<String>,

    /// Devices that measure in parallel: 0,1 or all [default: the first]
    #[arg(long, value_name = "0,1|all")]
    devices: Option<String>,

    /// The most seconds for each kernel
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    seconds: f64,

    /// The most device memory, including the kernel's data
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = quantity::read_bytes)]
    bytes: usize,

    /// The real cuDNN, if it is not found automatically
    #[arg(long, value_name = "FILE")]
    cudnn_library: Option<PathBuf>,

    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    width: Width,
}

pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= MOST_SECONDS);
    seconds.ok_or_else(|| format!("expected a number of seconds, more than 0 and at most {MOST_SECONDS}"))
}

/// The outcome for one convolution problem.
struct Tuned<'a> {
    layer: &'a Layer,
    /// The result for the last goal; `Err` says why there is none.
    found: Result<Found, String>,
    /// The number of micro-configurations measured by this run.
    measured: usize,
}

/// The fastest configuration.
struct Found {
    division: String,
    workspace: usize,
    /// Milliseconds.
    time: f64,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let Some(file) = options.file.clone() else {
        return match (options.rnn.is_empty(), options.norm.is_empty()) {
            (false, _) => networks::run(options),
            (true, false) => norms::run(options),
            (true, true) => vertex_nets::run(options),
        };
    };
    if options.top_k.is_some() {
        return Err(Failure::Usage("--top-k says how much of recurrent networks is timed: it goes with --rnn".into()));
    }
    let (network, _) = Problems { file, shapes: options.shapes.clone() }.read()?;
    // Made first, so that an error in it shows before anything is measured.
    let database = options.place.create()?.path().to_owned();
    set_variables(options, &database)?;
    check_library()?;
    let mut layers: Vec<&Layer> = Vec::new();
    for layer in &network.layers {
        if !layers.iter().any(|known| known.problem == layer.problem) {
            layers.push(layer);
        }
    }
    let devices = ahead::devices();
    interrupt::catch();
    let begin = Instant::now();
    let bar = Bar::new(layers.len());
    let mut tuned = Vec::new();
    for layer in &layers {
        if interrupt::STOP.load(Ordering::Relaxed) {
            break;
        }
        tuned.push(tune(options, layer, &devices, &bar));
    }
    bar.finish();
    if tuned.iter().any(|tuned| tuned.measured > 0) && !is_kept() {
        return Err(Failure::Failed(format!("{}: the results could not be kept", database.shown())));
    }
    summarize(&tuned, layers.len(), begin.elapsed(), &database, options.width.columns())
}

/// Returns whether results were kept. For a program's sake the library only warns if its database fails. Here the results
/// are the purpose.
fn is_kept() -> bool {
    let has_results = |database: &Database| database.contents().is_ok_and(|kept| !kept.is_empty());
    Database::of_process().is_some_and(|database| database.keeps() && has_results(database))
}

fn check_library() -> Result<(), Failure> {
    python::search_its_packages(None);
    if library::path().is_none() {
        return Err(Failure::Failed("there is no cuDNN to measure with; --cudnn-library may name one".into()));
    }
    if library::older_major().is_some() {
        return Err(Failure::Failed("the cuDNN that was found is older than 9".into()));
    }
    Ok(())
}

/// Sets the environment variables that the library reads.
fn set_variables(options: &Options, database: &std::path::Path) -> Result<(), Failure> {
    let mut variables: Vec<(&str, OsString)> = vec![("UCUDNN_DATABASE", database.into())];
    let mut add = |name, value: Option<&OsStr>| variables.extend(value.map(|value| (name, value.to_owned())));
    add("UCUDNN_NUMERICS", options.numerics.as_deref().map(OsStr::new));
    add("UCUDNN_BENCHMARK_DEVICES", options.devices.as_deref().map(OsStr::new));
    add(settings::CUDNN_LIBRARY, options.cudnn_library.as_deref().map(|path| path.as_os_str()));
    let top_k = options.top_k.map(|k| k.to_string());
    add("UCUDNN_RNN_TOP_K", top_k.as_deref().map(OsStr::new));
    if !options.rnn.is_empty() || !options.norm.is_empty() {
        // Settings that keep programs from our kernels must not prevent timing them.
        add("UCUDNN_RNN", Some(OsStr::new("auto")));
        add("UCUDNN_RNN_TRAINING", Some(OsStr::new("auto")));
        add("UCUDNN_NORM", Some(OsStr::new("auto")));
        add("UCUDNN_POLICY", Some(OsStr::new("wr")));
    }
    let seed = options.place.seed();
    add("UCUDNN_SEED_DATABASE", seed.as_deref().map(|path| path.as_os_str()));
    for (option, name) in [("numerics", "UCUDNN_NUMERICS"), ("devices", "UCUDNN_BENCHMARK_DEVICES")] {
        let value =
            variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.to_string_lossy().into_owned());
        let (_, warnings) = Settings::read(|asked| value.clone().filter(|_| asked == name));
        if let Some(why) = warnings.first() {
            let why = why.rsplit_once("; ").map_or(why.as_str(), |(why, _)| why);
            return Err(Failure::Usage(format!("--{option}: {why}")));
        }
    }
    if std::env::var_os("UCUDNN_LOG").is_none_or(|filter| filter.is_empty()) {
        // By default the log warns of the time that tuning takes, which is this command's purpose.
        variables.push(("UCUDNN_LOG", "warn,ucudnn_tuning::waiting=error".into()));
    }
    for (name, value) in variables {
        // SAFETY: no other thread runs yet, and nothing holds a pointer into the environment.
        unsafe { std::env::set_var(name, value) };
    }
    Ok(())
}

fn tune<'a>(options: &Options, layer: &'a Layer, devices: &[i32], bar: &Bar) -> Tuned<'a> {
    let progress = bar.problem(format!("{} {}", layer.name, layer.problem.direction()));
    let found = match &layer.problem {
        AnyProblem::Convolution(problem) => search(options, problem, devices, &progress),
        AnyProblem::Graph(_) => Err("operation graphs are tuned while programs run, not ahead of time".into()),
    };
    Tuned { layer, found, measured: progress.finish() }
}

/// Tunes for each goal in turn.
fn search<K: Executable>(
    options: &Options,
    problem: &K,
    devices: &[i32],
    bar: &progress::Problem,
) -> Result<Found, String> {
    let mut goals: Vec<Goal> = options.limit.iter().map(|&limit| Goal::Fastest { limit }).collect();
    if options.total.is_some() || goals.is_empty() {
        goals.push(Goal::DesirableSet { limit: options.total.unwrap_or(usize::MAX) });
    }
    let mut found = Err("it was stopped".to_owned());
    for goal in goals {
        let search = ahead::tune(&Job {
            problem,
            class: None,
            sizes: options.sizes,
            goal,
            budget: Budget::of_time(Duration::from_secs_f64(options.seconds)),
            bytes: options.bytes,
            devices,
            stop: &interrupt::STOP,
            progress: &|progress| bar.measured(progress.remaining),
        })?;
        let best =
            search.best().map(|(best, time)| Found { division: best.to_string(), workspace: best.workspace(), time });
        found = best.ok_or_else(|| "nothing fits".to_owned());
    }
    found
}

/// Shows the results. A problem without a result makes the command fail; after an interrupt it ends by the signal.
fn summarize(
    tuned: &[Tuned],
    wanted: usize,
    took: Duration,
    database: &std::path::Path,
    width: usize,
) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("kernel", Side::Left),
        ("", Side::Left),
        ("measured", Side::Right),
        ("fastest", Side::Left),
        ("workspace", Side::Right),
        ("ms", Side::Right),
        ("", Side::Left),
    ])
    .short(0, quantity::short_shape);
    let mut failed = 0;
    for Tuned { layer, found, measured } in tuned {
        let mut row = vec![layer.name.clone(), layer.problem.direction().to_string(), measured.to_string()];
        row.extend(match found {
            Ok(Found { division, workspace, time }) => {
                [division.clone(), quantity::bytes(*workspace), quantity::digits(*time), String::new()]
            }
            Err(why) => ["", "", "", why.as_str()].map(str::to_owned),
        });
        failed += usize::from(found.is_err());
        table.row(row);
    }
    let measured = tuned.iter().map(|tuned| tuned.measured).sum();
    let printed = output::print(&format!(
        "{}\nMeasured in {:.1} s: {} of {}; kept in {}\n",
        table.lines(width),
        took.as_secs_f64(),
        quantity::counted(measured, "micro-configuration"),
        quantity::counted(tuned.len(), "kernel"),
        database.shown()
    ));
    if interrupt::STOP.load(Ordering::Relaxed) {
        output::tell(&format!("stopped at kernel {} of {wanted}; the same command goes on from here", tuned.len()));
        interrupt::end();
    }
    if failed > 0 {
        return Err(Failure::Failed(format!("{failed} of {wanted} kernels could not be tuned")));
    }
    printed
}
