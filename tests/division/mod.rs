//! Scenarios of training (`tests/c/scenario.c`) under Workspace Division, and the requirements on every report of one.

mod faults;
mod graph;
mod legacy;
mod steered;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;

use crate::hostdnn::{self, Build, Program, is_divided, report};
use crate::programs::Outcome;

/// Problems of the network that `open=BATCH` opens: four layers of three directions.
pub const LAYERS: usize = 12;
/// Seconds that let a problem's tuning finish early; from then on the database knows the problem.
const ENOUGH: (&str, &str) = ("UCUDNN_TUNE_SECONDS", "5");
/// hostdnn's clock counts work: plans are the same on a busy machine.
const COUNTED: (&str, &str) = ("HOSTDNN_CLOCK", "1");
const SOURCES: [&str; 8] = [
    "scenario.c",
    "network.c",
    "network_calls.c",
    "network_graph.c",
    "allocations.c",
    "kernel.c",
    "kernel_calls.c",
    "graph.c",
];

/// Makes planning slow, and logs its progress.
pub const SLOWLY: [(&str, &str); 3] =
    [("UCUDNN_DATABASE", "off"), ("UCUDNN_TUNE_SECONDS", "10"), ("UCUDNN_LOG", "info")];

/// Processes that exit, or return from main, while a background thread plans for their layers end well and do not wait
/// for the plan: of a network that is trained `iterations` times, then more often each round.
pub fn may_end_while_planned_for(network: &str, iterations: usize, total: (&str, &str)) {
    let stage = Stage::plain();
    let mut under_way = 0;
    for round in 0..20 {
        let leaving = if round % 2 == 0 { " leave" } else { "" };
        let steps = format!("{network} train={}{leaving}", iterations + round / 4);
        let run = stage.run(&steps, &[&SLOWLY, [total].as_slice()].concat());
        let begun = run.outcome.stderr.contains("Workspace Division: kernel 1 of");
        let ended = run.events("divided").any(|line| line["layers"].as_array().unwrap().len() == LAYERS);
        under_way += usize::from(begun && !ended);
        assert!(!run.outcome.stderr.contains("ERROR"), "{}", run.outcome.stderr);
    }
    assert!(under_way >= 5, "planning was under way in {under_way} of 20 processes only");
}

/// Returns random numbers below the argument, from the tests' seed.
pub fn random() -> impl FnMut(u64) -> u64 {
    let mut state = hostdnn::seed();
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    }
}

/// The program, and a database of its problems' times.
pub struct Stage {
    program: Program,
    database: PathBuf,
}

impl Stage {
    /// The program that knows only cudnn.h. Tests that run at once share one.
    pub fn plain() -> Arc<Self> {
        static SHARED: Mutex<Weak<Stage>> = Mutex::new(Weak::new());
        shared(&SHARED, || Program::build("scenario", Build { sources: &SOURCES, ..Build::default() }))
    }

    /// The program that also uses ucudnn.h. It is linked with libucudnn.so, not preloaded.
    pub fn steered() -> Arc<Self> {
        static SHARED: Mutex<Weak<Stage>> = Mutex::new(Weak::new());
        let sources: Vec<_> = SOURCES.into_iter().chain(["steering.c"]).collect();
        let options = ["-DSTEERED"];
        shared(&SHARED, || Program::build("steered", Build { sources: &sources, options: &options, with_ucudnn: true }))
    }

    /// The path of a file that no other run has.
    pub fn new_file(&self, name: &str) -> String {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.program.file(&format!("{name}-{number}")).to_str().unwrap().to_owned()
    }

    /// Runs a scenario with libucudnn.so, which must end well. It has the shared database and a report, unless the
    /// variables say otherwise.
    pub fn run(&self, steps: &str, variables: &[(&str, &str)]) -> Run {
        let path = self.new_file("report");
        let steps = format!("report={path} {steps}");
        let database = ("UCUDNN_DATABASE", self.database.to_str().unwrap());
        let defaults = [ENOUGH, COUNTED, database, ("UCUDNN_REPORT", path.as_str())];
        let variables: Vec<_> = defaults.iter().chain(variables).copied().collect();
        let linked = self.program.file("steered").exists();
        let preloads = variables.iter().any(|(name, _)| *name == "LD_PRELOAD");
        let outcome =
            self.program.end(&steps.split(' ').collect::<Vec<_>>(), &variables, !linked && !preloads).succeeded();
        Run { outcome, lines: report(path.as_ref()), steps: format!("{steps}, {variables:?}") }
    }
}

fn shared(shared: &Mutex<Weak<Stage>>, program: impl Fn() -> Program) -> Arc<Stage> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let program = program();
        let database = program.file("database");
        let stage = Arc::new(Stage { program, database });
        *shared = Arc::downgrade(&stage);
        stage
    })
}

/// The output and report of a scenario.
pub struct Run {
    pub outcome: Outcome,
    pub lines: Vec<Value>,
    /// The scenario's steps, for messages.
    pub steps: String,
}

impl Run {
    pub fn events<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["event"] == event)
    }

    /// The number of times that the report has an event.
    pub fn count(&self, event: &str) -> usize {
        self.events(event).count()
    }

    /// The workspaces that were reported to the program, in bytes.
    pub fn told(&self) -> Vec<usize> {
        let lines = self.outcome.stdout.lines().filter_map(|line| line.strip_prefix("told "));
        lines.map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect()
    }

    /// All divisions, each checked against the promises of every division.
    pub fn divisions(&self) -> Vec<Divided> {
        let all: Vec<_> = self.events("divided").map(Divided::read).collect();
        for divided in &all {
            divided.check(&self.steps);
        }
        all
    }

    /// The only division.
    pub fn division(&self) -> Divided {
        let mut all = self.divisions();
        assert_eq!(all.len(), 1, "{}\n{}", self.steps, self.outcome.stderr);
        all.remove(0)
    }

    /// The program got 0 as every workspace, and no message was printed.
    pub fn is_silent_and_told_nothing(&self) -> &Self {
        assert_eq!(self.outcome.stderr, "", "{}", self.steps);
        assert!(self.told().iter().all(|told| *told == 0), "{}\n{}", self.steps, self.outcome.stdout);
        self
    }

    /// Nothing got any workspace, and each problem is named in one message. Returns the number of messages.
    pub fn got_no_workspace(&self) -> usize {
        assert!(self.told().iter().all(|told| *told == 0), "{}", self.steps);
        assert!(self.divisions().iter().all(|division| division.arena == 0), "{}", self.steps);
        let mut spoken_of = HashSet::new();
        for message in self.outcome.stderr.lines() {
            let (kernel, why) = message.split_once(" gets no workspace: ").expect(message);
            assert!(spoken_of.insert(kernel) && why.ends_with(" bytes cannot be allocated"), "{message}");
        }
        spoken_of.len()
    }

    /// `UCUDNN_CHECK=1`: every call in our memory kept to its part of it, and every compared result was right.
    pub fn is_clean(&self) -> &Self {
        for kept in self.events("kept") {
            let clean = kept["overwritten"].is_null() && kept["known"] == true;
            assert!(clean, "{}: {kept}", self.steps);
        }
        for checked in self.events("checked") {
            let error = checked["error"].as_f64().unwrap_or_else(|| panic!("{}: {checked}", self.steps));
            assert!(error <= checked["tolerance"].as_f64().unwrap(), "{}: {checked}", self.steps);
        }
        self
    }

    /// `UCUDNN_CHECK=1`: `calls` calls ran in segments and kept to them, and each was compared.
    pub fn kept(&self, calls: usize) -> &Self {
        assert_eq!((self.count("kept"), self.count("checked")), (calls, calls), "{}", self.steps);
        self.is_clean()
    }

    /// The most bytes of device memory that were allocated at once.
    pub fn peak(&self) -> usize {
        self.outcome.line("peak").parse().unwrap()
    }
}

/// A report's line about a division.
pub struct Divided {
    line: Value,
    pub total: usize,
    pub arena: usize,
    /// Layers with a segment each.
    pub layers: Vec<Value>,
}

impl Divided {
    fn read(line: &Value) -> Self {
        let number = |name: &str| line[name].as_u64().unwrap() as usize;
        let layers = line["layers"].as_array().unwrap().clone();
        Self { line: line.clone(), total: number("total"), arena: number("arena"), layers }
    }

    /// First byte and size of each segment.
    pub fn segments(&self) -> Vec<(usize, usize)> {
        let number = |layer: &Value, name: &str| layer[name].as_u64().unwrap() as usize;
        self.layers.iter().map(|layer| (number(layer, "offset"), number(layer, "workspace"))).collect()
    }

    /// Returns whether a layer runs in more than one micro-batch.
    pub fn any_in_parts(&self) -> bool {
        self.layers.iter().any(is_divided)
    }

    /// The number of layers that run without a segment.
    pub fn ready(&self) -> usize {
        self.line["ready"].as_array().unwrap().len()
    }

    fn check(&self, steps: &str) {
        let Self { line, total, arena, layers } = self;
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(arena <= total, "{steps}: {arena} bytes of {total}");
        assert!(number("time_ms") <= number("equal_shares_ms") * (1.0 + 1e-9), "{steps}: {line}");
        let mut segments = self.segments();
        let end = segments.iter().map(|(offset, bytes)| offset + bytes).max().unwrap_or(0);
        assert_eq!(end, *arena, "{steps}: {segments:?}");
        assert!(segments.iter().all(|(offset, _)| offset % 256 == 0), "{steps}: {segments:?}");
        if line["one_stream"] == true {
            assert!(segments.iter().all(|(offset, _)| *offset == 0), "{steps}: {segments:?}");
        } else {
            let whole: usize = segments.iter().map(|(_, bytes)| bytes.next_multiple_of(256)).sum();
            assert!(whole <= *total, "{steps}: {whole} bytes of {total}");
            segments.retain(|(_, bytes)| *bytes > 0);
            segments.sort_unstable();
            for pair in segments.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{steps}: {pair:?} overlap");
            }
        }
        for layer in layers {
            let kernel = layer["kernel"].as_str().unwrap();
            let batch: u64 = kernel.split(' ').nth(2).unwrap().split('x').next().unwrap().parse().unwrap();
            let parts = layer["parts"].as_array().unwrap();
            let sum: u64 =
                parts.iter().map(|part| part["count"].as_u64().unwrap() * part["batch"].as_u64().unwrap()).sum();
            assert_eq!(sum, batch, "{steps}: {layer}");
        }
    }
}
