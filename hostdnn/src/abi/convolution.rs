//! The common parts of the convolution functions of all three directions. Nothing here is exported.

use super::boundary::{context, refer, scale, write, write_array};
use crate::convolution::{self, Algorithm, Direction, Error as RunError, Problem};
use crate::descriptor::{ConvolutionDescriptor, FilterDescriptor, TensorDescriptor};
use crate::error::{Error, Result, require};
use crate::fault;
use crate::kernel;
use crate::math_types;
use crate::select::{self, Candidate, Tensors};
use crate::tf32;
use cudnn_abi::*;
use std::ffi::{c_int, c_void};

/// The handle and descriptors of one call, by their names in the forward direction.
#[derive(Clone, Copy)]
pub struct Call {
    /// The exported function's name, for faults.
    pub function: &'static str,
    /// The direction, which says which tensor is computed.
    pub direction: Direction,
    /// The handle.
    pub handle: cudnnHandle_t,
    /// The input's, or its gradient's.
    pub x: cudnnTensorDescriptor_t,
    /// The filter's, or its gradient's.
    pub w: cudnnFilterDescriptor_t,
    /// The convolution's.
    pub conv: cudnnConvolutionDescriptor_t,
    /// The output's, or its gradient's.
    pub y: cudnnTensorDescriptor_t,
}

impl Call {
    /// The convolution, and its descriptor's math type as hostdnn reports it.
    ///
    /// # Safety
    /// Handle and descriptors are null or live.
    unsafe fn problem(&self) -> Result<(Problem, cudnnMathType_t)> {
        // SAFETY: the caller's promise.
        unsafe {
            context(self.handle)?;
            let x = refer::<TensorDescriptor>(self.x)?;
            let w = refer::<FilterDescriptor>(self.w)?;
            let y = refer::<TensorDescriptor>(self.y)?;
            let conv = refer::<ConvolutionDescriptor>(self.conv)?;
            Ok((kernel::problem(self.direction, x, w, conv, y)?, math_types::reported(conv.math_type())))
        }
    }

    fn algorithm(&self, algo: c_int) -> Result<Algorithm> {
        let unknown = || Error::new(CUDNN_STATUS_BAD_PARAM, format!("algorithm {algo} is not one of cuDNN's"));
        Algorithm::from_id(self.direction, algo).ok_or_else(unknown)
    }

    /// # Safety
    /// As for [`Self::problem`]; `count` is null or valid for a write.
    pub unsafe fn max_count(handle: cudnnHandle_t, direction: Direction, count: *mut c_int) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            context(handle)?;
            write(count, select::count(direction) * math_types::most())
        }
    }

    /// # Safety
    /// As for [`Self::problem`]; `size` is null or valid for a write.
    pub unsafe fn workspace_size(&self, algo: c_int, size: *mut usize) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            let (problem, math_type) = self.problem()?;
            let algorithm = self.algorithm(algo)?;
            write(size, math_types::need(needed(&problem, algorithm)?, algo, math_type))
        }
    }

    /// Lists algorithms without running any.
    ///
    /// # Safety
    /// As for [`Self::problem`]; `results` holds null or valid pointers.
    pub unsafe fn rank<P: Entry>(&self, results: Results<P>) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            results.check()?;
            let (problem, math_type) = self.problem()?;
            results.write(&math_types::listed(select::rank(&problem), math_type, None))
        }
    }

    /// Times algorithms on newly allocated memory.
    ///
    /// # Safety
    /// As for [`Self::rank`].
    pub unsafe fn find<P: Entry>(&self, results: Results<P>) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            results.check()?;
            let (problem, math_type) = self.problem()?;
            let timed = select::time_all_on_own_tensors(self.function, &problem)?;
            results.write(&math_types::listed(timed, math_type, None))
        }
    }

    /// Times algorithms on the program's memory, and overwrites its output.
    ///
    /// # Safety
    /// As for [`Self::rank`]; the tensors and the workspace are null or as long as the descriptors and `size` say.
    pub unsafe fn find_on<P: Entry>(
        &self,
        tensors: Tensors,
        results: Results<P>,
        workspace: *mut c_void,
        size: usize,
    ) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            results.check()?;
            let (problem, math_type) = self.problem()?;
            check_tensors(tensors)?;
            let size = if workspace.is_null() { 0 } else { size };
            let timed = select::time_all(self.function, &problem, tensors, Some((workspace.cast(), size)));
            results.write(&math_types::listed(timed, math_type, Some(size)))
        }
    }

    /// Runs an algorithm.
    ///
    /// # Safety
    /// As for [`Self::prepare`]; the scaling factors are null or of the type that goes with the data.
    pub unsafe fn run(
        &self,
        algo: c_int,
        alpha: *const c_void,
        beta: *const c_void,
        tensors: Tensors,
        workspace: *mut c_void,
        size: usize,
    ) -> Result {
        // SAFETY: the caller's promise.
        unsafe {
            let ready = self.prepare(algo, tensors, workspace, size)?;
            let data_type = refer::<TensorDescriptor>(self.x)?.data_type();
            ready.run(scale(alpha, data_type)?, scale(beta, data_type)?)
        }
    }

    /// Makes all checks, and writes nothing.
    ///
    /// # Safety
    /// As for [`Self::problem`]; the tensors and the workspace are null or as long as the descriptors and `size` say.
    pub unsafe fn prepare(&self, algo: c_int, tensors: Tensors, workspace: *mut c_void, size: usize) -> Result<Ready> {
        // SAFETY: the caller's promise.
        let (problem, math_type) = unsafe { self.problem() }?;
        check_tensors(tensors)?;
        let algorithm = self.algorithm(algo)?;
        let needed = math_types::need(needed(&problem, algorithm)?, algo, math_type);
        let given = if workspace.is_null() { 0 } else { size };
        require(given >= needed, "the workspace is as large as the algorithm needs")?;
        fault::check(self.function, Some(fault::Run { algo, batch: problem.batch }))?;
        let rounds = tf32::legacy_rounds(&problem, needed, math_type);
        Ok(Ready { problem, algorithm, rounds, tensors, workspace: workspace.cast(), size: given })
    }
}

/// A convolution that has passed all checks.
pub struct Ready {
    problem: Problem,
    algorithm: Algorithm,
    rounds: bool,
    tensors: Tensors,
    workspace: *mut u8,
    size: usize,
}

impl Ready {
    /// # Safety
    /// As for [`Call::prepare`].
    pub unsafe fn run(self, alpha: f64, beta: f64) -> Result {
        let Self { problem, algorithm, rounds, tensors: Tensors { x, w, y }, workspace, size } = self;
        // SAFETY: the caller promises valid memory; `problem` checked that the output does not overlap itself.
        let ran = unsafe {
            let run =
                |[x, w, y]: [*mut u8; 3]| convolution::run(&problem, algorithm, alpha, beta, x, w, y, workspace, size);
            if rounds { tf32::on_rounded(&problem, [x, w, y], run) } else { run([x, w, y]) }
        };
        ran.map_err(|error| {
            let status = match error {
                RunError::Unsupported => CUDNN_STATUS_NOT_SUPPORTED,
                RunError::Workspace { .. } => CUDNN_STATUS_BAD_PARAM,
            };
            Error::new(status, error.to_string())
        })?;
        select::ran_in(&problem, algorithm, if rounds { tf32::SHARE } else { 1.0 });
        Ok(())
    }
}

fn needed(problem: &Problem, algorithm: Algorithm) -> Result<usize> {
    convolution::workspace_size(problem, algorithm)
        .map_err(|error| Error::new(CUDNN_STATUS_NOT_SUPPORTED, error.to_string()))
}

fn check_tensors(tensors: Tensors) -> Result {
    let Tensors { x, w, y } = tensors;
    require(!x.is_null() && !w.is_null() && !y.is_null(), "tensors are not null")
}

/// Pointers to the tensors of a call. The direction decides which of them is written.
pub fn tensors(x: *const c_void, w: *const c_void, y: *const c_void) -> Tensors {
    Tensors { x: x.cast_mut().cast(), w: w.cast_mut().cast(), y: y.cast_mut().cast() }
}

/// One of cuDNN's three result types.
pub trait Entry: Copy {
    /// The entry of a candidate.
    fn new(candidate: &Candidate, math_type: cudnnMathType_t) -> Self;
}

macro_rules! entries {
    ($($type:ident)*) => {
        $(impl Entry for $type {
            fn new(candidate: &Candidate, mathType: cudnnMathType_t) -> Self {
                let &Candidate { algo, status, time, memory, deterministic } = candidate;
                let determinism = if deterministic { CUDNN_DETERMINISTIC } else { CUDNN_NON_DETERMINISTIC };
                Self { algo, status, time, memory, determinism, mathType, reserved: [0; 3] }
            }
        })*
    };
}
entries! { cudnnConvolutionFwdAlgoPerf_t cudnnConvolutionBwdDataAlgoPerf_t cudnnConvolutionBwdFilterAlgoPerf_t }

/// The destination of a list of results.
#[derive(Clone, Copy)]
pub struct Results<P> {
    /// The number of entries that there is room for.
    pub requested: c_int,
    /// The number of entries that were written.
    pub returned: *mut c_int,
    /// The entries.
    pub entries: *mut P,
}

impl<P: Entry> Results<P> {
    fn check(&self) -> Result {
        require(self.requested > 0, "requestedAlgoCount is positive")?;
        require(!self.returned.is_null() && !self.entries.is_null(), "pointers to results are not null")
    }

    /// # Safety
    /// The pointers are valid for as many writes as were asked for.
    unsafe fn write(&self, candidates: &[(Candidate, cudnnMathType_t)]) -> Result {
        let room = usize::try_from(self.requested).unwrap_or(0);
        let entries: Vec<P> = candidates.iter().take(room).map(|(c, math_type)| P::new(c, *math_type)).collect();
        // SAFETY: the caller's promise.
        unsafe {
            write_array(self.entries, &entries)?;
            write(self.returned, entries.len() as c_int)
        }
    }
}
