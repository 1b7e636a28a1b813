//! Batch normalization: PyTorch's operators `native_batch_norm` and `native_batch_norm_backward`. PyTorch takes them where
//! it does not ask cuDNN, which for bfloat16 is always.

use super::libtorch::{Libtorch, Value, Wanted};
use super::normalization::{
    Passing, Room, are_numbers, data, is_epsilon, is_gradient, like, new_numbers, planes_of, put, read,
};
use super::operator;
use super::values::{Tensor, as_bool};
use gpu::{Element, Stream, jit};
use norm::calls;
use norm::fitted::Fitted;
use norm::pass::Pass;
use norm::shape::{Flat, Planes};
use norm::subject::{Normalization, Plain};

/// The kernel of `native_batch_norm`.
///
/// # Safety
/// libtorch calls it, with the operator's arguments on the stack.
pub unsafe extern "C-unwind" fn forward(stack: *mut Value, _: u64, _: u64) {
    // SAFETY: libtorch puts the arguments there in the order of the operator's schema; the kernel owns them.
    unsafe {
        let call = Forward::taken(stack, Libtorch::of_kernels());
        put(stack, operator::run(&call));
    }
}

/// The kernel of `native_batch_norm_backward`.
///
/// # Safety
/// As for [`forward`].
pub unsafe extern "C-unwind" fn backward(stack: *mut Value, _: u64, _: u64) {
    // SAFETY: as in `forward`.
    unsafe {
        let call = Backward::taken(stack, Libtorch::of_kernels());
        put(stack, operator::run(&call));
    }
}

/// Checks that our kernels can reduce the channels.
fn are_reduced(planes: &Planes) -> Result<(), &'static str> {
    planes.vectors().ok_or("an image is not whole vectors of 16 bytes, or a channel has too many")?;
    if planes.images * planes.plane == 1 { Err("a channel has one element") } else { Ok(()) }
}

/// Returns whether parameters, as far as there are some, have the tensor's type. Otherwise they are floats: one for each
/// channel, as the statistics.
fn has_parameters_as_elements(
    x: &Tensor,
    planes: &Planes,
    parameters: &[&Option<Tensor>],
) -> Result<bool, &'static str> {
    let mut all = parameters.iter().copied().flatten();
    let element = all.clone().next().map_or(Some(Element::Float), Tensor::element);
    let element = element.filter(|element| [Element::Float, planes.element].contains(element));
    let element = element.ok_or("its parameters have another type")?;
    let are_right = all.all(|numbers| is_per_channel(numbers, element, planes, x));
    if are_right {
        Ok(element != Element::Float)
    } else {
        Err("its parameters are not numbers of one type for each channel")
    }
}

fn is_per_channel(numbers: &Tensor, element: Element, planes: &Planes, x: &Tensor) -> bool {
    are_numbers(numbers, element, &[planes.channels as i64], x)
}

/// New numbers for each channel, beside a tensor.
fn per_channel<'a>(x: &Tensor<'a>, planes: &Planes, element: Element) -> Option<Tensor<'a>> {
    new_numbers(x, &[planes.channels as i64], element)
}

/// A call of `native_batch_norm(x, weight?, bias?, running mean?, running variance?, is training, momentum, epsilon)`. Its
/// results are y, the mean, and 1 / √(variance + epsilon).
struct Forward<'a> {
    torch: &'a Libtorch,
    x: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    bias: Option<Tensor<'a>>,
    running_mean: Option<Tensor<'a>>,
    running_variance: Option<Tensor<'a>>,
    is_training: bool,
    momentum: f64,
    epsilon: f64,
}

impl<'a> Forward<'a> {
    /// # Safety
    /// The stack has the operator's arguments, whose owner is the caller.
    unsafe fn taken(stack: *const Value, torch: &'a Libtorch) -> Self {
        // SAFETY: the caller promises the arguments.
        unsafe {
            let optional = |place| Tensor::taken_if_any(*stack.add(place), torch);
            Self {
                torch,
                x: Tensor::taken(*stack, torch),
                weight: optional(1),
                bias: optional(2),
                running_mean: optional(3),
                running_variance: optional(4),
                is_training: as_bool(*stack.add(5)),
                momentum: f64::from_bits(*stack.add(6)),
                epsilon: f64::from_bits(*stack.add(7)),
            }
        }
    }
}

impl Passing for Forward<'_> {
    fn torch(&self) -> &Libtorch {
        self.torch
    }

    fn x(&self) -> &Tensor<'_> {
        &self.x
    }

    fn subject(&self) -> Result<Normalization, &'static str> {
        is_epsilon(self.epsilon)?;
        let planes = planes_of(&self.x)?;
        let pass = if self.is_training { Pass::Forward } else { Pass::Inference };
        match pass {
            Pass::Forward => are_reduced(&planes)?,
            _ if self.running_mean.is_none() || self.running_variance.is_none() => return Err("it has no statistics"),
            _ => Flat::new(&planes).map(drop).ok_or("it has no elements, or too many")?,
        }
        if self.running_mean.is_some() != self.running_variance.is_some() {
            return Err("it has one running statistic");
        }
        let parameters = [&self.weight, &self.bias, &self.running_mean, &self.running_variance];
        let has_parameters_as_elements = has_parameters_as_elements(&self.x, &planes, &parameters)?;
        Ok(Normalization { pass, plain: Plain::Native, planes, groups: None, has_parameters_as_elements })
    }

    fn room(&self, ours: &Fitted) -> Option<Room<'_>> {
        let numbers = || per_channel(&self.x, &ours.subject.planes, Element::Float);
        Some(Room { results: [like(&self.x)?, numbers()?, numbers()?], workspace: None })
    }

    unsafe fn launch(&self, ours: &Fitted, room: &Room<'_>, stream: Stream) -> Result<(), jit::Error> {
        let [y, mean, inverse] = &room.results;
        if !self.is_training {
            let parameters = calls::Inference {
                flat: ours.flat(),
                x: read(Some(&self.x)),
                y: data(Some(y)),
                scale: read(self.weight.as_ref()),
                bias: read(self.bias.as_ref()),
                mean: read(self.running_mean.as_ref()),
                variance: read(self.running_variance.as_ref()),
                saved_mean: data(Some(mean)).cast(),
                saved_inverse: data(Some(inverse)).cast(),
                epsilon: self.epsilon as f32,
            };
            // SAFETY: `subject` has checked the tensors and numbers. The results are as large.
            return unsafe { ours.engine.launch(stream, &ours.subject, &ours.cut, parameters) };
        }
        let parameters = calls::Forward {
            shape: ours.clusters(),
            x: read(Some(&self.x)),
            y: data(Some(y)),
            scale: read(self.weight.as_ref()),
            bias: read(self.bias.as_ref()),
            running_mean: data(self.running_mean.as_ref()),
            running_variance: data(self.running_variance.as_ref()),
            saved_mean: data(Some(mean)).cast(),
            saved_inverse: data(Some(inverse)).cast(),
            epsilon: self.epsilon,
            factor: self.momentum,
        };
        // SAFETY: `subject` has checked the tensors and numbers. The results are as large.
        unsafe { ours.engine.launch(stream, &ours.subject, &ours.cut, parameters) }
    }

    fn by_pytorch(&self) -> [Tensor<'_>; 3] {
        let [weight, bias, mean, variance] = [&self.weight, &self.bias, &self.running_mean, &self.running_variance]
            .map(|it| Tensor::optional(it.as_ref()));
        let Self { torch, is_training, momentum, epsilon, .. } = *self;
        // SAFETY: the function takes the operator's arguments, and borrows them.
        let three = unsafe {
            (torch.batch_norm)(self.x.raw(), &weight, &bias, &mean, &variance, is_training, momentum, epsilon)
        };
        Tensor::three(three, torch)
    }
}

/// A call of `native_batch_norm_backward(dy, x, weight?, running mean?, running variance?, saved mean?, saved inverse?, is
/// training, epsilon, which results)`. Its results are dx, dweight and dbias.
struct Backward<'a> {
    torch: &'a Libtorch,
    dy: Tensor<'a>,
    x: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    running_mean: Option<Tensor<'a>>,
    running_variance: Option<Tensor<'a>>,
    saved_mean: Option<Tensor<'a>>,
    saved_inverse: Option<Tensor<'a>>,
    is_training: bool,
    epsilon: f64,
    wanted: [bool; 3],
}

impl<'a> Backward<'a> {
    /// # Safety
    /// As for [`Forward::taken`].
    unsafe fn taken(stack: *const Value, torch: &'a Libtorch) -> Self {
        // SAFETY: the caller promises the arguments.
        unsafe {
            let optional = |place| Tensor::taken_if_any(*stack.add(place), torch);
            Self {
                torch,
                dy: Tensor::taken(*stack, torch),
                x: Tensor::taken(*stack.add(1), torch),
                weight: optional(2),
                running_mean: optional(3),
                running_variance: optional(4),
                saved_mean: optional(5),
                saved_inverse: optional(6),
                is_training: as_bool(*stack.add(7)),
                epsilon: f64::from_bits(*stack.add(8)),
                // The operator's schema has three.
                wanted: torch.three_bools(*stack.add(9)).unwrap_or([true; 3]),
            }
        }
    }
}

impl Passing for Backward<'_> {
    fn torch(&self) -> &Libtorch {
        self.torch
    }

    fn x(&self) -> &Tensor<'_> {
        &self.x
    }

    fn subject(&self) -> Result<Normalization, &'static str> {
        if !self.is_training {
            return Err("it is no training");
        }
        if !self.wanted[0] {
            return Err("only the parameters' gradients are asked for");
        }
        let planes = planes_of(&self.x)?;
        are_reduced(&planes)?;
        is_gradient(&self.dy, &self.x)?;
        if self.weight.is_none() && self.wanted != [true, false, false] {
            return Err("gradients are asked for that it does not have");
        }
        let is_there = |numbers: &Option<Tensor>| {
            numbers.as_ref().is_some_and(|numbers| is_per_channel(numbers, Element::Float, &planes, &self.x))
        };
        if !is_there(&self.saved_mean) || !is_there(&self.saved_inverse) {
            return Err("its saved statistics are not floats for each channel");
        }
        let has_parameters_as_elements = has_parameters_as_elements(&self.x, &planes, &[&self.weight])?;
        Ok(Normalization {
            pass: Pass::Backward,
            plain: Plain::Native,
            planes,
            groups: None,
            has_parameters_as_elements,
        })
    }

    fn room(&self, ours: &Fitted) -> Option<Room<'_>> {
        let types = ours.subject.types();
        let element = if types.has_parameters_as_elements { types.element } else { Element::Float };
        let gradient = |is_wanted: bool| match is_wanted {
            true => per_channel(&self.x, &ours.subject.planes, element),
            false => Tensor::undefined(self.torch),
        };
        let results = [like(&self.x)?, gradient(self.wanted[1])?, gradient(self.wanted[2])?];
        Some(Room { results, workspace: None })
    }

    unsafe fn launch(&self, ours: &Fitted, room: &Room<'_>, stream: Stream) -> Result<(), jit::Error> {
        let [dx, dweight, dbias] = &room.results;
        let wanted = |tensor, place: usize| data(self.wanted[place].then_some(tensor));
        let parameters = calls::Backward {
            shape: ours.clusters(),
            x: read(Some(&self.x)),
            dy: read(Some(&self.dy)),
            dx: data(Some(dx)),
            scale: read(self.weight.as_ref()),
            saved_mean: read(self.saved_mean.as_ref()).cast(),
            saved_inverse: read(self.saved_inverse.as_ref()).cast(),
            dscale: wanted(dweight, 1),
            dbias: wanted(dbias, 2),
        };
        // SAFETY: `subject` has checked the tensors and numbers. The results are as large.
        unsafe { ours.engine.launch(stream, &ours.subject, &ours.cut, parameters) }
    }

    fn by_pytorch(&self) -> [Tensor<'_>; 3] {
        let [weight, running_mean, running_variance, saved_mean, saved_inverse] =
            [&self.weight, &self.running_mean, &self.running_variance, &self.saved_mean, &self.saved_inverse]
                .map(|it| Tensor::optional(it.as_ref()));
        // SAFETY: the function takes the operator's arguments, and borrows them.
        let three = unsafe {
            (self.torch.batch_norm_backward)(
                self.dy.raw(),
                self.x.raw(),
                &weight,
                &running_mean,
                &running_variance,
                &saved_mean,
                &saved_inverse,
                self.is_training,
                self.epsilon,
                Wanted(self.wanted),
            )
        };
        Tensor::three(three, self.torch)
    }
}
