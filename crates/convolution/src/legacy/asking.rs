//! A query about a problem that we may plan, and how its answer is recorded: within the sizes that were reported before.

use std::ffi::c_int;

use cudnn_abi::*;

use crate::plans::legacy::registry::{Promise, Question, State};
use crate::plans::legacy::sizes::{self, Refusal};
use crate::problem::algorithm::Algorithm;
use crate::problem::{OwnedDescriptors, Problem};
use cudnn::convolution::{AlgoPerf, Descriptors};
use cudnn::handle::Handle;
use planner::{BatchSizePolicy, MicroConfiguration};
use tuning::report::{self, Chosen};

/// A query about a problem that we may plan.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    pub handle: Handle<'a>,
    pub descriptors: &'a Descriptors<'a>,
    pub problem: Problem,
    pub question: Question,
    /// cuDNN's answer.
    pub results: &'a [AlgoPerf],
    /// cuDNN's own first result.
    pub own: AlgoPerf,
    /// cuDNN's first result within the limit.
    pub fitting: Option<AlgoPerf>,
    /// The program's choice without us.
    pub plain: Option<AlgoPerf>,
    /// The id whose result must stay in the list unchanged.
    pub last_resort: Option<c_int>,
}

/// A promise that nobody knows yet.
pub struct Made {
    pub promise: Promise,
    /// For the report, if it has a plan.
    pub timed: Option<Timed>,
}

/// Milliseconds: of a plan, of what plain cuDNN would run, and of the fastest undivided algorithm.
pub struct Timed {
    pub time: f64,
    pub plain: Option<f64>,
    pub undivided: Option<(MicroConfiguration<Algorithm>, f64)>,
}

impl Made {
    pub fn reserved(promise: Promise) -> Self {
        Self { promise, timed: None }
    }

    /// Its plan's milliseconds; later than any if nobody has timed it.
    fn time(&self) -> f64 {
        self.timed.as_ref().map_or(f64::INFINITY, |timed| timed.time)
    }
}

impl Asking<'_> {
    /// The program's choice without us, which it would make if it fitted a limit of the user's; if nothing fits a limit of
    /// its own, cuDNN's first result.
    pub(super) fn preferred(&self) -> &AlgoPerf {
        self.plain.as_ref().unwrap_or(&self.own)
    }

    /// Records the promise that `make` makes. If the reported size of its id is less than it needs, `make` makes others:
    /// one within that, as for a query with this limit, and an undivided one; the faster counts. If none fits and `make`
    /// has had its `whole` time, it is not asked again.
    pub(super) fn recorded(&self, state: &State, whole: bool, make: impl Fn(&Self) -> Option<Made>) -> Option<Promise> {
        let made = |asking: Self| Some((make(&asking)?, asking));
        let mut open: Vec<_> = made(*self).into_iter().collect();
        // The limits for which the first promise is found, and then the same others.
        let covers = open.first()?.0.promise.covers.clone();
        let (mut is_final, mut refused_below) = (whole, covers.end);
        while let Some(fastest) = (0..open.len()).min_by(|a, b| open[*a].0.time().total_cmp(&open[*b].0.time())) {
            let (Made { promise, timed }, asking) = open.swap_remove(fastest);
            is_final &= promise.is_final;
            let promise = Promise { question: self.question, covers: covers.clone(), ..promise };
            match self.record(promise, self.question.limit) {
                Ok(promise) => {
                    self.report(&promise, timed);
                    return Some(promise);
                }
                Err(refusal) => {
                    let question = asking.question;
                    let others = |question| made(Self { question, ..asking });
                    if timed.is_some() && question == self.question && question.sizes != BatchSizePolicy::Undivided {
                        open.extend(others(Question { sizes: BatchSizePolicy::Undivided, ..question }));
                    }
                    match refusal {
                        // Less than the promise needs, and so less than the limit.
                        Refusal::Within(told) => open.extend(others(Question { limit: told, ..question })),
                        Refusal::Below(limit) => refused_below = refused_below.min(limit),
                    }
                }
            }
        }
        if is_final {
            state.known.lock().decline(self.question, self.question.limit..refused_below);
        }
        None
    }

    fn report(&self, promise: &Promise, timed: Option<Timed>) {
        let (Some(Timed { time, plain, undivided }), Some(plan)) = (timed, &promise.plan) else { return };
        report::chosen(&Chosen {
            event: "asked",
            problem: plan.problem(),
            configuration: plan.configuration(),
            workspace: plan.workspace(),
            limit: self.question.limit,
            time,
            undivided,
            plain,
            plain_workspace: self.plain.map(|plain| plain.memory),
        });
    }

    /// Records a promise; see [`sizes::record`].
    pub(super) fn record(&self, promise: Promise, limit: usize) -> Result<Promise, Refusal> {
        let id = promise.entry.algo;
        let own = |math_type| self.need_under(id, math_type);
        sizes::record(cudnn::device(), &self.problem, promise, limit, own)
    }

    /// Returns the bytes that an algorithm needs undivided under a math type. `None` if cuDNN refuses the question.
    fn need_under(&self, id: c_int, math_type: cudnnMathType_t) -> Option<usize> {
        if math_type == self.problem.math_type {
            return self.descriptors.workspace_size(self.handle, id).ok();
        }
        OwnedDescriptors::new(&self.problem, math_type).ok()?.raw().workspace_size(self.handle, id).ok()
    }

    /// Returns the bytes that an algorithm needs undivided under the query's math type and under another: a call may come
    /// with either.
    pub(super) fn need(&self, id: c_int, math_type: cudnnMathType_t) -> usize {
        let math_types = [self.problem.math_type, math_type];
        math_types.iter().filter_map(|math_type| self.need_under(id, *math_type)).max().unwrap_or(0)
    }
}
