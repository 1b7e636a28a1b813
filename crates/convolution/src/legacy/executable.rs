//! How tuning times a convolution of the legacy API.

use std::ffi::c_void;

use cudnn::convolution::{Operands, Workspace};
use cudnn::handle::Handle;
use cudnn_abi::*;
use guest::settings;
use planner::{BatchSizePolicy, Configuration, MicroConfiguration};
use tuning::executable::{Executable, Offered};

use crate::exec::{Constant, scaling_type};
use crate::plans::graph::targets;
use crate::plans::legacy::candidates;
use crate::plans::legacy::engine::Engines;
use crate::plans::legacy::plan::Plan;
use crate::plans::legacy::rounding;
use crate::plans::legacy::run::run;
use crate::problem::{Algorithm, Class, OwnedDescriptors, Problem};

impl Executable for Problem {
    type Plan = Plan;
    type Operands = Operands;

    fn tensors(&self) -> Vec<(usize, cudnnDataType_t)> {
        let Self { x, w_type, y, .. } = self;
        vec![(x.bytes(), x.data_type), (self.filter_bytes(), *w_type), (y.bytes(), y.data_type)]
    }

    fn operands(&self, tensors: &[*mut c_void]) -> Operands {
        let scaling = scaling_type(self);
        Operands {
            alpha: scaling.constant(Constant::One),
            beta: scaling.constant(Constant::Zero),
            x: tensors[0],
            w: tensors[1],
            y: tensors[2],
            epilogue: None,
        }
    }

    unsafe fn candidates(
        &self,
        handle: cudnnHandle_t,
        class: Option<Class>,
        policy: BatchSizePolicy,
    ) -> Result<Offered<Self>, String> {
        let refused = |what: &str, status: cudnnStatus_t| format!("cuDNN gives no {what}: status {status}");
        let descriptors =
            OwnedDescriptors::new(self, self.math_type).map_err(|status| refused("descriptors for it", status))?;
        // SAFETY: the handle lives during the call, by the trait.
        let live = unsafe { Handle::new(handle) };
        let offered = descriptors.raw().get_algorithms(live);
        let offered = offered.map_err(|status| refused("algorithm for it", status))?;
        let own = offered.iter().find(|result| result.status == CUDNN_STATUS_SUCCESS);
        let own = own.ok_or("cuDNN has no algorithm for it")?;
        let class = class.unwrap_or_else(|| Class::of(&rounding::find(self, own), settings::get().numerics));
        let offered = rounding::listed(live, self, &offered, class.math_type);
        let sizes = candidates::sizes(self, policy, cudnn::device());
        let mut candidates = candidates::candidates(live, self, &offered, class, &sizes);
        if class.engines {
            targets::learn(handle);
            candidates.extend(&Engines::ours(self, class, usize::MAX).candidates);
        }
        Ok((class, candidates))
    }

    unsafe fn plan(&self, _: cudnnHandle_t, configuration: Configuration<Algorithm>) -> Result<Plan, cudnnStatus_t> {
        Plan::new(self, configuration)
    }

    unsafe fn micro_batch(
        &self,
        _: cudnnHandle_t,
        micro: MicroConfiguration<Algorithm>,
    ) -> Result<Plan, cudnnStatus_t> {
        Plan::micro_batch(self, micro)
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
        // SAFETY: as ours, and the workspace is large enough.
        unsafe { run(plan, handle, operands, workspace, |_, _| ()) }.map_err(|failure| failure.status)
    }
}
