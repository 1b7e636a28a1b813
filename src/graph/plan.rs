//! A configuration of an operation graph made ready to run: with finalized execution plans for its micro-batches, and
//! its workspace laid out.

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;
use parking_lot::Mutex;

use crate::cudnn::graph::{
    EngineConfiguration, ExecutionPlan, Factor, Kernel, OperationGraph, Target, VariantPack, WORKSPACE_ALIGNMENT,
};
use crate::exec::{Failure, SummedFilter, Sums};
use crate::plan::{Configuration, MicroConfiguration, Room};

use super::operands::Operands;

/// How many sets of operands a plan keeps variant packs for: programs that allocate anew each time come back to the
/// same few addresses.
const KEPT_PACKS: usize = 4;

/// Execution plans of one micro-batch size on one engine.
pub struct MicroPlan {
    /// As the program's own graph.
    first: ExecutionPlan,
    /// Where micro-batches add up in the result: what adds to it.
    adding: Option<ExecutionPlan>,
}

impl MicroPlan {
    /// Of `kernel`'s mini-batch cut to `batch` images. `Err` where the engine cannot compute that.
    pub fn new(
        kernel: &Kernel,
        batch: usize,
        engine: &EngineConfiguration,
        target: &Target,
    ) -> Result<Self, cudnnStatus_t> {
        let part = kernel.with_batch(batch);
        Self::on(&OperationGraph::new(&part, target)?, kernel, &part, engine)
    }

    /// The same on a graph that has been made of the `part`.
    pub fn on(
        graph: &OperationGraph,
        kernel: &Kernel,
        part: &Kernel,
        engine: &EngineConfiguration,
    ) -> Result<Self, cudnnStatus_t> {
        let beta = kernel.convolution().beta;
        let plan = |wanted: Factor| match wanted == beta {
            true => ExecutionPlan::new(graph, engine),
            false => {
                let graph = OperationGraph::new(&part.with_beta(wanted), graph.target())?;
                ExecutionPlan::new(&graph, engine)
            }
        };
        let adds_up = part.batch() < kernel.batch() && kernel.adds_up();
        if adds_up && summed_filter(kernel).is_some() {
            // What the filter held is added once, to the sum.
            return Ok(Self { first: plan(Factor::ZERO)?, adding: None });
        }
        let adding = (adds_up && beta != Factor::ONE).then(|| plan(Factor::ONE)).transpose()?;
        Ok(Self { first: plan(beta)?, adding })
    }

    /// Bytes of workspace that it takes as a part of `kernel`'s mini-batch, or as all of it; sums included.
    pub fn workspace(&self, kernel: &Kernel, batch: usize) -> usize {
        let own = self.first.workspace().max(self.adding.as_ref().map_or(0, ExecutionPlan::workspace));
        if batch < kernel.batch() { divided_workspace(kernel, own) } else { own }
    }
}

/// Bytes of workspace that a micro-batch of a divided `kernel` takes, when its engine needs `workspace` bytes.
fn divided_workspace(kernel: &Kernel, workspace: usize) -> usize {
    summed_filter(kernel).map_or(workspace, |filter| filter.workspace(workspace))
}

/// The filter, if partial sums in its type are too small.
fn summed_filter(kernel: &Kernel) -> Option<SummedFilter> {
    let filter = &kernel.tensors[kernel.convolution().w];
    let summed = SummedFilter { data_type: filter.data_type, values: filter.values() };
    kernel.sums_in_reduced_precision().then_some(summed)
}

/// What a part of a plan runs.
pub type Part = (usize, MicroConfiguration<EngineConfiguration>);

/// A configuration of one kernel, ready to run. It may run on several threads at once, each with its own handle,
/// operands and workspace: each takes finalized plans of its own, since cuDNN promises of none that threads can share it.
pub struct Plan {
    kernel: Arc<Kernel>,
    configuration: Configuration<EngineConfiguration>,
    /// In the order in which they run.
    parts: Vec<Part>,
    /// Of each micro-batch of a part.
    needs: Vec<usize>,
    sums: Option<Sums>,
    /// Bytes of workspace that are used of what the caller brings.
    workspace: usize,
    target: Target,
    idle: Mutex<Vec<Ready>>,
}

/// What one thread runs.
struct Ready {
    /// Of each part.
    plans: Vec<Arc<MicroPlan>>,
    /// The newest last.
    packs: Vec<Packs>,
}

/// The variant packs of a plan's micro-batches for one set of operands.
struct Packs {
    operands: Operands,
    packs: Vec<VariantPack>,
}

/// A micro-batch, its execution plan and its variant pack.
type InOrder<'a> = (&'a MicroConfiguration<EngineConfiguration>, &'a ExecutionPlan, &'a VariantPack);

impl Plan {
    /// Of `configuration`, whose micro-batches' plans `finalized` gives if it has them: others are finalized here. A
    /// micro-batch that needs more than the `brings` bytes of the caller's uses results that are still to be computed;
    /// `Err` where that is not enough.
    pub fn new(
        kernel: &Arc<Kernel>,
        configuration: Configuration<EngineConfiguration>,
        target: &Target,
        brings: usize,
        finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        let parts = configuration.parts().to_vec();
        Self::make(kernel, parts, configuration, target, brings, finalized)
    }

    /// Some micro-batches of one kind, in the first images only: to be timed, before all images are run.
    pub fn sample(
        kernel: &Arc<Kernel>,
        part: Part,
        target: &Target,
        brings: usize,
        finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        Self::make(kernel, vec![part], Configuration::new([part]), target, brings, finalized)
    }

    fn make(
        kernel: &Arc<Kernel>,
        parts: Vec<Part>,
        configuration: Configuration<EngineConfiguration>,
        target: &Target,
        brings: usize,
        mut finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        crate::settings::fault_point("plan");
        let mut plan = |(_, micro): &Part| match finalized(micro.batch, &micro.algorithm) {
            Some(plan) => Ok(plan),
            None => MicroPlan::new(kernel, micro.batch, &micro.algorithm, target).map(Arc::new),
        };
        let finalized = parts.into_iter().map(|part| plan(&part).map(|plan| (part, plan)));
        let mut finalized = finalized.collect::<Result<Vec<_>, _>>()?;
        let needs = |(part, plan): &(Part, Arc<MicroPlan>)| plan.workspace(kernel, part.1.batch);
        if kernel.unwritten_per_image() > 0 {
            // What needs most runs while most results are unwritten.
            finalized.sort_by_key(|it| std::cmp::Reverse(needs(it)));
        }
        let needs: Vec<usize> = finalized.iter().map(needs).collect();
        let (parts, plans): (Vec<Part>, Vec<_>) = finalized.into_iter().unzip();
        let workspace = needs.iter().filter(|&&needed| needed <= brings).max().copied().unwrap_or(0);
        let unwritten = Room { limit: brings, per_image: kernel.unwritten_per_image() };
        let mut rest = kernel.batch();
        for ((count, micro), needed) in parts.iter().zip(&needs) {
            rest = rest.saturating_sub(count * micro.batch);
            if *needed > unwritten.before(rest) {
                return Err(CUDNN_STATUS_NOT_SUPPORTED);
            }
        }
        let is_divided = parts.iter().any(|(_, micro)| micro.batch < kernel.batch());
        let sums = match summed_filter(kernel) {
            Some(filter) if is_divided => Some(Sums::at_end_of(filter, workspace)?),
            _ => None,
        };
        let idle = Mutex::new(vec![Ready { plans, packs: Vec::new() }]);
        Ok(Self { kernel: kernel.clone(), configuration, parts, needs, sums, workspace, target: target.clone(), idle })
    }

    /// The kernel that it runs.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Which micro-batches it runs, with their predicted times.
    pub fn configuration(&self) -> &Configuration<EngineConfiguration> {
        &self.configuration
    }

    /// Bytes of workspace that it needs of the caller, sums included.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Runs it on the handle's stream; `after` is called as each micro-batch has been launched, with its size and engine.
    ///
    /// Micro-batches of Forward and BackwardData write different images and keep beta as given. BackwardFilter's add up:
    /// the first takes the graph's beta, the others 1, or they are summed in float.
    ///
    /// # Safety
    /// The operands are those of an execution of the plan's kernel, and their workspace is memory of the device of at
    /// least [`Self::workspace`] bytes.
    pub unsafe fn run(
        &self,
        handle: cudnnHandle_t,
        operands: &Operands,
        after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        let mut ready = self.take()?;
        // SAFETY: as ours.
        let ran = unsafe { self.run_by(&mut ready, handle, operands, after) };
        self.idle.lock().push(ready);
        ran
    }

    /// Calls with the execution plan and the variant pack of each micro-batch, in the order in which they are to run,
    /// until one call fails. For graphs: nothing is called where more belongs to a plan that has no form in a graph, the
    /// sums of half filters.
    pub fn for_each_micro_batch(
        &self,
        operands: &Operands,
        mut visit: impl FnMut(&ExecutionPlan, &VariantPack) -> Result<(), cudnnStatus_t>,
    ) -> Result<(), cudnnStatus_t> {
        if self.sums.is_some() {
            return Err(CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API);
        }
        let mut ready = self.take()?;
        let in_order = self.in_order(&mut ready, operands);
        let visited = in_order.and_then(|mut all| all.try_for_each(|(_, plan, pack)| visit(plan, pack)));
        self.idle.lock().push(ready);
        visited
    }

    /// Finalized plans that no other thread uses.
    fn take(&self) -> Result<Ready, cudnnStatus_t> {
        let taken = self.idle.lock().pop();
        taken.map_or_else(|| self.another(), Ok)
    }

    /// Finalized plans for one thread more.
    fn another(&self) -> Result<Ready, cudnnStatus_t> {
        let plan = |((_, micro), needed): (&Part, &usize)| {
            let plan = MicroPlan::new(&self.kernel, micro.batch, &micro.algorithm, &self.target)?;
            // The workspace has been told, and laid out.
            let fits = plan.workspace(&self.kernel, micro.batch) <= *needed;
            if fits { Ok(Arc::new(plan)) } else { Err(CUDNN_STATUS_INTERNAL_ERROR) }
        };
        let plans = self.parts.iter().zip(&self.needs).map(plan).collect::<Result<_, _>>()?;
        Ok(Ready { plans, packs: Vec::new() })
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn run_by(
        &self,
        ready: &mut Ready,
        handle: cudnnHandle_t,
        operands: &Operands,
        mut after: impl FnMut(usize, EngineConfiguration),
    ) -> Result<(), Failure> {
        let workspace = operands.workspace;
        let mut is_begun = false;
        for (micro, plan, pack) in self.in_order(ready, operands)? {
            crate::settings::fault_point(if is_begun { "run-midway" } else { "run" });
            // SAFETY: images of the program's tensors, and a workspace as large as the engine needs.
            let mut status = unsafe { plan.execute(handle, pack) };
            if let Some(sums) = self.sums.as_ref().filter(|_| status == CUDNN_STATUS_SUCCESS) {
                // SAFETY: the two buffers lie behind the engine's own workspace.
                status = unsafe { sums.add(handle, workspace, !is_begun) };
            }
            if status != CUDNN_STATUS_SUCCESS {
                let result_spent = is_begun && operands.add_to_results(&self.kernel);
                return Err(Failure { status, result_spent });
            }
            is_begun = true;
            after(micro.batch, micro.algorithm);
        }
        let Some(sums) = &self.sums else { return Ok(()) };
        let beta = self.kernel.convolution().beta.value() as f32;
        let filter = operands.pointers[self.kernel.convolution().w];
        // SAFETY: the sum is complete, in the program's workspace.
        match unsafe { sums.round(handle, workspace, (&raw const beta).cast(), filter) } {
            CUDNN_STATUS_SUCCESS => Ok(()),
            status => Err(status.into()),
        }
    }

    /// The micro-batches in the order in which they run, each with what runs it.
    fn in_order<'a>(
        &'a self,
        ready: &'a mut Ready,
        operands: &Operands,
    ) -> Result<impl Iterator<Item = InOrder<'a>>, cudnnStatus_t> {
        let Ready { plans, packs } = ready;
        let packs = self.packs(packs, operands)?;
        let parts = self.parts.iter().zip(&*plans);
        let each = parts.flat_map(|((count, micro), plan)| std::iter::repeat_n((micro, plan), *count));
        Ok(each.zip(packs).enumerate().map(|(index, ((micro, plan), pack))| {
            let adding = plan.adding.as_ref().filter(|_| index > 0);
            (micro, adding.unwrap_or(&plan.first), pack)
        }))
    }

    /// The variant packs for these operands: those from before, or new ones in place of the oldest.
    fn packs<'a>(&self, kept: &'a mut Vec<Packs>, operands: &Operands) -> Result<&'a [VariantPack], cudnnStatus_t> {
        match kept.iter().position(|packs| packs.operands == *operands) {
            Some(known) => kept[known..].rotate_left(1),
            None => {
                let packs = Packs { operands: *operands, packs: self.make_packs(operands)? };
                if kept.len() == KEPT_PACKS {
                    kept.remove(0);
                }
                kept.push(packs);
            }
        }
        Ok(kept.last().map_or(&[], |packs| &packs.packs))
    }

    fn make_packs(&self, operands: &Operands) -> Result<Vec<VariantPack>, cudnnStatus_t> {
        let tensors = &self.kernel.tensors;
        let in_memory: Vec<usize> = (0..tensors.len()).filter(|&place| !tensors[place].is_virtual).collect();
        let ids: Vec<i64> = in_memory.iter().map(|&place| place as i64 + 1).collect();
        let partial = self.sums.as_ref().map(|sums| (self.kernel.convolution().w, sums.partial(operands.workspace)));
        let result = self.kernel.convolution().result();
        let mut first = 0;
        let pack = |(needed, micro): (usize, &MicroConfiguration<EngineConfiguration>)| {
            let at = |place: usize, image: usize| {
                operands.pointers[place].wrapping_byte_add(image * tensors[place].image_stride())
            };
            let pointer = |&place: &usize| match partial {
                Some((filter, partial)) if place == filter => partial,
                _ => at(place, first),
            };
            let pointers: Vec<*mut c_void> = in_memory.iter().map(pointer).collect();
            first += micro.batch;
            let workspace = if needed <= self.workspace {
                operands.workspace
            } else {
                let unwritten = at(result, first);
                unwritten.wrapping_byte_add(unwritten.addr().wrapping_neg() % WORKSPACE_ALIGNMENT)
            };
            VariantPack::new(&ids, &pointers, workspace)
        };
        let parts = self.parts.iter().zip(&self.needs);
        let micro_batches = parts.flat_map(|((count, micro), needed)| std::iter::repeat_n((*needed, micro), *count));
        micro_batches.map(pack).collect()
    }
}
