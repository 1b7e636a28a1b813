//! Shared by the tests: temporary folders, problems, environments, outcomes.

mod exchange;
mod graphs;
mod results;
mod survival;
mod timings;
mod tuning;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ::tuning::database::{self, Database, Environment, Texts};
use ucudnn_convolution::problem::AnyProblem;
use ucudnn_convolution::problem::{Algorithm, Problem};

type Outcome<A = Algorithm> = database::Outcome<A>;

/// Texts of problems are read, and those of one family of other subjects.
const TEXTS: Texts = Texts {
    problem: |text| AnyProblem::from_spec(text).map(AnyProblem::into_subject),
    subject: |family, text| match family {
        "recurrent" if text.contains("hidden=0") => Err("hidden is \"0\"".into()),
        "recurrent" => Ok(()),
        other => Err(format!("no family {other:?} here")),
    },
};

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ucudnn-database-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> Database {
    Database::open(path, None).unwrap()
}

fn environment(device: &str) -> Environment {
    Environment { device: device.into(), multiprocessors: 132, cudnn: "91900".into(), driver: "13000".into() }
}

/// A Forward problem. Its parts run like whole mini-batches of the same size.
fn forward(batch: usize) -> Problem {
    let spec = "F x=float:1x64x27x27@46656x729x27x1 w=float:nchw:192x64x5x5 y=float:1x192x27x27@139968x729x27x1 \
                pad=2x2 stride=1x1 dilation=1x1 mode=correlation compute=float math=default groups=1";
    Problem::from_spec(spec).unwrap().with_batch(batch)
}

/// A BackwardFilter problem in half, whose parts are summed in float.
fn half_filter(batch: usize) -> Problem {
    let spec = forward(1).spec().replacen('F', "BF", 1).replace("=float:", "=half:");
    Problem::from_spec(&spec).unwrap().with_batch(batch)
}

fn algorithm(kernel: &Problem, id: i32) -> Algorithm {
    Algorithm { direction: kernel.direction, id, math_type: 0, deterministic: id != 3, engine: None }
}

fn outcome(kernel: &Problem, batch: usize, id: i32, time: impl Into<Option<f64>>) -> Outcome {
    Outcome { batch, algorithm: algorithm(kernel, id), workspace: batch * 1000, time: time.into() }
}

/// Sorts outcomes, so that they can be compared.
fn sorted(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    outcomes.sort_by_key(|outcome| (outcome.batch, outcome.algorithm.id));
    outcomes
}
