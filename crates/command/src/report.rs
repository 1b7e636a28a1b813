//! `ucudnn report`: the choices of a run, and the time that they save.

pub mod lines;
pub mod page;
pub mod steps;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::Failure;
use crate::contests::{self, Contest, Contested};
use crate::decisions::{Decision, Decisions, Division, Policy, merged};
use crate::naming;
use crate::output;
use crate::part::Part;
use crate::quantity::{self, ratio};
use crate::table::{Side, Table};
use crate::text;
use crate::vertex_net::VertexNet;
use crate::width::Width;
use lines::Divided;
use trust::Shown as _;

/// Show what a run chose for each convolution, and what that saves
///
/// The file comes from a program that ran with UCUDNN_REPORT=FILE, or from `ucudnn run --report FILE`. For every kernel
/// (a convolution of one layer in one direction: F forward, BD backward data, BF backward filter) the table shows the
/// division of the mini-batch, such as `2×64[FFT]` for two micro-batches of 64 images with the algorithm FFT, its
/// workspace and its time; beside each, that of what plain cuDNN would run, if the run knows it; and the fastest way
/// without division within the same limit. If the program repeated its steps, the first table has the time of one, and an
/// estimate of what it would be plain. For every recurrent
/// network it shows cuDNN or the configuration of our kernels that runs it, why, and the time of a time step (in training
/// the sum of a pass's calls, each once); for every batch normalization likewise, with the time of a call.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  ucudnn run --workspace-limit 64MiB --report run.jsonl ./train\n  \
    ucudnn report run.jsonl --network examples/networks/alexnet.csv\n  \
    ucudnn report run.jsonl --html run.html")]
pub struct Options {
    /// The report (- for standard input)
    file: PathBuf,

    /// A CSV file of the network that gives layers their names
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,

    /// Print JSON: the contents of the tables, and the totals
    #[arg(long)]
    json: bool,

    /// Write one page for a browser to this file: the tables, and pictures of the times, of the workspaces and of a division
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,

    #[command(flatten)]
    width: Width,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let text = text::read(&options.file)?;
    let report = lines::parse(&options.file, &text)?;
    let mut decisions = report.decisions();
    if let Some(file) = &options.network {
        naming::name(decisions.iter_mut(), file)?;
    }
    if options.json {
        return output::print_json(&json_of(&report, &decisions));
    }
    let (parts, notes) = contents(&report, &decisions);
    if let Some(file) = &options.html {
        let page = page::of(&options.file, &parts, &decisions, &notes);
        std::fs::write(file, page).map_err(|error| format!("--html {}: {error}", file.shown()))?;
        return output::print(&format!("Written to {}: open it in a browser\n", file.shown()));
    }
    let width = options.width.columns();
    let mut texts: Vec<String> = parts.iter().map(|part| part.text(width)).collect();
    texts.extend(Some(notes).filter(|notes| !notes.is_empty()));
    output::print(&texts.join("\n"))
}

/// What a report shows: its parts, and sentences behind them.
pub fn contents(report: &lines::Report, decisions: &[Decisions]) -> (Vec<Part>, String) {
    let mut parts: Vec<Part> = decisions.iter().map(|decisions| part_of(decisions, report.divided.as_ref())).collect();
    parts.extend(contests::parts_of(&report.contests));
    let is_decided = !parts.is_empty() || !report.nets.is_empty() || !report.graphs.is_empty();
    parts.splice(..0, report.steps.part());
    let mut notes = also(report);
    if !is_decided && !report.exploring.is_empty() {
        notes.insert_str(0, "Nothing was decided yet: the run was too short.\n");
    } else if !is_decided && report.switched_off == 0 {
        let what = "no convolution that can be divided, and nothing else that ours can run";
        notes.insert_str(0, &format!("Nothing was decided: the program ran {what}, or has not come to it.\n"));
    }
    (parts, notes)
}

fn json_of(report: &lines::Report, decisions: &[Decisions]) -> Value {
    let (checked, off) = report.checked;
    let plans: Vec<_> = decisions.iter().map(Decisions::to_json).collect();
    let of_kind = |kind| {
        let contests = report.contests.iter().filter(|contest| contest.kind == kind);
        contests.map(Contest::to_json).collect::<Vec<_>>()
    };
    json!({
        "plans": plans, "arena": report.divided.as_ref().map(|divided| divided.arena),
        "divisions": report.divisions, "timed": report.timed.len(), "checked": checked, "off": off,
        "rnns": of_kind(Contested::Inference), "trained": of_kind(Contested::Training), "norms": of_kind(Contested::Norm),
        "depthwise": of_kind(Contested::DepthwiseConvolution),
        "graphs": report.graphs.iter().map(|(graph, why)| json!({ "graph": graph, "why": why })).collect::<Vec<_>>(),
        "nets": report.nets.iter().map(VertexNet::to_json).collect::<Vec<_>>(),
        "steps": report.steps.to_json(), "exploring": report.exploring.len(),
        "switched_off": report.switched_off, "unknown": report.unknown,
    })
}

/// A report's other results.
fn also(report: &lines::Report) -> String {
    let mut said: String = report.nets.iter().map(|net| format!("{net}: {}\n", net.chosen)).collect();
    said.extend(report.graphs.iter().map(|(graph, why)| format!("{graph}: cuDNN: {why}\n")));
    if !report.timed.is_empty() {
        let measured = quantity::counted(report.timed.len(), "micro-configuration");
        said += &format!("Measured: {measured}.\n");
    }
    if !report.exploring.is_empty() {
        let kernels = quantity::counted(report.exploring.len(), "kernel");
        said += &format!("Not explored to the end: {kernels}. A further run goes on from there.\n");
    }
    match report.checked {
        (0, _) => {}
        (checked, 0) => {
            let results = quantity::counted(checked, "result");
            said += &format!("Checked against the undivided convolution: {results}, all within the tolerance.\n")
        }
        (checked, off) => {
            let results = quantity::counted(checked, "result");
            said += &format!("Checked against the undivided convolution: {results}, of which {off} DIFFER.\n")
        }
    }
    match report.kept {
        (0, _) => {}
        (kept, off) => {
            let calls = quantity::counted(kept, "call");
            let found =
                if off == 0 { "all within their segments".into() } else { format!("of which {off} WROTE OUTSIDE") };
            said += &format!("Watched in the arena: {calls}, {found}.\n")
        }
    }
    if let Some(Divided { ready: ready @ 1.., .. }) = report.divided {
        said += &format!("Without a segment: {}. They run what needs none.\n", quantity::counted(ready, "layer"));
    }
    if report.switched_off > 0 {
        let programs = quantity::counted(report.switched_off, "program");
        said += &format!("Switched off by UCUDNN=off: {programs}. Every call went to cuDNN.\n");
    }
    if report.unknown > 0 {
        said += &format!("{} of events that this version does not know.\n", quantity::counted(report.unknown, "line"));
    }
    said
}

/// Decisions as a heading, a table and a summary.
pub fn part_of(decisions: &Decisions, divided: Option<&Divided>) -> Part {
    let merged = merged(&decisions.rows);
    // In a narrow table the undivided way has its time alone, or gives way to plain cuDNN's time.
    let undivided = if merged.iter().any(|row| row.plain.is_some()) { 9..13 } else { 9..11 };
    let optional = undivided.chain([5]);
    let mut table = Table::new(&[
        ("kernel", Side::Left),
        ("", Side::Left),
        ("layers", Side::Right),
        ("division", Side::Left),
        ("workspace", Side::Right),
        ("plain's", Side::Right),
        ("ms", Side::Right),
        ("plain ms", Side::Right),
        ("gain", Side::Right),
        ("undivided", Side::Left),
        ("workspace", Side::Right),
        ("ms", Side::Right),
        ("ratio", Side::Right),
    ])
    .short(0, quantity::short_shape)
    .optional(optional)
    .alone(11, "undivided");
    for row in &merged {
        let undivided = row.undivided.as_ref();
        table.row(vec![
            row.layer.clone(),
            row.direction.clone(),
            if row.count > 1 { format!("×{}", row.count) } else { String::new() },
            row.division.clone(),
            quantity::bytes(row.workspace),
            row.plain_workspace.map_or_else(String::new, quantity::bytes),
            // A product that runs at once is never timed.
            if row.time > 0.0 { quantity::digits(row.time) } else { "not timed".into() },
            row.plain.map_or_else(String::new, quantity::digits),
            row.plain.map_or_else(String::new, |plain| ratio(plain, row.time)),
            undivided.map_or_else(String::new, |undivided| undivided.division.clone()),
            undivided.map_or_else(String::new, |undivided| quantity::bytes(undivided.workspace)),
            undivided.map_or_else(String::new, |undivided| quantity::digits(undivided.time)),
            undivided.map_or_else(String::new, |undivided| ratio(undivided.time, row.time)),
        ]);
    }
    let (undivided, plain) = (decisions.undivided_time(), decisions.beside_plain());
    table.total(vec![
        "all".into(),
        String::new(),
        String::new(),
        String::new(),
        quantity::bytes(decisions.workspace()),
        decisions.plain_workspace().map_or_else(String::new, |(all, _)| quantity::bytes(all)),
        quantity::digits(decisions.time()),
        plain.map_or_else(String::new, |(_, plain)| quantity::digits(plain)),
        plain.map_or_else(String::new, |(time, plain)| ratio(plain, time)),
        String::new(),
        undivided.map_or_else(String::new, |_| quantity::bytes(undivided_workspace(&decisions.rows))),
        undivided.map_or_else(String::new, quantity::digits),
        undivided.map_or_else(String::new, |undivided| ratio(undivided, decisions.time())),
    ]);
    Part { heading: heading(decisions, divided), table, notes: summary(decisions) }
}

fn heading(decisions: &Decisions, divided: Option<&Divided>) -> String {
    let problems = quantity::counted(decisions.layers(), "kernel");
    match &decisions.policy {
        Policy::Reuse { limit: Some(limit) } => {
            let limit = if *limit == usize::MAX { "no limit".into() } else { quantity::chosen_bytes(*limit) + " each" };
            format!("Workspace Reuse: {problems}, {limit}")
        }
        Policy::Reuse { limit: None } => format!("Workspace Reuse: {problems}, each within a limit of its own"),
        Policy::Division(division) => {
            let arena = divided.map_or_else(String::new, |it| format!(", an arena of {}", quantity::bytes(it.arena)));
            let ms = division.solve_ms;
            let solved = ms.map_or_else(String::new, |ms| format!(", solved in {}", quantity::milliseconds(ms)));
            let (total, quality) = (quantity::chosen_bytes(division.total), division.quality());
            let of_all = if division.shared { "shared by all, which run one after another" } else { "together" };
            format!("Workspace Division: {problems}, {total} {of_all}{arena}; {quality}{solved}")
        }
    }
}

/// The table's sums in a sentence.
fn summary(decisions: &Decisions) -> String {
    let time = quantity::milliseconds(decisions.time());
    let mut text = match decisions.undivided_time() {
        Some(undivided) => {
            let (ratio, undivided) = (ratio(undivided, decisions.time()), quantity::milliseconds(undivided));
            format!("\n{time} in all, {undivided} undivided in the same limits: {ratio} as fast.")
        }
        None => format!("\n{time} in all."),
    };
    if let Some((time, plain)) = decisions.beside_plain() {
        let known = decisions.rows.iter().filter(|row| row.plain.is_some()).map(|row| row.count).sum::<usize>();
        let all = decisions.layers();
        let of = if known == all { String::new() } else { format!(" for the {known} of {all} with a time of plain's") };
        let (over, ms) = (ratio(plain, time), [plain, time].map(quantity::digits));
        text += &format!("\nPlain cuDNN takes {} ms, ours {} ms{of}: {over} as fast.", ms[0], ms[1]);
    }
    if let Policy::Division(Division { equal_shares_ms: Some(shares), .. }) = decisions.policy {
        let (ratio, shares) = (ratio(shares, decisions.time()), quantity::milliseconds(shares));
        text += &format!("\nIn equal shares of the total (Workspace Reuse) it would be {shares}, {ratio} that.");
    }
    let (all, largest) = (quantity::bytes(decisions.workspace()), quantity::bytes(decisions.largest()));
    text += &format!("\nWorkspace: {all} if every layer keeps its own, {largest} if all share one.");
    if let Some((all, largest)) = decisions.plain_workspace() {
        let [all, largest] = [all, largest].map(quantity::bytes);
        text += &format!("\nPlain cuDNN's: {all} if every layer keeps its own, {largest} if all share one.");
    }
    text + "\n"
}

fn undivided_workspace(rows: &[Decision]) -> usize {
    rows.iter().map(|row| row.undivided.as_ref().map_or(0, |undivided| undivided.workspace) * row.count).sum()
}
