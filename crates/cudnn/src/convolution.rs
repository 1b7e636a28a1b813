//! The legacy convolution functions behind one interface for the three directions.

use std::ffi::{c_int, c_void};
use std::fmt;

use cudnn_abi::*;

use crate::calls;
use crate::calls::query::{self, AlgoPerf};

/// The derivative of a convolution that an operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// y = w ∗ x
    Forward,
    /// dx from w and dy
    BackwardData,
    /// dw from x and dy
    BackwardFilter,
}

/// Writes F, BD or BF.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "F",
            Self::BackwardData => "BD",
            Self::BackwardFilter => "BF",
        })
    }
}

/// The descriptors of one convolution call. `x` also stands for dx, `w` for dw and `y` for dy.
#[derive(Clone, Copy)]
pub struct Descriptors {
    pub direction: Direction,
    pub x: cudnnTensorDescriptor_t,
    pub w: cudnnFilterDescriptor_t,
    pub convolution: cudnnConvolutionDescriptor_t,
    pub y: cudnnTensorDescriptor_t,
}

/// The bias, activation and second summand that `cudnnConvolutionBiasActivationForward` fuses:
/// y = activation(alpha1 · conv + alpha2 · z + bias).
#[derive(Clone, Copy)]
pub struct Epilogue {
    pub alpha2: *const c_void,
    pub z_descriptor: cudnnTensorDescriptor_t,
    pub z: *const c_void,
    pub bias_descriptor: cudnnTensorDescriptor_t,
    pub bias: *const c_void,
    pub activation: cudnnActivationDescriptor_t,
}

/// The data of one convolution call: result = alpha · conv + beta · result. `alpha` and `beta` point to host values,
/// double for double data and float for all other types. An epilogue leaves `beta` unused.
#[derive(Clone, Copy)]
pub struct Operands {
    pub alpha: *const c_void,
    pub beta: *const c_void,
    pub x: *mut c_void,
    pub w: *mut c_void,
    pub y: *mut c_void,
    pub epilogue: Option<Epilogue>,
}

impl Operands {
    /// The tensor that the call writes.
    pub fn result(&self, direction: Direction) -> *mut c_void {
        match direction {
            Direction::Forward => self.y,
            Direction::BackwardData => self.x,
            Direction::BackwardFilter => self.w,
        }
    }

    /// The tensors in the order of the direction's cuDNN functions.
    fn in_order(&self, direction: Direction) -> [*mut c_void; 3] {
        in_order(direction, [self.x, self.w, self.y])
    }

    /// The same operands with another result.
    pub fn with_result(mut self, direction: Direction, result: *mut c_void) -> Self {
        match direction {
            Direction::Forward => self.y = result,
            Direction::BackwardData => self.x = result,
            Direction::BackwardFilter => self.w = result,
        }
        self
    }

    /// The operands of the micro-batch that starts at image `first`, where an image of x and one of y take so many bytes;
    /// the epilogue's z is left as it is.
    pub fn starting_at(&self, image_strides: [usize; 2], first: usize) -> Self {
        let at = |data: *mut c_void, stride: usize| data.wrapping_byte_add(first * stride);
        Self { x: at(self.x, image_strides[0]), y: at(self.y, image_strides[1]), ..*self }
    }
}

/// Device memory of `size` bytes that a call may overwrite.
#[derive(Clone, Copy)]
pub struct Workspace {
    pub data: *mut c_void,
    pub size: usize,
}

type Ask = unsafe fn(
    cudnnHandle_t,
    *mut c_void,
    *mut c_void,
    cudnnConvolutionDescriptor_t,
    *mut c_void,
    c_int,
    *mut c_int,
    *mut AlgoPerf,
) -> cudnnStatus_t;

impl Descriptors {
    /// The tensors' descriptors in the order of the direction's cuDNN functions.
    fn in_order(&self) -> [*mut c_void; 3] {
        in_order(self.direction, [self.x.cast(), self.w.cast(), self.y.cast()])
    }

    /// Calls `cudnnGetConvolution*Algorithm_v7`: cuDNN's heuristics choose, and nothing is timed.
    ///
    /// # Safety
    /// The caller keeps the rules of the cuDNN function.
    pub unsafe fn get_algorithms(&self, handle: cudnnHandle_t) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let get: Ask = match self.direction {
            Direction::Forward => query::cudnnGetConvolutionForwardAlgorithm_v7,
            Direction::BackwardData => query::cudnnGetConvolutionBackwardDataAlgorithm_v7,
            Direction::BackwardFilter => query::cudnnGetConvolutionBackwardFilterAlgorithm_v7,
        };
        // SAFETY: the caller keeps the rules of the cuDNN function that `get` names.
        unsafe { self.ask(get, handle) }
    }

    /// The successful result for algorithm `id`: the one with `math_type` if there is one, else the first with any math
    /// type.
    pub fn of_algorithm(results: &[AlgoPerf], id: c_int, math_type: cudnnMathType_t) -> Option<AlgoPerf> {
        let of_id = |result: &&AlgoPerf| result.algo == id && result.status == CUDNN_STATUS_SUCCESS;
        let same_math = results.iter().filter(of_id).find(|result| result.mathType == math_type);
        same_math.or_else(|| results.iter().find(of_id)).copied()
    }

    /// Calls `cudnnFindConvolution*Algorithm`: cuDNN times its algorithms on its own buffers.
    ///
    /// # Safety
    /// The caller keeps the rules of the cuDNN function.
    pub unsafe fn find_algorithms(&self, handle: cudnnHandle_t) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let find: Ask = match self.direction {
            Direction::Forward => query::cudnnFindConvolutionForwardAlgorithm,
            Direction::BackwardData => query::cudnnFindConvolutionBackwardDataAlgorithm,
            Direction::BackwardFilter => query::cudnnFindConvolutionBackwardFilterAlgorithm,
        };
        // SAFETY: the caller keeps the rules of the cuDNN function that `find` names.
        unsafe { self.ask(find, handle) }
    }

    unsafe fn ask(&self, ask: Ask, handle: cudnnHandle_t) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let [a, b, c] = self.in_order();
        let mut results = self.room(handle)?;
        let mut returned = 0;
        // SAFETY: `results` holds the `count` results requested; the caller promises the other arguments.
        let status = unsafe {
            let (count, room) = (results.capacity() as c_int, results.as_mut_ptr());
            ask(handle, a, b, self.convolution, c, count, &mut returned, room)
        };
        // SAFETY: on success cuDNN has written `returned` results.
        unsafe { taken(results, returned, status) }
    }

    /// Calls `cudnnFindConvolution*AlgorithmEx`: cuDNN times its algorithms on the program's buffers and overwrites the
    /// result's buffer.
    ///
    /// # Safety
    /// The caller keeps the rules of the cuDNN function.
    pub unsafe fn find_algorithms_in(
        &self,
        handle: cudnnHandle_t,
        operands: &Operands,
        workspace: Workspace,
    ) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let find = match self.direction {
            Direction::Forward => query::cudnnFindConvolutionForwardAlgorithmEx,
            Direction::BackwardData => query::cudnnFindConvolutionBackwardDataAlgorithmEx,
            Direction::BackwardFilter => query::cudnnFindConvolutionBackwardFilterAlgorithmEx,
        };
        let [a, b, c] = self.in_order();
        let [a_data, b_data, c_data] = operands.in_order(self.direction);
        let mut results = self.room(handle)?;
        let mut returned = 0;
        // SAFETY: `results` holds as many results as requested; the caller promises the other arguments.
        let status = unsafe {
            find(
                handle,
                a,
                a_data,
                b,
                b_data,
                self.convolution,
                c,
                c_data,
                results.capacity() as c_int,
                &mut returned,
                results.as_mut_ptr(),
                workspace.data,
                workspace.size,
            )
        };
        // SAFETY: on success cuDNN has written `returned` results.
        unsafe { taken(results, returned, status) }
    }

    /// An empty vector with capacity for every result of the direction.
    fn room(&self, handle: cudnnHandle_t) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let max_count = match self.direction {
            Direction::Forward => query::cudnnGetConvolutionForwardAlgorithmMaxCount,
            Direction::BackwardData => query::cudnnGetConvolutionBackwardDataAlgorithmMaxCount,
            Direction::BackwardFilter => query::cudnnGetConvolutionBackwardFilterAlgorithmMaxCount,
        };
        let mut count = 0;
        // SAFETY: cuDNN writes one number to `count`, and checks the handle.
        match unsafe { max_count(handle, &mut count) } {
            CUDNN_STATUS_SUCCESS => Ok(Vec::with_capacity(count.clamp(1, 1024) as usize)),
            status => Err(status),
        }
    }

    /// Calls `cudnnGetConvolution*WorkspaceSize`; the size is in bytes.
    ///
    /// # Safety
    /// The caller keeps the rules of the cuDNN function.
    pub unsafe fn workspace_size(&self, handle: cudnnHandle_t, algorithm: c_int) -> Result<usize, cudnnStatus_t> {
        let mut size = 0;
        // SAFETY: the caller keeps the rules of the cuDNN function; `size` is a valid place for the result.
        match unsafe { self.workspace_size_into(handle, algorithm, &mut size) } {
            CUDNN_STATUS_SUCCESS => Ok(size),
            status => Err(status),
        }
    }

    /// Like [`Self::workspace_size`], but writes to the caller's variable, which may be null.
    ///
    /// # Safety
    /// The caller keeps the rules of the cuDNN function.
    pub unsafe fn workspace_size_into(
        &self,
        handle: cudnnHandle_t,
        algorithm: c_int,
        size: *mut usize,
    ) -> cudnnStatus_t {
        let workspace_size = match self.direction {
            Direction::Forward => query::cudnnGetConvolutionForwardWorkspaceSize,
            Direction::BackwardData => query::cudnnGetConvolutionBackwardDataWorkspaceSize,
            Direction::BackwardFilter => query::cudnnGetConvolutionBackwardFilterWorkspaceSize,
        };
        let [a, b, c] = self.in_order();
        // SAFETY: the caller keeps the rules of the cuDNN function; `in_order` gives the direction's order.
        unsafe { workspace_size(handle, a, b, self.convolution, c, algorithm, size) }
    }

    /// Runs the convolution in the real cuDNN.
    ///
    /// # Safety
    /// The caller keeps the rules of `cudnnConvolutionForward`, `BackwardData`, `BackwardFilter` or, with an epilogue,
    /// `BiasActivationForward`.
    pub unsafe fn convolve(
        &self,
        handle: cudnnHandle_t,
        algorithm: c_int,
        operands: &Operands,
        workspace: Workspace,
    ) -> cudnnStatus_t {
        let Self { x, w, convolution, y, .. } = *self;
        let Workspace { data, size } = workspace;
        if let (Direction::Forward, Some(e)) = (self.direction, operands.epilogue) {
            // SAFETY: the caller keeps the rules of this function.
            return unsafe {
                calls::cudnnConvolutionBiasActivationForward(
                    handle,
                    operands.alpha,
                    x,
                    operands.x,
                    w,
                    operands.w,
                    convolution,
                    algorithm,
                    data,
                    size,
                    e.alpha2,
                    e.z_descriptor,
                    e.z,
                    e.bias_descriptor,
                    e.bias,
                    e.activation,
                    y,
                    operands.y,
                )
            };
        }
        let convolve = match self.direction {
            Direction::Forward => calls::cudnnConvolutionForward,
            Direction::BackwardData => calls::cudnnConvolutionBackwardData,
            Direction::BackwardFilter => calls::cudnnConvolutionBackwardFilter,
        };
        let ([a, b, c], [a_data, b_data, c_data]) = (self.in_order(), operands.in_order(self.direction));
        let Operands { alpha, beta, .. } = *operands;
        // SAFETY: the caller keeps the rules of the cuDNN function; `in_order` gives the direction's order.
        unsafe { convolve(handle, alpha, a, a_data, b, b_data, convolution, algorithm, data, size, beta, c, c_data) }
    }
}

/// Puts what belongs to x, w and y in the order of the direction's cuDNN functions.
fn in_order<T>(direction: Direction, [x, w, y]: [T; 3]) -> [T; 3] {
    match direction {
        Direction::Forward => [x, w, y],
        Direction::BackwardData => [w, y, x],
        Direction::BackwardFilter => [x, y, w],
    }
}

/// # Safety
/// If `status` says success, the first `returned` results have been written.
unsafe fn taken(
    mut results: Vec<AlgoPerf>,
    returned: c_int,
    status: cudnnStatus_t,
) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
    if status != CUDNN_STATUS_SUCCESS {
        return Err(status);
    }
    // SAFETY: the length is within the capacity, and the caller promises that these results were written.
    unsafe { results.set_len((returned.max(0) as usize).min(results.capacity())) };
    Ok(results)
}
