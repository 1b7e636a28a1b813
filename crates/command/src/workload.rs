//! The convolution problems that a command works on, from a network's CSV file or a run's report, and their results in
//! the tuning database.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use convolution::problem::Algorithm;
use convolution::problem::any::AnyProblem;
use convolution::problem::graph::EngineConfiguration;
use cudnn_abi::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
use guest::settings::{self, Settings};
use planner::BatchSizePolicy;
use tuning::database::{self, Database, Environment};
use tuning::recall::recall;

use crate::Failure;
use crate::network::{self, Layer, Network, Shapes};
use crate::report::lines;
use crate::sets::Group;
use crate::text;
use crate::times::Kind;
use crate::times::Known;
use trust::Shown as _;

/// The most kernels that a message names.
const MOST_NAMED: usize = 10;

/// The selection of convolution problems.
#[derive(Args)]
pub struct Problems {
    /// A network's CSV file, as in examples/networks, or a run's report
    pub file: PathBuf,
    #[command(flatten)]
    pub shapes: Shapes,
}

/// The place of the tuning results.
#[derive(Args)]
#[command(next_help_heading = "Tuning results")]
pub struct Place {
    /// The tuning database [default: UCUDNN_DATABASE, or the one in the user's cache folder]
    #[arg(long, value_name = "FILE", global = true)]
    database: Option<PathBuf>,
    /// A second database, which is only read [default: UCUDNN_SEED_DATABASE]
    #[arg(long, value_name = "FILE", global = true)]
    seed_database: Option<PathBuf>,
}

/// The convolution problems, and the place of their costs.
#[derive(Args)]
pub struct Workload {
    #[command(flatten)]
    pub problems: Problems,
    #[command(flatten)]
    place: Place,
    /// The number of a device in `ucudnn db list` [default: the one measured last that knows the kernels]
    #[arg(long, value_name = "N", help_heading = "Tuning results")]
    environment: Option<i64>,
    /// Micro-batch sizes: powerOfTwo, all or undivided [default: powerOfTwo]
    #[arg(long, value_name = "POLICY", default_value_t = BatchSizePolicy::PowerOfTwo, hide_default_value = true, help_heading = "Tuning results")]
    pub sizes: BatchSizePolicy,
    /// Only deterministic algorithms
    #[arg(long, help_heading = "Tuning results")]
    pub deterministic: bool,
    /// Times to compare: alone or in-place [default: in-place if every kernel has these, else alone]
    #[arg(long, value_name = "KIND", help_heading = "Tuning results", hide_possible_values = true)]
    times: Option<Kind>,
}

/// The choices and costs of a command's problems.
pub struct Costs {
    pub groups: Vec<Group>,
    /// The one kind of times in all groups.
    pub times: Kind,
    /// Kernels with the micro-batch sizes that have no times.
    pub unmeasured: Vec<(String, Vec<usize>)>,
    /// The environment that measured them; `None` for a report, which has its own results.
    pub environment: Option<Environment>,
}

impl Problems {
    /// The layers, and the report if the file is one.
    pub fn read(&self) -> Result<(Network, Option<lines::Report>), Failure> {
        let text = text::read(&self.file)?;
        if !text.trim_start().starts_with('{') {
            return Ok((network::parse(&self.file, &text, &self.shapes)?, None));
        }
        let report = lines::parse(&self.file, &text)?;
        Ok((self.of_report(&report)?, Some(report)))
    }

    fn of_report(&self, report: &lines::Report) -> Result<Network, Failure> {
        let Shapes { batch, data_type, format, math, api, layers, directions, skip_first_bd } = &self.shapes;
        let of_layers = [batch.is_some(), data_type.is_some(), format.is_some(), math.is_some(), api.is_some()];
        if of_layers.contains(&true) || *skip_first_bd {
            let why = "--batch, --type, --format, --math, --api and --skip-first-bd are of a CSV file's layers";
            return Err(Failure::Usage(format!("{}: a report's kernels are complete: {why}", self.file.shown())));
        }
        let mut network = Network { name: String::new(), layers: Vec::<Layer>::new() };
        for row in report.decisions().iter().flat_map(|decisions| &decisions.rows) {
            let problem = AnyProblem::from_spec(&row.spec);
            let problem = problem.map_err(|why| format!("{}: {}: {why}", self.file.shown(), row.problem))?;
            match network.layers.iter_mut().find(|known| known.problem == problem) {
                Some(known) => known.count += row.count,
                None => network.layers.push(Layer { name: row.layer.clone(), problem, count: row.count }),
            }
        }
        let file = self.file.shown();
        if let Some(unknown) = layers.iter().find(|only| network.layers.iter().all(|layer| layer.name != **only)) {
            let mut names: Vec<&str> = network.layers.iter().map(|layer| layer.name.as_str()).collect();
            names.dedup();
            return Err(Failure::Failed(format!(
                "{file}: no layer is called {unknown}; there are {}",
                names.join(", ")
            )));
        }
        network.layers.retain(|layer| {
            (layers.is_empty() || layers.contains(&layer.name))
                && (directions.is_empty() || directions.contains(&layer.problem.direction()))
        });
        if network.layers.is_empty() {
            return Err(Failure::Failed(match (layers.is_empty(), directions.is_empty()) {
                (true, true) => format!("{file}: no kernel is in it"),
                _ => format!("{file}: no kernel of it is left by --layers and --directions"),
            }));
        }
        Ok(network)
    }
}

impl Place {
    /// The database's file, from the option or the settings.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.database {
            return Ok(path.clone());
        }
        let (settings, _) = Settings::read(|name| std::env::var(name).ok());
        let place = database::place(&settings.database, |name| std::env::var_os(name))?;
        place.ok_or_else(|| Failure::Usage("UCUDNN_DATABASE is off: name a file with --database".into()))
    }

    /// The seed database's file, from the option or the settings.
    pub fn seed(&self) -> Option<PathBuf> {
        let set = || std::env::var_os("UCUDNN_SEED_DATABASE").filter(|path| !path.is_empty()).map(PathBuf::from);
        self.seed_database.clone().or_else(set)
    }

    /// Opens the database for reading alone; a missing file is an error.
    pub fn read(&self) -> Result<Database, Failure> {
        // The log then warns of a seed that cannot be used.
        settings::get();
        Ok(Database::read(&self.existing()?, self.seed().as_deref())?)
    }

    /// Opens the database for writing; a missing file is an error.
    pub fn open(&self) -> Result<Database, Failure> {
        Ok(Database::open(&self.existing()?, self.seed().as_deref())?)
    }

    fn existing(&self) -> Result<PathBuf, Failure> {
        let path = self.path()?;
        if path.exists() {
            return Ok(path);
        }
        let why = "no such file; `ucudnn tune`, and programs that run on ucudnn, fill it";
        Err(Failure::Failed(format!("{}: {why}", path.shown())))
    }

    /// Opens the database for writing; creates the file and its folder if they are missing.
    pub fn create(&self) -> Result<Database, Failure> {
        let path = self.path()?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.shown()))?;
        }
        Ok(Database::open(&path, self.seed().as_deref())?)
    }
}

impl Workload {
    /// The choices for each problem, for plans within some limits. `Err` lists the problems without results, and the
    /// command that measures them.
    pub fn costs(&self, limits: &[usize]) -> Result<Costs, Failure> {
        let (network, report) = self.problems.read()?;
        let keep = |group: &Group| network.layers.iter().any(|layer| layer.problem.spec() == group.spec);
        if let Some(Ok((mut groups, times))) = report.as_ref().map(lines::Report::groups) {
            groups.retain(keep);
            if let Some(other) = self.times.filter(|wanted| *wanted != times) {
                let (file, other) = (self.problems.file.shown(), other.name());
                let why = format!("--times {other}: the times in {file} are {times}");
                return Err(Failure::Usage(why));
            }
            return Ok(Costs { groups, times, unmeasured: Vec::new(), environment: None });
        }
        let database = self.place.read()?;
        let environment = self.environment(&database, &network)?;
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for layer in &network.layers {
            let of_layer = self.known(&database, &environment, layer, limits);
            if of_layer.alone.choices.is_empty() {
                unknown.push(layer);
            } else {
                known.push(of_layer);
            }
        }
        if unknown.is_empty() {
            let times = self.times_of(&known)?;
            let sizes = known.iter().filter(|known| !known.unmeasured.is_empty());
            let unmeasured = sizes.map(|known| (known.alone.name(), known.unmeasured.clone())).collect();
            let groups = known.into_iter().map(|known| known.into_group(times)).collect();
            return Ok(Costs { groups, times, unmeasured, environment: Some(environment) });
        }
        let mut why = format!(
            "{}: {} of {} kernels have not been measured on {environment}:",
            database.path().shown(),
            unknown.len(),
            network.layers.len()
        );
        for layer in unknown.iter().take(MOST_NAMED) {
            let _ = write!(why, "\n  {} {}", layer.name, layer.problem);
        }
        if let Some(more @ 1..) = unknown.len().checked_sub(MOST_NAMED) {
            let _ = write!(why, "\n  … and {more} more");
        }
        let _ = write!(why, "\nMeasure them on that device with\n  {}", self.tune_line(&network, &unknown));
        Err(Failure::Failed(why))
    }

    /// The kind of times that the options request, or the best that all problems have.
    fn times_of(&self, known: &[Known]) -> Result<Kind, Failure> {
        let Some(wanted) = self.times else {
            return Ok(if known.iter().all(|known| known.is_tried) { Kind::InPlace } else { Kind::Alone });
        };
        let lacking: Vec<_> = known.iter().filter(|known| known.in_place.choices.is_empty()).collect();
        if wanted != Kind::InPlace || lacking.is_empty() {
            return Ok(wanted);
        }
        let mut why = format!("--times in-place: {} of {} kernels have no such times:", lacking.len(), known.len());
        for known in lacking.iter().take(MOST_NAMED) {
            let _ = write!(why, "\n  {} {}", known.alone.name(), known.alone.problem);
        }
        if let Some(more @ 1..) = lacking.len().checked_sub(MOST_NAMED) {
            let _ = write!(why, "\n  … and {more} more");
        }
        Err(Failure::Failed(why))
    }

    fn known(&self, database: &Database, environment: &Environment, layer: &Layer, limits: &[usize]) -> Known {
        let group = Group {
            layer: layer.name.clone(),
            direction: layer.problem.direction().to_string(),
            problem: layer.problem.to_string(),
            spec: layer.problem.spec(),
            count: layer.count,
            choices: Vec::new(),
            undivided: Vec::new(),
        };
        match &layer.problem {
            AnyProblem::Convolution(problem) => {
                let admits = |algorithm: &Algorithm| !self.deterministic || algorithm.deterministic;
                Known::new(group, &recall(database, environment, problem, self.sizes, admits), limits)
            }
            AnyProblem::Graph(problem) => {
                let admits = |engine: &EngineConfiguration| {
                    !self.deterministic || !engine.numerics.contains(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
                };
                Known::new(group, &recall(database, environment, problem, self.sizes, admits), limits)
            }
        }
    }

    /// The requested environment, or the latest one that has results for any of the problems.
    fn environment(&self, database: &Database, network: &Network) -> Result<Environment, Failure> {
        let file = database.path().shown();
        let contents = database.contents()?;
        if let Some(id) = self.environment {
            let found = contents.iter().find(|entry| entry.id == id).map(|entry| entry.environment.clone());
            return found.ok_or_else(|| {
                Failure::Usage(format!("--environment {id}: {file} has none of this number; see `ucudnn db list`"))
            });
        }
        let knows = |environment: &Environment| {
            network.layers.iter().any(|layer| match &layer.problem {
                AnyProblem::Convolution(problem) => !database.measured(environment, problem).is_empty(),
                AnyProblem::Graph(problem) => !database.measured(environment, problem).is_empty(),
            })
        };
        let found = contents.iter().find(|entry| knows(&entry.environment)).or(contents.first());
        found.map(|entry| entry.environment.clone()).ok_or_else(|| {
            let layers: Vec<_> = network.layers.iter().collect();
            let line = self.tune_line(network, &layers);
            Failure::Failed(format!("{file}: it holds no results. Measure the kernels with\n  {line}"))
        })
    }

    /// The command line that measures the problems without results.
    fn tune_line(&self, network: &Network, unknown: &[&Layer]) -> String {
        let Problems { file, shapes } = &self.problems;
        let mut line = format!("ucudnn tune {}", quoted(file.shown()));
        if let Some(batch) = shapes.batch {
            let _ = write!(line, " --batch {batch}");
        }
        let mut named = |option: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = write!(line, " --{option} {value}");
            }
        };
        named("type", shapes.data_type.map(network::name_of));
        named("format", shapes.format.map(network::name_of));
        named("math", shapes.math.map(network::name_of));
        named("api", shapes.api.map(network::name_of));
        let mut layers: Vec<_> = unknown.iter().map(|layer| layer.name.as_str()).collect();
        layers.dedup();
        let all = network.layers.iter().all(|layer| layers.contains(&layer.name.as_str()));
        named("layers", (!all && !network.name.is_empty()).then(|| quoted(layers.join(","))));
        let directions: Vec<_> = shapes.directions.iter().map(ToString::to_string).collect();
        named("directions", (!directions.is_empty()).then(|| directions.join(",")));
        named("sizes", (self.sizes != BatchSizePolicy::PowerOfTwo).then(|| self.sizes.to_string()));
        named("database", self.place.database.as_deref().map(|path| quoted(path.shown())));
        line
    }
}

/// A text quoted for a shell.
pub fn quoted(text: impl std::fmt::Display) -> String {
    let text = text.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
