//! Null, garbage and mismatched arguments: a status, never a crash, and nothing written.

use cudnn_abi::*;
use hostdnn::abi::*;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// A handle and sound descriptors of one small convolution: 2×4×6×6 by 8×4×3×3, padded by 1.
struct Sound {
    handle: cudnnHandle_t,
    x: cudnnTensorDescriptor_t,
    w: cudnnFilterDescriptor_t,
    conv: cudnnConvolutionDescriptor_t,
    y: cudnnTensorDescriptor_t,
    bias: cudnnTensorDescriptor_t,
    activation: cudnnActivationDescriptor_t,
    op: cudnnOpTensorDescriptor_t,
}

const X: usize = 2 * 4 * 6 * 6;
const W: usize = 8 * 4 * 3 * 3;
const Y: usize = 2 * 8 * 6 * 6;

// SAFETY of all unsafe blocks in this file: pointers are null, live descriptors, or buffers of the size they stand for.
impl Sound {
    fn new() -> Self {
        let mut sound = Self {
            handle: null_mut(),
            x: null_mut(),
            w: null_mut(),
            conv: null_mut(),
            y: null_mut(),
            bias: null_mut(),
            activation: null_mut(),
            op: null_mut(),
        };
        // SAFETY: see above.
        let statuses = unsafe {
            [
                cudnnCreate(&mut sound.handle),
                cudnnCreateTensorDescriptor(&mut sound.x),
                cudnnCreateTensorDescriptor(&mut sound.y),
                cudnnCreateTensorDescriptor(&mut sound.bias),
                cudnnCreateFilterDescriptor(&mut sound.w),
                cudnnCreateConvolutionDescriptor(&mut sound.conv),
                cudnnCreateActivationDescriptor(&mut sound.activation),
                cudnnCreateOpTensorDescriptor(&mut sound.op),
                cudnnSetTensor4dDescriptor(sound.x, 0, 0, 2, 4, 6, 6),
                cudnnSetTensor4dDescriptor(sound.y, 0, 0, 2, 8, 6, 6),
                cudnnSetTensor4dDescriptor(sound.bias, 0, 0, 1, 8, 1, 1),
                cudnnSetFilter4dDescriptor(sound.w, 0, 0, 8, 4, 3, 3),
                cudnnSetConvolution2dDescriptor(sound.conv, 1, 1, 1, 1, 1, 1, 1, 0),
                cudnnSetActivationDescriptor(sound.activation, CUDNN_ACTIVATION_RELU, 0, 0.0),
                cudnnSetOpTensorDescriptor(sound.op, 0, 0, 0),
            ]
        };
        assert!(statuses.iter().all(|&status| status == CUDNN_STATUS_SUCCESS), "{statuses:?}");
        sound
    }
}

impl Drop for Sound {
    fn drop(&mut self) {
        // SAFETY: see above.
        unsafe {
            cudnnDestroy(self.handle);
            cudnnDestroyTensorDescriptor(self.x);
            cudnnDestroyTensorDescriptor(self.y);
            cudnnDestroyTensorDescriptor(self.bias);
            cudnnDestroyFilterDescriptor(self.w);
            cudnnDestroyConvolutionDescriptor(self.conv);
            cudnnDestroyActivationDescriptor(self.activation);
            cudnnDestroyOpTensorDescriptor(self.op);
        }
    }
}

/// Calls `$function` with its arguments, then once for each pointer argument with null in its place, which must be
/// refused.
macro_rules! each_null {
    (@call $function:ident, $skip:expr, $($argument:expr),*) => {{
        let mut place = 0usize;
        $function($({
            let argument = $argument;
            let here = place == $skip;
            #[allow(unused_assignments)]
            { place += 1; }
            $crate::null_and_hostile::Nullable::unless(argument, here)
        }),*)
    }};
    ($function:ident($($argument:expr),* $(,)?), null at $nulls:expr) => {
        // SAFETY: see above.
        unsafe {
            let sound = $crate::null_and_hostile::each_null!(@call $function, usize::MAX, $($argument),*);
            assert_eq!(sound, CUDNN_STATUS_SUCCESS, "{} with sound arguments", stringify!($function));
            for place in $nulls {
                let status = $crate::null_and_hostile::each_null!(@call $function, place, $($argument),*);
                assert_eq!(status, CUDNN_STATUS_BAD_PARAM, "{} with null in place {place}", stringify!($function));
            }
        }
    };
}

pub(crate) use each_null;

/// Arguments that can be null, and those that cannot.
pub trait Nullable {
    fn unless(self, null: bool) -> Self;
}
impl<T> Nullable for *mut T {
    fn unless(self, null: bool) -> Self {
        if null { null_mut() } else { self }
    }
}
impl<T> Nullable for *const T {
    fn unless(self, null: bool) -> Self {
        if null { std::ptr::null() } else { self }
    }
}
macro_rules! never_null {
    ($($type:ty)*) => { $(impl Nullable for $type { fn unless(self, null: bool) -> Self { assert!(!null); self } })* };
}
never_null! { c_int usize f64 }

#[test]
fn null_is_a_bad_parameter() {
    let s = Sound::new();
    let (mut x, mut w, mut y) = (vec![1f32; X], vec![1f32; W], vec![1f32; Y]);
    let (mut bias, mut z) = ([1f32; 8], vec![1f32; Y]);
    let (x, w, y): (*mut c_void, *mut c_void, *mut c_void) =
        (x.as_mut_ptr().cast(), w.as_mut_ptr().cast(), y.as_mut_ptr().cast());
    let (b, z): (*mut c_void, *mut c_void) = (bias.as_mut_ptr().cast(), z.as_mut_ptr().cast());
    let (c_x, c_w, c_y) = (x.cast_const(), w.cast_const(), y.cast_const());
    let one: *const c_void = (&raw const ONE).cast();
    let none: *mut c_void = null_mut();
    let (mut count, mut size) = (0, 0usize);
    let (count, size): (*mut c_int, *mut usize) = (&mut count, &mut size);

    each_null!(cudnnGetConvolutionForwardAlgorithmMaxCount(s.handle, count), null at [0, 1]);
    each_null!(cudnnGetConvolutionBackwardDataAlgorithmMaxCount(s.handle, count), null at [0, 1]);
    each_null!(cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(s.handle, count), null at [0, 1]);

    let mut forward = [Default::default(); 8];
    let f = forward.as_mut_ptr();
    let all = [0, 1, 2, 3, 4, 6, 7];
    each_null!(cudnnGetConvolutionForwardAlgorithm_v7(s.handle, s.x, s.w, s.conv, s.y, 8, count, f), null at all);
    each_null!(cudnnFindConvolutionForwardAlgorithm(s.handle, s.x, s.w, s.conv, s.y, 8, count, f), null at all);
    each_null!(
        cudnnFindConvolutionForwardAlgorithmEx(s.handle, s.x, c_x, s.w, c_w, s.conv, s.y, y, 8, count, f, none, 0),
        null at [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    );
    let mut data = [Default::default(); 8];
    let bd = data.as_mut_ptr();
    each_null!(cudnnGetConvolutionBackwardDataAlgorithm_v7(s.handle, s.w, s.y, s.conv, s.x, 8, count, bd), null at all);
    each_null!(cudnnFindConvolutionBackwardDataAlgorithm(s.handle, s.w, s.y, s.conv, s.x, 8, count, bd), null at all);
    each_null!(
        cudnnFindConvolutionBackwardDataAlgorithmEx(s.handle, s.w, c_w, s.y, c_y, s.conv, s.x, x, 8, count, bd, none, 0),
        null at [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    );
    let mut filter = [Default::default(); 8];
    let bf = filter.as_mut_ptr();
    each_null!(cudnnGetConvolutionBackwardFilterAlgorithm_v7(s.handle, s.x, s.y, s.conv, s.w, 8, count, bf), null at all);
    each_null!(cudnnFindConvolutionBackwardFilterAlgorithm(s.handle, s.x, s.y, s.conv, s.w, 8, count, bf), null at all);
    each_null!(
        cudnnFindConvolutionBackwardFilterAlgorithmEx(s.handle, s.x, c_x, s.y, c_y, s.conv, s.w, w, 8, count, bf, none, 0),
        null at [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    );

    let sizes = [0, 1, 2, 3, 4, 6];
    each_null!(cudnnGetConvolutionForwardWorkspaceSize(s.handle, s.x, s.w, s.conv, s.y, 0, size), null at sizes);
    each_null!(cudnnGetConvolutionBackwardDataWorkspaceSize(s.handle, s.w, s.y, s.conv, s.x, 0, size), null at sizes);
    each_null!(cudnnGetConvolutionBackwardFilterWorkspaceSize(s.handle, s.x, s.y, s.conv, s.w, 0, size), null at sizes);

    let runs = [0, 1, 2, 3, 4, 5, 6, 10, 11, 12];
    each_null!(cudnnConvolutionForward(s.handle, one, s.x, c_x, s.w, c_w, s.conv, 0, none, 0, one, s.y, y), null at runs);
    each_null!(
        cudnnConvolutionBackwardData(s.handle, one, s.w, c_w, s.y, c_y, s.conv, 0, none, 0, one, s.x, x),
        null at runs
    );
    each_null!(
        cudnnConvolutionBackwardFilter(s.handle, one, s.x, c_x, s.y, c_y, s.conv, 0, none, 0, one, s.w, w),
        null at runs
    );
    each_null!(
        cudnnConvolutionBiasActivationForward(
            s.handle, one, s.x, c_x, s.w, c_w, s.conv, 0, none, 0, one, s.y, z.cast_const(), s.bias, b.cast_const(),
            s.activation, s.y, y
        ),
        null at [0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16, 17]
    );
    each_null!(cudnnConvolutionBackwardBias(s.handle, one, s.y, c_y, one, s.bias, b), null at 0..7);

    each_null!(cudnnAddTensor(s.handle, one, s.bias, b.cast_const(), one, s.y, y), null at 0..7);
    each_null!(cudnnTransformTensor(s.handle, one, s.y, z.cast_const(), one, s.y, y), null at 0..7);
    each_null!(cudnnSetTensor(s.handle, s.y, y, one), null at 0..4);
    each_null!(cudnnScaleTensor(s.handle, s.y, y, one), null at 0..4);
    each_null!(cudnnOpTensor(s.handle, s.op, one, s.y, z.cast_const(), one, s.bias, b.cast_const(), one, s.y, y), null at 0..11);
    each_null!(cudnnActivationForward(s.handle, s.activation, one, s.y, z.cast_const(), one, s.y, y), null at 0..8);
    each_null!(
        cudnnActivationBackward(s.handle, s.activation, one, s.y, c_y, s.y, c_y, s.y, c_y, one, s.y, z),
        null at 0..12
    );

    let mut values = [0 as c_int; 9];
    let v = values.as_mut_ptr();
    each_null!(cudnnGetTensor4dDescriptor(s.x, v, v, v, v, v, v, v, v, v), null at 0..10);
    each_null!(cudnnGetTensorNdDescriptor(s.x, 4, v, v, v, v), null at [0, 2, 3, 4, 5]);
    each_null!(cudnnGetTensorSizeInBytes(s.x, size), null at 0..2);
    each_null!(cudnnGetFilter4dDescriptor(s.w, v, v, v, v, v, v), null at 0..7);
    each_null!(cudnnGetFilterNdDescriptor(s.w, 4, v, v, v, v), null at [0, 2, 3, 4, 5]);
    each_null!(cudnnGetFilterSizeInBytes(s.w, size), null at 0..2);
    each_null!(cudnnGetConvolution2dDescriptor(s.conv, v, v, v, v, v, v, v, v), null at 0..9);
    each_null!(cudnnGetConvolutionNdDescriptor(s.conv, 2, v, v, v, v, v, v), null at [0, 2, 3, 4, 5, 6, 7]);
    each_null!(cudnnGetConvolutionMathType(s.conv, v), null at 0..2);
    each_null!(cudnnGetConvolutionGroupCount(s.conv, v), null at 0..2);
    each_null!(cudnnGetConvolutionReorderType(s.conv, v), null at 0..2);
    each_null!(cudnnGetConvolution2dForwardOutputDim(s.conv, s.x, s.w, v, v, v, v), null at 0..7);
    each_null!(cudnnGetConvolutionNdForwardOutputDim(s.conv, s.x, s.w, 4, v), null at [0, 1, 2, 4]);
    each_null!(cudnnGetOpTensorDescriptor(s.op, v, v, v), null at 0..4);
    let ones = [1 as c_int; 8].as_ptr();
    each_null!(cudnnSetTensorNdDescriptor(s.x, 0, 4, ones, ones), null at [0, 3, 4]);
    each_null!(cudnnSetTensorNdDescriptorEx(s.x, 0, 0, 4, ones), null at [0, 4]);
    each_null!(cudnnSetFilterNdDescriptor(s.w, 0, 0, 4, ones), null at [0, 4]);
    each_null!(cudnnSetConvolutionNdDescriptor(s.conv, 2, ones, ones, ones, 1, 0), null at [0, 2, 3, 4]);
}

static ONE: f32 = 1.0;

/// Runs a forward convolution over buffers of the sound sizes. Returns the status, and whether the output changed.
fn forward(s: &Sound, algo: c_int, workspace: usize) -> (cudnnStatus_t, bool) {
    let (x, w, mut y) = (vec![1f32; X], vec![1f32; W], vec![7f32; Y]);
    let mut scratch = vec![0u8; workspace];
    let (one, zero) = (1f32, 0f32);
    // SAFETY: see above.
    let status = unsafe {
        cudnnConvolutionForward(
            s.handle,
            (&raw const one).cast(),
            s.x,
            x.as_ptr().cast(),
            s.w,
            w.as_ptr().cast(),
            s.conv,
            algo,
            scratch.as_mut_ptr().cast(),
            workspace,
            (&raw const zero).cast(),
            s.y,
            y.as_mut_ptr().cast(),
        )
    };
    (status, y.iter().any(|&v| v != 7.0))
}

#[test]
fn mismatched_descriptors_are_refused_and_nothing_is_written() {
    let bad = (CUDNN_STATUS_BAD_PARAM, false);
    let unsupported = (CUDNN_STATUS_NOT_SUPPORTED, false);
    let with = |change: &dyn Fn(&Sound) -> cudnnStatus_t| {
        let s = Sound::new();
        assert_eq!(change(&s), CUDNN_STATUS_SUCCESS);
        forward(&s, 0, 0)
    };
    // SAFETY: see above.
    unsafe {
        assert_eq!(with(&|_| 0), (CUDNN_STATUS_SUCCESS, true));
        assert_eq!(with(&|s| cudnnSetTensor4dDescriptor(s.x, 0, 0, 2, 3, 6, 6)), bad, "channels");
        assert_eq!(with(&|s| cudnnSetTensor4dDescriptor(s.x, 0, 0, 1, 4, 6, 6)), bad, "batch");
        assert_eq!(with(&|s| cudnnSetTensor4dDescriptor(s.y, 0, 0, 2, 8, 5, 6)), bad, "output extent");
        assert_eq!(with(&|s| cudnnSetTensor4dDescriptor(s.y, 0, 0, 2, 7, 6, 6)), bad, "output channels");
        assert_eq!(with(&|s| cudnnSetTensor4dDescriptor(s.y, 0, 2, 2, 8, 6, 6)), bad, "output type");
        assert_eq!(with(&|s| cudnnSetFilter4dDescriptor(s.w, 2, 0, 8, 4, 3, 3)), bad, "filter type");
        assert_eq!(with(&|s| cudnnSetConvolutionGroupCount(s.conv, 3)), bad, "groups");
        assert_eq!(with(&|s| cudnnSetConvolution2dDescriptor(s.conv, 0, 0, 1, 1, 9, 1, 1, 0)), bad, "window");
        assert_eq!(with(&|s| cudnnSetConvolution2dDescriptor(s.conv, 1, 1, 1, 1, 1, 1, 1, 1)), unsupported, "compute");
        assert_eq!(with(&|s| cudnnSetConvolution2dDescriptor(s.conv, 1, 1, 1, 1, 1, 1, 1, 4)), unsupported, "compute");
        let five = [2, 4, 6, 6, 6];
        assert_eq!(with(&|s| cudnnSetTensorNdDescriptorEx(s.x, 0, 0, 5, five.as_ptr())), bad, "rank");
        let overlapping = |s: &Sound| cudnnSetTensor4dDescriptorEx(s.y, 0, 2, 8, 6, 6, 1, 1, 1, 1);
        assert_eq!(with(&overlapping), unsupported, "an output that overlaps itself");
        let reversed = |s: &Sound| cudnnSetTensor4dDescriptorEx(s.x, 0, 2, 4, 6, 6, 144, 36, -6, 1);
        assert_eq!(with(&reversed), unsupported, "negative strides");
        let mut s = Sound::new();
        let set = std::mem::replace(&mut s.x, tensor());
        assert_eq!(forward(&s, 0, 0), bad, "an unset descriptor");
        cudnnDestroyTensorDescriptor(set);
    }
    let s = Sound::new();
    for algo in [-1, 8, 77, c_int::MAX, c_int::MIN] {
        assert_eq!(forward(&s, algo, 1 << 20), bad, "algorithm {algo}");
    }
    let direct = CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
    assert_eq!(forward(&s, direct, 1 << 20), unsupported, "an algorithm that nobody has");
}

fn tensor() -> cudnnTensorDescriptor_t {
    let mut tensor = null_mut();
    // SAFETY: see above.
    assert_eq!(unsafe { cudnnCreateTensorDescriptor(&mut tensor) }, CUDNN_STATUS_SUCCESS);
    tensor
}

#[test]
fn a_workspace_too_small_is_refused() {
    let s = Sound::new();
    let algo = CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
    let mut size = 0;
    // SAFETY: see above.
    let status = unsafe { cudnnGetConvolutionForwardWorkspaceSize(s.handle, s.x, s.w, s.conv, s.y, algo, &mut size) };
    assert_eq!(status, CUDNN_STATUS_SUCCESS);
    assert!(size > 0, "GEMM over columns needs a workspace");
    assert_eq!(forward(&s, algo, size), (CUDNN_STATUS_SUCCESS, true));
    assert_eq!(forward(&s, algo, size - 1), (CUDNN_STATUS_BAD_PARAM, false));
    assert_eq!(forward(&s, algo, 0), (CUDNN_STATUS_BAD_PARAM, false));
}

/// Descriptors of a wrong kind, and pointers that are not handles.
#[test]
fn the_wrong_kind_of_pointer_is_refused() {
    let s = Sound::new();
    let mut size = 0;
    // SAFETY: any object of the library may be passed as any other kind: the library checks the kind first.
    unsafe {
        assert_eq!(cudnnGetTensorSizeInBytes(s.w.cast(), &mut size), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(cudnnGetFilterSizeInBytes(s.x.cast(), &mut size), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(cudnnSetStream(s.conv.cast(), null_mut()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(cudnnDestroyTensorDescriptor(s.handle.cast()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(cudnnDestroy(s.activation.cast()), CUDNN_STATUS_BAD_PARAM);
    }
}

#[test]
fn the_last_error_says_what_and_is_told_once() {
    let mut text = [1 as c_char; 64];
    // SAFETY: the buffer has the length that is passed.
    unsafe {
        cudnnGetLastErrorString(text.as_mut_ptr(), text.len());
        assert_eq!(cudnnGetTensorSizeInBytes(null_mut(), null_mut()), CUDNN_STATUS_BAD_PARAM);
        cudnnGetLastErrorString(text.as_mut_ptr(), text.len());
        let message = std::ffi::CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_owned();
        assert!(message.starts_with("cudnnGetTensorSizeInBytes: "), "{message}");
        cudnnGetLastErrorString(text.as_mut_ptr(), text.len());
        assert_eq!(text[0], 0);
        cudnnGetLastErrorString(null_mut(), 64);
        text = [1; 64];
        assert_eq!(cudnnSetStream(null_mut(), null_mut()), CUDNN_STATUS_BAD_PARAM);
        cudnnGetLastErrorString(text.as_mut_ptr(), 3);
        assert_eq!((text[1] != 1, text[2], text[3]), (true, 0, 1), "as long as there is room, and ended");
    }
}

#[test]
fn faults_are_refused_if_they_do_not_parse() {
    // SAFETY: the arguments are C strings.
    unsafe {
        assert_eq!(hostdnnFail(c"nonsense".as_ptr()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(hostdnnFail(null()), CUDNN_STATUS_SUCCESS);
    }
}
