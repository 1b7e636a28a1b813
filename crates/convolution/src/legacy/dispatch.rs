//! Decides by which way a convolution call goes: as requested, under Workspace Reuse, or under Workspace Division.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudnn_abi::*;

use super::call::Call;
use super::division;
use super::execute::Running;
use crate::plans::legacy::decision::Ask;
use crate::plans::legacy::registry::{self, EXECUTED};
use crate::plans::legacy::run::divides;
use crate::problem::Problem;
use cudnn::calls;
use cudnn::policies;
use guest::determinism;
use guest::settings::{self, Policy};
use guest::summary::{self, Counted};
use tuning::steps;

impl Call<'_> {
    /// Runs the call by its promise or decision. After a panic, `spent` says whether a second run would give a wrong
    /// result.
    pub fn run(&self, spent: &Cell<bool>) -> cudnnStatus_t {
        let policies = policies::of(self.handle.raw());
        if policies.policy == Policy::Off {
            return self.run_fallback();
        }
        EXECUTED.store(true, Ordering::Relaxed);
        summary::count(Counted::Convolution);
        settings::fault_point("convolve");
        let Some(problem) = Problem::read(&self.descriptors) else { return self.by_cudnn() };
        if let Some(epilogue) = &self.operands.epilogue {
            // SAFETY: the epilogue's descriptors are null or cuDNN's.
            if !unsafe { divides(&problem, epilogue, cudnn::device().alignment()) } {
                return self.run_fallback();
            }
        }
        let only = self.takes_no_other();
        if policies.policy == Policy::Division {
            // A layer has no state of its own here, but a filter.
            steps::called(self.operands.w.addr() + problem.direction as usize);
            // SAFETY: the problem was read from this call.
            return unsafe { division::run::run(self, &problem, only, &policies, spent) };
        }
        let state = registry::state(cudnn::device(), &problem);
        steps::called(Arc::as_ptr(&state).addr());
        state.known.lock().chose(&problem, self.algorithm, self.workspace.size);
        let ask = Ask {
            id: self.algorithm,
            preferred: None,
            limit: policies.call_limit(self.workspace.size),
            only,
            sizes: policies.batch_size_policy,
            takes_engines: true,
            is_determined: determinism::is_asked(),
        };
        // SAFETY: the problem was read from this call, and the state is the problem's.
        unsafe { Running::new(self, &problem, &state, ask, spent) }.run()
    }

    /// Returns true if cuDNN accepts only the requested algorithm: for a fused call with the identity activation.
    fn takes_no_other(&self) -> bool {
        let Some(epilogue) = &self.operands.epilogue else { return false };
        if epilogue.activation.is_null() {
            return true; // cuDNN will refuse it
        }
        let (mut mode, mut nan, mut coefficient) = (0, 0, 0.0);
        // SAFETY: the descriptor is the program's and not null, and the three places outlive the call.
        let status =
            unsafe { calls::cudnnGetActivationDescriptor(epilogue.activation, &mut mode, &mut nan, &mut coefficient) };
        status != CUDNN_STATUS_SUCCESS || mode == CUDNN_ACTIVATION_IDENTITY
    }
}
