//! PyTorch's own kernels, and the functions that compute gradients. No operator leads to these functions. Their addresses
//! are in `conv_depthwise2d_backward_stub` and `conv_depthwise3d_backward_stub`: libtorch_cuda writes them there when it is
//! loaded, and we write others.
//!
//! Such a function returns an `at::Tensor` or a tuple of them where its hidden first argument points. That is so on x86-64;
//! elsewhere nothing of this is taken over.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::{Call, Window};
use crate::libtorch::{DepthwiseFunctions, Libtorch, RawTensor, Sizes, Wanted};
use crate::operator::{self, guarded};
use crate::values::Tensor;
use cudnn::Direction;

/// A result of a function that computes gradients, by its place in the C++ tuple.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Gradient {
    OfX,
    OfWeight,
    OfBias,
}

/// Images have one kind of functions, and volumes have another.
pub trait OfLibtorch: Sized {
    /// The filter's axes.
    const AXES: usize;

    fn of(torch: &Libtorch) -> Option<&Self>;
}

impl OfLibtorch for DepthwiseFunctions<2> {
    const AXES: usize = 2;

    fn of(torch: &Libtorch) -> Option<&Self> {
        torch.depthwise.as_ref()
    }
}

impl OfLibtorch for DepthwiseFunctions<3> {
    const AXES: usize = 3;

    fn of(torch: &Libtorch) -> Option<&Self> {
        torch.depthwise_of_volumes.as_ref()
    }
}

/// Runs a convolution by PyTorch's kernel. Without one, on the host, the result is no tensor.
///
/// # Safety
/// The call's tensors live.
pub unsafe fn convolve<'a>(call: &Call<'a>) -> Tensor<'a> {
    // SAFETY: the caller's promise.
    unsafe { by_pytorch(call.torch, call.window.axes, [call.x, call.weight], call.bias, call.window.sizes()) }
}

/// Likewise for x, the weight, and the lists of the filter's sizes, strides, padding and dilation, of any length.
///
/// # Safety
/// The tensors and the sizes live.
pub unsafe fn by_pytorch<'a>(
    torch: &'a Libtorch,
    axes: usize,
    [x, weight]: [&Tensor; 2],
    bias: Option<&Tensor>,
    [kernel, stride, padding, dilation]: [Sizes; 4],
) -> Tensor<'a> {
    let forward = match axes {
        2 => torch.depthwise.as_ref().map(|its| its.forward),
        _ => torch.depthwise_of_volumes.as_ref().map(|its| its.forward),
    };
    let Some(forward) = forward else {
        return Tensor::undefined(torch).expect("memory for a tensor that is none");
    };
    let (bias, mut y) = (Tensor::optional(bias), null_mut());
    // SAFETY: the function takes the operator's arguments, and borrows them.
    unsafe {
        forward(&mut y, x.raw(), weight.raw(), kernel, &bias, stride, padding, dilation);
        Tensor::of_cpp(y, torch)
    }
}

/// Computes a gradient by PyTorch's kernels.
///
/// # Safety
/// The call is one of gradients, and its tensors live.
pub unsafe fn differentiate<'a>(call: &Call<'a>, wanted: Gradient) -> Tensor<'a> {
    // SAFETY: the caller's promise.
    unsafe {
        match call.window.axes {
            2 => differentiate_by::<2>(call, wanted),
            _ => differentiate_by::<3>(call, wanted),
        }
    }
}

/// # Safety
/// As for [`differentiate`]. The functions are those of the call's axes.
unsafe fn differentiate_by<'a, const RESULTS: usize>(call: &Call<'a>, wanted: Gradient) -> Tensor<'a>
where
    DepthwiseFunctions<RESULTS>: OfLibtorch,
{
    let functions = found::<RESULTS>(call.torch);
    let dy = call.dy.expect("a gradient has one");
    let [kernel, stride, padding, dilation] = call.window.sizes();
    let which = std::array::from_fn(|place| place == wanted as usize);
    let mut results = [null_mut(); RESULTS];
    // SAFETY: as in `convolve`. The results that are not wanted are none.
    unsafe {
        let (dy, x, weight) = (dy.raw(), call.x.raw(), call.weight.raw());
        (functions.backward)(&mut results, dy, x, weight, kernel, stride, padding, dilation, Wanted(which));
        // The last one comes first.
        results.reverse();
        let mut tensors = results.map(|result| Some(Tensor::of_cpp(result, call.torch)));
        tensors[wanted as usize].take().expect("the function makes it")
    }
}

fn found<const RESULTS: usize>(torch: &Libtorch) -> &DepthwiseFunctions<RESULTS>
where
    DepthwiseFunctions<RESULTS>: OfLibtorch,
{
    DepthwiseFunctions::of(torch).expect("the function was found before ours took its place")
}

/// Puts our function in the place of PyTorch's, if libtorch has one.
pub fn take_gradient<const RESULTS: usize>(torch: &Libtorch)
where
    DepthwiseFunctions<RESULTS>: OfLibtorch,
{
    if let Some(functions) = DepthwiseFunctions::<RESULTS>::of(torch) {
        functions.place.store((backward::<RESULTS> as *const ()).cast_mut().cast(), Ordering::Release);
    }
}

/// The gradients of x, of the weight, and for volumes of the bias, as far as they are wanted.
///
/// # Safety
/// libtorch calls it in place of its own function.
unsafe extern "C-unwind" fn backward<const RESULTS: usize>(
    results: &mut [*mut c_void; RESULTS],
    dy: RawTensor,
    x: RawTensor,
    weight: RawTensor,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    wanted: Wanted<RESULTS>,
) -> *mut [*mut c_void; RESULTS]
where
    DepthwiseFunctions<RESULTS>: OfLibtorch,
{
    let torch = Libtorch::of_kernels();
    let read = || {
        // SAFETY: libtorch's arguments live until the function returns.
        let window = unsafe {
            match DepthwiseFunctions::<RESULTS>::AXES {
                2 => Window::of(read_sizes::<2>([kernel, stride, padding, dilation])?),
                _ => Window::of(read_sizes::<3>([kernel, stride, padding, dilation])?),
            }
        };
        let none: [_; RESULTS] = std::array::from_fn(|_| Tensor::undefined(torch));
        none.iter().all(Option::is_some).then_some((window, none))
    };
    let Some((window, none)) = guarded(read).flatten() else {
        let functions = found::<RESULTS>(torch);
        // SAFETY: these are the arguments.
        return unsafe { (functions.backward)(results, dy, x, weight, kernel, stride, padding, dilation, wanted) };
    };
    // SAFETY: the caller keeps the tensors.
    let [dy, x, weight] = [dy, x, weight].map(|raw| ManuallyDrop::new(unsafe { Tensor::taken(raw as u64, torch) }));
    // A network that permutes its images hands in a gradient that is not packed. PyTorch would copy it for each result, and
    // x for the weight's gradient.
    let copy_of_dy = guarded(|| dy.repacked()).flatten();
    let copy_of_x = if wanted.0[1] { guarded(|| x.repacked()).flatten() } else { None };
    let (dy, x) = (copy_of_dy.as_ref().unwrap_or(&dy), copy_of_x.as_ref().unwrap_or(&x));
    let call = |direction| Call { torch, direction, x, weight: &weight, bias: None, dy: Some(dy), window };
    let (of_x, of_weight) = (call(Direction::BackwardData), call(Direction::BackwardFilter));
    // PyTorch may throw in a later one. Until the end we own the results, so that they are freed.
    let mut gradients = none;
    for (place, gradient) in gradients.iter_mut().enumerate().filter(|(place, _)| wanted.0[*place]) {
        *gradient = Some(match place {
            0 => operator::run(&of_x),
            1 => operator::run(&of_weight),
            // SAFETY: the tensors live.
            _ => unsafe { differentiate(&of_weight, Gradient::OfBias) },
        });
    }
    for (to, gradient) in results.iter_mut().rev().zip(gradients) {
        *to = gradient.map_or(null_mut(), Tensor::into_cpp);
    }
    results
}

/// The sizes of lists, one for each axis; `None` if one has another number of them.
///
/// # Safety
/// The sizes live.
pub unsafe fn read_sizes<const AXES: usize>(all: [Sizes; 4]) -> Option<[[i64; AXES]; 4]> {
    // SAFETY: the caller's promise.
    let [kernel, stride, padding, dilation] = all.map(|sizes| unsafe { sizes.of_axes::<AXES>() });
    Some([kernel?, stride?, padding?, dilation?])
}
