//! The legacy convolution functions that we override: their C prototypes and their fallbacks. [`convolution::legacy`]
//! does the work.
//!
//! Safety, for every function here: the arguments are those of cuDNN's function with the same name.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use cudnn_abi::*;

use super::boundary::guarded;
use convolution::graph::targets;
use convolution::legacy::answer::{self, Query};
use convolution::legacy::call::Call;
use cudnn::calls;
use cudnn::convolution::{AlgoPerf, Descriptors, Direction, Epilogue, Operands, Workspace};
use cudnn::policies;
use guest::settings::Policy;

/// Writes a query's results to the program's array. A call with null or empty places for results goes to the real
/// function, for its status.
unsafe fn answered(
    (requested, returned, results): (c_int, *mut c_int, *mut AlgoPerf),
    ask: impl FnOnce() -> Result<Vec<AlgoPerf>, cudnnStatus_t>,
    real: impl Fn() -> cudnnStatus_t,
) -> cudnnStatus_t {
    if requested < 1 || returned.is_null() || results.is_null() || policies::all_off() {
        return real();
    }
    guarded(
        || match ask() {
            Ok(answer) => {
                let count = answer.len().min(requested as usize);
                // SAFETY: the program's array holds the `requested` results, and neither pointer is null.
                unsafe {
                    results.copy_from_nonoverlapping(answer.as_ptr(), count);
                    *returned = count as c_int;
                }
                CUDNN_STATUS_SUCCESS
            }
            Err(status) => status,
        },
        &real,
    )
}

/// The functions of a direction.
macro_rules! overrides {
    (
        $direction:ident, $perf:ty, $algorithm:ty,
        ($a:ident: $a_type:ty, $b:ident: $b_type:ty, $c:ident: $c_type:ty) => ($x:ident, $w:ident, $y:ident),
        ($a_data:ident, $b_data:ident, $c_data:ident) => ($x_data:ident, $w_data:ident, $y_data:ident),
        {$($ask:ident => $query:ident),+ $(,)?}, $find_ex:ident, $size:ident, $convolve:ident $(,)?
    ) => {
        $(
            /// Overrides cuDNN's function: our plan comes first among the results.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $ask(
                handle: cudnnHandle_t,
                $a: $a_type,
                $b: $b_type,
                convolution: cudnnConvolutionDescriptor_t,
                $c: $c_type,
                requested: c_int,
                returned: *mut c_int,
                results: *mut $perf,
            ) -> cudnnStatus_t {
                let results: *mut AlgoPerf = results.cast();
                let descriptors = Descriptors { direction: Direction::$direction, x: $x, w: $w, convolution, y: $y };
                // SAFETY: the program keeps the rules of the cuDNN function that it calls.
                let real = || unsafe {
                    calls::$ask(handle, $a, $b, convolution, $c, requested, returned, results.cast())
                };
                // SAFETY: the program keeps the rules of the cuDNN function that it calls.
                unsafe {
                    let ask = || answer::algorithms(handle, &descriptors, Query::$query, None);
                    answered((requested, returned, results), ask, real)
                }
            }
        )+

        /// Overrides cuDNN's function: our plan comes first among the results; the workspace is the limit.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $find_ex(
            handle: cudnnHandle_t,
            $a: $a_type,
            $a_data: *mut c_void,
            $b: $b_type,
            $b_data: *mut c_void,
            convolution: cudnnConvolutionDescriptor_t,
            $c: $c_type,
            $c_data: *mut c_void,
            requested: c_int,
            returned: *mut c_int,
            results: *mut $perf,
            workspace: *mut c_void,
            workspace_size: usize,
        ) -> cudnnStatus_t {
            let results: *mut AlgoPerf = results.cast();
            let descriptors = Descriptors { direction: Direction::$direction, x: $x, w: $w, convolution, y: $y };
            // SAFETY: the program keeps the rules of the cuDNN function that it calls.
            let real = || unsafe {
                calls::$find_ex(
                    handle,
                    $a,
                    $a_data,
                    $b,
                    $b_data,
                    convolution,
                    $c,
                    $c_data,
                    requested,
                    returned,
                    results.cast(),
                    workspace,
                    workspace_size,
                )
            };
            if [$a_data, $b_data, $c_data].contains(&std::ptr::null_mut()) {
                return real();
            }
            let operands = Operands {
                alpha: std::ptr::null(),
                beta: std::ptr::null(),
                x: $x_data,
                w: $w_data,
                y: $y_data,
                epilogue: None,
            };
            let size = if workspace.is_null() { 0 } else { workspace_size };
            let query = Query::FindEx(operands, Workspace { data: workspace, size });
            // SAFETY: the program keeps the rules of the cuDNN function that it calls.
            unsafe {
                let ask = || answer::algorithms(handle, &descriptors, query, Some(size));
                answered((requested, returned, results), ask, real)
            }
        }

        /// Overrides cuDNN's function: for an algorithm from a query's results it reports our plan's workspace.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $size(
            handle: cudnnHandle_t,
            $a: $a_type,
            $b: $b_type,
            convolution: cudnnConvolutionDescriptor_t,
            $c: $c_type,
            algorithm: $algorithm,
            size: *mut usize,
        ) -> cudnnStatus_t {
            let descriptors = Descriptors { direction: Direction::$direction, x: $x, w: $w, convolution, y: $y };
            // SAFETY: the program keeps the rules of the cuDNN function that it calls.
            let real = || unsafe { descriptors.workspace_size_into(handle, algorithm, size) };
            if handle.is_null() || size.is_null() || policies::of(handle).policy == Policy::Off {
                return real();
            }
            guarded(
                // SAFETY: the program keeps the rules of the cuDNN function that it calls.
                || match unsafe { answer::reported_workspace(handle, &descriptors, algorithm) } {
                    Some(promised) => {
                        // SAFETY: not null, and the program promises a place for the size.
                        unsafe { *size = promised };
                        CUDNN_STATUS_SUCCESS
                    }
                    None => real(),
                },
                real,
            )
        }

        /// Overrides cuDNN's function: runs micro-batches if they are faster within the workspace.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $convolve(
            handle: cudnnHandle_t,
            alpha: *const c_void,
            $a: $a_type,
            $a_data: *mut c_void,
            $b: $b_type,
            $b_data: *mut c_void,
            convolution: cudnnConvolutionDescriptor_t,
            algorithm: $algorithm,
            workspace: *mut c_void,
            workspace_size: usize,
            beta: *const c_void,
            $c: $c_type,
            $c_data: *mut c_void,
        ) -> cudnnStatus_t {
            let descriptors = Descriptors { direction: Direction::$direction, x: $x, w: $w, convolution, y: $y };
            let operands = Operands { alpha, beta, x: $x_data, w: $w_data, y: $y_data, epilogue: None };
            let workspace = usable(workspace, workspace_size);
            // SAFETY: the program keeps the rules of the cuDNN function that it calls.
            unsafe { convolved(Call { handle, descriptors, algorithm, operands, workspace }) }
        }
    };
}

overrides! {
    Forward, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t,
    (x: cudnnTensorDescriptor_t, w: cudnnFilterDescriptor_t, y: cudnnTensorDescriptor_t) => (x, w, y),
    (x_data, w_data, y_data) => (x_data, w_data, y_data),
    {
        cudnnGetConvolutionForwardAlgorithm_v7 => Get,
        cudnnFindConvolutionForwardAlgorithm => Find,
    },
    cudnnFindConvolutionForwardAlgorithmEx,
    cudnnGetConvolutionForwardWorkspaceSize,
    cudnnConvolutionForward,
}

overrides! {
    BackwardData, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t,
    (w: cudnnFilterDescriptor_t, dy: cudnnTensorDescriptor_t, dx: cudnnTensorDescriptor_t) => (dx, w, dy),
    (w_data, dy_data, dx_data) => (dx_data, w_data, dy_data),
    {
        cudnnGetConvolutionBackwardDataAlgorithm_v7 => Get,
        cudnnFindConvolutionBackwardDataAlgorithm => Find,
    },
    cudnnFindConvolutionBackwardDataAlgorithmEx,
    cudnnGetConvolutionBackwardDataWorkspaceSize,
    cudnnConvolutionBackwardData,
}

overrides! {
    BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t,
    (x: cudnnTensorDescriptor_t, dy: cudnnTensorDescriptor_t, dw: cudnnFilterDescriptor_t) => (x, dw, dy),
    (x_data, dy_data, dw_data) => (x_data, dw_data, dy_data),
    {
        cudnnGetConvolutionBackwardFilterAlgorithm_v7 => Get,
        cudnnFindConvolutionBackwardFilterAlgorithm => Find,
    },
    cudnnFindConvolutionBackwardFilterAlgorithmEx,
    cudnnGetConvolutionBackwardFilterWorkspaceSize,
    cudnnConvolutionBackwardFilter,
}

/// Runs a call as planned. A call with null operands goes to the real function, for its status.
unsafe fn convolved(call: Call) -> cudnnStatus_t {
    let Operands { alpha, beta, x, w, y, epilogue } = call.operands;
    let scaled = !alpha.is_null() && (epilogue.is_some() || !beta.is_null());
    if call.handle.is_null() || !scaled || [x, w, y].contains(&std::ptr::null_mut()) || policies::all_off() {
        // SAFETY: the program keeps the rules of the cuDNN function that it calls.
        return unsafe { call.by_cudnn() };
    }
    let spent = Cell::new(false);
    guarded(
        // SAFETY: the program keeps the rules of the cuDNN function that it calls.
        || unsafe { call.run(&spent) },
        || match spent.get() {
            true => CUDNN_STATUS_EXECUTION_FAILED,
            // SAFETY: the program keeps cuDNN's rules; the result is unmodified, so a second run is sound.
            false => unsafe { call.run_fallback() },
        },
    )
}

/// A null workspace counts as 0 bytes, whatever its size says: cuDNN refuses it if it needs any.
fn usable(data: *mut c_void, size: usize) -> Workspace {
    Workspace { data, size: if data.is_null() { 0 } else { size } }
}

/// Overrides cuDNN's function: runs micro-batches if they are faster within the workspace, with bias, z and activation
/// cut along the batch like y.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnConvolutionBiasActivationForward(
    handle: cudnnHandle_t,
    alpha1: *const c_void,
    x_descriptor: cudnnTensorDescriptor_t,
    x: *mut c_void,
    w_descriptor: cudnnFilterDescriptor_t,
    w: *mut c_void,
    convolution: cudnnConvolutionDescriptor_t,
    algorithm: cudnnConvolutionFwdAlgo_t,
    workspace: *mut c_void,
    workspace_size: usize,
    alpha2: *const c_void,
    z_descriptor: cudnnTensorDescriptor_t,
    z: *const c_void,
    bias_descriptor: cudnnTensorDescriptor_t,
    bias: *const c_void,
    activation: cudnnActivationDescriptor_t,
    y_descriptor: cudnnTensorDescriptor_t,
    y: *mut c_void,
) -> cudnnStatus_t {
    let direction = Direction::Forward;
    let descriptors = Descriptors { direction, x: x_descriptor, w: w_descriptor, convolution, y: y_descriptor };
    let epilogue = Some(Epilogue { alpha2, z_descriptor, z, bias_descriptor, bias, activation });
    let operands = Operands { alpha: alpha1, beta: std::ptr::null(), x, w, y, epilogue };
    let workspace = usable(workspace, workspace_size);
    // SAFETY: the program keeps the rules of the cuDNN function that it calls.
    unsafe { convolved(Call { handle, descriptors, algorithm, operands, workspace }) }
}

/// Overrides cuDNN's function: also forgets the settings of the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroy(handle: cudnnHandle_t) -> cudnnStatus_t {
    // SAFETY: the program promises a live handle, and cuDNN destroys it once.
    let real = || unsafe { calls::cudnnDestroy(handle) };
    guarded(
        || {
            policies::forget(handle);
            targets::forget(handle);
            real()
        },
        real,
    )
}
