//! A configuration prepared to run: the descriptors of its micro-batches, and the layout of its workspace.

use std::ffi::c_int;

use cudnn_abi::*;

use super::engine::Engine;
use crate::exec::{SummedFilter, Sums};
use crate::problem::OwnedDescriptors;
use crate::problem::Problem;
use crate::problem::algorithm::{self, Algorithm, Class};
use cudnn::convolution::{Operands, Workspace};
use planner::{Configuration, MicroConfiguration};

/// A prepared configuration of one convolution problem. Immutable; several threads may run it at once, each with its
/// own handle, data and workspace.
pub struct Plan {
    pub(super) problem: Problem,
    configuration: Configuration<Algorithm>,
    pub(super) parts: Vec<Part>,
    pub(super) sums: Option<Sums>,
    workspace: usize,
}

/// Consecutive micro-batches of one size and algorithm.
pub(super) struct Part {
    pub count: usize,
    pub batch: usize,
    pub algorithm: Algorithm,
    pub descriptors: OwnedDescriptors,
    /// The engine, if the algorithm is one.
    engine: Option<Engine>,
}

impl Part {
    /// Runs one micro-batch.
    ///
    /// # Safety
    /// The caller promises the operands of a call of this micro-batch's problem. cuDNN and engines refuse a workspace
    /// that is too small.
    pub unsafe fn convolve(&self, handle: cudnnHandle_t, operands: &Operands, workspace: Workspace) -> cudnnStatus_t {
        // SAFETY: both functions require only what our caller promised.
        unsafe {
            match &self.engine {
                Some(engine) => engine.convolve(handle, operands, workspace),
                None => self.descriptors.raw().convolve(handle, self.algorithm.id, operands, workspace),
            }
        }
    }
}

impl Plan {
    /// Creates the descriptors. Fails with cuDNN's status when cuDNN cannot create or set one.
    pub fn new(problem: &Problem, configuration: Configuration<Algorithm>) -> Result<Self, cudnnStatus_t> {
        let parts = configuration.parts().to_vec();
        Self::make(problem, &parts, configuration)
    }

    /// Like [`Self::new`], with the parts in the given order and not the largest first.
    pub fn in_order(
        problem: &Problem,
        parts: &[(usize, MicroConfiguration<Algorithm>)],
    ) -> Result<Self, cudnnStatus_t> {
        Self::make(problem, parts, Configuration::new(parts.iter().copied()))
    }

    /// One micro-batch as a division of `problem` runs it, float sums included, to be timed alone.
    pub fn micro_batch(problem: &Problem, micro: MicroConfiguration<Algorithm>) -> Result<Self, cudnnStatus_t> {
        let part = problem.with_batch(micro.batch);
        let mut plan = Self::make(&part, &[(1, micro)], Configuration::undivided(micro))?;
        if micro.batch < problem.batch() {
            plan.accumulate()?;
        }
        Ok(plan)
    }

    fn make(
        problem: &Problem,
        parts: &[(usize, MicroConfiguration<Algorithm>)],
        configuration: Configuration<Algorithm>,
    ) -> Result<Self, cudnnStatus_t> {
        guest::settings::fault_point("plan");
        let part = |(count, micro): &(usize, MicroConfiguration<Algorithm>)| {
            let MicroConfiguration { batch, algorithm, workspace, .. } = *micro;
            let micro = problem.with_batch(batch);
            let descriptors = OwnedDescriptors::new(&micro, algorithm.math_type)?;
            let engine = algorithm.engine.map(|engine| Engine::new(&micro, engine, workspace)).transpose()?;
            Ok(Part { count: *count, batch, algorithm, descriptors, engine })
        };
        let parts = parts.iter().map(part).collect::<Result<_, cudnnStatus_t>>()?;
        let workspace = configuration.workspace();
        let divided = configuration.len() > 1;
        let mut plan = Self { problem: *problem, configuration, parts, sums: None, workspace };
        if divided {
            plan.accumulate()?;
        }
        Ok(plan)
    }

    /// Sums the parts in float if the filter's own type is smaller than float.
    fn accumulate(&mut self) -> Result<(), cudnnStatus_t> {
        if let Some(filter) = summed_filter(&self.problem) {
            self.sums = Some(Sums::at_end_of(filter, self.workspace)?);
        }
        Ok(())
    }

    /// The workspace in bytes, float sums included.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// The micro-batches, with their predicted times.
    pub fn configuration(&self) -> &Configuration<Algorithm> {
        &self.configuration
    }

    /// The convolution problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Returns whether the same call gives the same bits each time.
    pub fn is_deterministic(&self) -> bool {
        self.parts.iter().all(|part| part.algorithm.deterministic)
    }

    /// The loosest math type of the plan's algorithms.
    pub fn math_type(&self) -> cudnnMathType_t {
        algorithm::loosest(self.parts.iter().map(|part| part.algorithm.math_type)).unwrap_or(CUDNN_DEFAULT_MATH)
    }

    /// Returns whether no algorithm of the plan has a looser math type than this one.
    pub fn runs_within(&self, math_type: cudnnMathType_t) -> bool {
        algorithm::loosest([self.math_type(), math_type].into_iter()) == Some(math_type)
    }

    /// Returns whether a class admits all algorithms of the plan.
    pub fn is_within(&self, class: &Class) -> bool {
        self.parts.iter().all(|part| class.admits_algorithm(&part.algorithm))
    }

    /// Returns whether an engine of the graph API takes part, which computes no fused calls.
    pub fn has_engines(&self) -> bool {
        self.parts.iter().any(|part| part.engine.is_some())
    }

    /// Returns whether all images run in this algorithm.
    pub fn runs_only(&self, id: c_int) -> bool {
        self.parts.iter().all(|part| part.algorithm.id == id)
    }

    /// The algorithm that most images run in.
    pub fn main_algorithm(&self) -> Algorithm {
        let most = self.parts.iter().max_by_key(|part| part.count * part.batch);
        most.map(|part| part.algorithm).expect("a plan has at least one part")
    }
}

/// The workspace in bytes of a micro-batch of a divided `problem` whose algorithm needs `workspace` bytes. A filter of
/// half or bfloat16 adds the two buffers of the float sums.
pub fn divided_workspace(problem: &Problem, workspace: usize) -> usize {
    summed_filter(problem).map_or(workspace, |filter| filter.workspace(workspace))
}

fn summed_filter(problem: &Problem) -> Option<SummedFilter> {
    let filter = SummedFilter { data_type: problem.w_type, values: problem.filter_values() };
    problem.sums_in_reduced_precision().then_some(filter)
}
