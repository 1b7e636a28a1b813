//! A configuration of an operation graph, made ready to run: finalized execution plans for its micro-batches, and the
//! layout of its workspace.

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;
use parking_lot::Mutex;

use crate::engines::{Destination, Memory};
use crate::exec::{Failure, Sums};
use crate::problem::graph::{EngineConfiguration, ExecutionPlan, Problem, Route, WORKSPACE_ALIGNMENT};
use cudnn::calls;
use cudnn::graph::{Target, VariantPack};
use gpu::Stream;
use planner::{Configuration, MicroConfiguration, WorkspaceBudget};

use super::conversion::{Conversion, Moves};
use super::micro_plan::{MicroBatch, MicroPlan, Runs, summed_filter};
use super::operands::Operands;

/// The sets of operands for which a plan keeps variant packs. Programs that allocate anew for each execution come back
/// to the same few addresses.
const KEPT_PACKS: usize = 4;

/// A part of a plan: a number of micro-batches, and their configuration.
pub type Part = (usize, MicroConfiguration<EngineConfiguration>);

/// A configuration of one problem, ready to run. Several threads may run it at once, each with its own handle, operands
/// and workspace. Each takes finalized plans of its own: cuDNN does not promise that threads can share a plan.
pub struct Plan {
    problem: Arc<Problem>,
    configuration: Configuration<EngineConfiguration>,
    /// In running order.
    parts: Vec<Part>,
    /// The bytes of workspace that a micro-batch of each part needs.
    needs: Vec<usize>,
    sums: Option<Sums>,
    /// The bytes that the plan uses of the caller's workspace.
    workspace: usize,
    target: Target,
    /// Set if each micro-batch makes its own copies, none of them joined with the next one's.
    is_sample: bool,
    idle: Mutex<Vec<Ready>>,
}

/// The finalized plans and variant packs of one thread.
struct Ready {
    /// One for each part.
    plans: Vec<Arc<MicroPlan>>,
    /// The newest last.
    packs: Vec<Packs>,
}

/// The packs of all micro-batches for one set of operands.
struct Packs {
    operands: Operands,
    packs: Vec<Pack>,
}

/// The arguments of one micro-batch, and its copies, step by step, before and after the engine runs.
struct Pack {
    operands: Arguments,
    before: Vec<Moves>,
    behind: Option<Moves>,
}

/// The arguments of an engine.
enum Arguments {
    /// For cuDNN's engine.
    Cudnn(VariantPack),
    /// For our engine, with alpha and beta.
    Ours(Memory, f32, f32),
}

/// A micro-batch, its plan and its pack.
type InOrder<'a> = (&'a MicroConfiguration<EngineConfiguration>, Runs<'a>, &'a Pack);

impl Plan {
    /// Makes `configuration` ready to run. `finalized` gives the plans that are finalized already; this function
    /// finalizes the others. A micro-batch that needs more than the caller's `brings` bytes uses the memory of results
    /// that are still to be computed. `Err` if that is not enough.
    pub fn new(
        problem: &Arc<Problem>,
        configuration: Configuration<EngineConfiguration>,
        target: &Target,
        brings: usize,
        finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        let parts = configuration.parts().to_vec();
        Self::make(problem, parts, configuration, target, brings, finalized)
    }

    /// Makes some equal micro-batches of the first images ready, to time each of them before all images are run.
    pub fn sample(
        problem: &Arc<Problem>,
        part: Part,
        target: &Target,
        brings: usize,
        finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        let plan = Self::make(problem, vec![part], Configuration::new([part]), target, brings, finalized)?;
        Ok(Self { is_sample: true, ..plan })
    }

    fn make(
        problem: &Arc<Problem>,
        parts: Vec<Part>,
        configuration: Configuration<EngineConfiguration>,
        target: &Target,
        brings: usize,
        mut finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        guest::settings::fault_point("plan");
        let mut plan = |(_, micro): &Part| match finalized(micro.batch, &micro.algorithm) {
            Some(plan) => Ok(plan),
            None => MicroPlan::new(&mut MicroBatch::new(problem, micro.batch, target), &micro.algorithm).map(Arc::new),
        };
        let finalized = parts.into_iter().map(|part| plan(&part).map(|plan| (part, plan)));
        let mut finalized = finalized.collect::<Result<Vec<_>, _>>()?;
        let needs = |(part, plan): &(Part, Arc<MicroPlan>)| plan.workspace(problem, part.1.batch);
        if problem.unwritten_per_image() > 0 {
            // The parts that need most run first, while most results are unwritten.
            finalized.sort_by_key(|it| std::cmp::Reverse(needs(it)));
        }
        let needs: Vec<usize> = finalized.iter().map(needs).collect();
        let (parts, plans): (Vec<Part>, Vec<_>) = finalized.into_iter().unzip();
        let workspace = needs.iter().filter(|&&needed| needed <= brings).max().copied().unwrap_or(0);
        let unwritten = WorkspaceBudget { limit: brings, per_image: problem.unwritten_per_image() };
        let mut rest = problem.batch();
        for ((count, micro), needed) in parts.iter().zip(&needs) {
            rest = rest.saturating_sub(count * micro.batch);
            if *needed > unwritten.before(rest) {
                return Err(CUDNN_STATUS_NOT_SUPPORTED);
            }
        }
        let is_divided = parts.iter().any(|(_, micro)| micro.batch < problem.batch());
        let sums = match summed_filter(problem) {
            Some(filter) if is_divided => Some(Sums::at_end_of(filter, workspace)?),
            _ => None,
        };
        let idle = Mutex::new(vec![Ready { plans, packs: Vec::new() }]);
        let (problem, target) = (problem.clone(), target.clone());
        Ok(Self { problem, configuration, parts, needs, sums, workspace, target, is_sample: false, idle })
    }

    /// The problem that the plan runs.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The micro-batches, with their predicted times.
    pub fn configuration(&self) -> &Configuration<EngineConfiguration> {
        &self.configuration
    }

    /// The bytes of workspace that the caller must bring, sums included.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Runs the plan on the handle's stream. Calls `after` with the size and the engine of each launched micro-batch.
    ///
    /// Micro-batches of Forward and BackwardData write different images and keep beta as given. Those of BackwardFilter
    /// add up: the first takes the graph's beta, the others 1, or they are summed in float.
    ///
    /// # Safety
    /// The caller promises that the operands are those of an execution of the plan's problem, and that their workspace
    /// is device memory of at least [`Self::workspace`] bytes.
    pub unsafe fn run(
        &self,
        handle: cudnnHandle_t,
        operands: &Operands,
        after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        let mut fallback = self.take()?;
        // SAFETY: `run_by` requires only what our caller promised.
        let ran = unsafe { self.run_by(&mut fallback, handle, operands, after) };
        self.idle.lock().push(fallback);
        ran
    }

    /// Calls `visit` with the execution plan and the variant pack of each micro-batch, in running order, until a call
    /// fails. For CUDA graphs: calls nothing if the plan does work that has no form in a graph, as sums of half filters
    /// and our GPU kernels do.
    pub fn for_each_micro_batch(
        &self,
        operands: &Operands,
        mut visit: impl FnMut(&ExecutionPlan, &VariantPack) -> Result<(), cudnnStatus_t>,
    ) -> Result<(), cudnnStatus_t> {
        const NO_FORM: cudnnStatus_t = CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API;
        if self.sums.is_some() || self.launches() {
            return Err(NO_FORM);
        }
        let mut fallback = self.take()?;
        let visit = |(_, runs, pack): InOrder| match (runs, &pack.operands) {
            (Runs::Cudnn(plan), Arguments::Cudnn(variant)) => visit(plan, variant),
            _ => Err(NO_FORM),
        };
        let visited = self.in_order(&mut fallback, operands).and_then(|mut all| all.try_for_each(visit));
        self.idle.lock().push(fallback);
        visited
    }

    /// Returns whether any part launches our GPU kernels.
    fn launches(&self) -> bool {
        self.parts.iter().any(|(_, micro)| micro.algorithm.route != Route::AsStored)
    }

    /// Takes finalized plans that no other thread uses.
    fn take(&self) -> Result<Ready, cudnnStatus_t> {
        let taken = self.idle.lock().pop();
        taken.map_or_else(|| self.another(), Ok)
    }

    /// Finalizes plans for one more thread.
    fn another(&self) -> Result<Ready, cudnnStatus_t> {
        let plan = |((_, micro), needed): (&Part, &usize)| {
            let plan =
                MicroPlan::new(&mut MicroBatch::new(&self.problem, micro.batch, &self.target), &micro.algorithm)?;
            // The workspace has been reported and laid out, so it cannot grow.
            let fits = plan.workspace(&self.problem, micro.batch) <= *needed;
            if fits { Ok(Arc::new(plan)) } else { Err(CUDNN_STATUS_INTERNAL_ERROR) }
        };
        let plans = self.parts.iter().zip(&self.needs).map(plan).collect::<Result<_, _>>()?;
        Ok(Ready { plans, packs: Vec::new() })
    }

    /// # Safety
    /// The caller promises the same as for [`Self::run`].
    unsafe fn run_by(
        &self,
        fallback: &mut Ready,
        handle: cudnnHandle_t,
        operands: &Operands,
        mut after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        let workspace = operands.workspace;
        let stream = match self.launches() {
            // SAFETY: the handle is the program's, from this execution.
            true => unsafe { calls::stream_of(handle) }.ok_or(CUDNN_STATUS_EXECUTION_FAILED)?,
            false => std::ptr::null_mut(),
        };
        let mut is_begun = false;
        for (micro, runs, pack) in self.in_order(fallback, operands)? {
            guest::settings::fault_point(if is_begun { "run-midway" } else { "run" });
            // SAFETY: the pack names images of the program's tensors, and a workspace as large as the engine needs.
            let mut status = unsafe { pack.run(runs, handle, stream) };
            // Engines on copies accumulate while copying back; our engines are never split.
            if let Some(sums) = &self.sums
                && status == CUDNN_STATUS_SUCCESS
                && micro.algorithm.route == Route::AsStored
            {
                // SAFETY: the two buffers lie behind the engine's own workspace, within the caller's.
                status = unsafe { sums.add(handle, workspace, !is_begun) };
            }
            if status != CUDNN_STATUS_SUCCESS {
                // Sums leave the result alone until the end.
                let result_modified = is_begun && self.sums.is_none() && operands.add_to_results(&self.problem);
                return Err(Failure { status, result_modified });
            }
            is_begun = true;
            after(micro.batch, micro.algorithm);
        }
        let Some(sums) = &self.sums else { return Ok(()) };
        let beta = self.problem.convolution().beta.value() as f32;
        let filter = operands.pointers[self.problem.convolution().w];
        // SAFETY: the sum is complete, and lies in the program's workspace.
        match unsafe { sums.round(handle, workspace, (&raw const beta).cast(), filter) } {
            CUDNN_STATUS_SUCCESS => Ok(()),
            status => Err(status.into()),
        }
    }

    /// Returns the micro-batches in running order, each with its plan and its pack.
    fn in_order<'a>(
        &'a self,
        fallback: &'a mut Ready,
        operands: &Operands,
    ) -> Result<impl Iterator<Item = InOrder<'a>>, cudnnStatus_t> {
        let Ready { plans, packs } = fallback;
        let packs = self.packs(plans, packs, operands)?;
        let parts = self.parts.iter().zip(&*plans);
        let each = parts.flat_map(|((count, micro), plan)| std::iter::repeat_n((micro, plan), *count));
        Ok(each.zip(packs).enumerate().map(|(index, ((micro, plan), pack))| (micro, plan.number(index), pack)))
    }

    /// Returns the packs for these operands. New packs replace the oldest ones.
    fn packs<'a>(
        &self,
        plans: &[Arc<MicroPlan>],
        kept: &'a mut Vec<Packs>,
        operands: &Operands,
    ) -> Result<&'a [Pack], cudnnStatus_t> {
        match kept.iter().position(|packs| packs.operands == *operands) {
            Some(known) => kept[known..].rotate_left(1),
            None => {
                let packs = Packs { operands: *operands, packs: self.make_packs(plans, operands)? };
                if kept.len() == KEPT_PACKS {
                    kept.remove(0);
                }
                kept.push(packs);
            }
        }
        Ok(kept.last().map_or(&[], |packs| &packs.packs))
    }

    fn make_packs(&self, plans: &[Arc<MicroPlan>], operands: &Operands) -> Result<Vec<Pack>, cudnnStatus_t> {
        let tensors = &self.problem.tensors;
        let in_memory: Vec<usize> = (0..tensors.len()).filter(|&place| !tensors[place].is_virtual).collect();
        let ids: Vec<i64> = in_memory.iter().map(|&place| place as i64 + 1).collect();
        let convolution = self.problem.convolution();
        let (filter, result) = (convolution.w, convolution.result());
        let partial = self.sums.as_ref().map(|sums| sums.partial(operands.workspace));
        let sum = match &self.sums {
            Some(sums) => sums.sum(operands.workspace),
            None => operands.pointers[filter],
        };
        let (mut first, mut kept_filter) = (0, None);
        let pack = |(needed, micro, plan): (usize, &MicroConfiguration<EngineConfiguration>, &MicroPlan)| {
            let at = |place: usize, image: usize| {
                operands.pointers[place].wrapping_byte_add(image * tensors[place].image_stride())
            };
            let (here, rest) = (first, first + micro.batch);
            first = rest;
            let workspace = if needed <= self.workspace {
                operands.workspace
            } else {
                let unwritten = at(result, rest);
                unwritten.wrapping_byte_add(unwritten.addr().wrapping_neg() % WORKSPACE_ALIGNMENT)
            };
            let is_part = micro.batch < self.problem.batch();
            let conversion = plan.conversion();
            let (mut before, mut behind) = (Vec::new(), None);
            if let Some(conversion) = conversion {
                let destination = match is_part && self.problem.adds_up() {
                    true => Destination::Sum(sum, here == 0),
                    false => Destination::Tensor(at(result, here)),
                };
                before.push(conversion.before(|place| at(place, here), workspace, kept_filter));
                behind = Some(conversion.behind(workspace, destination));
            }
            kept_filter = conversion.and_then(|conversion| conversion.kept_filter(workspace));
            let pointer = |&place: &usize| match (conversion, partial) {
                (Some(conversion), _) => conversion.copy(place, workspace).unwrap_or(at(place, here)),
                (None, Some(partial)) if place == filter => partial,
                _ => at(place, here),
            };
            let operands = match plan {
                MicroPlan::Cudnn { .. } => {
                    let pointers: Vec<*mut c_void> = in_memory.iter().map(pointer).collect();
                    let engines_own = workspace.wrapping_byte_add(conversion.map_or(0, Conversion::bytes));
                    Arguments::Cudnn(VariantPack::new(&ids, &pointers, engines_own)?)
                }
                MicroPlan::Ours(_) => {
                    let [x, w, y] = [convolution.x, filter, convolution.y].map(|place| at(place, here));
                    let [alpha, beta] = [convolution.alpha, convolution.beta].map(|factor| factor.value() as f32);
                    Arguments::Ours(Memory { x, w, y, workspace, bias: std::ptr::null() }, alpha, beta)
                }
            };
            Ok(Pack { operands, before, behind })
        };
        let parts = self.parts.iter().zip(&self.needs).zip(plans);
        let micro_batches =
            parts.flat_map(|(((count, micro), needed), plan)| std::iter::repeat_n((*needed, micro, &**plan), *count));
        let mut packs = micro_batches.map(pack).collect::<Result<Vec<Pack>, cudnnStatus_t>>()?;
        if !self.is_sample && self.launches() {
            join_copies(&mut packs);
        }
        Ok(packs)
    }
}

/// Joins the copies after each micro-batch with those before the next, unless they share memory. This takes fewer
/// launches, each of which keeps the device busy for longer.
fn join_copies(packs: &mut [Pack]) {
    for next in 1..packs.len() {
        let (behind, before) = (packs[next - 1].behind.take(), packs[next].before.pop());
        packs[next].before = match (behind, before) {
            (Some(behind), Some(before)) => behind.then(before),
            (behind, before) => behind.into_iter().chain(before).collect(),
        };
    }
}

impl Pack {
    /// Runs a micro-batch with its conversions.
    ///
    /// # Safety
    /// The caller promises that all memory of the pack is allocated, and that the stream is the handle's.
    unsafe fn run(&self, runs: Runs, handle: cudnnHandle_t, stream: Stream) -> cudnnStatus_t {
        let status_of = |launched| if launched { CUDNN_STATUS_SUCCESS } else { CUDNN_STATUS_EXECUTION_FAILED };
        // Problems say how tensors are aligned. A program may cut its workspace out of other memory anywhere.
        let is_aligned =
            |workspace: *mut c_void| workspace.addr().is_multiple_of(super::our_engine::ALIGNMENT as usize);
        // SAFETY: our caller promised the memory and the stream, and the pack was made for this plan.
        unsafe {
            if !self.before.iter().all(|moves| moves.run(stream)) {
                return CUDNN_STATUS_EXECUTION_FAILED;
            }
            let ran = match (runs, &self.operands) {
                (Runs::Cudnn(plan), Arguments::Cudnn(variant)) => plan.execute(handle, variant),
                (Runs::Ours(_), Arguments::Ours(memory, ..)) if !is_aligned(memory.workspace) => {
                    CUDNN_STATUS_EXECUTION_FAILED
                }
                (Runs::Ours(ours), Arguments::Ours(memory, alpha, beta)) => {
                    status_of(ours.run(stream, *memory, *alpha, *beta))
                }
                _ => CUDNN_STATUS_INTERNAL_ERROR,
            };
            match ran {
                CUDNN_STATUS_SUCCESS => status_of(self.behind.iter().all(|moves| moves.run(stream))),
                status => status,
            }
        }
    }
}
