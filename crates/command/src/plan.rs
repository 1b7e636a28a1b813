//! `ucudnn plan`: plans a network from the tuning database without running anything, or shows the workspaces of cuDNN's
//! engines on a device that need not be present.

mod engines;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use planner::DivisionError;
use serde_json::{Value, json};

use crate::Failure;
use crate::decisions::{Decisions, Division, Policy};
use crate::network::Layer;
use crate::output;
use crate::quantity::{self, ratio};
use crate::report::part_of;
use crate::sets::{self, Group};
use crate::table::{Side, Table};
use crate::times::{self, Kind};
use crate::width::Width;
use crate::workload::{Costs, Workload};

/// The time limit for solving one division.
const SOLVE: Duration = Duration::from_secs(10);

/// Plan a network from the tuning database: what would run under a limit, and how fast
///
/// Workspace Reuse (--limit) plans each kernel within the same limit; Workspace Division (--total) divides a total
/// among all layers. Nothing is run, and neither a GPU nor cuDNN is needed. Kernels that the database lacks are listed,
/// with the command that measures them.
///
/// A plan compares times of one kind: of micro-batches that ran alone, added up, or of whole mini-batches in place, which
/// the end of a search takes for the best configurations. --times chooses, and the plan says which it used.
///
/// With --device, cuDNN lists the engines of its graph API for each kernel, with their workspaces at each micro-batch
/// size, and the engines that each limit admits. Nothing is timed. The file holds cuDNN's device properties of the GPU,
/// so the GPU itself is not needed.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    ucudnn plan examples/networks/alexnet.csv --batch 128 --limit 8MiB,64MiB,none\n  \
    ucudnn plan examples/networks/resnet50.csv --total 512MiB --json > plan.json\n  \
    ucudnn plot division plan.json -o division.svg\n  \
    # the kernels of a run\n  \
    ucudnn plan run.jsonl --total 120MiB\n  \
    # cuDNN's engines on a GPU that need not be here\n  \
    ucudnn plan --device examples/devices/h200.json --type half --limit 0,64MiB \\\n      \
    examples/networks/resnet18.csv")]
pub struct Options {
    #[command(flatten)]
    workload: Workload,

    /// Workspace Reuse at these limits of each kernel
    #[arg(long, value_name = "SIZE|none,…", value_delimiter = ',', value_parser = limit)]
    limit: Vec<usize>,

    /// Workspace Division of these totals
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = quantity::read_bytes)]
    total: Vec<usize>,

    /// Only list the kernels
    #[arg(long, conflicts_with_all = ["limit", "total"])]
    kernels: bool,

    /// Show cuDNN's engines for the kernels on the device with these properties, a JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["total", "kernels", "environment"])]
    device: Option<PathBuf>,

    /// The cuDNN for --device, if it is not found automatically
    #[arg(long, value_name = "FILE", requires = "device")]
    cudnn_library: Option<PathBuf>,

    /// Print JSON, for `ucudnn plot` and other programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    width: Width,
}

fn limit(text: &str) -> Result<usize, String> {
    if text == "none" {
        return Ok(usize::MAX);
    }
    quantity::read_bytes(text).map_err(|why| format!("{why}, or none"))
}

pub fn run(options: &Options) -> Result<(), Failure> {
    if options.kernels {
        return list(options);
    }
    if let Some(device) = &options.device {
        return engines::run(options, device);
    }
    if options.limit.is_empty() && options.total.is_empty() {
        return Err(Failure::Usage("give --limit (Workspace Reuse) or --total (Workspace Division), or both".into()));
    }
    let limits: Vec<usize> = options.limit.iter().chain(&options.total).copied().collect();
    let costs = options.workload.costs(&limits)?;
    let mut plans = Vec::new();
    for &limit in &options.limit {
        plans.push(sets::reuse(&costs.groups, limit)?);
    }
    for &total in &options.total {
        plans.push(sets::divide(&costs.groups, total, SOLVE).map_err(|error| refused(total, &error))?);
    }
    if options.json {
        return output::print_json(&json_of(&costs, &plans));
    }
    let mut text = costs.environment.as_ref().map_or_else(String::new, |on| format!("Measured on {on}\n"));
    text += &format!("Times are {}.\n", costs.times);
    if !costs.unmeasured.is_empty() {
        text += "Micro-batch sizes without times, which no plan uses:\n";
        text += &times::unmeasured_text(&costs.unmeasured);
    }
    let width = options.width.columns();
    for plan in &plans {
        text += &format!("\n{}{}", part_of(plan, None).text(width), undivided_note(plan, &costs));
    }
    if plans.len() > 1 {
        text += &format!("\n{}", compared(&plans, width));
    }
    output::print(&text)
}

/// Lists the convolution problems of the file.
fn list(options: &Options) -> Result<(), Failure> {
    let (network, _) = options.workload.problems.read()?;
    if options.json {
        let problem = |Layer { name, problem, count }: &Layer| json!({ "layer": name, "count": count, "kernel": problem.to_string(), "spec": problem.spec() });
        let kernels: Vec<_> = network.layers.iter().map(problem).collect();
        return output::print_json(&json!({ "kernels": kernels }));
    }
    let mut table = Table::new(&[("layer", Side::Left), ("layers", Side::Right), ("kernel", Side::Left)])
        .short(2, quantity::short_shape);
    for Layer { name, problem, count } in &network.layers {
        table.row(vec![name.clone(), count.to_string(), problem.to_string()]);
    }
    output::print(&table.lines(options.width.columns()))
}

fn refused(total: usize, error: &DivisionError) -> Failure {
    let total = quantity::chosen_bytes(total);
    Failure::Failed(match error {
        DivisionError::TooSmall { least } => {
            format!(
                "--total {total} is too small: the layers need {} at least ({least} bytes)",
                quantity::bytes(*least)
            )
        }
        other => format!("--total {total}: {other}"),
    })
}

/// Says why kernels have no undivided time in a plan.
fn undivided_note(plan: &Decisions, costs: &Costs) -> String {
    let lacking = plan.rows.iter().filter(|row| row.undivided.is_none());
    let (mut unmeasured, mut too_large) = (Vec::new(), Vec::new());
    for row in lacking {
        let is_known = |group: &&Group| group.spec == row.spec && !group.undivided.is_empty();
        if costs.groups.iter().any(|group| is_known(&group)) { &mut too_large } else { &mut unmeasured }
            .push(row.name());
    }
    let mut note = String::new();
    if !unmeasured.is_empty() {
        let times = if costs.times == Kind::InPlace { " in place" } else { "" };
        note += &format!("No undivided time: the whole mini-batch has no time{times} for {}.\n", unmeasured.join(", "));
    }
    if !too_large.is_empty() {
        note += &format!("No undivided time: no undivided way fits for {}.\n", too_large.join(", "));
    }
    note
}

fn json_of(costs: &Costs, plans: &[Decisions]) -> Value {
    let plans: Vec<_> = plans.iter().map(Decisions::to_json).collect();
    let environment = costs.environment.as_ref().map(ToString::to_string);
    let unmeasured = costs.unmeasured.iter().map(|(kernel, sizes)| json!({ "kernel": kernel, "sizes": sizes }));
    let unmeasured: Vec<_> = unmeasured.collect();
    let times = costs.times.name();
    json!({ "environment": environment, "times": times, "unmeasured": unmeasured, "plans": plans })
}

/// One table of all plans.
fn compared(plans: &[Decisions], width: usize) -> String {
    let mut table = Table::new(&[
        ("plan", Side::Left),
        ("workspace", Side::Right),
        ("largest", Side::Right),
        ("ms", Side::Right),
        ("undivided", Side::Right),
        ("ratio", Side::Right),
    ]);
    for plan in plans {
        let undivided = plan.undivided_time();
        table.row(vec![
            match plan.policy {
                Policy::Reuse { limit: Some(usize::MAX) | None } => "WR, no limit".into(),
                Policy::Reuse { limit: Some(limit) } => format!("WR, {} each", quantity::chosen_bytes(limit)),
                Policy::Division(Division { total, .. }) => format!("WD, {} in all", quantity::chosen_bytes(total)),
            },
            quantity::bytes(plan.workspace()),
            quantity::bytes(plan.largest()),
            quantity::digits(plan.time()),
            undivided.map_or_else(String::new, quantity::digits),
            undivided.map_or_else(String::new, |undivided| ratio(undivided, plan.time())),
        ]);
    }
    table.lines(width)
}
