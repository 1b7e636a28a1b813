//! PyTorch's own kernels, and the function that computes gradients. No operator leads to this function. Its address is in
//! `conv_depthwise2d_backward_stub`: libtorch_cuda writes it there when it is loaded, and we write another one.
//!
//! Such a function returns an `at::Tensor` or a tuple of them where its hidden first argument points. That is so on x86-64;
//! elsewhere nothing of this is taken over.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::{Call, Window};
use crate::libtorch::{Libtorch, RawTensor, Sizes, Wanted};
use crate::operator::{self, guarded};
use crate::values::Tensor;
use cudnn::Direction;

/// The two gradients of a tuple. The last one comes first.
type Gradients = [*mut c_void; 2];

/// Runs a convolution by PyTorch's kernel. Without one, on the host, the result is no tensor.
///
/// # Safety
/// The call's tensors live.
pub unsafe fn convolve<'a>(call: &Call<'a>) -> Tensor<'a> {
    let torch = call.torch;
    let Some(functions) = &torch.depthwise else {
        return Tensor::undefined(torch).expect("memory for a tensor that is none");
    };
    let (bias, [kernel, stride, padding, dilation]) = (Tensor::optional(call.bias), call.sizes.sizes());
    let mut y = null_mut();
    // SAFETY: the function takes the operator's arguments, and borrows them.
    unsafe {
        (functions.forward)(&mut y, call.x.raw(), call.weight.raw(), kernel, &bias, stride, padding, dilation);
        Tensor::of_cpp(y, torch)
    }
}

/// Computes the gradients of x and of the weight, as far as they are wanted, by PyTorch's kernels.
///
/// # Safety
/// The call is one of gradients, and its tensors live.
pub unsafe fn differentiate<'a>(call: &Call<'a>, wanted: [bool; 2]) -> (Tensor<'a>, Tensor<'a>) {
    let torch = call.torch;
    let functions = torch.depthwise.as_ref().expect("gradients come by the function that was found");
    let dy = call.dy.expect("a gradient has one");
    let [kernel, stride, padding, dilation] = call.sizes.sizes();
    let mut both: Gradients = [null_mut(); 2];
    // SAFETY: as in `convolve`.
    unsafe {
        let (dy, x, weight) = (dy.raw(), call.x.raw(), call.weight.raw());
        (functions.backward)(&mut both, dy, x, weight, kernel, stride, padding, dilation, Wanted(wanted));
        (Tensor::of_cpp(both[1], torch), Tensor::of_cpp(both[0], torch))
    }
}

/// Puts our function in the place of PyTorch's.
pub fn register(torch: &Libtorch) {
    if let Some(functions) = &torch.depthwise {
        functions.place.store((backward as *const ()).cast_mut().cast(), Ordering::Release);
    }
}

/// The gradients of x and of the weight, as far as they are wanted.
///
/// # Safety
/// libtorch calls it in place of its own function.
unsafe extern "C-unwind" fn backward(
    both: &mut Gradients,
    dy: RawTensor,
    x: RawTensor,
    weight: RawTensor,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    wanted: Wanted<2>,
) -> *mut Gradients {
    let torch = Libtorch::of_kernels();
    // SAFETY: libtorch's arguments live until the function returns.
    let read = || unsafe {
        let [kernel, stride, padding, dilation] = [kernel, stride, padding, dilation].map(|sizes| sizes.two());
        let sizes = Window { kernel: kernel?, stride: stride?, padding: padding?, dilation: dilation? };
        Some((sizes, Tensor::undefined(torch)?, Tensor::undefined(torch)?))
    };
    let Some((sizes, no_dx, no_dw)) = guarded(read).flatten() else {
        let functions = torch.depthwise.as_ref().expect("the function was found before ours took its place");
        // SAFETY: these are the arguments.
        return unsafe { (functions.backward)(both, dy, x, weight, kernel, stride, padding, dilation, wanted) };
    };
    // SAFETY: the caller keeps the tensors.
    let [dy, x, weight] = [dy, x, weight].map(|raw| ManuallyDrop::new(unsafe { Tensor::taken(raw as u64, torch) }));
    // A network that permutes its images hands in a gradient that is not packed. PyTorch would copy it for each result, and
    // x for the weight's gradient.
    let copy_of_dy = guarded(|| dy.repacked()).flatten();
    let copy_of_x = if wanted.0[1] { guarded(|| x.repacked()).flatten() } else { None };
    let (dy, x) = (copy_of_dy.as_ref().unwrap_or(&dy), copy_of_x.as_ref().unwrap_or(&x));
    let call = |direction| Call { torch, direction, x, weight: &weight, bias: None, dy: Some(dy), sizes };
    let (of_x, of_weight) = (call(Direction::BackwardData), call(Direction::BackwardFilter));
    // PyTorch may throw in the second one. Until then we own the first result, so that it is freed.
    let dx = if wanted.0[0] { operator::run(&of_x) } else { no_dx };
    let dw = if wanted.0[1] { operator::run(&of_weight) } else { no_dw };
    *both = [dw.into_cpp(), dx.into_cpp()];
    both
}
