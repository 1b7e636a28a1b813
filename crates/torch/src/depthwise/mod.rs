//! Convolutions in which each channel has filters of its own: PyTorch's operators `_conv_depthwise2d`, of images, and
//! `conv_depthwise3d`, of volumes, and the functions by which their gradients are computed. PyTorch takes them for most
//! depthwise convolutions with the channels first; sequences are images of one row.

mod contestant;
mod functions;
pub mod subject;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use super::libtorch::{Libtorch, Sizes, Value};
use super::operator::{self, Operator, guarded};
use super::values::{Tensor, is_aligned};
use contestant::{DepthwiseContestant, Ready, contest};
use convolution::engines::{Convolution, Memory};
use cudnn::Direction;
use gpu::{Element, Stream};
use guest::summary::{self, Counted};
use subject::Subject;
use tuning::contest::Contest;

pub use contestant::FAMILY;
pub use functions::take_gradient;
use functions::{Gradient, read_sizes};

/// The kernel of `_conv_depthwise2d(x, weight, kernel size, bias?, stride, padding, dilation)`, where `AXES` is 2. With 3 axes
/// it is that of `conv_depthwise3d`.
///
/// # Safety
/// libtorch calls it, with the operator's arguments on the stack.
pub unsafe extern "C-unwind" fn forward<const AXES: usize>(stack: *mut Value, _: u64, _: u64) {
    let torch = Libtorch::of_kernels();
    // SAFETY: libtorch puts the arguments there in the order of the operator's schema; the kernel owns them.
    unsafe {
        let [x, weight] = [0, 1].map(|place| Tensor::taken(*stack.add(place), torch));
        let bias = Tensor::taken_if_any(*stack.add(3), torch);
        let lists = [2, 4, 5, 6].map(|place| torch.sizes(*stack.add(place)));
        let sizes = lists.each_ref().map(|list| Sizes::of(list));
        let read = read_sizes::<AXES>(sizes);
        // PyTorch would copy it, too.
        let copy = read.and_then(|_| guarded(|| x.repacked()).flatten());
        let (x, bias, direction) = (copy.as_ref().unwrap_or(&x), bias.as_ref(), Direction::Forward);
        let call =
            read.map(|all| Call { torch, direction, x, weight: &weight, bias, dy: None, window: Window::of(all) });
        let y = match &call {
            Some(call) => operator::run(call),
            // PyTorch raises an exception, which names the wrong list.
            None => functions::by_pytorch(torch, AXES, [x, &weight], bias, sizes),
        };
        stack.write(y.into_value());
    }
}

/// The sizes of a filter, and how it moves: slices, rows and columns.
#[derive(Clone, Copy)]
struct Window {
    /// 2 for images, whose filters have one slice, and 3 for volumes.
    axes: usize,
    kernel: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
}

impl Window {
    fn of<const AXES: usize>([kernel, stride, padding, dilation]: [[i64; AXES]; 4]) -> Self {
        let with = |first: i64, of: [i64; AXES]| {
            let mut all = [first; 3];
            all[3 - AXES..].copy_from_slice(&of);
            all
        };
        Self {
            axes: AXES,
            kernel: with(1, kernel),
            stride: with(1, stride),
            padding: with(0, padding),
            dilation: with(1, dilation),
        }
    }

    /// The sizes as C++ functions take them.
    fn sizes(&self) -> [Sizes; 4] {
        [&self.kernel, &self.stride, &self.padding, &self.dilation].map(|of| Sizes::of(&of[3 - self.axes..]))
    }
}

/// A convolution, or the gradient of x or of the weight.
struct Call<'a> {
    torch: &'a Libtorch,
    direction: Direction,
    x: &'a Tensor<'a>,
    weight: &'a Tensor<'a>,
    /// A convolution may have one, gradients have none.
    bias: Option<&'a Tensor<'a>>,
    /// Gradients have it.
    dy: Option<&'a Tensor<'a>>,
    window: Window,
}

/// The sizes of a packed tensor, as numbers that count: two, and those of its slices, rows and columns. Images have one
/// slice.
fn sizes_of(
    tensor: &Tensor,
    element: Element,
    x: &Tensor,
    axes: usize,
) -> Result<([usize; 2], [usize; 3]), &'static str> {
    if !tensor.is_beside(x) {
        return Err("its tensors are on different devices");
    }
    if tensor.element() != Some(element) {
        return Err("its tensors have different types");
    }
    let layout = tensor.layout().ok_or("a tensor is none")?;
    if !layout.is_packed() {
        return Err("a tensor is not packed with the channels first");
    }
    is_aligned(tensor)?;
    let mut all = [1; 5];
    let (first, last) = all.split_at_mut(2);
    let sizes = layout.sizes.iter().map(|size| usize::try_from(*size).unwrap_or(0));
    if sizes.len() != 2 + axes {
        return Err("its tensors have another number of axes than its filter");
    }
    first.iter_mut().chain(&mut last[3 - axes..]).zip(sizes).for_each(|(to, size)| *to = size);
    let [a, b, slices, rows, columns] = all;
    if all.contains(&0) { Err("a tensor has no elements") } else { Ok(([a, b], [slices, rows, columns])) }
}

impl Call<'_> {
    /// Reads the call. `Err` gives the reason why PyTorch has to run it.
    fn convolution(&self) -> Result<Convolution, &'static str> {
        let element = self.x.element().ok_or("its type is not half, bfloat16 or float")?;
        let Window { axes, kernel, stride, padding, dilation } = self.window;
        let ([images, inputs], x) = sizes_of(self.x, element, self.x, axes)?;
        let ([outputs, one], filter) = sizes_of(self.weight, element, self.x, axes)?;
        let number = |of: [i64; 3]| of.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let [kernel, stride, padding, dilation] = [kernel, stride, padding, dilation].map(number);
        if one != 1 || kernel != filter || !outputs.is_multiple_of(inputs) {
            return Err("its weight does not go with it");
        }
        let places = |axis: usize| {
            let reach = (filter[axis] - 1).checked_mul(dilation[axis])?.checked_add(1)?;
            let padded = padding[axis].checked_mul(2)?.checked_add(x[axis])?;
            Some(padded.checked_sub(reach)?.checked_div(stride[axis])? + 1)
        };
        let [Some(slices), Some(rows), Some(columns)] = [0, 1, 2].map(places) else {
            return Err("its filter does not fit");
        };
        let y = [slices, rows, columns];
        if let Some(dy) = self.dy
            && sizes_of(dy, element, self.x, axes)? != ([images, outputs], y)
        {
            return Err("its gradient has other sizes");
        }
        if let Some(bias) = self.bias {
            let is_right = bias.is_beside(self.x)
                && bias.element() == Some(element)
                && bias.layout().is_some_and(|layout| layout.sizes == [outputs as i64] && layout.is_packed());
            if !is_right {
                return Err("its bias is not a number for each channel");
            }
        }
        Ok(Convolution {
            element,
            is_exact: element == Element::Float,
            direction: self.direction,
            images,
            inputs,
            outputs,
            groups: inputs,
            x,
            y,
            filter,
            stride,
            padding,
            dilation,
        })
    }
}

impl Operator for Call<'_> {
    type Contestant = DepthwiseContestant;
    /// The result, and the workspace.
    type Room<'a>
        = (Tensor<'a>, Option<Tensor<'a>>)
    where
        Self: 'a;
    type Results<'a>
        = Tensor<'a>
    where
        Self: 'a;
    const WHAT: &'static str = "a convolution by channel";

    fn torch(&self) -> &Libtorch {
        self.torch
    }

    fn x(&self) -> &Tensor<'_> {
        self.x
    }

    fn count(&self) {
        summary::count(Counted::Convolution);
    }

    fn contest(&self) -> Result<Arc<Contest<DepthwiseContestant>>, &'static str> {
        contest(Subject { of: self.convolution()?, is_of_volumes: self.window.axes == 3 })
    }

    fn room(&self, ours: &Ready) -> Option<(Tensor<'_>, Option<Tensor<'_>>)> {
        let of = &ours.of;
        let (first, last) = match self.direction {
            Direction::Forward => ([of.images, of.outputs], of.y),
            Direction::BackwardData => ([of.images, of.inputs], of.x),
            Direction::BackwardFilter => ([of.outputs, 1], of.filter),
        };
        let sizes: Vec<_> = first.iter().chain(&last[3 - self.window.axes..]).map(|size| *size as i64).collect();
        let result = self.x.another(&sizes, self.x.data_type()?)?;
        is_aligned(&result).ok()?;
        let workspace = match ours.plan.workspace() {
            0 => None,
            bytes => Some(self.x.another(&[bytes as i64], self.torch.byte())?),
        };
        Some((result, workspace))
    }

    unsafe fn launch<'a>(
        &'a self,
        ours: &Ready,
        (result, workspace): &(Tensor<'a>, Option<Tensor<'a>>),
        stream: Stream,
    ) -> Result<(), String> {
        let data = |tensor: &Tensor| tensor.data().ok_or("a tensor has no memory");
        let read = |tensor: &Tensor| tensor.read_only().map(<*const c_void>::cast_mut).ok_or("a tensor has no memory");
        let [x, w] = [read(self.x)?, read(self.weight)?];
        let y = self.dy.map_or(Ok(null_mut()), read)?;
        let (bias, workspace) =
            (self.bias.map_or(Ok(null_mut()), read)?, workspace.as_ref().map_or(Ok(null_mut()), data)?);
        let memory = Memory { x, w, y, workspace, bias };
        let memory = match self.direction {
            Direction::Forward => Memory { y: data(result)?, ..memory },
            Direction::BackwardData => Memory { x: data(result)?, ..memory },
            Direction::BackwardFilter => Memory { w: data(result)?, ..memory },
        };
        // SAFETY: `convolution` has checked the tensors. The result and the workspace are new, and as large as asked for.
        if unsafe { ours.plan.run(stream, memory, 1.0, 0.0) } { Ok(()) } else { Err("the launch failed".into()) }
    }

    fn count_ours(&self, ours: &Ready) {
        summary::count(Counted::Replaced);
        let subject = Subject { of: ours.of, is_of_volumes: self.window.axes == 3 };
        log::debug!("depthwise convolution {subject}: on our kernels");
    }

    fn results<'a>(&'a self, (result, _): (Tensor<'a>, Option<Tensor<'a>>)) -> Tensor<'a> {
        result
    }

    fn by_pytorch(&self) -> Tensor<'_> {
        // SAFETY: the functions are those of the operator, and borrow their arguments.
        unsafe {
            match self.direction {
                Direction::Forward => functions::convolve(self),
                Direction::BackwardData => functions::differentiate(self, Gradient::OfX),
                Direction::BackwardFilter => functions::differentiate(self, Gradient::OfWeight),
            }
        }
    }
}
