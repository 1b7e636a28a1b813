//! The legacy convolution functions behind one interface for the three directions.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;

use cudnn_abi::*;

use crate::calls;
use crate::handle::Handle;
use crate::owned::checked;

/// A query's result for one algorithm. cuDNN has one such structure per direction, all three with the same layout.
pub type AlgoPerf = cudnnConvolutionFwdAlgoPerfStruct;

const _: () = {
    assert!(size_of::<AlgoPerf>() == size_of::<cudnnConvolutionBwdDataAlgoPerfStruct>());
    assert!(size_of::<AlgoPerf>() == size_of::<cudnnConvolutionBwdFilterAlgoPerfStruct>());
};

/// Calls the function of a direction with the arguments for x, w and y in its order: two of them stand before the
/// convolution's descriptor, and the result's after it.
macro_rules! in_order {
    (
        $direction:expr, $forward:ident | $data:ident | $filter:ident,
        ($($first:expr),*), [$($x:expr),*], [$($w:expr),*], [$($y:expr),*], ($($middle:expr),*), ($($last:expr),*)
    ) => {
        match $direction {
            Direction::Forward => calls::$forward($($first,)* $($x,)* $($w,)* $($middle,)* $($y,)* $($last),*),
            Direction::BackwardData => calls::$data($($first,)* $($w,)* $($y,)* $($middle,)* $($x,)* $($last),*),
            Direction::BackwardFilter => calls::$filter($($first,)* $($x,)* $($y,)* $($middle,)* $($w,)* $($last),*),
        }
    };
}

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

/// The descriptors of one convolution call, each of which is null or lives for `'a`. `x` also stands for dx, `w` for dw
/// and `y` for dy.
#[derive(Clone, Copy)]
pub struct Descriptors<'a> {
    direction: Direction,
    x: cudnnTensorDescriptor_t,
    w: cudnnFilterDescriptor_t,
    convolution: cudnnConvolutionDescriptor_t,
    y: cudnnTensorDescriptor_t,
    live: PhantomData<&'a ()>,
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

impl Descriptors<'_> {
    /// # Safety
    /// Each descriptor is null or lives for the result's lifetime.
    pub unsafe fn new(
        direction: Direction,
        x: cudnnTensorDescriptor_t,
        w: cudnnFilterDescriptor_t,
        convolution: cudnnConvolutionDescriptor_t,
        y: cudnnTensorDescriptor_t,
    ) -> Self {
        Self { direction, x, w, convolution, y, live: PhantomData }
    }

    pub fn direction(&self) -> Direction {
        self.direction
    }

    pub fn x(&self) -> cudnnTensorDescriptor_t {
        self.x
    }

    pub fn w(&self) -> cudnnFilterDescriptor_t {
        self.w
    }

    pub fn convolution(&self) -> cudnnConvolutionDescriptor_t {
        self.convolution
    }

    pub fn y(&self) -> cudnnTensorDescriptor_t {
        self.y
    }

    /// Calls `cudnnGetConvolution*Algorithm_v7`: cuDNN's heuristics choose, and nothing is timed.
    pub fn get_algorithms(&self, handle: Handle) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let Self { direction, x, w, convolution, y, .. } = *self;
        let get = |requested, returned, results: *mut AlgoPerf| {
            // SAFETY: handle and descriptors are null or live, and `ask` gives places for the results.
            unsafe {
                in_order!(
                    direction,
                    cudnnGetConvolutionForwardAlgorithm_v7
                        | cudnnGetConvolutionBackwardDataAlgorithm_v7
                        | cudnnGetConvolutionBackwardFilterAlgorithm_v7,
                    (handle.raw()),
                    [x],
                    [w],
                    [y],
                    (convolution),
                    (requested, returned, results.cast())
                )
            }
        };
        // SAFETY: cuDNN writes the results that it returns.
        unsafe { self.ask(handle, get) }
    }

    /// The successful result for algorithm `id`: the one with `math_type` if there is one, else the first with any math
    /// type.
    pub fn of_algorithm(results: &[AlgoPerf], id: c_int, math_type: cudnnMathType_t) -> Option<AlgoPerf> {
        let of_id = |result: &&AlgoPerf| result.algo == id && result.status == CUDNN_STATUS_SUCCESS;
        let same_math = results.iter().filter(of_id).find(|result| result.mathType == math_type);
        same_math.or_else(|| results.iter().find(of_id)).copied()
    }

    /// Calls `cudnnFindConvolution*Algorithm`: cuDNN times its algorithms on its own buffers.
    pub fn find_algorithms(&self, handle: Handle) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let Self { direction, x, w, convolution, y, .. } = *self;
        let find = |requested, returned, results: *mut AlgoPerf| {
            // SAFETY: handle and descriptors are null or live, and `ask` gives places for the results.
            unsafe {
                in_order!(
                    direction,
                    cudnnFindConvolutionForwardAlgorithm
                        | cudnnFindConvolutionBackwardDataAlgorithm
                        | cudnnFindConvolutionBackwardFilterAlgorithm,
                    (handle.raw()),
                    [x],
                    [w],
                    [y],
                    (convolution),
                    (requested, returned, results.cast())
                )
            }
        };
        // SAFETY: cuDNN writes the results that it returns.
        unsafe { self.ask(handle, find) }
    }

    /// Calls `cudnnFindConvolution*AlgorithmEx`: cuDNN times its algorithms on the program's buffers and overwrites the
    /// result's buffer.
    ///
    /// # Safety
    /// The operands and the workspace are device memory, as large as the descriptors and the workspace's size say.
    pub unsafe fn find_algorithms_in(
        &self,
        handle: Handle,
        operands: &Operands,
        workspace: Workspace,
    ) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let Self { direction, x, w, convolution, y, .. } = *self;
        let find = |requested, returned, results: *mut AlgoPerf| {
            // SAFETY: handle and descriptors are null or live, and so is the memory (see `# Safety`).
            unsafe {
                in_order!(
                    direction,
                    cudnnFindConvolutionForwardAlgorithmEx
                        | cudnnFindConvolutionBackwardDataAlgorithmEx
                        | cudnnFindConvolutionBackwardFilterAlgorithmEx,
                    (handle.raw()),
                    [x, operands.x],
                    [w, operands.w],
                    [y, operands.y],
                    (convolution),
                    (requested, returned, results.cast(), workspace.data, workspace.size)
                )
            }
        };
        // SAFETY: cuDNN writes the results that it returns.
        unsafe { self.ask(handle, find) }
    }

    /// Has a query answered with room for every result of the direction.
    ///
    /// # Safety
    /// `ask` gets the room, a place for the number of results, and the room's address. If it returns success, it has
    /// written as many results as it says.
    unsafe fn ask(
        &self,
        handle: Handle,
        ask: impl FnOnce(c_int, *mut c_int, *mut AlgoPerf) -> cudnnStatus_t,
    ) -> Result<Vec<AlgoPerf>, cudnnStatus_t> {
        let max_count = match self.direction {
            Direction::Forward => calls::cudnnGetConvolutionForwardAlgorithmMaxCount,
            Direction::BackwardData => calls::cudnnGetConvolutionBackwardDataAlgorithmMaxCount,
            Direction::BackwardFilter => calls::cudnnGetConvolutionBackwardFilterAlgorithmMaxCount,
        };
        let mut count = 0;
        // SAFETY: the handle is null or lives, and cuDNN writes one number to `count`.
        checked(unsafe { max_count(handle.raw(), &mut count) })?;
        let mut results = Vec::with_capacity(count.clamp(1, 1024) as usize);
        let mut returned = 0;
        checked(ask(results.capacity() as c_int, &mut returned, results.as_mut_ptr()))?;
        // SAFETY: the length is within the capacity, and `ask` has written so many results.
        unsafe { results.set_len((returned.max(0) as usize).min(results.capacity())) };
        Ok(results)
    }

    /// Calls `cudnnGetConvolution*WorkspaceSize`; the size is in bytes.
    pub fn workspace_size(&self, handle: Handle, algorithm: c_int) -> Result<usize, cudnnStatus_t> {
        let Self { direction, x, w, convolution, y, .. } = *self;
        let (handle, mut size) = (handle.raw(), 0);
        // SAFETY: handle and descriptors are null or live, and `size` is a place for the result.
        let status = unsafe {
            in_order!(
                direction,
                cudnnGetConvolutionForwardWorkspaceSize
                    | cudnnGetConvolutionBackwardDataWorkspaceSize
                    | cudnnGetConvolutionBackwardFilterWorkspaceSize,
                (handle),
                [x],
                [w],
                [y],
                (convolution),
                (algorithm, &mut size)
            )
        };
        checked(status)?;
        Ok(size)
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
        let Self { direction, x, w, convolution, y, .. } = *self;
        let Workspace { data, size } = workspace;
        if let (Direction::Forward, Some(e)) = (direction, operands.epilogue) {
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
        let Operands { alpha, beta, .. } = *operands;
        // SAFETY: the caller keeps the rules of these functions.
        unsafe {
            in_order!(
                direction,
                cudnnConvolutionForward | cudnnConvolutionBackwardData | cudnnConvolutionBackwardFilter,
                (handle, alpha),
                [x, operands.x],
                [w, operands.w],
                [y, operands.y],
                (convolution, algorithm, data, size, beta),
                ()
            )
        }
    }
}
