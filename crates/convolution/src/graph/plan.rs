//! A configuration of an operation graph made ready to run: with finalized execution plans for its micro-batches, and
//! its workspace laid out.

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;
use parking_lot::Mutex;

use crate::engines::Destination;
use crate::exec::{Failure, Sums};
use crate::problem::graph::{EngineConfiguration, ExecutionPlan, Kernel, Route, WORKSPACE_ALIGNMENT};
use cudnn::calls;
use cudnn::graph::{Target, VariantPack};
use gpu::Stream;
use planner::{Configuration, MicroConfiguration, Room};

use super::conversion::{Conversion, Moves};
use super::micro_plan::{MicroBatch, MicroPlan, Runs, summed_filter};
use super::operands::Operands;
use super::our_engine::Memory;

/// How many sets of operands a plan keeps variant packs for: programs that allocate anew each time come back to the
/// same few addresses.
const KEPT_PACKS: usize = 4;

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
    /// Each micro-batch's copies are its own, and none is made together with the next one's.
    is_sample: bool,
    idle: Mutex<Vec<Ready>>,
}

/// What one thread runs.
struct Ready {
    /// Of each part.
    plans: Vec<Arc<MicroPlan>>,
    /// The newest last.
    packs: Vec<Packs>,
}

/// A plan's micro-batches over one set of operands.
struct Packs {
    operands: Operands,
    packs: Vec<Pack>,
}

/// What a micro-batch works on, and what is copied, step by step, before it runs and behind it.
struct Pack {
    operands: Arguments,
    before: Vec<Moves>,
    behind: Option<Moves>,
}

/// What is handed to an engine.
enum Arguments {
    /// Of cuDNN.
    Cudnn(VariantPack),
    /// Of ours, with alpha and beta.
    Ours(Memory, f32, f32),
}

/// A micro-batch, what it runs and what that works on.
type InOrder<'a> = (&'a MicroConfiguration<EngineConfiguration>, Runs<'a>, &'a Pack);

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

    /// Some micro-batches of one kind, in the first images only: each to be timed, before all images are run.
    pub fn sample(
        kernel: &Arc<Kernel>,
        part: Part,
        target: &Target,
        brings: usize,
        finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        let plan = Self::make(kernel, vec![part], Configuration::new([part]), target, brings, finalized)?;
        Ok(Self { is_sample: true, ..plan })
    }

    fn make(
        kernel: &Arc<Kernel>,
        parts: Vec<Part>,
        configuration: Configuration<EngineConfiguration>,
        target: &Target,
        brings: usize,
        mut finalized: impl FnMut(usize, &EngineConfiguration) -> Option<Arc<MicroPlan>>,
    ) -> Result<Self, cudnnStatus_t> {
        guest::settings::fault_point("plan");
        let mut plan = |(_, micro): &Part| match finalized(micro.batch, &micro.algorithm) {
            Some(plan) => Ok(plan),
            None => MicroPlan::new(&mut MicroBatch::new(kernel, micro.batch, target), &micro.algorithm).map(Arc::new),
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
        let (kernel, target) = (kernel.clone(), target.clone());
        Ok(Self { kernel, configuration, parts, needs, sums, workspace, target, is_sample: false, idle })
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
    /// sums of half filters and what our kernels do.
    pub fn for_each_micro_batch(
        &self,
        operands: &Operands,
        mut visit: impl FnMut(&ExecutionPlan, &VariantPack) -> Result<(), cudnnStatus_t>,
    ) -> Result<(), cudnnStatus_t> {
        const NO_FORM: cudnnStatus_t = CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API;
        if self.sums.is_some() || self.launches() {
            return Err(NO_FORM);
        }
        let mut ready = self.take()?;
        let visit = |(_, runs, pack): InOrder| match (runs, &pack.operands) {
            (Runs::Cudnn(plan), Arguments::Cudnn(variant)) => visit(plan, variant),
            _ => Err(NO_FORM),
        };
        let visited = self.in_order(&mut ready, operands).and_then(|mut all| all.try_for_each(visit));
        self.idle.lock().push(ready);
        visited
    }

    /// Whether any part launches kernels of ours.
    fn launches(&self) -> bool {
        self.parts.iter().any(|(_, micro)| micro.algorithm.route != Route::AsStored)
    }

    /// Finalized plans that no other thread uses.
    fn take(&self) -> Result<Ready, cudnnStatus_t> {
        let taken = self.idle.lock().pop();
        taken.map_or_else(|| self.another(), Ok)
    }

    /// Finalized plans for one thread more.
    fn another(&self) -> Result<Ready, cudnnStatus_t> {
        let plan = |((_, micro), needed): (&Part, &usize)| {
            let plan = MicroPlan::new(&mut MicroBatch::new(&self.kernel, micro.batch, &self.target), &micro.algorithm)?;
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
        let stream = match self.launches() {
            // SAFETY: the caller's handle.
            true => unsafe { calls::stream_of(handle) }.ok_or(CUDNN_STATUS_EXECUTION_FAILED)?,
            false => std::ptr::null_mut(),
        };
        let mut is_begun = false;
        for (micro, runs, pack) in self.in_order(ready, operands)? {
            guest::settings::fault_point(if is_begun { "run-midway" } else { "run" });
            // SAFETY: images of the program's tensors, and a workspace as large as the engine needs.
            let mut status = unsafe { pack.run(runs, handle, stream) };
            // What runs on copies adds its own; ours is not cut.
            if let Some(sums) = &self.sums
                && status == CUDNN_STATUS_SUCCESS
                && micro.algorithm.route == Route::AsStored
            {
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
        let packs = self.packs(plans, packs, operands)?;
        let parts = self.parts.iter().zip(&*plans);
        let each = parts.flat_map(|((count, micro), plan)| std::iter::repeat_n((micro, plan), *count));
        Ok(each.zip(packs).enumerate().map(|(index, ((micro, plan), pack))| (micro, plan.number(index), pack)))
    }

    /// The packs for these operands: those from before, or new ones in place of the oldest.
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
        let tensors = &self.kernel.tensors;
        let in_memory: Vec<usize> = (0..tensors.len()).filter(|&place| !tensors[place].is_virtual).collect();
        let ids: Vec<i64> = in_memory.iter().map(|&place| place as i64 + 1).collect();
        let convolution = self.kernel.convolution();
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
            let is_part = micro.batch < self.kernel.batch();
            let conversion = plan.conversion();
            let (mut before, mut behind) = (Vec::new(), None);
            if let Some(conversion) = conversion {
                let destination = match is_part && self.kernel.adds_up() {
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
                    Arguments::Ours(Memory { x, w, y, workspace }, alpha, beta)
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

/// What a micro-batch left is copied together with what the next one reads, unless they share memory: fewer launches,
/// each of which keeps the device busy for longer.
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
    /// Runs a micro-batch, its conversions included.
    ///
    /// # Safety
    /// The memory is there; the stream is the handle's.
    unsafe fn run(&self, runs: Runs, handle: cudnnHandle_t, stream: Stream) -> cudnnStatus_t {
        let status_of = |launched| if launched { CUDNN_STATUS_SUCCESS } else { CUDNN_STATUS_EXECUTION_FAILED };
        // SAFETY: as ours.
        unsafe {
            if !self.before.iter().all(|moves| moves.run(stream)) {
                return CUDNN_STATUS_EXECUTION_FAILED;
            }
            let ran = match (runs, &self.operands) {
                (Runs::Cudnn(plan), Arguments::Cudnn(variant)) => plan.execute(handle, variant),
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
