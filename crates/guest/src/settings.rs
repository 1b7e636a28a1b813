//! Every environment variable that ucudnn reads, in one table.
//!
//! Variables are read once, when the first exported function runs. A bad value logs one warning with the variable, the
//! value and the accepted values; then the default applies. An unknown `UCUDNN_` variable logs one warning with the
//! nearest name.

mod place;
#[cfg(test)]
mod tests;
mod unknown;

use std::ffi::OsString;
use std::path::PathBuf;

use env_logger::Target;
use once_cell::sync::OnceCell;

use crate::writes::StandardError;
pub use place::place;
use planner::BatchSizePolicy;
pub use unknown::warnings as unknown_warnings;

/// How workspace limits apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Workspace Reuse: each convolution problem is planned on its own.
    Reuse,
    /// Workspace Division: the problems of a network share one budget.
    Division,
    /// Every call goes through to cuDNN unchanged.
    Off,
}

/// Where tuning results are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// In the user's cache folder.
    User,
    /// In the file of this path.
    Path(PathBuf),
    /// Nowhere.
    Off,
}

/// Which devices tune.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchmarkDevices {
    /// The program's own device.
    Current,
    /// All devices of the machine that are like the program's.
    All,
    /// The devices with these numbers.
    Listed(Vec<i32>),
}

/// Which numerical classes a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numerics {
    /// The class of the algorithm that cuDNN runs without us: the program's choice, or cuDNN's choice for it.
    Match,
    /// All that the program allows, by the math type that its call names.
    Allowed,
    /// Any algorithm that cuDNN has for the descriptors.
    Any,
    /// Deterministic algorithms of the chosen class, and no exploring while the program runs.
    Deterministic,
}

/// How much of the program's time exploring may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Explore {
    /// This share of the time of the tuned calls, and half a second; nothing if it is 0.
    Share(f64),
    /// Any.
    Unbounded,
}

/// Which implementation runs inference of recurrent networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rnn {
    /// Our kernels where they were measured to be faster than cuDNN's.
    Auto,
    /// cuDNN.
    Off,
    /// Our kernels wherever they can run.
    Force,
}

/// Which implementation trains recurrent networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RnnTraining {
    /// Whichever is faster.
    Auto,
    /// cuDNN.
    Off,
    /// Our kernels wherever they can run.
    Force,
}

/// Which implementation runs batch normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Whichever is faster.
    Auto,
    /// cuDNN.
    Off,
    /// Our kernels wherever they can run.
    Force,
}

/// Which implementation runs PyTorch's own operators, which call no cuDNN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torch {
    /// Whichever is faster.
    Auto,
    /// PyTorch.
    Off,
    /// Our kernels wherever they can run.
    Force,
}

/// The executor for nets of vertex functions on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dynamic {
    /// The fastest one.
    Auto,
    /// The batched executor, level by level.
    Batched,
    /// The persistent executor: one launch each way runs all levels, where the net allows it. The number counts the
    /// groups of blocks.
    Persistent(usize),
    /// The batched executor with a kernel for each operation, to measure the worth of fusion.
    Unfused,
    /// The batched executor with eager and lazy products level by level, to measure the worth of products of whole
    /// batches.
    Unbatched,
}

/// Which processes end with a summary line on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// None.
    Off,
    /// Every one.
    On,
    /// Those that called cuDNN, and the one with this number.
    Of(u32),
}

/// One row of the table. docs/settings.md documents each row, and a test compares the two.
pub struct Variable {
    /// The variable's name.
    pub name: &'static str,
    /// The values accepted, the default first, as docs/settings.md writes them.
    pub values: &'static str,
}

/// The variables of this version, in the order of docs/settings.md.
pub const VARIABLES: &[Variable] = &[
    Variable { name: SWITCH, values: "`on`, `off`" },
    Variable { name: POLICY, values: "`wr`, `wd`, `off`" },
    Variable { name: BATCH_SIZE_POLICY, values: "`powerOfTwo`, `all`, `undivided`" },
    Variable { name: WORKSPACE_LIMIT, values: "unset, bytes or `64MiB`" },
    Variable { name: DEFAULT_WORKSPACE_LIMIT, values: "unset, bytes or `64MiB`" },
    Variable { name: TOTAL_WORKSPACE_SIZE, values: "unset, bytes or `512MiB`" },
    Variable { name: EXPLORE, values: "`5%`, a percentage, `0`, `unbounded`" },
    Variable { name: TUNE_SECONDS, values: "unset, seconds" },
    Variable { name: TUNE_BYTES, values: "unset, bytes or `1GiB`" },
    Variable { name: DATABASE, values: "user cache folder, a path, `off`" },
    Variable { name: SEED_DATABASE, values: "unset, a path" },
    Variable { name: BENCHMARK_DEVICES, values: "current, `0,1,2`, `all`" },
    Variable { name: NUMERICS, values: "`match`, `allowed`, `any`, `deterministic`" },
    Variable { name: CHECK, values: "`0`, `1`" },
    Variable { name: RNN, values: "`auto`, `off`, `force`" },
    Variable { name: RNN_TRAINING, values: "`auto`, `off`, `force`" },
    Variable { name: RNN_TOP_K, values: "`5`, a number" },
    Variable { name: NORM, values: "`auto`, `off`, `force`" },
    Variable { name: TORCH, values: "`auto`, `off`, `force`" },
    Variable {
        name: DYNAMIC,
        values: "`auto`, `batched`, `persistent`, `persistent:2`, `persistent:4`, `persistent:8`, `unfused`, `unbatched`",
    },
    Variable { name: CUDNN_LIBRARY, values: "unset, a path" },
    Variable { name: LOG, values: "`warn`, any env_logger filter" },
    Variable { name: REPORT, values: "unset, a path" },
    Variable { name: SUMMARY, values: "`off`, `on`, the number of a process" },
];

/// The switch of the whole library.
pub const SWITCH: &str = "UCUDNN";
const POLICY: &str = "UCUDNN_POLICY";
const BATCH_SIZE_POLICY: &str = "UCUDNN_BATCH_SIZE_POLICY";
const WORKSPACE_LIMIT: &str = "UCUDNN_WORKSPACE_LIMIT";
const DEFAULT_WORKSPACE_LIMIT: &str = "UCUDNN_DEFAULT_WORKSPACE_LIMIT";
const TOTAL_WORKSPACE_SIZE: &str = "UCUDNN_TOTAL_WORKSPACE_SIZE";
const EXPLORE: &str = "UCUDNN_EXPLORE";
const TUNE_SECONDS: &str = "UCUDNN_TUNE_SECONDS";
const TUNE_BYTES: &str = "UCUDNN_TUNE_BYTES";
const DATABASE: &str = "UCUDNN_DATABASE";
/// More tuning results, in a file that must be there.
pub const SEED_DATABASE: &str = "UCUDNN_SEED_DATABASE";
const BENCHMARK_DEVICES: &str = "UCUDNN_BENCHMARK_DEVICES";
const NUMERICS: &str = "UCUDNN_NUMERICS";
const CHECK: &str = "UCUDNN_CHECK";
const RNN: &str = "UCUDNN_RNN";
const RNN_TRAINING: &str = "UCUDNN_RNN_TRAINING";
const RNN_TOP_K: &str = "UCUDNN_RNN_TOP_K";
const NORM: &str = "UCUDNN_NORM";
const TORCH: &str = "UCUDNN_TORCH";
const DYNAMIC: &str = "UCUDNN_DYNAMIC";
/// Where the real cuDNN is; read by `cudnn::library`, which may run before settings do.
pub const CUDNN_LIBRARY: &str = "UCUDNN_CUDNN_LIBRARY";
/// The log's filter, which a command sets for itself.
pub const LOG: &str = "UCUDNN_LOG";
/// The report's file, which a command that loads the library does not write.
pub const REPORT: &str = "UCUDNN_REPORT";
/// Which processes end with a summary line. `ucudnn run` sets this variable.
pub const SUMMARY: &str = "UCUDNN_SUMMARY";
/// For tests only, so that no list for users has it.
const FAULT: &str = "UCUDNN_FAULT";

/// The settings from the environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// False if everything goes to cuDNN, whatever the program sets.
    pub is_on: bool,
    /// How limits apply.
    pub policy: Policy,
    /// Which micro-batch sizes are tried.
    pub batch_size_policy: BatchSizePolicy,
    /// The most workspace of any convolution problem, in bytes, even if the program allows more.
    pub workspace_limit: Option<usize>,
    /// The most workspace, in bytes, of a problem for which the program gives no limit.
    pub default_workspace_limit: Option<usize>,
    /// Workspace Division's budget: the most workspace of all problems of a network together, in bytes.
    pub total_workspace_size: Option<usize>,
    /// How much of the program's time exploring may take.
    pub explore: Explore,
    /// The most seconds that tuning one problem may take while the program waits, if the user names them.
    pub tune_seconds: Option<f64>,
    /// The most bytes that tuning one problem may allocate, if the user names them.
    pub tune_bytes: Option<usize>,
    /// Where tuning results are kept.
    pub database: Database,
    /// The path of a seed database, which is only read, for results that the user's database lacks.
    pub seed_database: Option<PathBuf>,
    /// Which devices tune.
    pub benchmark_devices: BenchmarkDevices,
    /// Which numerical classes a plan may use.
    pub numerics: Numerics,
    /// Run the undivided convolution too, and compare the results.
    pub check: bool,
    /// Which implementation runs inference of recurrent networks.
    pub rnn: Rnn,
    /// Which implementation trains recurrent networks.
    pub rnn_training: RnnTraining,
    /// How many of the configurations that the performance model ranks best are compiled and timed; 1 or more.
    pub rnn_top_k: usize,
    /// Which implementation runs batch normalization.
    pub norm: Norm,
    /// Which implementation runs PyTorch's own operators.
    pub torch: Torch,
    /// The executor for nets of vertex functions on a device.
    pub dynamic: Dynamic,
    /// The log filter, in env_logger's syntax.
    pub log: String,
    /// The path of the report of decisions, one JSON object a line.
    pub report: Option<PathBuf>,
    /// Which processes end with a summary line on the terminal.
    pub summary: Summary,
    /// A failure to be made on purpose, for tests.
    pub fault: Option<Fault>,
}

/// A failure made on purpose, to test that no program is harmed by a real one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Panic at the named place.
    Panic(String),
    /// Our device allocations fail if they are larger than this, in bytes.
    Allocation(usize),
    /// There is no compiler for our GPU kernels.
    Compiler,
    /// None of our GPU kernels compiles.
    Compilation,
    /// Compiling an RNN's GPU kernels ends only with the process.
    Hang,
    /// No persistent kernel of an RNN's training, or of a vertex net's path, is launched.
    Launch,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            is_on: true,
            policy: Policy::Reuse,
            batch_size_policy: BatchSizePolicy::PowerOfTwo,
            workspace_limit: None,
            default_workspace_limit: None,
            total_workspace_size: None,
            explore: Explore::Share(0.05),
            tune_seconds: None,
            tune_bytes: None,
            database: Database::User,
            seed_database: None,
            benchmark_devices: BenchmarkDevices::Current,
            numerics: Numerics::Match,
            check: false,
            rnn: Rnn::Auto,
            rnn_training: RnnTraining::Auto,
            rnn_top_k: 5,
            norm: Norm::Auto,
            torch: Torch::Auto,
            dynamic: Dynamic::Auto,
            log: "warn".into(),
            report: None,
            summary: Summary::Off,
            fault: None,
        }
    }
}

/// The most seconds that tuning one problem takes, if the user names none.
const DEFAULT_TUNE_SECONDS: f64 = 10.0;
/// The most bytes that tuning one problem allocates, if the user names none.
const DEFAULT_TUNE_BYTES: usize = 1 << 30;

impl Settings {
    /// The most time for tuning one problem where the user wants it tuned at once: under Workspace Division, and by the
    /// command.
    pub fn tune_seconds(&self) -> f64 {
        self.tune_seconds.unwrap_or(DEFAULT_TUNE_SECONDS)
    }

    /// The most bytes for that.
    pub fn tune_bytes(&self) -> usize {
        self.tune_bytes.unwrap_or(DEFAULT_TUNE_BYTES)
    }

    /// Everything goes to cuDNN, and no file is used: for a process with more rights than its user.
    fn without_files() -> Self {
        Self { database: Database::Off, ..Self::default() }.switched_off()
    }

    /// The same settings, but everything goes to cuDNN.
    fn switched_off(self) -> Self {
        Self { is_on: false, policy: Policy::Off, rnn: Rnn::Off, norm: Norm::Off, torch: Torch::Off, ..self }
    }

    /// Reads the variables through `lookup`; returns the settings and a warning for each bad value.
    pub fn read<T: Into<OsString>>(lookup: impl Fn(&str) -> Option<T>) -> (Self, Vec<String>) {
        let lookup = |name: &str| lookup(name).map(Into::into);
        let mut reader = Reader { lookup, warnings: Vec::new() };
        let default = Self::default();
        let is_on = reader.parse(SWITCH, true, "on or off", one_of(&[("on", true), ("off", false)]));
        let total_workspace_size = reader.parse(TOTAL_WORKSPACE_SIZE, None, BYTES, |t| parse_bytes(t).map(Some));
        let settings = Self {
            is_on,
            policy: reader.policy(total_workspace_size),
            batch_size_policy: reader.parse(
                BATCH_SIZE_POLICY,
                default.batch_size_policy,
                "powerOfTwo, all or undivided",
                |text| text.parse().ok(),
            ),
            workspace_limit: reader.parse(WORKSPACE_LIMIT, None, BYTES, |t| parse_bytes(t).map(Some)),
            default_workspace_limit: reader.parse(DEFAULT_WORKSPACE_LIMIT, None, BYTES, |t| parse_bytes(t).map(Some)),
            total_workspace_size,
            explore: reader.parse(EXPLORE, default.explore, "a percentage such as 5%, 0 or unbounded", parse_explore),
            tune_seconds: reader.parse(TUNE_SECONDS, None, SECONDS, |text| {
                text.parse().ok().filter(|seconds| (0.0..=MOST_SECONDS).contains(seconds)).map(Some)
            }),
            tune_bytes: reader.parse(TUNE_BYTES, None, BYTES, |t| parse_bytes(t).map(Some)),
            database: match reader.text(DATABASE) {
                Some(text) if text == "off" => Database::Off,
                _ => reader.path(DATABASE, "a path or off").map_or(default.database, Database::Path),
            },
            seed_database: reader.path(SEED_DATABASE, "a path"),
            benchmark_devices: reader.parse(
                BENCHMARK_DEVICES,
                default.benchmark_devices,
                "device numbers such as 0,1,2, or all",
                parse_devices,
            ),
            numerics: reader.parse(
                NUMERICS,
                default.numerics,
                "match, allowed, any or deterministic",
                one_of(&[
                    ("match", Numerics::Match),
                    ("allowed", Numerics::Allowed),
                    ("any", Numerics::Any),
                    ("deterministic", Numerics::Deterministic),
                ]),
            ),
            check: reader.parse(CHECK, default.check, "0 or 1", one_of(&[("0", false), ("1", true)])),
            rnn: reader.parse(
                RNN,
                default.rnn,
                "auto, off or force",
                one_of(&[("auto", Rnn::Auto), ("off", Rnn::Off), ("force", Rnn::Force)]),
            ),
            rnn_training: reader.parse(
                RNN_TRAINING,
                default.rnn_training,
                "auto, off or force",
                one_of(&[("auto", RnnTraining::Auto), ("off", RnnTraining::Off), ("force", RnnTraining::Force)]),
            ),
            rnn_top_k: reader.parse(RNN_TOP_K, default.rnn_top_k, "a number, 1 or more", |text| {
                text.parse().ok().filter(|&k| k > 0)
            }),
            norm: reader.parse(
                NORM,
                default.norm,
                "auto, off or force",
                one_of(&[("auto", Norm::Auto), ("off", Norm::Off), ("force", Norm::Force)]),
            ),
            torch: reader.parse(
                TORCH,
                default.torch,
                "auto, off or force",
                one_of(&[("auto", Torch::Auto), ("off", Torch::Off), ("force", Torch::Force)]),
            ),
            dynamic: reader.parse(
                DYNAMIC,
                default.dynamic,
                "auto, batched, persistent (:2, :4 or :8), unfused or unbatched",
                one_of(&[
                    ("auto", Dynamic::Auto),
                    ("batched", Dynamic::Batched),
                    ("persistent", Dynamic::Persistent(1)),
                    ("persistent:2", Dynamic::Persistent(2)),
                    ("persistent:4", Dynamic::Persistent(4)),
                    ("persistent:8", Dynamic::Persistent(8)),
                    ("unfused", Dynamic::Unfused),
                    ("unbatched", Dynamic::Unbatched),
                ]),
            ),
            log: reader.parse(
                LOG,
                default.log,
                "an env_logger filter, such as info, off or ucudnn_norm=debug",
                |text| {
                    (env_filter::Builder::new().try_parse(text).is_ok() && names_our_modules(text))
                        .then(|| text.to_owned())
                },
            ),
            report: reader.path(REPORT, "a path"),
            summary: reader.parse(SUMMARY, default.summary, "off, on or the number of a process", |text| match text {
                "off" => Some(Summary::Off),
                "on" => Some(Summary::On),
                number => number.parse().ok().map(Summary::Of),
            }),
            fault: reader.parse(FAULT, None, FAULTS, |text| parse_fault(text).map(Some)),
        };
        (if is_on { settings } else { settings.switched_off() }, reader.warnings)
    }
}

const FAULTS: &str = "panic:PLACE, allocation, allocation:BYTES, compiler, compilation, hang or launch";
const SECONDS: &str = "a number of seconds from 0 to 1000000000";
/// More seconds than any program runs, and few enough to add to a moment.
pub const MOST_SECONDS: f64 = 1e9;
const BYTES: &str = "a number of bytes, with KiB, MiB or GiB behind it if wanted";

struct Reader<L> {
    lookup: L,
    warnings: Vec<String>,
}

impl<L: Fn(&str) -> Option<OsString>> Reader<L> {
    /// The value as text. Shells unset a variable for a single command by setting it to nothing.
    fn text(&self, name: &str) -> Option<OsString> {
        (self.lookup)(name).filter(|text| !text.is_empty())
    }

    /// Reads a path, which may have any bytes. Blanks alone are none. A relative one is in the folder of this moment: a
    /// program may change its folder.
    fn path(&mut self, name: &str, accepted: &str) -> Option<PathBuf> {
        let path = self.text(name)?;
        if path.to_string_lossy().trim().is_empty() {
            self.refuse(name, &path.to_string_lossy(), accepted);
            return None;
        }
        Some(absolute(path.into()))
    }

    fn refuse(&mut self, name: &str, text: &str, accepted: &str) {
        let text = shortened(text);
        self.warnings.push(format!("{name}={text} is not understood: it takes {accepted}; the default is used"));
    }

    fn parse<T: std::fmt::Debug>(
        &mut self,
        name: &str,
        default: T,
        accepted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.text(name) else { return default };
        // None of these values has bytes that are not UTF-8: the lossy text leads to the usual warning.
        let text = text.to_string_lossy();
        parse(text.trim()).unwrap_or_else(|| {
            self.refuse(name, &text, accepted);
            default
        })
    }

    /// A total selects Workspace Division, which needs one.
    fn policy(&mut self, total: Option<usize>) -> Policy {
        let names = [("wr", Some(Policy::Reuse)), ("wd", Some(Policy::Division)), ("off", Some(Policy::Off))];
        let chosen = self.parse(POLICY, None, "wr, wd or off", one_of(&names));
        match (chosen, total) {
            (None, None) => Policy::Reuse,
            (None, Some(_)) => Policy::Division,
            (Some(Policy::Division), None) => {
                self.warnings.push(format!("{POLICY}=wd divides {TOTAL_WORKSPACE_SIZE}, which is not set; wr is used"));
                Policy::Reuse
            }
            (Some(policy), _) => policy,
        }
    }
}

/// True if each module in a filter may be one of ours. env_logger takes a misspelled level for a module, and then logs
/// nothing.
fn names_our_modules(filter: &str) -> bool {
    const OURS: &str = "ucudnn";
    let directives = filter.split('/').next().unwrap_or_default().split(',').map(str::trim);
    let modules = directives.filter_map(|directive| match directive.split_once('=') {
        Some((module, _)) => Some(module),
        None => directive.parse::<log::LevelFilter>().is_err().then_some(directive),
    });
    modules.into_iter().all(|module| OURS.starts_with(module) || module.starts_with(OURS))
}

/// Reads one of the names as its value.
fn one_of<T: Copy>(names: &[(&str, T)]) -> impl Fn(&str) -> Option<T> {
    move |text| names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

/// The path from the root on; as it is, if nobody knows the folder.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// A value for a message: its beginning, in quotes.
fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

fn parse_explore(text: &str) -> Option<Explore> {
    match text {
        "unbounded" => Some(Explore::Unbounded),
        "0" => Some(Explore::Share(0.0)),
        _ => {
            let percentage: f64 = text.strip_suffix('%')?.trim_end().parse().ok()?;
            (0.0..=100.0).contains(&percentage).then_some(Explore::Share(percentage / 100.0))
        }
    }
}

fn parse_devices(text: &str) -> Option<BenchmarkDevices> {
    if text == "all" {
        return Some(BenchmarkDevices::All);
    }
    let numbers = text.split(',').map(|number| number.trim().parse().ok().filter(|n: &i32| *n >= 0));
    let mut numbers = numbers.collect::<Option<Vec<i32>>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Some(BenchmarkDevices::Listed(numbers))
}

fn parse_fault(text: &str) -> Option<Fault> {
    match text.split_once(':') {
        Some(("panic", place)) if !place.is_empty() => Some(Fault::Panic(place.to_owned())),
        None if text == "allocation" => Some(Fault::Allocation(0)),
        None if text == "compiler" => Some(Fault::Compiler),
        None if text == "compilation" => Some(Fault::Compilation),
        None if text == "hang" => Some(Fault::Hang),
        None if text == "launch" => Some(Fault::Launch),
        Some(("allocation", above)) => parse_bytes(above).map(Fault::Allocation),
        _ => None,
    }
}

/// Reads `"67108864"`, `"64MiB"`, `"0.5GiB"`: a number of bytes, with a binary unit if wanted.
pub fn parse_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1_u64,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return None,
    };
    let digits = digits.trim_end();
    if let Ok(count) = digits.parse::<u64>() {
        return count.checked_mul(unit).and_then(|bytes| usize::try_from(bytes).ok());
    }
    let bytes = digits.parse::<f64>().ok()? * unit as f64;
    // Above 2^53 a float no longer holds every byte count; nobody has such a workspace.
    (unit > 1 && (0.0..9e15).contains(&bytes)).then_some(bytes as usize)
}

/// Starts the log before the settings are read, which happens at the first call: a program may set variables until then.
pub(crate) fn start_log_early() {
    if !trust::has_more_rights_than_its_user() {
        let (settings, _) = Settings::read(|name| std::env::var_os(name).filter(|_| name == LOG));
        start_log(&settings.log);
    }
}

/// Starts the log; the first start counts.
fn start_log(filter: &str) {
    // The program may have its own logger. This one belongs to the copy of `log` inside our library.
    let mut logger = env_logger::Builder::new();
    logger.parse_filters(filter).format_timestamp(None).target(Target::Pipe(Box::new(StandardError)));
    let _ = logger.try_init();
}

/// The settings of this process; the first call reads the environment and sets up logging.
pub fn get() -> &'static Settings {
    static SETTINGS: OnceCell<Settings> = OnceCell::new();
    SETTINGS.get_or_init(|| {
        let is_off = trust::has_more_rights_than_its_user();
        let (settings, warnings) = if is_off {
            (Settings::without_files(), Vec::new())
        } else {
            Settings::read(|name| std::env::var_os(name))
        };
        start_log(&settings.log);
        let unknown = || unknown::warnings(std::env::vars_os().map(|(name, _)| name));
        for warning in warnings.into_iter().chain(if is_off { Vec::new() } else { unknown() }) {
            log::warn!("{warning}");
        }
        settings
    })
}

/// Panics if the tests requested a panic at this place (`UCUDNN_FAULT=panic:PLACE`).
pub fn fault_point(place: &str) {
    if let Some(Fault::Panic(wanted)) = &get().fault {
        assert!(wanted != place, "UCUDNN_FAULT asked for a panic at {place}");
    }
}
