//! Convolutions of images of one place, and their gradients: products of matrices, by cublasLt. The filter has one place
//! too, or it covers the image, as in the patch embeddings of vision transformers.

#[cfg(test)]
pub mod tests;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::engine::{Plan, Priority, Ready, is_short};
use super::problem::{Convolution, Memory};
use crate::problem::graph::Knob;
use cudnn::convolution::Direction;
use cudnn_abi::cudnnBackendKnobType_t;
use gpu::cublaslt::{Batch, Compute, CublasLt, Factor, Product};
use gpu::jit::loaded::Loaded;
use gpu::{Device, Element, Stream};

/// The knob of cublasLt's workspace, in MiB, and its values: it adds parts of sums up there, and some of its kernels need
/// it. On an H100, the filter gradient of 16,384 images of 1,176 numbers took 0.13 ms without and 0.07 ms with it.
const WORKSPACE_KNOB: cudnnBackendKnobType_t = 0;
const WORKSPACES: [usize; 2] = [32, 4];

/// Which of the three matrices is the result: y = x wᵀ, dx = dy w, dw = dyᵀ x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Y,
    Dx,
    Dw,
}

/// x is `[images][inputs]`, w `[outputs][inputs]`, y `[images][outputs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrices {
    element: Element,
    is_exact: bool,
    result: Result,
    images: usize,
    inputs: usize,
    outputs: usize,
}

impl Matrices {
    /// `None` if the images have more than one place, or a matrix has no elements or too many to count.
    fn of(convolution: &Convolution) -> Option<Self> {
        let Convolution {
            element, is_exact, direction, images, inputs, outputs, groups, x, y, filter, padding, ..
        } = *convolution;
        let result = match direction {
            Direction::Forward => Result::Y,
            Direction::BackwardData => Result::Dx,
            Direction::BackwardFilter => Result::Dw,
        };
        let is_one_place = [x, y, filter] == [[1; 3]; 3] && padding == [0; 3] && groups == 1;
        let is_counted = [images, inputs, outputs].iter().all(|&size| size > 0 && i32::try_from(size).is_ok());
        (is_one_place && is_counted).then_some(Self { element, is_exact, result, images, inputs, outputs })
    }

    /// The number of products that are added up for an element of the result.
    fn depth(&self) -> usize {
        match self.result {
            Result::Y => self.inputs,
            Result::Dx => self.outputs,
            Result::Dw => self.images,
        }
    }

    fn product(&self, Memory { x, w, y, workspace, .. }: Memory, bytes: usize, beta: f32) -> Product {
        let Self { element, images, inputs, outputs, .. } = *self;
        let factor =
            |data: *mut c_void, stride, is_transposed| Factor { data: data.cast_const(), stride, is_transposed };
        let (left, right, products, rows, columns) = match self.result {
            Result::Y => (factor(x, inputs, false), factor(w, inputs, true), y, images, outputs),
            Result::Dx => (factor(y, outputs, false), factor(w, inputs, false), x, images, inputs),
            Result::Dw => (factor(y, outputs, true), factor(x, inputs, false), w, outputs, inputs),
        };
        let workspace = if bytes == 0 { (std::ptr::null_mut(), 0) } else { (workspace, bytes) };
        Product { left, right, products, output: element, beta, rows, columns, depth: self.depth(), workspace }
    }
}

/// cublasLt on each device, once it was loaded there.
static CUBLASLT: Loaded<(), CublasLt> = Loaded::kept();

fn cublaslt(device: Device) -> std::result::Result<Arc<CublasLt>, String> {
    // In this scope, calls do not disturb captures of other threads.
    let _entered = device.enter(device.ordinal());
    CUBLASLT.get(device, (), CublasLt::new)
}

/// A product that is ready to run.
struct ByCublasLt {
    /// For the loops on the host, which compute it where there is no GPU.
    convolution: Convolution,
    matrices: Matrices,
    /// `None` on the host.
    cublaslt: Option<Arc<CublasLt>>,
    /// The bytes of workspace.
    workspace: usize,
}

impl Plan for ByCublasLt {
    fn workspace(&self) -> usize {
        self.workspace
    }

    unsafe fn run(&self, stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Some(cublaslt) = &self.cublaslt else {
            // SAFETY: the caller promises memory as large as the tensors, which is the host's.
            unsafe { self.convolution.compute(memory, alpha, beta) }
            return true;
        };
        let product = self.matrices.product(memory, self.workspace, beta);
        let numbers = (self.matrices.element, self.matrices.is_exact);
        // SAFETY: the caller promises the memory of the three tensors.
        unsafe { run(cublaslt, stream, alpha, (&product, Batch::ONE), numbers) }
    }
}

/// The arithmetic of products of an element, exact or not.
fn compute((element, is_exact): (Element, bool)) -> Compute {
    if element == Element::Float && !is_exact { Compute::Tf32 } else { Compute::Float }
}

/// Launches products. Returns whether that worked.
///
/// # Safety
/// The caller promises device memory of the sizes in the product, for each of the batch.
unsafe fn run(
    cublaslt: &CublasLt,
    stream: Stream,
    alpha: f32,
    batch: (&Product, Batch),
    numbers: (Element, bool),
) -> bool {
    // SAFETY: the caller makes the same promise.
    let ran = unsafe { cublaslt.multiply_batch(stream, alpha, batch, numbers.0, compute(numbers)) };
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Err(why) = &ran
        && !SAID.swap(true, Ordering::Relaxed)
    {
        log::info!("a product of a convolution failed, and cuDNN runs it: {why} (said once)");
    }
    ran.is_ok()
}

/// Returns whether an engine whose kernels need products finds what multiplies. Loads it where it is a library.
pub fn is_there(device: Device) -> bool {
    device == Device::Host || cublaslt(device).is_ok()
}

/// Returns whether [`multiply`] can compute these products of an element, exact or not.
pub fn can_multiply(device: Device, batch: (&Product, Batch), numbers: (Element, bool)) -> bool {
    match device {
        // Emulated kernels, see `multiply`.
        Device::Host => cfg!(test),
        Device::Cuda => {
            let cublaslt = CUBLASLT.find(device, &());
            cublaslt.is_some_and(|cublaslt| cublaslt.can_multiply(batch, numbers.0, compute(numbers)))
        }
    }
}

/// Launches products for an engine whose kernels need them, after [`is_there`]. Returns whether that worked.
///
/// # Safety
/// The caller promises device memory of the sizes in the product, for each of the batch.
pub unsafe fn multiply(
    device: Device,
    stream: Stream,
    alpha: f32,
    batch: (&Product, Batch),
    numbers: (Element, bool),
) -> bool {
    match device {
        // On the host, an engine is loops. Only tests emulate its kernels.
        #[cfg(not(test))]
        Device::Host => false,
        #[cfg(test)]
        Device::Host => {
            tests::multiply_batch(batch, alpha, numbers.0);
            true
        }
        Device::Cuda => {
            let cublaslt = CUBLASLT.find(device, &());
            // SAFETY: the caller makes the same promise.
            cublaslt.is_some_and(|cublaslt| unsafe { run(&cublaslt, stream, alpha, batch, numbers) })
        }
    }
}

/// The choices of a row of [`ENGINES`](super::ENGINES).
pub fn choices(device: Device, of: &Convolution, priority: Priority, limit: usize) -> Vec<Vec<Knob>> {
    if Matrices::of(of).is_none() || priority != Priority::Fast {
        return vec![];
    }
    if device == Device::Cuda && cublaslt(device).is_err() {
        return vec![];
    }
    let fits = |mebibytes: &usize| mebibytes << 20 <= limit;
    let with_workspace = WORKSPACES.into_iter().filter(fits).map(|size| vec![(WORKSPACE_KNOB, size as i64)]);
    with_workspace.chain([vec![]]).collect()
}

/// The choices of a row for short sums of two-byte numbers alone.
pub fn short_choices(device: Device, of: &Convolution, priority: Priority, limit: usize) -> Vec<Vec<Knob>> {
    if Matrices::of(of).is_some_and(|its| is_short(its.element, its.depth())) {
        choices(device, of, priority, limit)
    } else {
        vec![]
    }
}

/// Makes a product ready.
pub fn plan(device: Device, of: &Convolution, knobs: &[Knob]) -> Ready {
    let matrices = Matrices::of(of).ok_or("the convolution is not one product")?;
    let workspace = match *knobs {
        [] => 0,
        [(WORKSPACE_KNOB, size)] => {
            WORKSPACES.into_iter().find(|&known| known as i64 == size).ok_or("a product has no such workspace")? << 20
        }
        _ => return Err("a product has no such knobs".into()),
    };
    let cublaslt = match device {
        Device::Host => None,
        Device::Cuda => Some(cublaslt(device)?),
    };
    Ok(Box::new(ByCublasLt { convolution: *of, matrices, cublaslt, workspace }))
}
