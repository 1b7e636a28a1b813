//! Subjects that are timed whole, on cuDNN and on our kernels: recurrent networks, and batch normalization.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tuning::ahead::devices;

use super::progress::Bar;
use super::{Options, check_library, is_kept, set_variables};
use crate::Failure;
use crate::contests::{Contest, parts_of};
use crate::interrupt;
use crate::network::Shapes;
use crate::output;
use crate::quantity;
use trust::Shown as _;

/// The words for a family of subjects.
pub struct Family {
    /// The option that names them, such as `--rnn`.
    pub option: &'static str,
    /// What they are, and what a text of the option has of one.
    pub subjects: &'static str,
    pub whole: &'static str,
    /// The noun for those that were timed, and for all of them.
    pub timed: &'static str,
    pub all: &'static str,
}

/// Reads the texts of an option: each subject once.
pub fn read<S: PartialEq>(
    options: &Options,
    family: &Family,
    texts: &[String],
    read: impl Fn(&str) -> Result<Vec<S>, String>,
) -> Result<Vec<S>, Failure> {
    let Family { option, subjects, whole, .. } = family;
    if options.shapes != Shapes::default() {
        let why = format!("options of a CSV file's layers say nothing of {subjects}: {option} takes all of a {whole}");
        return Err(Failure::Usage(why));
    }
    let mut known = Vec::new();
    for text in texts {
        for subject in read(text).map_err(|why| Failure::Usage(format!("{option}: {why}")))? {
            if !known.contains(&subject) {
                known.push(subject);
            }
        }
    }
    Ok(known)
}

/// Times subjects by `tune`, which gets one, the device's number and what to call with the executions that remain. Shows
/// the results that `decide` makes of what was found, and of the reason.
pub fn run<S: Display, F>(
    options: &Options,
    family: &Family,
    subjects: &[S],
    tune: impl Fn(&S, i32, &dyn Fn(usize)) -> Result<F, String>,
    decide: impl Fn(&S, F, String) -> Contest,
) -> Result<(), Failure> {
    // Made first, so that an error in it shows before anything is measured.
    let database = options.place.create()?.path().to_owned();
    set_variables(options, &database)?;
    check_library()?;
    let device = devices().first().copied().unwrap_or(0);
    interrupt::catch();
    let begin = Instant::now();
    let bar = Bar::new(subjects.len());
    let (mut decisions, mut failed, mut timed) = (Vec::new(), Vec::new(), 0);
    for subject in subjects {
        if interrupt::STOP.load(Ordering::Relaxed) {
            break;
        }
        let progress = bar.problem(subject.to_string());
        let found = tune(subject, device, &|remaining| progress.measured(remaining));
        let is_new = progress.finish() > 0;
        match found {
            Ok(found) => {
                timed += usize::from(is_new);
                let why = if is_new { String::new() } else { "known from before".into() };
                decisions.push(decide(subject, found, why));
            }
            Err(why) => failed.push(format!("{subject}: {why}")),
        }
    }
    bar.finish();
    let width = options.width.columns();
    let mut text = parts_of(&decisions).iter().map(|part| part.text(width)).collect::<Vec<_>>().join("\n");
    let took = begin.elapsed().as_secs_f64();
    let count = quantity::counted(timed, family.timed);
    text += &format!("{count} timed in {took:.1} s, kept in {}\n", database.shown());
    let printed = output::print(&text);
    let all = format!("{}{}", subjects.len(), family.all);
    if interrupt::STOP.load(Ordering::Relaxed) {
        output::tell(&format!("stopped after {} of {all}; the same command goes on", decisions.len()));
        interrupt::end();
    }
    if timed > 0 && !is_kept() {
        return Err(Failure::Failed(format!("{}: the results could not be kept", database.shown())));
    }
    for why in &failed {
        output::tell(why);
    }
    match failed.len() {
        0 => printed,
        count => Err(Failure::Failed(format!("{count} of {all} could not be timed"))),
    }
}
