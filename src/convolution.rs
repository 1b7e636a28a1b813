//! The answers to calls of the legacy convolution functions. [`convolution::legacy`] does the work.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use cudnn_abi::*;

use super::boundary::guarded;
use super::overrides::Answer;
use convolution::legacy::answer::{self, Query};
use convolution::legacy::call::Call;
use convolution::plans::graph::targets;
use cudnn::arguments::*;
use cudnn::convolution::{AlgoPerf, Descriptors, Direction, Epilogue, Operands, Workspace};
use cudnn::handle::Handle;
use cudnn::policies;
use guest::settings::Policy;

/// The places for a query's results.
#[derive(Clone, Copy)]
struct Places {
    requested: c_int,
    returned: *mut c_int,
    results: *mut AlgoPerf,
}

/// Writes a query's results to the program's array. A call with null or empty places for results goes to cuDNN, for its
/// status.
///
/// # Safety
/// The places are those of a call that keeps cuDNN's rules.
unsafe fn answered(
    places: Places,
    ask: impl FnOnce() -> Result<Vec<AlgoPerf>, cudnnStatus_t>,
    by_cudnn: impl Fn() -> cudnnStatus_t,
) -> cudnnStatus_t {
    let Places { requested, returned, results } = places;
    if requested < 1 || returned.is_null() || results.is_null() || policies::all_off() {
        return by_cudnn();
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
        &by_cudnn,
    )
}

/// Finds a call's descriptors in those fields that the direction has for x, w and y.
macro_rules! descriptors {
    ($direction:ident, ($x:ident, $w:ident, $y:ident): $($arguments:ident)*) => {$(
        impl Described for Promised<$arguments> {
            fn described(&self) -> (Handle<'_>, Descriptors<'_>) {
                let (direction, x, w, y) = (Direction::$direction, self.$x, self.$w, self.$y);
                // SAFETY: handle and descriptors keep cuDNN's rules as long as `self`.
                unsafe { (Handle::new(self.handle), Descriptors::new(direction, x, w, self.convolution, y)) }
            }
        }
    )*};
}

trait Described {
    /// The handle, and the descriptors by what they are for.
    fn described(&self) -> (Handle<'_>, Descriptors<'_>);
}

/// The functions of a direction, which differ in the names of their tensors alone.
macro_rules! answers {
    (
        $direction:ident, $descriptors:tt, ($x:ident, $w:ident, $y:ident):
        $get:ident $find:ident $find_ex:ident $size:ident $convolve:ident
    ) => {
        descriptors! { $direction, $descriptors: $get $find $find_ex $size $convolve }
        answers! { $get => Query::Get }
        answers! { $find => Query::Find }

        /// Our plan comes first among the results; the workspace is the limit.
        impl Answer for Promised<$find_ex> {
            fn answer(&self) -> cudnnStatus_t {
                let (x, w, y) = (self.$x as *mut c_void, self.$w as *mut c_void, self.$y as *mut c_void);
                if [x, w, y].contains(&std::ptr::null_mut()) {
                    return self.by_cudnn();
                }
                let operands = Operands { alpha: std::ptr::null(), beta: std::ptr::null(), x, w, y, epilogue: None };
                let workspace = usable(self.workspace, self.workspace_size);
                let query = Query::FindEx(operands, workspace);
                let (requested, returned, results) = (self.requested, self.returned, self.results.cast());
                let (handle, descriptors) = self.described();
                // SAFETY: the memory and the places keep the rules of this function.
                unsafe {
                    let ask = || answer::algorithms(handle, &descriptors, query, Some(workspace.size));
                    answered(Places { requested, returned, results }, ask, || self.by_cudnn())
                }
            }
        }

        /// Reports the workspace that the program was told for the algorithm, or else cuDNN's.
        impl Answer for Promised<$size> {
            fn answer(&self) -> cudnnStatus_t {
                let $size { handle, algorithm, size, .. } = **self;
                if handle.is_null() || size.is_null() || policies::of(handle).policy == Policy::Off {
                    return self.by_cudnn();
                }
                let (handle, descriptors) = self.described();
                guarded(
                    || match answer::workspace_size(handle, &descriptors, algorithm) {
                        Ok(bytes) => {
                            // SAFETY: not null, and so a place for the size.
                            unsafe { *size = bytes };
                            CUDNN_STATUS_SUCCESS
                        }
                        Err(status) => status,
                    },
                    || self.by_cudnn(),
                )
            }
        }

        /// Runs micro-batches if they are faster within the workspace.
        impl Answer for Promised<$convolve> {
            fn answer(&self) -> cudnnStatus_t {
                let (x, w, y) = (self.$x as *mut c_void, self.$w as *mut c_void, self.$y as *mut c_void);
                let operands = Operands { alpha: self.alpha, beta: self.beta, x, w, y, epilogue: None };
                let workspace = usable(self.workspace, self.workspace_size);
                let (handle, descriptors) = self.described();
                // SAFETY: operands and workspace keep the rules of this direction's function.
                convolved(unsafe { Call::new(handle, descriptors, self.algorithm, operands, workspace) })
            }
        }
    };

    ($ask:ident => $query:expr) => {
        /// Our plan comes first among the results.
        impl Answer for Promised<$ask> {
            fn answer(&self) -> cudnnStatus_t {
                let (requested, returned, results) = (self.requested, self.returned, self.results.cast());
                let (handle, descriptors) = self.described();
                // SAFETY: the query names no memory, and the places keep the rules of this function.
                unsafe {
                    let ask = || answer::algorithms(handle, &descriptors, $query, None);
                    answered(Places { requested, returned, results }, ask, || self.by_cudnn())
                }
            }
        }
    };
}

answers! {
    Forward, (x_descriptor, w_descriptor, y_descriptor), (x, w, y):
    GetConvolutionForwardAlgorithm
    FindConvolutionForwardAlgorithm
    FindConvolutionForwardAlgorithmEx
    GetConvolutionForwardWorkspaceSize
    ConvolutionForward
}

answers! {
    BackwardData, (dx_descriptor, w_descriptor, dy_descriptor), (dx, w, dy):
    GetConvolutionBackwardDataAlgorithm
    FindConvolutionBackwardDataAlgorithm
    FindConvolutionBackwardDataAlgorithmEx
    GetConvolutionBackwardDataWorkspaceSize
    ConvolutionBackwardData
}

answers! {
    BackwardFilter, (x_descriptor, dw_descriptor, dy_descriptor), (x, dw, dy):
    GetConvolutionBackwardFilterAlgorithm
    FindConvolutionBackwardFilterAlgorithm
    FindConvolutionBackwardFilterAlgorithmEx
    GetConvolutionBackwardFilterWorkspaceSize
    ConvolutionBackwardFilter
}

descriptors! { Forward, (x_descriptor, w_descriptor, y_descriptor): ConvolutionBiasActivationForward }

/// Runs micro-batches if they are faster within the workspace, with bias, z and activation cut along the batch like y.
impl Answer for Promised<ConvolutionBiasActivationForward> {
    fn answer(&self) -> cudnnStatus_t {
        let ConvolutionBiasActivationForward { alpha2, z_descriptor, z, bias_descriptor, bias, activation, .. } =
            **self;
        let epilogue = Some(Epilogue { alpha2, z_descriptor, z, bias_descriptor, bias, activation });
        let (x, w) = (self.x.cast_mut(), self.w.cast_mut());
        let operands = Operands { alpha: self.alpha1, beta: std::ptr::null(), x, w, y: self.y, epilogue };
        let workspace = usable(self.workspace, self.workspace_size);
        let (handle, descriptors) = self.described();
        // SAFETY: operands and workspace keep the rules of this function.
        convolved(unsafe { Call::new(handle, descriptors, self.algorithm, operands, workspace) })
    }
}

/// A null workspace counts as 0 bytes, whatever its size says: cuDNN refuses it if it needs any.
fn usable(data: *mut c_void, size: usize) -> Workspace {
    Workspace { data, size: if data.is_null() { 0 } else { size } }
}

/// Runs a call as planned. A call with null operands goes to cuDNN, for its status.
fn convolved(call: Call) -> cudnnStatus_t {
    let &Operands { alpha, beta, x, w, y, epilogue } = call.operands();
    let scaled = !alpha.is_null() && (epilogue.is_some() || !beta.is_null());
    if call.handle().raw().is_null() || !scaled || [x, w, y].contains(&std::ptr::null_mut()) || policies::all_off() {
        return call.by_cudnn();
    }
    let spent = Cell::new(false);
    guarded(
        || call.run(&spent),
        || match spent.get() {
            true => CUDNN_STATUS_EXECUTION_FAILED,
            // The result is unmodified, so the call may run again.
            false => call.run_fallback(),
        },
    )
}

/// Also forgets the settings of the handle.
impl Answer for Promised<DestroyHandle> {
    fn answer(&self) -> cudnnStatus_t {
        guarded(
            || {
                policies::forget(self.handle);
                targets::forget(self.handle);
                self.by_cudnn()
            },
            || self.by_cudnn(),
        )
    }
}
