//! Decides by which way a convolution call goes: as requested, under Workspace Reuse, or under Workspace Division.

use std::cell::Cell;
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

impl Call {
    /// Runs the call by its promise or decision. After a panic, `spent` says whether a second run would give a wrong
    /// result.
    ///
    /// # Safety
    /// The caller promises that `self` holds arguments with which cuDNN's convolution function may be called.
    pub unsafe fn run(&self, spent: &Cell<bool>) -> cudnnStatus_t {
        let policies = policies::of(self.handle);
        if policies.policy == Policy::Off {
            // SAFETY: `run_fallback` requires of `self` only what the caller promised.
            return unsafe { self.run_fallback() };
        }
        EXECUTED.store(true, Ordering::Relaxed);
        summary::count(Counted::Convolution);
        settings::fault_point("convolve");
        // SAFETY: the call's descriptors are null or cuDNN's, since cuDNN's own function may take them.
        let Some(problem) = (unsafe { Problem::read(&self.descriptors) }) else {
            // SAFETY: `by_cudnn` requires of `self` only what the caller promised.
            return unsafe { self.by_cudnn() };
        };
        if let Some(epilogue) = &self.operands.epilogue {
            // SAFETY: as ours.
            if !unsafe { divides(&problem, epilogue, cudnn::device().alignment()) } {
                // SAFETY: `run_fallback` requires of `self` only what the caller promised.
                return unsafe { self.run_fallback() };
            }
        }
        // SAFETY: `takes_no_other` requires of `self` only what the caller promised.
        let only = unsafe { self.takes_no_other() };
        if policies.policy == Policy::Division {
            // SAFETY: `division::run::run` requires of the call only what our caller promised.
            return unsafe { division::run::run(self, &problem, only, &policies, spent) };
        }
        let state = registry::state(cudnn::device(), &problem);
        state.known.lock().chose(&problem, self.algorithm, self.workspace.size);
        let ask = Ask {
            id: self.algorithm,
            limit: policies.call_limit(self.workspace.size),
            only,
            sizes: policies.batch_size_policy,
            takes_engines: true,
            is_determined: determinism::is_asked(),
        };
        let mut running = Running { call: self, problem: &problem, state: &state, ask, must_divide: false, spent };
        // SAFETY: `running` runs this call, and our caller promised that its arguments are valid.
        unsafe { running.run() }
    }

    /// Returns true if cuDNN accepts only the requested algorithm: for a fused call with the identity activation.
    ///
    /// # Safety
    /// The caller promises the same as for [`Call::run`].
    unsafe fn takes_no_other(&self) -> bool {
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
