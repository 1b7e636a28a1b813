//! The text form of a database: one JSON object a line. Each line has its full key, so lines can be sorted, joined and
//! picked.

use std::io::{BufRead, Write};

use rusqlite::{Connection, Row, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

use super::results::{add, add_environment};
use super::rows::{self, is_time};
use super::{AnySubject, Database, Environment, SCHEMA, Texts};

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Results that are new in the database, or newer than before.
    pub merged: usize,
    /// Results that the database already has with the same or a newer time stamp.
    pub kept: usize,
    /// Results of other versions of our kernels, which this version cannot use.
    pub of_other_kernels: usize,
    /// The lines that were not understood, each with the text's name and the line's number.
    pub refused: Vec<String>,
}

/// One line of the text.
#[derive(Serialize)]
#[serde(untagged)]
enum Line {
    OfProblem(OfProblem),
    OfSubject(OfSubject),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfProblem {
    schema: i64,
    environment: Environment,
    /// The problem's text over one image.
    kernel: String,
    /// The images in the micro-batch, or in the mini-batch of a trial or a search.
    batch: u32,
    result: Entry,
}

/// A [`Timing`](super::Timing).
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSubject {
    schema: i64,
    environment: Environment,
    family: String,
    /// The subject's text.
    subject: String,
    /// The version of the family's GPU kernels.
    version: String,
    what: String,
    part: String,
    time_ms: Option<f64>,
    runs: u32,
    measured_at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Entry {
    Outcome(Measured),
    Trial(Tried),
    Search(Ended),
}

/// A micro-configuration. Here and below, an entry without a time does not run.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    summed_in_float: bool,
    algorithm: String,
    workspace: u64,
    time_ms: Option<f64>,
    measured_at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tried {
    division: String,
    time_ms: Option<f64>,
    measured_at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    question: String,
    ended_at: i64,
}

impl Database {
    /// Writes all results of the user's file. Returns their number. `Err` is the message.
    pub fn export(&self, to: &mut impl Write) -> Result<usize, String> {
        // A deferred transaction: all lines show one moment, and other processes may write meanwhile.
        let lines = self.command(|connection| {
            let transaction = connection.transaction()?;
            let mut lines = Vec::new();
            for (table, columns, entry) in [
                (
                    "outcomes",
                    "summed_in_float, algorithm, workspace, time_ms, measured_at",
                    measured as fn(&Row) -> rusqlite::Result<Entry>,
                ),
                ("trials", "division, time_ms, measured_at", tried),
                ("searches", "question, ended_at", ended),
            ] {
                lines.extend(read(&transaction, table, columns, entry)?.into_iter().map(Line::OfProblem));
            }
            lines.extend(read_timings(&transaction)?.into_iter().map(Line::OfSubject));
            Ok(lines)
        })?;
        for line in &lines {
            let text = serde_json::to_string(line).map_err(|error| error.to_string())?;
            writeln!(to, "{text}").map_err(|error| format!("the export cannot be written: {error}"))?;
        }
        to.flush().map_err(|error| format!("the export cannot be written: {error}"))?;
        Ok(lines.len())
    }

    /// Adds the lines of a text to the user's file, in one transaction: all lines that are understood, or none if it
    /// fails. Of two results with one key, the newer stays. `name` is the text's name in messages about refused lines.
    pub fn import(&self, text: impl BufRead, name: &str, texts: &Texts) -> Result<Imported, String> {
        let (mut lines, mut imported) = (Vec::new(), Imported::default());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.map_err(|error| format!("{name}:{number}: {error}"))?;
            if line.trim().is_empty() {
                continue;
            }
            match understood(&line, texts) {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => imported.of_other_kernels += 1,
                Err(why) => imported.refused.push(format!("{name}:{number}: {why}")),
            }
        }
        let merged = self.command(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut merged = 0;
            for line in &lines {
                merged += merge(&transaction, line)?;
            }
            transaction.commit()?;
            Ok(merged)
        })?;
        Ok(Imported { merged, kept: lines.len() - merged, ..imported })
    }
}

fn read(
    connection: &Connection,
    table: &str,
    columns: &str,
    entry: fn(&Row) -> rusqlite::Result<Entry>,
) -> rusqlite::Result<Vec<OfProblem>> {
    let mut statement = connection.prepare(&format!(
        "SELECT {columns}, device, multiprocessors, cudnn, driver, spec, batch FROM {table}
         JOIN kernels ON kernels.id = {table}.kernel JOIN environments ON environments.id = kernels.environment
         ORDER BY environments.id, kernels.id, batch DESC"
    ))?;
    rows::all(&mut statement, [], |row| {
        Ok(OfProblem {
            schema: SCHEMA,
            environment: environment(row)?,
            kernel: row.get("spec")?,
            batch: rows::batch(row, "batch")?,
            result: entry(row)?,
        })
    })
}

fn read_timings(connection: &Connection) -> rusqlite::Result<Vec<OfSubject>> {
    let mut statement = connection.prepare(
        "SELECT * FROM timings JOIN environments ON id = environment
         ORDER BY id, family, version, subject, what, part",
    )?;
    rows::all(&mut statement, [], |row| {
        Ok(OfSubject {
            schema: SCHEMA,
            environment: environment(row)?,
            family: row.get("family")?,
            subject: row.get("subject")?,
            version: row.get("version")?,
            what: row.get("what")?,
            part: row.get("part")?,
            time_ms: rows::time(row, "time_ms")?,
            runs: row.get("runs")?,
            measured_at: row.get("measured_at")?,
        })
    })
}

fn environment(row: &Row) -> rusqlite::Result<Environment> {
    Ok(Environment {
        device: row.get("device")?,
        multiprocessors: row.get("multiprocessors")?,
        cudnn: row.get("cudnn")?,
        driver: row.get("driver")?,
    })
}

fn measured(row: &Row) -> rusqlite::Result<Entry> {
    Ok(Entry::Outcome(Measured {
        summed_in_float: row.get(0)?,
        algorithm: row.get(1)?,
        workspace: row.get(2)?,
        time_ms: rows::time(row, 3)?,
        measured_at: row.get(4)?,
    }))
}

fn tried(row: &Row) -> rusqlite::Result<Entry> {
    Ok(Entry::Trial(Tried { division: row.get(0)?, time_ms: rows::time(row, 1)?, measured_at: row.get(2)? }))
}

fn ended(row: &Row) -> rusqlite::Result<Entry> {
    Ok(Entry::Search(Ended { question: row.get(0)?, ended_at: row.get(1)? }))
}

/// Parses a line. `None` for a result of other versions of our kernels.
fn understood(text: &str, texts: &Texts) -> Result<Option<Line>, String> {
    // Check the schema first: another schema may have other fields.
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    match value.get("schema").and_then(serde_json::Value::as_i64) {
        Some(SCHEMA) => {}
        Some(other) => return Err(format!("its schema is {other}: this ucudnn reads {SCHEMA} alone")),
        None => return Err(format!("it names no schema: {{\"schema\":{SCHEMA},…}} is expected")),
    }
    if value.get("subject").is_some() {
        let line: OfSubject = serde_json::from_value(value).map_err(|error| error.to_string())?;
        check_time(line.time_ms)?;
        (texts.subject)(&line.family, &line.subject).map_err(|why| format!("its subject: {why}"))?;
        return Ok(Some(Line::OfSubject(line)));
    }
    let line: OfProblem = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if !(1..=i32::MAX as u32).contains(&line.batch) {
        return Err(format!("its batch is {}: it must be 1 to {}", line.batch, i32::MAX));
    }
    check_time(match &line.result {
        Entry::Outcome(measured) => measured.time_ms,
        Entry::Trial(tried) => tried.time_ms,
        Entry::Search(_) => None,
    })?;
    let subject = (texts.problem)(&line.kernel).map_err(|why| format!("its kernel: {why}"))?;
    Ok(check(&*subject, &line)?.then_some(Line::OfProblem(line)))
}

fn check_time(time: Option<f64>) -> Result<(), String> {
    let wrong = time.filter(|time| !is_time(*time));
    wrong.map_or(Ok(()), |time| Err(format!("its time is {time} ms: it must be 0 or more")))
}

/// Checks the fields that depend on the kind of problem. False for a result of other versions of our kernels.
fn check(subject: &dyn AnySubject, line: &OfProblem) -> Result<bool, String> {
    if !subject.is_over_one_image() {
        return Err(format!("its kernel {:?} is not over one image, its batch stands apart", line.kernel));
    }
    match &line.result {
        Entry::Outcome(measured) if i64::try_from(measured.workspace).is_err() => {
            Err(format!("its workspace is {} bytes, more than there can be", measured.workspace))
        }
        Entry::Outcome(measured) if subject.is_of_other_kernels(&measured.algorithm) => Ok(false),
        Entry::Outcome(measured) if !subject.has_algorithm(&measured.algorithm) => {
            Err(format!("its algorithm is {:?}, which is none of such a kernel", measured.algorithm))
        }
        Entry::Trial(tried) if !subject.has_division(&tried.division) => {
            let division = &tried.division;
            Err(format!("its division is {division:?}: COUNTxBATCH ALGORITHM, joined by \" + \", is expected"))
        }
        _ => Ok(true),
    }
}

/// Returns 1 if the line was new or newer, else 0.
fn merge(connection: &Connection, line: &Line) -> rusqlite::Result<usize> {
    match line {
        Line::OfProblem(line) => merge_of_problem(connection, line),
        Line::OfSubject(line) => merge_of_subject(connection, line),
    }
}

fn merge_of_subject(connection: &Connection, line: &OfSubject) -> rusqlite::Result<usize> {
    let OfSubject { schema: _, environment, family, subject, version, what, part, time_ms, runs, measured_at } = line;
    let id = add_environment(connection, environment)?;
    connection
        .prepare_cached(
            "INSERT INTO timings (environment, family, version, subject, what, part, time_ms, runs, measured_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT DO UPDATE SET time_ms = excluded.time_ms, runs = excluded.runs,
             measured_at = excluded.measured_at
             WHERE excluded.measured_at > timings.measured_at",
        )?
        .execute(params![id, family, version, subject, what, part, time_ms, runs, measured_at])
}

fn merge_of_problem(connection: &Connection, line: &OfProblem) -> rusqlite::Result<usize> {
    let id = add(connection, &line.environment, &line.kernel)?;
    match &line.result {
        Entry::Outcome(m) => connection
            .prepare_cached(
                "INSERT INTO outcomes (kernel, batch, summed_in_float, algorithm, workspace, time_ms, measured_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT DO UPDATE SET workspace = excluded.workspace, time_ms = excluded.time_ms,
                 measured_at = excluded.measured_at
                 WHERE excluded.measured_at > outcomes.measured_at",
            )?
            .execute(params![
                id,
                line.batch,
                m.summed_in_float,
                m.algorithm,
                m.workspace as i64,
                m.time_ms,
                m.measured_at
            ]),
        Entry::Trial(tried) => connection
            .prepare_cached(
                "INSERT INTO trials (kernel, batch, division, time_ms, measured_at) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET time_ms = excluded.time_ms, measured_at = excluded.measured_at
                 WHERE excluded.measured_at > trials.measured_at",
            )?
            .execute(params![id, line.batch, tried.division, tried.time_ms, tried.measured_at]),
        Entry::Search(ended) => connection
            .prepare_cached(
                "INSERT INTO searches (kernel, batch, question, ended_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET ended_at = excluded.ended_at WHERE excluded.ended_at > searches.ended_at",
            )?
            .execute(params![id, line.batch, ended.question, ended.ended_at]),
    }
}
