//! Group normalization: PyTorch's operators `native_group_norm` and `native_group_norm_backward`. PyTorch takes them for
//! every group normalization. On a GPU all of a call's numbers have the tensor's type: also the saved statistics.

use super::libtorch::{GroupNormFunctions, Libtorch, Value, Wanted};
use super::normalization::{
    Passing, Room, are_numbers, data, is_epsilon, is_gradient, like, new_numbers, planes_of, put, read,
};
use super::operator;
use super::values::Tensor;
use gpu::{Element, Stream, jit};
use norm::calls::{self, partial_bytes};
use norm::fitted::Fitted;
use norm::pass::Pass;
use norm::shape::{Planes, Shape};
use norm::subject::{Normalization, Plain};

/// The bytes of sums that do not count beside a program's memory.
const SMALL_SUMS: usize = 1 << 20;

/// The kernel of `native_group_norm`.
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

/// The kernel of `native_group_norm_backward`.
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

/// The sizes that a call names.
#[derive(Clone, Copy)]
struct Sizes {
    images: i64,
    channels: i64,
    plane: i64,
    groups: i64,
}

impl Sizes {
    /// # Safety
    /// Four numbers are on the stack.
    unsafe fn taken(stack: *const Value) -> Self {
        // SAFETY: the caller's promise.
        let [images, channels, plane, groups] = [0, 1, 2, 3].map(|place| unsafe { *stack.add(place) as i64 });
        Self { images, channels, plane, groups }
    }

    /// The numbers for each group of each image.
    fn of_groups(self) -> [i64; 2] {
        [self.images, self.groups]
    }

    /// The pass over a tensor of these sizes. `Err` gives the reason why PyTorch has to run it.
    fn subject(self, pass: Pass, x: &Tensor) -> Result<Normalization, &'static str> {
        let planes = planes_of(x)?;
        let Planes { images, channels, plane, element } = planes;
        let as_number = |size: i64| usize::try_from(size).ok();
        if [images, channels, plane].map(Some) != [self.images, self.channels, self.plane].map(as_number) {
            return Err("its tensor has other sizes than it names");
        }
        let groups = as_number(self.groups).filter(|&groups| groups > 0 && channels.is_multiple_of(groups));
        let groups = groups.ok_or("its channels are not whole groups")?;
        planes.of_groups(groups).vectors().ok_or("the tensor is not whole vectors of 16 bytes, or has too many")?;
        let has_parameters_as_elements = element != Element::Float;
        Ok(Normalization { pass, plain: Plain::Native, planes, groups: Some(groups), has_parameters_as_elements })
    }
}

/// Checks that parameters, as far as there are some, have the tensor's type, and are numbers for each channel.
fn are_parameters(x: &Tensor, planes: &Planes, parameters: &[&Option<Tensor>]) -> Result<(), &'static str> {
    let are_right = |numbers: &Tensor| are_numbers(numbers, planes.element, &[planes.channels as i64], x);
    if parameters.iter().copied().flatten().all(are_right) {
        Ok(())
    } else {
        Err("its parameters are not numbers of the tensor's type for each channel")
    }
}

/// Returns whether the sums that the gradients of parameters take are small, or at most as large as the tensor. Groups of few
/// elements, where they are larger, have one block.
fn has_small_sums(subject: &Normalization) -> bool {
    let Planes { element, images, channels, plane } = subject.planes;
    let most = SMALL_SUMS.max((images * channels).saturating_mul(plane * element.bytes()));
    let shape = Shape::new(&subject.reduced(), 1, 0, subject.pass.row().kept);
    shape.is_some_and(|shape| partial_bytes(subject, &shape) <= most)
}

/// The functions of PyTorch's own. Our kernels are registered only where there are some.
fn functions(torch: &Libtorch) -> &GroupNormFunctions {
    torch.group_norm.as_ref().expect("the functions were found before ours took their place")
}

/// A call of `native_group_norm(x, weight?, bias?, images, channels, plane, groups, epsilon)`. Its results are y, the mean,
/// and 1 / √(variance + epsilon).
struct Forward<'a> {
    torch: &'a Libtorch,
    x: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    bias: Option<Tensor<'a>>,
    sizes: Sizes,
    epsilon: f64,
}

impl<'a> Forward<'a> {
    /// # Safety
    /// The stack has the operator's arguments, whose owner is the caller.
    unsafe fn taken(stack: *const Value, torch: &'a Libtorch) -> Self {
        // SAFETY: the caller promises the arguments.
        unsafe {
            Self {
                torch,
                x: Tensor::taken(*stack, torch),
                weight: Tensor::taken_if_any(*stack.add(1), torch),
                bias: Tensor::taken_if_any(*stack.add(2), torch),
                sizes: Sizes::taken(stack.add(3)),
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
        let subject = self.sizes.subject(Pass::GroupForward, &self.x)?;
        are_parameters(&self.x, &subject.planes, &[&self.weight, &self.bias])?;
        Ok(subject)
    }

    fn room(&self, ours: &Fitted) -> Option<Room<'_>> {
        let numbers = || new_numbers(&self.x, &self.sizes.of_groups(), ours.subject.planes.element);
        Some(Room { results: [like(&self.x)?, numbers()?, numbers()?], workspace: None })
    }

    unsafe fn launch(&self, ours: &Fitted, room: &Room<'_>, stream: Stream) -> Result<(), jit::Error> {
        let [y, mean, inverse] = &room.results;
        let parameters = calls::GroupForward {
            shape: ours.clusters(),
            groups: ours.groups(),
            x: read(Some(&self.x)),
            y: data(Some(y)),
            weight: read(self.weight.as_ref()),
            bias: read(self.bias.as_ref()),
            saved_mean: data(Some(mean)),
            saved_inverse: data(Some(inverse)),
            epsilon: self.epsilon,
        };
        // SAFETY: `subject` has checked the tensors and numbers. The results are as large.
        unsafe { ours.engine.launch(stream, &ours.subject, &ours.cut, parameters) }
    }

    fn by_pytorch(&self) -> [Tensor<'_>; 3] {
        let [weight, bias] = [&self.weight, &self.bias].map(|it| Tensor::optional(it.as_ref()));
        let Sizes { images, channels, plane, groups } = self.sizes;
        let run = functions(self.torch).forward;
        // SAFETY: the function takes the operator's arguments, and borrows them.
        let three = unsafe { run(self.x.raw(), &weight, &bias, images, channels, plane, groups, self.epsilon) };
        Tensor::three(three, self.torch)
    }
}

/// A call of `native_group_norm_backward(dy, x, saved mean, saved inverse, weight?, images, channels, plane, groups, which
/// results)`. Its results are dx, dweight and dbias.
struct Backward<'a> {
    torch: &'a Libtorch,
    dy: Tensor<'a>,
    x: Tensor<'a>,
    saved_mean: Tensor<'a>,
    saved_inverse: Tensor<'a>,
    weight: Option<Tensor<'a>>,
    sizes: Sizes,
    wanted: [bool; 3],
}

impl<'a> Backward<'a> {
    /// # Safety
    /// As for [`Forward::taken`].
    unsafe fn taken(stack: *const Value, torch: &'a Libtorch) -> Self {
        // SAFETY: the caller promises the arguments.
        unsafe {
            let tensor = |place| Tensor::taken(*stack.add(place), torch);
            Self {
                torch,
                dy: tensor(0),
                x: tensor(1),
                saved_mean: tensor(2),
                saved_inverse: tensor(3),
                weight: Tensor::taken_if_any(*stack.add(4), torch),
                sizes: Sizes::taken(stack.add(5)),
                // The operator's schema has three.
                wanted: torch.three_bools(*stack.add(9)).unwrap_or([true; 3]),
            }
        }
    }

    fn wants_parameters(&self) -> bool {
        self.wanted[1] || self.wanted[2]
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
        if !self.wanted[0] {
            return Err("only the parameters' gradients are asked for");
        }
        let subject = self.sizes.subject(Pass::GroupBackward, &self.x)?;
        let Planes { element, .. } = subject.planes;
        if self.wants_parameters() && !has_small_sums(&subject) {
            return Err("its groups are so small that the sums of their channels would be larger than the tensor");
        }
        is_gradient(&self.dy, &self.x)?;
        are_parameters(&self.x, &subject.planes, &[&self.weight])?;
        let statistics = [&self.saved_mean, &self.saved_inverse];
        if statistics.iter().any(|numbers| !are_numbers(numbers, element, &self.sizes.of_groups(), &self.x)) {
            return Err("its saved statistics are not numbers of the tensor's type for each group");
        }
        Ok(subject)
    }

    fn room(&self, ours: &Fitted) -> Option<Room<'_>> {
        let subject = &ours.subject;
        let gradient = |is_wanted: bool| match is_wanted {
            true => new_numbers(&self.x, &[self.sizes.channels], subject.planes.element),
            false => Tensor::undefined(self.torch),
        };
        let results = [like(&self.x)?, gradient(self.wanted[1])?, gradient(self.wanted[2])?];
        let workspace = match self.wants_parameters() {
            true => Some(self.x.another(&[partial_bytes(subject, &ours.clusters()) as i64], self.torch.byte())?),
            false => None,
        };
        Some(Room { results, workspace })
    }

    unsafe fn launch(&self, ours: &Fitted, room: &Room<'_>, stream: Stream) -> Result<(), jit::Error> {
        let [dx, dweight, dbias] = &room.results;
        let wanted = |tensor, place: usize| data(self.wanted[place].then_some(tensor));
        let parameters = calls::GroupBackward {
            shape: ours.clusters(),
            groups: ours.groups(),
            x: read(Some(&self.x)),
            dy: read(Some(&self.dy)),
            dx: data(Some(dx)),
            weight: read(self.weight.as_ref()),
            saved_mean: read(Some(&self.saved_mean)),
            saved_inverse: read(Some(&self.saved_inverse)),
            dweight: wanted(dweight, 1),
            dbias: wanted(dbias, 2),
            partial: data(room.workspace.as_ref()),
        };
        // SAFETY: `subject` has checked the tensors and numbers. The results are as large.
        unsafe { parameters.launch(&ours.engine, stream, &ours.subject, &ours.cut) }
    }

    fn by_pytorch(&self) -> [Tensor<'_>; 3] {
        let Self { dy, x, saved_mean, saved_inverse, .. } = self;
        let [dy, x, mean, inverse] = [dy, x, saved_mean, saved_inverse].map(Tensor::raw);
        let Sizes { images, channels, plane, groups } = self.sizes;
        let (weight, wanted) = (Tensor::optional(self.weight.as_ref()), Wanted(self.wanted));
        let run = functions(self.torch).backward;
        // SAFETY: the function takes the operator's arguments, and borrows them.
        let three = unsafe { run(dy, x, mean, inverse, &weight, images, channels, plane, groups, wanted) };
        Tensor::three(three, self.torch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_small_beside_a_tensor() {
        let are_small = |images, channels, plane, groups| {
            let planes = Planes { element: Element::Half, images, channels, plane };
            let (pass, plain) = (Pass::GroupBackward, Plain::Native);
            has_small_sums(&Normalization {
                pass,
                plain,
                planes,
                groups: Some(groups),
                has_parameters_as_elements: true,
            })
        };
        assert!(are_small(2, 32, 128 * 128 * 128, 8));
        assert!(are_small(4, 1280, 64, 32));
        assert!(are_small(64, 256, 1, 32), "a tensor so small does not count");
        assert!(!are_small(65536, 512, 1, 512));
        assert!(!are_small(262_144, 64, 1, 8));
    }
}
