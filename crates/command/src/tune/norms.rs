//! `ucudnn tune --norm`: times batch normalization ahead of time, on cuDNN and on our kernels.

use std::sync::atomic::Ordering;
use std::time::Instant;

use ::norm::ahead::{self, Job};
use ::norm::subject::Normalization;
use tuning::ahead::devices;
use tuning::database::Database;

use super::progress::Bar;
use super::{Options, check_library, set_variables};
use crate::Failure;
use crate::interrupt;
use crate::network::Shapes;
use crate::normalization::{self, Decision};
use crate::output;
use crate::quantity;

pub fn run(options: &Options) -> Result<(), Failure> {
    if options.shapes != Shapes::default() {
        let why = "options of a CSV file's layers say nothing of batch normalization: --norm takes all of a tensor";
        return Err(Failure::Usage(why.into()));
    }
    let mut subjects: Vec<Normalization> = Vec::new();
    for text in &options.norm {
        for subject in normalization::read(text).map_err(|why| Failure::Usage(format!("--norm: {why}")))? {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
    }
    // Made first, so that an error in it shows before anything is measured.
    let database = options.place.create()?.path().to_owned();
    set_variables(options, &database)?;
    check_library()?;
    let device = devices().first().copied().unwrap_or(0);
    interrupt::catch();
    let begin = Instant::now();
    let bar = Bar::new(subjects.len());
    let (mut decisions, mut failed, mut timed) = (Vec::new(), Vec::new(), 0);
    for subject in &subjects {
        if interrupt::STOP.load(Ordering::Relaxed) {
            break;
        }
        let progress = bar.problem(subject.to_string());
        let each = |remaining| progress.measured(remaining);
        let found =
            ahead::tune(&Job { subject, device, bytes: options.bytes, stop: &interrupt::STOP, progress: &each });
        let is_new = progress.finish() > 0;
        match found {
            Ok(found) => {
                timed += usize::from(is_new);
                decisions.push(Decision {
                    norm: subject.to_string(),
                    spec: subject.spec(),
                    chosen: found.chosen,
                    why: if is_new { String::new() } else { "known from before".into() },
                    times: found.times,
                });
            }
            Err(why) => failed.push(format!("{subject}: {why}")),
        }
    }
    bar.finish();
    let mut text = match decisions.len() {
        0 => String::new(),
        _ => normalization::text_of(&decisions, options.width.columns()),
    };
    let took = begin.elapsed().as_secs_f64();
    let count = quantity::counted(timed, "batch normalization");
    text += &format!("{count} timed in {took:.1} s, kept in {}\n", database.display());
    let printed = output::print(&text);
    if interrupt::STOP.load(Ordering::Relaxed) {
        let (done, all) = (decisions.len(), subjects.len());
        output::tell(&format!("stopped after {done} of {all}; the same command goes on"));
        interrupt::end();
    }
    // For a program's sake the library only warns if its database fails. Here the results are the purpose.
    let kept = Database::of_process().is_some_and(|database| database.contents().is_ok_and(|kept| !kept.is_empty()));
    if !kept && timed > 0 {
        return Err(Failure::Failed(format!("{}: the results could not be kept", database.display())));
    }
    for why in &failed {
        output::tell(why);
    }
    match failed.len() {
        0 => printed,
        count => Err(Failure::Failed(format!("{count} of {} could not be timed", subjects.len()))),
    }
}
