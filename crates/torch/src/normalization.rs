//! What PyTorch's operators of batch and of group normalization share.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::libtorch::{Libtorch, Value};
use super::operator::Operator;
use super::values::{Tensor, is_aligned};
use gpu::{Element, Stream, jit};
use guest::settings::{self, Norm};
use guest::summary::{self, Counted};
use norm::contestant::{NormContestant, contest};
use norm::fitted::Fitted;
use norm::shape::Planes;
use norm::subject::Normalization;
use tuning::contest::Contest;

/// What our kernels write.
pub struct Room<'a> {
    pub results: [Tensor<'a>; 3],
    /// Memory that the kernels use among themselves.
    pub workspace: Option<Tensor<'a>>,
}

/// A call of one of the operators. Each has three results.
pub trait Passing {
    fn torch(&self) -> &Libtorch;

    fn x(&self) -> &Tensor<'_>;

    /// Reads the call. `Err` gives the reason why PyTorch has to run it.
    fn subject(&self) -> Result<Normalization, &'static str>;

    /// As [`Operator::room`].
    fn room(&self, ours: &Fitted) -> Option<Room<'_>>;

    /// As [`Operator::launch`].
    ///
    /// # Safety
    /// As there.
    unsafe fn launch(&self, ours: &Fitted, room: &Room<'_>, stream: Stream) -> Result<(), jit::Error>;

    /// As [`Operator::by_pytorch`].
    fn by_pytorch(&self) -> [Tensor<'_>; 3];
}

impl<P: Passing> Operator for P {
    type Contestant = NormContestant;
    type Room<'a>
        = Room<'a>
    where
        Self: 'a;
    type Results<'a>
        = [Tensor<'a>; 3]
    where
        Self: 'a;
    const WHAT: &'static str = "a normalization";

    fn torch(&self) -> &Libtorch {
        Passing::torch(self)
    }

    fn x(&self) -> &Tensor<'_> {
        Passing::x(self)
    }

    fn count(&self) {
        summary::count(Counted::Normalization);
    }

    fn contest(&self) -> Result<Arc<Contest<NormContestant>>, &'static str> {
        if settings::get().norm == Norm::Off {
            return Err("UCUDNN_NORM is off");
        }
        self.subject().map(|subject| contest(&subject))
    }

    fn room(&self, ours: &Arc<Fitted>) -> Option<Room<'_>> {
        Passing::room(self, ours)
    }

    unsafe fn launch<'a>(&'a self, ours: &Arc<Fitted>, room: &Room<'a>, stream: Stream) -> Result<(), String> {
        // SAFETY: the same kernels, room and stream (see `# Safety`).
        unsafe { Passing::launch(self, ours, room, stream) }.map_err(|error| error.to_string())
    }

    fn count_ours(&self, ours: &Arc<Fitted>) {
        summary::count(Counted::NormalizedByUs);
        log::debug!("{}: on our kernels", ours.subject);
    }

    fn results<'a>(&'a self, room: Room<'a>) -> [Tensor<'a>; 3] {
        room.results
    }

    fn by_pytorch(&self) -> [Tensor<'_>; 3] {
        Passing::by_pytorch(self)
    }
}

/// # Safety
/// The stack has room for three values.
pub unsafe fn put(stack: *mut Value, results: [Tensor; 3]) {
    for (place, result) in results.into_iter().enumerate() {
        // SAFETY: the caller promises the room.
        unsafe { stack.add(place).write(result.into_value()) };
    }
}

/// The planes of a tensor that our kernels take.
pub fn planes_of(x: &Tensor) -> Result<Planes, &'static str> {
    let element = x.element().ok_or("its type is not half, bfloat16 or float")?;
    let layout = x.layout().ok_or("its tensor is none")?;
    if !layout.is_packed() {
        return Err("its tensor is not packed with the channels first");
    }
    let &[images, channels, ref plane @ ..] = layout.sizes else { return Err("its tensor has no channels") };
    let size = |size: i64| usize::try_from(size).map_err(|_| "a size is negative");
    let plane = plane.iter().try_fold(1_usize, |plane, &axis| plane.checked_mul(size(axis).ok()?));
    let planes =
        Planes { element, images: size(images)?, channels: size(channels)?, plane: plane.ok_or("it is too large")? };
    is_aligned(x)?;
    Ok(planes)
}

/// Returns whether numbers of a type lie beside a tensor, packed and with these sizes.
pub fn are_numbers(numbers: &Tensor, element: Element, sizes: &[i64], x: &Tensor) -> bool {
    numbers.is_beside(x)
        && numbers.element() == Some(element)
        && numbers.layout().is_some_and(|layout| layout.sizes == sizes && layout.is_packed())
        && numbers.read_only().is_some_and(|data| !data.is_null())
}

/// A new tensor like another one, aligned for our kernels.
pub fn like<'a>(x: &Tensor<'a>) -> Option<Tensor<'a>> {
    let new = x.like()?;
    is_aligned(&new).is_ok().then_some(new)
}

/// New numbers with these sizes, beside a tensor.
pub fn new_numbers<'a>(x: &Tensor<'a>, sizes: &[i64], element: Element) -> Option<Tensor<'a>> {
    x.another(sizes, x.torch().type_of(element))
}

/// Checks that dy is a tensor like x, with memory that our kernels read.
pub fn is_gradient(dy: &Tensor, x: &Tensor) -> Result<(), &'static str> {
    if !dy.is_beside(x)
        || dy.data_type() != x.data_type()
        || dy.layout().map(|its| its.sizes) != x.layout().map(|its| its.sizes)
    {
        return Err("its tensors differ");
    }
    if !dy.layout().is_some_and(|layout| layout.is_packed()) {
        return Err("its gradient is not packed with the channels first");
    }
    is_aligned(dy)
}

/// The memory of a tensor that is written; null if there is none.
pub fn data(tensor: Option<&Tensor>) -> *mut c_void {
    tensor.and_then(Tensor::data).unwrap_or(null_mut())
}

/// The memory of a tensor that is read; null if there is none.
pub fn read(tensor: Option<&Tensor>) -> *const c_void {
    tensor.and_then(Tensor::read_only).unwrap_or(null())
}

pub fn is_epsilon(epsilon: f64) -> Result<(), &'static str> {
    let is_taken = (0.0..=f64::from(f32::MAX)).contains(&epsilon);
    if is_taken { Ok(()) } else { Err("its epsilon is not a number from 0 on that a float holds") }
}
