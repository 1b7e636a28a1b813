//! `ucudnn db`: maintains the tuning database.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use convolution::problem::any::AnyProblem;
use norm::subject::Normalization;
use recurrent::Subject;
use serde_json::json;
use tuning::database::{Contents, Database, ProblemContents, Prune, SCHEMA, Texts, TimedContents};

use crate::Failure;
use crate::output;
use crate::quantity;
use crate::table::{Side, Table};
use crate::width::Width;
use crate::workload::Place;
use trust::Shown as _;

/// The names of families of subjects.
const RECURRENT: &str = recurrent::FAMILY.name;
const NORM: &str = norm::record::FAMILY.name;
const DEPTHWISE: &str = torch::depthwise::FAMILY.name;

/// The problems and networks whose results an import takes.
const TEXTS: Texts = Texts {
    problem: |text| AnyProblem::from_spec(text).map(AnyProblem::into_subject),
    subject: |family, text| match family {
        RECURRENT => Subject::from_spec(text).map(drop),
        NORM => Normalization::from_spec(text).map(drop),
        DEPTHWISE => text.parse::<torch::depthwise::subject::Subject>().map(drop),
        other => Err(format!("this ucudnn knows no family {other:?}")),
    },
};

/// List, export, import and prune the tuning database
///
/// The database keeps tuning results, so that nothing is measured twice. Results are valid for one environment: a
/// device, a driver and a cuDNN. Other processes may use the database at the same time.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    ucudnn db list --kernels\n  \
    # on one machine, and on another with the same GPU, driver and cuDNN\n  \
    ucudnn db export results.jsonl\n  \
    ucudnn db import results.jsonl\n  \
    ucudnn db prune --older-than 90d")]
pub struct Options {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    place: Place,
}

#[derive(Subcommand)]
enum What {
    /// Show the database's contents, one environment per line
    List {
        /// Also list every kernel
        #[arg(long)]
        kernels: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: Width,
    },
    /// Write the whole database as text, one JSON object per line
    Export {
        /// The file [default: standard output]
        file: Option<PathBuf>,
    },
    /// Add the results of exports; of two results for the same thing the newer stays
    Import {
        /// The exports (- for standard input)
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Remove results
    #[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
    Prune {
        /// Those of the environment with this number in `ucudnn db list`
        #[arg(long, value_name = "N", group = "which")]
        environment: Option<i64>,
        /// Those measured longer ago than this: 90d, 12h
        #[arg(long, value_name = "AGE", group = "which", value_parser = age)]
        older_than: Option<Duration>,
    },
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number of days or hours, as 90d or 12h".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

pub fn run(options: &Options) -> Result<(), Failure> {
    match &options.what {
        What::List { kernels, json, width } => list(&options.place.read()?, *kernels, *json, width.columns()),
        What::Export { file } => export(&options.place.read()?, file.as_ref()),
        What::Import { files } => import(&options.place.create()?, files),
        What::Prune { environment, older_than } => {
            let database = options.place.open()?;
            let before = |age: Duration| SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
            let all = [environment.map(Prune::Environment), older_than.map(|age| Prune::Before(before(age)))];
            if let Some(id) = environment
                && !database.contents()?.iter().any(|entry| entry.id == *id)
            {
                let file = database.path().shown();
                let why = format!("--environment {id}: {file} has none of this number; see `ucudnn db list`");
                return Err(Failure::Failed(why));
            }
            let mut removed = 0;
            for what in all.into_iter().flatten() {
                removed += database.prune(what)?;
            }
            let results = quantity::counted(removed, "result");
            output::print(&format!("Removed from {}: {results}\n", database.path().shown()))
        }
    }
}

fn list(database: &Database, with_problems: bool, json: bool, width: usize) -> Result<(), Failure> {
    let contents = database.contents()?;
    let mut listed = Vec::new();
    for entry in &contents {
        let of_entry = match with_problems {
            true => (database.problems(entry.id)?, database.timed(entry.id)?),
            false => (Vec::new(), Vec::new()),
        };
        listed.push((entry, of_entry));
    }
    if json {
        let environments: Vec<_> =
            listed.iter().map(|(entry, of)| entry_json(entry, with_problems.then_some(of))).collect();
        let whole = json!({ "file": database.path(), "schema": SCHEMA, "environments": environments });
        return output::print_json(&whole);
    }
    if contents.is_empty() {
        return output::print(&format!("{}: it holds no results yet\n", database.path().shown()));
    }
    let mut text = format!("{}\n\n", database.path().shown());
    let mut table = Table::new(&[
        ("", Side::Right),
        ("environment", Side::Left),
        ("kernels", Side::Right),
        ("measured", Side::Right),
        ("in place", Side::Right),
        ("RNNs, norms", Side::Right),
        ("last", Side::Left),
    ])
    .short(1, short_environment);
    for entry in &contents {
        table.row(vec![
            entry.id.to_string(),
            entry.environment.to_string(),
            entry.problems.to_string(),
            entry.outcomes.to_string(),
            entry.trials.to_string(),
            if entry.subjects > 0 { entry.subjects.to_string() } else { String::new() },
            entry.measured.map_or_else(String::new, |(_, last)| ago(last)),
        ]);
    }
    text += &table.lines(width);
    for (entry, (problems, _)) in listed.iter().filter(|(_, (problems, _))| !problems.is_empty()) {
        text += &format!("\nKernels of {}\n", entry.environment);
        let mut table =
            Table::new(&[("kernel, of one image", Side::Left), ("measured", Side::Right), ("sizes", Side::Left)])
                .short(0, quantity::short_shape);
        for problem in problems {
            table.row(vec![named(problem), problem.outcomes.to_string(), sizes(&problem.sizes)]);
        }
        text += &table.lines(width);
    }
    for (entry, (_, timed)) in &listed {
        let networks: Vec<_> = timed.iter().filter(|timed| timed.family == RECURRENT).collect();
        if !networks.is_empty() {
            text += &format!("\nRecurrent networks of {}\n", entry.environment);
            text += &timed_table(("network", "step µs"), 1e3, &networks).lines(width);
        }
        let of_calls = [
            (NORM, "Normalizations", "normalization"),
            (DEPTHWISE, "PyTorch's own depthwise convolutions", "depthwise convolution"),
        ];
        for (family, heading, subject) in of_calls {
            let calls: Vec<_> = timed.iter().filter(|timed| timed.family == family).collect();
            if !calls.is_empty() {
                text += &format!("\n{heading} of {}\n", entry.environment);
                text += &timed_table((subject, "ms"), 1.0, &calls).lines(width);
            }
        }
    }
    output::print(&text)
}

/// The fastest implementation of each subject, with its milliseconds times `scale`.
fn timed_table((subject, time): (&'static str, &'static str), scale: f64, timed: &[&TimedContents]) -> Table {
    let mut table = Table::new(&[
        (subject, Side::Left),
        ("timed", Side::Right),
        ("fastest", Side::Left),
        (time, Side::Right),
        ("our kernels", Side::Left),
    ])
    .optional([4]);
    for TimedContents { subject, version, timings, .. } in timed {
        let fastest = timings.first().and_then(|first| Some((first.what.shown().to_string(), first.time?)));
        let (what, time) = fastest.map_or_else(Default::default, |(what, time)| (what, quantity::digits(scale * time)));
        table.row(vec![named_network(subject), timings.len().to_string(), what, time, version.shown().to_string()]);
    }
    table
}

fn named_network(spec: &str) -> String {
    Subject::from_spec(spec).map_or_else(|_| spec.shown().to_string(), |subject| subject.to_string())
}

fn named(problem: &ProblemContents) -> String {
    AnyProblem::from_spec(&problem.spec)
        .map_or_else(|_| problem.spec.shown().to_string(), |problem| problem.to_string())
}

/// The text of an environment without its multiprocessors and without its brackets.
fn short_environment(text: &str) -> String {
    let words = text.split(", ").filter(|part| !part.ends_with("multiprocessors"));
    words.map(|part| part.split(" (").next().unwrap_or(part)).collect::<Vec<_>>().join(", ")
}

/// A few numbers, or their count and range.
fn sizes(sizes: &[usize]) -> String {
    match sizes {
        [first, .., last] if sizes.len() > 12 => format!("{} from {first} to {last}", sizes.len()),
        _ => sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

fn ago(moment: SystemTime) -> String {
    let since = SystemTime::now().duration_since(moment).unwrap_or_default().as_secs();
    match since {
        0..60 => "just now".into(),
        60..3_600 => format!("{} min ago", since / 60),
        3_600..86_400 => format!("{} h ago", since / 3_600),
        _ => format!("{} ago", quantity::counted((since / 86_400) as usize, "day")),
    }
}

fn entry_json(entry: &Contents, listed: Option<&(Vec<ProblemContents>, Vec<TimedContents>)>) -> serde_json::Value {
    let seconds = |moment: SystemTime| moment.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let problem = |problem: &ProblemContents| {
        json!({
            "kernel": named(problem), "spec": problem.spec, "sizes": problem.sizes, "outcomes": problem.outcomes,
            "batches": problem.batches, "last": problem.measured.map(seconds),
        })
    };
    let network = |network: &TimedContents| {
        let TimedContents { subject, version, timings, measured, .. } = network;
        let times = timings.iter().map(|known| json!({ "what": known.what, "step_ms": known.time }));
        json!({
            "rnn": named_network(subject), "spec": subject, "kernels": version, "times": times.collect::<Vec<_>>(),
            "last": seconds(*measured),
        })
    };
    let call = |call: &TimedContents| {
        let TimedContents { subject, version, timings, measured, .. } = call;
        let times = timings.iter().map(|known| json!({ "what": known.what, "time_ms": known.time }));
        json!({
            "spec": subject, "kernels": version, "times": times.collect::<Vec<_>>(), "last": seconds(*measured),
        })
    };
    let of_family = |family: &str, json: &dyn Fn(&TimedContents) -> serde_json::Value| {
        listed.map(|(_, timed)| timed.iter().filter(|timed| timed.family == family).map(json).collect::<Vec<_>>())
    };
    json!({
        "id": entry.id, "environment": entry.environment.to_string(),
        "kernels": entry.problems, "outcomes": entry.outcomes, "trials": entry.trials, "searches": entry.searches,
        "first": entry.measured.map(|(first, _)| seconds(first)), "last": entry.measured.map(|(_, last)| seconds(last)),
        "contents": listed.map(|(problems, _)| problems.iter().map(problem).collect::<Vec<_>>()),
        "timed": entry.subjects, "times": entry.timings,
        "networks": of_family(RECURRENT, &network), "norms": of_family(NORM, &call),
        "depthwise": of_family(DEPTHWISE, &call),
    })
}

fn export(database: &Database, file: Option<&PathBuf>) -> Result<(), Failure> {
    let Some(file) = file else {
        let mut text = Vec::new();
        database.export(&mut text)?;
        return output::write(|output| output.write_all(&text));
    };
    let opened = File::create(file).map_err(|error| format!("{}: {error}", file.shown()))?;
    let results = database.export(&mut BufWriter::new(opened))?;
    output::print(&format!("Written to {}: {}\n", file.shown(), quantity::counted(results, "result")))
}

fn import(database: &Database, files: &[PathBuf]) -> Result<(), Failure> {
    let (mut refused, mut said) = (0, String::new());
    for file in files {
        let name = file.shown().to_string();
        let imported = if name == "-" {
            database.import(io::stdin().lock(), "standard input", &TEXTS)?
        } else {
            let opened = File::open(file).map_err(|error| format!("{name}: {error}"))?;
            database.import(BufReader::new(opened), &name, &TEXTS)?
        };
        for why in &imported.refused {
            output::tell(&format!("{why}; left out"));
        }
        refused += imported.refused.len();
        let new = quantity::counted(imported.merged, "new result");
        said += &format!("{name}: {new}, {} known before\n", imported.kept);
        if imported.of_other_kernels > 0 {
            let others = quantity::counted(imported.of_other_kernels, "result");
            said += &format!("{name}: {others} of other versions of our kernels left out\n");
        }
    }
    output::print(&said)?;
    if refused > 0 {
        return Err(Failure::Failed(format!("not understood: {}", quantity::counted(refused, "line"))));
    }
    Ok(())
}
