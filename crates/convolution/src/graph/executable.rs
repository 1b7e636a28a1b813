//! Times operation graphs ahead of a program, on our own memory.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudnn_abi::*;

use crate::plans::graph::enumerate::ASKED_EVERY;
use crate::plans::graph::micro_plan::MicroBatch;
use crate::plans::graph::operands::MOST_TENSORS;
use crate::plans::graph::operands::Operands;
use crate::plans::graph::our_candidates;
use crate::plans::graph::plan::Plan;
use crate::plans::graph::probe::{self, Candidates, Probe};
use crate::problem::graph::{Class, EngineConfiguration, Problem, Tensor};
use cudnn::convolution::Workspace;
use cudnn::graph::Target;
use guest::settings;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration, WorkspaceBudget};
use tuning::executable::Executable;
use tuning::search::Candidate;

/// Engines of each list to try at a micro-batch size: the fast ones, and after them those that need little workspace.
const ENOUGH: usize = 8;

/// The limits of workspace, in bytes, at which our engines are probed.
const LIMITS: [usize; 4] = [usize::MAX, 64 << 20, 8 << 20, 0];

/// The value of all tensors in the host's memory, whatever their type: zero.
static BY_VALUE: [u64; 2] = [0; 2];

fn in_device_memory(tensor: &Tensor) -> bool {
    !tensor.is_virtual && !tensor.is_by_value
}

/// Plans are made for the handle's device, and run on any handle of that device.
impl Executable for Problem {
    type Plan = Plan;
    type Operands = Operands;

    fn tensors(&self) -> Vec<(usize, cudnnDataType_t)> {
        let tensors = self.tensors.iter().filter(|tensor| in_device_memory(tensor));
        tensors.map(|tensor| (tensor.bytes().unwrap_or(usize::MAX), tensor.data_type)).collect()
    }

    fn halved(&self) -> Option<Self> {
        self.halved()
    }

    fn operands(&self, tensors: &[*mut c_void]) -> Operands {
        let mut pointers = [ptr::null_mut(); MOST_TENSORS];
        let mut tensors = tensors.iter();
        for (pointer, tensor) in pointers.iter_mut().zip(&self.tensors) {
            if in_device_memory(tensor) {
                *pointer = tensors.next().copied().unwrap_or(ptr::null_mut());
            } else if tensor.is_by_value {
                *pointer = (&raw const BY_VALUE).cast_mut().cast();
            }
        }
        Operands { pointers, workspace: ptr::null_mut() }
    }

    unsafe fn candidates(
        &self,
        handle: cudnnHandle_t,
        class: Option<Class>,
        sizes: BatchSizePolicy,
    ) -> Result<(Class, Vec<Candidate<EngineConfiguration>>), String> {
        let refused = |status: cudnnStatus_t| format!("cuDNN gives no engine for it: status {status}");
        let target = Target::of_device(handle).map_err(refused)?;
        let class = match class {
            Some(class) => class,
            None => {
                let mut whole = MicroBatch::new(self, self.batch(), &target);
                let first = whole.heuristics(CUDNN_HEUR_MODE_A, false).map_err(refused)?;
                let first = first.first().ok_or("cuDNN has no engine for it")?;
                Class::of(first, self.data_type(), settings::get().numerics, false)
            }
        };
        let problem = Arc::new(self.clone());
        let budget = WorkspaceBudget { limit: usize::MAX, per_image: 0 };
        let probe =
            Probe { problem: &problem, class, target: &target, budget, for_cuda_graphs: false, requested: None };
        let mut offers = Candidates::default();
        for limit in LIMITS {
            our_candidates::finalize_all(&mut offers, &probe, limit);
        }
        let (mut engines, mut asked) = (Vec::new(), usize::MAX);
        for size in probe::sizes(self, sizes) {
            let of = &mut probe.micro_batch(size);
            if size <= asked / ASKED_EVERY || size == self.batch() {
                asked = size;
                let best = probe::heuristics(&probe, of, CUDNN_HEUR_MODE_A);
                let fallback = probe::heuristics(&probe, of, CUDNN_HEUR_MODE_FALLBACK);
                for engine in [probe::heuristics_on_copies(&probe, of, &best), best, fallback].concat() {
                    if !engines.contains(&engine) {
                        engines.push(engine);
                    }
                }
            }
            offers.finalize_first(&probe, of, &engines, ENOUGH);
        }
        let mut candidates = offers.best_first();
        candidates.sort_by_key(|candidate| candidate.batch != self.batch());
        Ok((class, candidates))
    }

    unsafe fn plan(
        &self,
        handle: cudnnHandle_t,
        configuration: Configuration<EngineConfiguration>,
    ) -> Result<Plan, cudnnStatus_t> {
        Plan::new(&Arc::new(self.clone()), configuration, &Target::of_device(handle)?, usize::MAX, |_, _| None)
    }

    unsafe fn micro_batch(
        &self,
        handle: cudnnHandle_t,
        micro: MicroConfiguration<EngineConfiguration>,
    ) -> Result<Plan, cudnnStatus_t> {
        Plan::sample(&Arc::new(self.clone()), (1, micro), &Target::of_device(handle)?, usize::MAX, |_, _| None)
    }

    unsafe fn run(
        plan: &Plan,
        handle: cudnnHandle_t,
        operands: &Operands,
        workspace: Workspace,
    ) -> Result<(), cudnnStatus_t> {
        if plan.workspace() > workspace.size {
            return Err(CUDNN_STATUS_EXECUTION_FAILED);
        }
        let operands = Operands { workspace: workspace.data, ..*operands };
        // SAFETY: our caller promised the handle and the operands, and the workspace is large enough.
        unsafe { plan.run(handle, &operands, |_, _| ()) }.map_err(|failure| failure.status)
    }
}
