//! Faults on demand, so that a program's answer to a failing cuDNN can be tested.
//!
//! `HOSTDNN_FAIL`, read at the first call, and `hostdnnFail`, which replaces all faults, take comma-separated clauses:
//!
//! ```text
//! FUNCTION[@algo=ID][@batch=N][:COUNT[+]][=OUTCOME]
//! ```
//!
//! The COUNT-th call (from 1, the default) of FUNCTION fails, with `+` every later one too. With `@algo` or `@batch`
//! only matching runs of an algorithm count. In a `cudnnFindConvolution*` function such a run is the timing of one
//! algorithm, whose entry carries the status; in `cudnnBackendExecute` ID is the global index of the plan's engine.
//! OUTCOME is a status number (5000, CUDNN_STATUS_EXECUTION_FAILED, by default) or `panic`. A failing call does nothing
//! else. Invalid clauses are named on stderr and skipped.
//!
//! `cudnnConvolutionForward:3` fails the third call; `cudnnCreateTensorDescriptor:1+=4003` every creation;
//! `cudnnConvolutionForward@algo=6@batch=32:1+` every run of Winograd at batch 32.

use crate::error::{Error, Result};
use cudnn_abi::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Status(cudnnStatus_t),
    Panic,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    function: String,
    algo: Option<i32>,
    batch: Option<usize>,
    first: u64,
    onwards: bool,
    outcome: Outcome,
    seen: u64,
}

/// One run of an algorithm, for clauses with `@algo` or `@batch`.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// cuDNN's id of the algorithm.
    pub algo: i32,
    /// Images.
    pub batch: usize,
}

static ARMED: AtomicBool = AtomicBool::new(false);
static FAULTS: LazyLock<Mutex<Vec<Fault>>> = LazyLock::new(|| {
    let spec = std::env::var("HOSTDNN_FAIL").unwrap_or_default();
    let (faults, bad) = parse_all(&spec);
    for clause in bad {
        eprintln!("hostdnn: HOSTDNN_FAIL: not understood: {clause:?} (see hostdnn/src/fault.rs)");
    }
    ARMED.store(!faults.is_empty(), Ordering::Relaxed);
    Mutex::new(faults)
});

/// Replaces all faults by those of `spec`. A bad clause is an error that names it, and changes nothing.
pub fn arm(spec: &str) -> std::result::Result<(), String> {
    let (faults, bad) = parse_all(spec);
    if let Some(clause) = bad.into_iter().next() {
        return Err(clause);
    }
    let mut armed = FAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    ARMED.store(!faults.is_empty(), Ordering::Relaxed);
    *armed = faults;
    Ok(())
}

/// Counts a call of `function`, or with `run` one run of an algorithm in it, and fails if a fault says so.
///
/// # Panics
/// If the fault is a panic.
pub fn check(function: &str, run: Option<Run>) -> Result {
    let faults = LazyLock::force(&FAULTS);
    if !ARMED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut outcome = None;
    for fault in faults.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
        if fault.strikes(function, run) && outcome.is_none() {
            outcome = Some(fault.outcome.clone());
        }
    }
    match outcome {
        None => Ok(()),
        Some(Outcome::Status(status)) => Err(Error::new(status, "a fault that HOSTDNN_FAIL asked for")),
        Some(Outcome::Panic) => panic!("a panic that HOSTDNN_FAIL asked for"),
    }
}

impl Fault {
    fn strikes(&mut self, function: &str, run: Option<Run>) -> bool {
        let filtered = self.algo.is_some() || self.batch.is_some();
        if self.function != function || filtered != run.is_some() {
            return false;
        }
        if let Some(run) = run {
            let other =
                self.algo.is_some_and(|algo| algo != run.algo) || self.batch.is_some_and(|batch| batch != run.batch);
            if other {
                return false;
            }
        }
        self.seen += 1;
        self.seen == self.first || (self.onwards && self.seen > self.first)
    }
}

fn parse_all(spec: &str) -> (Vec<Fault>, Vec<String>) {
    let (mut faults, mut bad) = (Vec::new(), Vec::new());
    for clause in spec.split(',').map(str::trim).filter(|clause| !clause.is_empty()) {
        match parse(clause) {
            Some(fault) => faults.push(fault),
            None => bad.push(clause.to_owned()),
        }
    }
    (faults, bad)
}

fn parse(clause: &str) -> Option<Fault> {
    let name_end = clause.find(['@', ':', '=']).unwrap_or(clause.len());
    let (function, mut rest) = clause.split_at(name_end);
    if !function.starts_with("cudnn") && !function.starts_with("hostdnn") {
        return None;
    }
    let mut fault = Fault {
        function: function.to_owned(),
        algo: None,
        batch: None,
        first: 1,
        onwards: false,
        outcome: Outcome::Status(CUDNN_STATUS_EXECUTION_FAILED),
        seen: 0,
    };
    while let Some(filter) = rest.strip_prefix('@') {
        let end = filter.find(['@', ':']).unwrap_or_else(|| {
            // The `=` inside the filter does not start the outcome.
            filter.match_indices('=').nth(1).map_or(filter.len(), |(at, _)| at)
        });
        let (key, value) = filter[..end].split_once('=')?;
        match key {
            "algo" => fault.algo = Some(value.parse().ok()?),
            "batch" => fault.batch = Some(value.parse().ok()?),
            _ => return None,
        }
        rest = &filter[end..];
    }
    if let Some(count) = rest.strip_prefix(':') {
        let (count, outcome) = count.split_at(count.find('=').unwrap_or(count.len()));
        fault.onwards = count.ends_with('+');
        fault.first = count.trim_end_matches('+').parse().ok().filter(|&first| first > 0)?;
        rest = outcome;
    }
    if let Some(outcome) = rest.strip_prefix('=') {
        fault.outcome = match outcome {
            "panic" => Outcome::Panic,
            status => Outcome::Status(status.parse().ok().filter(|&status| status != 0)?),
        };
    } else if !rest.is_empty() {
        return None;
    }
    Some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_parse() {
        let fault = parse("cudnnConvolutionForward@algo=6@batch=32:2+=3000").unwrap();
        assert_eq!((fault.algo, fault.batch, fault.first, fault.onwards), (Some(6), Some(32), 2, true));
        assert_eq!(fault.outcome, Outcome::Status(3000));
        let fault = parse("cudnnConvolutionForward@algo=6=panic").unwrap();
        assert_eq!((fault.algo, fault.first, &fault.outcome), (Some(6), 1, &Outcome::Panic));
        let fault = parse("cudnnCreate").unwrap();
        assert_eq!(fault.outcome, Outcome::Status(CUDNN_STATUS_EXECUTION_FAILED));
        assert_eq!(parse("hostdnnLaunchKernel:2").unwrap().first, 2);
        for bad in ["", "x", "cudnnCreate:0", "cudnnCreate:x", "cudnnCreate=0", "cudnnCreate@n=1", "cudnnCreate:1x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn strikes_at_its_count() {
        let strikes = |clause: &str, run: Option<Run>| {
            let mut fault = parse(clause).unwrap();
            (0..4).map(|_| fault.strikes("cudnnCreate", run)).collect::<Vec<_>>()
        };
        let run = |algo, batch| Some(Run { algo, batch });
        assert_eq!(strikes("cudnnCreate:2", None), [false, true, false, false]);
        assert_eq!(strikes("cudnnCreate:2+", None), [false, true, true, true]);
        assert_eq!(strikes("cudnnDestroy:1+", None), [false; 4]);
        assert_eq!(strikes("cudnnCreate@algo=1", run(1, 8)), [true, false, false, false]);
        assert_eq!(strikes("cudnnCreate@algo=1@batch=4:1+", run(1, 8)), [false; 4]);
        assert_eq!(strikes("cudnnCreate@algo=1:1+", None), [false; 4]);
        assert_eq!(strikes("cudnnCreate:1+", run(1, 8)), [false; 4]);
    }
}
