//! `ucudnn plot`: pictures of reports, plans and batches of graphs, as SVG.

mod desirable;
pub mod division;
mod graphs;
pub mod layers;
mod scale;
mod svg;
mod totals;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::Failure;
use crate::decisions::{Decisions, Division, Policy};
use crate::naming;
use crate::output;
use crate::quantity;
use crate::report::lines;
use crate::sets::{self, Group};
use crate::text;
use crate::workload::{Costs, Workload, quoted};
use trust::Shown as _;

/// Draw reports, plans and batches of graphs as SVG pictures
///
/// A report comes from a run (`ucudnn run --report FILE`), a plan from `ucudnn plan --json`, a file of graphs from
/// `Graphs.save` of the Python package.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    # time per layer of two runs\n  \
    ucudnn plot layers wr.jsonl=WR wd.jsonl=WD -o layers.svg\n  \
    # how a total is divided among layers\n  \
    ucudnn plot division wd.jsonl -o division.svg\n  \
    # WD against WR, from the tuning database\n  \
    ucudnn plot totals alexnet.csv --batch 128 -o totals.svg\n  \
    # the fastest ways of one kernel, by their workspace\n  \
    ucudnn plot desirable alexnet.csv --layers conv2 --directions F -o conv2.svg\n  \
    # the levels of a batch of a dynamic net's graphs\n  \
    ucudnn plot graphs trees.json -o trees.svg")]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Draw a kernel's desirable set: time over workspace of the configurations that no other beats in both
    Desirable {
        #[command(flatten)]
        workload: Workload,
        #[command(flatten)]
        output: Target,
    },
    /// Draw the time of each layer, forward and backward, for several runs or plans side by side
    Layers {
        /// Reports and plans, each with an optional name for the picture
        #[arg(required = true, value_name = "FILE[=NAME]")]
        files: Vec<String>,
        /// Add the time without division, within the limits of the first file
        #[arg(long)]
        undivided: bool,
        /// A CSV file of the network that gives layers their names
        #[arg(long, value_name = "FILE")]
        network: Option<PathBuf>,
        #[command(flatten)]
        output: Target,
    },
    /// Draw Workspace Division against Workspace Reuse at equal totals, over a range of totals
    Totals {
        #[command(flatten)]
        workload: Workload,
        /// The smallest total [default: the least in which all layers run, or 1MiB]
        #[arg(long, value_name = "SIZE", value_parser = quantity::read_bytes)]
        from: Option<usize>,
        /// The largest total [default: where more brings nothing]
        #[arg(long, value_name = "SIZE", value_parser = quantity::read_bytes)]
        to: Option<usize>,
        #[command(flatten)]
        output: Target,
    },
    /// Draw how Workspace Division cuts its total among layers
    Division {
        /// A report, or a plan
        file: PathBuf,
        /// A CSV file of the network that gives layers their names
        #[arg(long, value_name = "FILE")]
        network: Option<PathBuf>,
        #[command(flatten)]
        output: Target,
    },
    /// Draw the levels of a batch: which vertices of its graphs run together
    Graphs {
        /// A JSON file: {"graphs": [GRAPH, ...]}. A graph is a list of vertices, a vertex the list of its children's
        /// numbers in the graph; -1 is an empty slot
        file: PathBuf,
        #[command(flatten)]
        output: Target,
    },
}

#[derive(Args)]
struct Target {
    /// The picture's file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The picture's title
    #[arg(long)]
    title: Option<String>,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    match &options.what {
        What::Desirable { workload, output } => {
            let picture = desirable_picture(&workload.costs(&[usize::MAX])?, output)?;
            write(&picture, output)
        }
        What::Layers { files, undivided, network, output } => {
            let mut sources = Vec::new();
            for file in files {
                sources.extend(read_sources(file)?);
            }
            name(sources.iter_mut().map(|source| &mut source.decisions), network.as_deref())?;
            if *undivided {
                sources.insert(0, undivided_source(&sources[0])?);
            }
            let title = output.title.clone().unwrap_or_else(|| "Time per layer".into());
            write(&layers::draw(&title, layers::Measure::Time, &sources), output)
        }
        What::Totals { workload, from, to, output } => {
            let costs = workload.costs(&[usize::MAX])?;
            let picture = totals_picture(&costs, *from, *to, output)?;
            write(&picture, output)
        }
        What::Division { file, network, output } => {
            let decisions = read(file)?;
            let found = decisions.into_iter().find(|decisions| matches!(decisions.policy, Policy::Division(_)));
            let mut found = found.ok_or_else(|| {
                format!(
                    "{}: nothing is divided in it; run with --total-workspace-size, or plan with --total",
                    file.shown()
                )
            })?;
            name(std::iter::once(&mut found), network.as_deref())?;
            let title = output.title.clone().unwrap_or_else(|| "Workspace Division".into());
            write(&division::draw(&title, &found), output)
        }
        What::Graphs { file, output } => {
            let batch = graphs::read(&text::read(file)?).map_err(|why| format!("{}: {why}", file.shown()))?;
            write(&graphs::draw(output.title.as_deref().unwrap_or("A batch by its levels"), &batch), output)
        }
    }
}

fn write(picture: &str, output: &Target) -> Result<(), Failure> {
    match &output.output {
        None => output::write(|output| output.write_all(picture.as_bytes()))?,
        Some(file) => {
            std::fs::write(file, picture).map_err(|error| format!("{}: {error}", file.shown()))?;
        }
    }
    Ok(())
}

/// Gives layers the names in a network file, if there is one.
fn name<'a>(decisions: impl Iterator<Item = &'a mut Decisions>, network: Option<&Path>) -> Result<(), Failure> {
    if let Some(file) = network {
        naming::name(decisions, file)?;
    }
    Ok(())
}

/// The decisions of `FILE` or `FILE=NAME`. An existing file with the whole name has precedence.
fn read_sources(argument: &str) -> Result<Vec<layers::Source>, String> {
    let (file, label) = match argument.rsplit_once('=') {
        Some((file, label)) if !Path::new(argument).exists() => (file, Some(label)),
        _ => (argument, None),
    };
    let decisions = read(Path::new(file))?;
    let several = decisions.len() > 1;
    let source = |decisions: Decisions| {
        let policy = label_of(&decisions);
        let label = match label {
            Some(label) if several => format!("{label} {policy}"),
            Some(label) => label.to_owned(),
            None => policy,
        };
        layers::Source { label, decisions }
    };
    Ok(decisions.into_iter().map(source).collect())
}

/// Reads a report or a plan. A plan may hold several decisions. A report has one or two: the division of Workspace
/// Division, and the decisions by problem.
fn read(file: &Path) -> Result<Vec<Decisions>, String> {
    let text = text::read(file)?;
    if let Some(plans) = plans_of(&text) {
        let wrong = |(number, why): (usize, String)| format!("{}: plan {}: {why}", file.shown(), number + 1);
        let read =
            plans.iter().enumerate().map(|(number, plan)| Decisions::from_json(plan).map_err(|why| (number, why)));
        return read.map(|read| read.map_err(wrong)).collect();
    }
    let report = lines::parse(file, &text)?;
    let decisions = report.decisions();
    if decisions.is_empty() {
        return Err(format!("{}: nothing was decided in it", file.shown()));
    }
    Ok(decisions)
}

/// The plans in a plan's text; `None` for any other text.
fn plans_of(text: &str) -> Option<Vec<Value>> {
    match serde_json::from_str(text).ok()? {
        Value::Object(mut whole) => match whole.remove("plans")? {
            Value::Array(plans) => Some(plans),
            _ => None,
        },
        _ => None,
    }
}

fn label_of(decisions: &Decisions) -> String {
    match decisions.policy {
        Policy::Reuse { limit: Some(limit) } => format!("WR {}", quantity::chosen_bytes(limit)),
        Policy::Reuse { limit: None } => "WR".into(),
        Policy::Division(Division { total, .. }) => format!("WD {}", quantity::chosen_bytes(total)),
    }
}

/// The same problems without division.
fn undivided_source(of: &layers::Source) -> Result<layers::Source, String> {
    let mut decisions = of.decisions.clone();
    for row in &mut decisions.rows {
        let undivided = row
            .undivided
            .clone()
            .ok_or_else(|| format!("--undivided: {} does not say what {} takes undivided", of.label, row.name()))?;
        (row.division, row.workspace, row.time) = (undivided.division, undivided.workspace, undivided.time);
    }
    Ok(layers::Source { label: "undivided".into(), decisions })
}

fn desirable_picture(costs: &Costs, output: &Target) -> Result<String, Failure> {
    let group = match &costs.groups[..] {
        [group] => group,
        groups => {
            let name =
                |group: &Group| format!("\n  --layers {} --directions {}", quoted(&group.layer), group.direction);
            let names: String = groups.iter().map(name).collect();
            return Err(Failure::Usage(format!("the picture is of one kernel; choose one of{names}")));
        }
    };
    Ok(desirable::draw(group, costs.times, output.title.as_deref()))
}

/// The number of totals in the picture.
const TOTALS: usize = 24;
/// The time limit for solving each total. A result that is not optimal then differs by less than a line's width.
const SOLVE: Duration = Duration::from_millis(500);

fn totals_picture(costs: &Costs, from: Option<usize>, to: Option<usize>, output: &Target) -> Result<String, Failure> {
    let groups = &costs.groups[..];
    let sum = |of: &dyn Fn(&Group) -> Option<usize>| -> usize {
        groups.iter().map(|group| of(group).unwrap_or(0) * group.count).sum()
    };
    let least = sum(&|group| group.choices.first().map(|choice| choice.workspace));
    let most = sum(&|group| group.choices.last().map(|choice| choice.workspace));
    let from = from.unwrap_or(least.max(1 << 20)).max(1);
    let to = to.unwrap_or(most.next_power_of_two()).max(from);
    let ratio = (to as f64 / from as f64).powf(1.0 / (TOTALS - 1) as f64);
    let mut totals: Vec<usize> = (0..TOTALS).map(|n| (from as f64 * ratio.powi(n as i32)) as usize).collect();
    *totals.last_mut().expect("some") = to;
    totals.dedup();

    let mut curves = [
        ("Workspace Division", Vec::new()),
        ("Workspace Reuse, one limit for all", Vec::new()),
        ("undivided, one limit for all", Vec::new()),
    ];
    for &total in &totals {
        match sets::divide(groups, total, SOLVE) {
            Ok(divided) => curves[0].1.push((total, divided.time())),
            Err(planner::DivisionError::TooSmall { .. }) => {}
            Err(error) => return Err(Failure::Failed(error.to_string())),
        }
        curves[1].1.extend(sets::reuse_time_within(groups, total, |group| &group.choices).map(|time| (total, time)));
        curves[2].1.extend(sets::reuse_time_within(groups, total, |group| &group.undivided).map(|time| (total, time)));
    }
    if curves[0].1.is_empty() {
        let why =
            format!("nothing runs within {}: the layers need {} at least", quantity::bytes(to), quantity::bytes(least));
        return Err(Failure::Failed(why));
    }
    let layers: usize = groups.iter().map(|group| group.count).sum();
    let lines = [
        format!("time of all {layers} kernels over the workspace of all together; times are {}", costs.times),
        "\"One limit for all\": the highest at which the kernels' workspaces add up to the total.".to_owned(),
    ];
    let curves = curves.map(|(name, points)| totals::Curve { name: name.to_owned(), points });
    let title = output.title.clone().unwrap_or_else(|| "Workspace Division and Workspace Reuse at equal totals".into());
    Ok(totals::draw(&title, &lines, &curves))
}
