//! The kinds of times in a plan. A plan compares times of one kind only: a micro-batch runs faster or slower beside others
//! than alone.

use std::fmt;

use clap::ValueEnum;
use tuning::recall::{Recalled, Times};

use crate::decisions::Choice;
use crate::sets::{self, Group};

/// A kind of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Micro-batches that ran alone, added up
    Alone,
    /// Whole configurations that ran in place
    InPlace,
    /// A report's own: in place where the run tried a configuration, else added up.
    #[value(skip)]
    OfRun,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            Self::Alone => "of micro-batches that ran alone, added up",
            Self::InPlace => "of whole mini-batches in place",
            Self::OfRun => "as the run took them: in place where it tried a configuration, else added up",
        })
    }
}

impl Kind {
    /// The kind's name in JSON, which is its value on the command line if it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::InPlace => "in-place",
            Self::OfRun => "of-run",
        }
    }
}

/// A problem's choices by both kinds of times.
pub struct Known {
    /// The layers, with the choices by times alone.
    pub alone: Group,
    /// The same layers, with the choices by times in place.
    pub in_place: Group,
    /// The micro-batch sizes without times.
    pub unmeasured: Vec<usize>,
    /// The times in place suffice for the limits of the command.
    pub is_tried: bool,
}

impl Known {
    /// The choices that a database knows for the layers of `group`, whose own choices are empty.
    pub fn new<A: fmt::Display + Clone>(group: Group, recalled: &Recalled<A>, limits: &[usize]) -> Self {
        let of = |times: &Times<A>| Group {
            choices: choices(&times.desirable, |configuration| configuration.to_string()),
            undivided: choices(&times.undivided, |configuration| configuration.parts()[0].1.algorithm.to_string()),
            ..group.clone()
        };
        Self {
            alone: of(&recalled.alone),
            in_place: of(&recalled.in_place),
            unmeasured: recalled.unmeasured.clone(),
            is_tried: limits.iter().all(|&limit| recalled.is_tried_within(limit)),
        }
    }

    /// The choices by one kind of times.
    pub fn into_group(self, kind: Kind) -> Group {
        if kind == Kind::InPlace { self.in_place } else { self.alone }
    }
}

fn choices<A>(
    known: &[(planner::Configuration<A>, f64)],
    division: impl Fn(&planner::Configuration<A>) -> String,
) -> Vec<Choice> {
    let choice = |(configuration, time): &(planner::Configuration<A>, f64)| Choice {
        division: division(configuration),
        workspace: configuration.workspace(),
        time: *time,
    };
    sets::front(known.iter().map(choice).collect())
}

/// Names kernels with a list of sizes, those with equal lists together: `1 2 images of conv1 F, conv1 BD`.
pub fn unmeasured_text(kernels: &[(String, Vec<usize>)]) -> String {
    let mut lists: Vec<(&[usize], Vec<&str>)> = Vec::new();
    for (name, sizes) in kernels {
        match lists.iter_mut().find(|(known, _)| known == sizes) {
            Some((_, names)) => names.push(name),
            None => lists.push((sizes, vec![name])),
        }
    }
    let line = |(sizes, names): &(&[usize], Vec<&str>)| {
        let sizes: Vec<_> = sizes.iter().map(ToString::to_string).collect();
        format!("  {} of {}\n", sizes.join(" "), names.join(", "))
    };
    lists.iter().map(line).collect()
}
