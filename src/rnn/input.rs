//! What comes before the recurrence: the products of all time steps' inputs with W, the sums of biases, and sequences'
//! lengths in the device's memory. Twins of the structs in `kernels/rnn/input.cu`.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use super::configuration::Element;
use super::kernels::HEADERS;
use crate::device::cublaslt::{self, Compute, CublasLt, Product};
use crate::device::jit::{Error, Function, Launch, Source};
use crate::device::{Device, Stream};

const THREADS: u32 = 256;
/// The side of a block's square of products.
const TILE: usize = 64;
/// Numbers that a launch brings.
const NUMBERS: usize = 960;

/// products[row][column] = Σ x[row][k] · weights[column][k] + biases[column]; all are row-major and packed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Products {
    /// [rows][depth]
    pub x: *const c_void,
    /// [columns][depth]
    pub weights: *const c_void,
    /// [columns], or null.
    pub biases: *const f32,
    /// [rows][columns]
    pub products: *mut f32,
    pub rows: i32,
    pub columns: i32,
    pub depth: i32,
}

/// The biases beside W and R together, of all layers; from column `inside` on the latter's stay out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Biases {
    /// Beside W, of the first layer: [columns], or null.
    pub input: *const c_void,
    /// Beside R, likewise.
    pub recurrent: *const c_void,
    /// From one layer's to the next's, in elements.
    pub stride: i64,
    /// [layers][columns]
    pub sums: *mut f32,
    pub layers: i32,
    pub columns: i32,
    pub inside: i32,
}

#[repr(C)]
struct Numbers {
    to: *mut i32,
    count: i32,
    values: [i32; NUMBERS],
}

#[repr(C)]
struct Starts {
    lengths: *const i32,
    starts: *mut i32,
    batch: i32,
    steps: i32,
}

/// Its kernels, for elements of one type, on one device.
pub struct Input {
    element: Element,
    /// Where there is one: it multiplies on tensor cores too.
    cublaslt: Option<CublasLt>,
    cublaslt_failed: AtomicBool,
    products: Function,
    biases: Function,
    numbers: Function,
    starts: Function,
}

impl Input {
    /// Compiles and loads.
    pub fn load(device: Device, element: Element) -> Result<Self, Error> {
        let module = device.load(&source(element))?;
        let function = |name: &CStr| module.function(name);
        let cublaslt = match device {
            Device::Host => None,
            Device::Cuda => {
                // Other threads' captures go on.
                let _entered = device.enter(device.ordinal());
                let made = CublasLt::new();
                made.inspect_err(|why| log::warn!("RNNs' inputs are multiplied by a kernel of ours: {why}")).ok()
            }
        };
        Ok(Self {
            element,
            cublaslt,
            cublaslt_failed: AtomicBool::new(false),
            products: function(c"input_products")?,
            biases: function(c"sum_biases")?,
            numbers: function(c"write_numbers")?,
            starts: function(c"find_starts")?,
        })
    }

    /// Multiplies; `tf32` says whether floats may be rounded to that.
    ///
    /// # Safety
    /// The memory is the stream's device's, and as [`Products`] says.
    pub unsafe fn multiply(&self, stream: Stream, products: &Products, tf32: bool) -> Result<(), Error> {
        let (rows, columns) = (products.rows as usize, products.columns as usize);
        if let Some(cublaslt) = &self.cublaslt {
            let Products { x, weights, biases, products, depth, .. } = *products;
            let product = Product { x, weights, biases, products, rows, columns, depth: depth as usize };
            let (input, compute) = match self.element {
                Element::Float => (cublaslt::Input::Float, if tf32 { Compute::Tf32 } else { Compute::Float }),
                Element::Half => (cublaslt::Input::Half, Compute::Float),
                Element::Bfloat16 => (cublaslt::Input::Bfloat16, Compute::Float),
            };
            // SAFETY: as ours.
            match unsafe { cublaslt.multiply(stream, &product, input, compute) } {
                Ok(()) => return Ok(()),
                Err(why) if !self.cublaslt_failed.swap(true, Ordering::Relaxed) => {
                    log::warn!("{why}; a kernel of ours multiplies (said once)");
                }
                Err(_) => {}
            }
        }
        // SAFETY: as ours.
        unsafe { launch(&self.products, stream, rows.div_ceil(TILE) * columns.div_ceil(TILE), products) }
    }

    /// Adds biases up.
    ///
    /// # Safety
    /// The memory is the stream's device's, and as [`Biases`] says.
    pub unsafe fn sum(&self, stream: Stream, biases: &Biases) -> Result<(), Error> {
        let count = biases.layers as usize * biases.columns as usize;
        // SAFETY: as ours.
        unsafe { launch(&self.biases, stream, count.div_ceil(THREADS as usize), biases) }
    }

    /// Writes numbers in the stream's order. They travel with the launches: nothing waits, and a CUDA graph keeps them.
    ///
    /// # Safety
    /// `to` has room for them.
    pub unsafe fn write(&self, stream: Stream, to: *mut i32, numbers: &[i32]) -> Result<(), Error> {
        for (index, part) in numbers.chunks(NUMBERS).enumerate() {
            let mut values = [0; NUMBERS];
            values[..part.len()].copy_from_slice(part);
            let numbers = Numbers { to: to.wrapping_add(index * NUMBERS), count: part.len() as i32, values };
            // SAFETY: as ours.
            unsafe { launch(&self.numbers, stream, 1, &numbers) }?;
        }
        Ok(())
    }

    /// Finds the first row of each of so many steps of packed sequences.
    ///
    /// # Safety
    /// `lengths` are of `batch` sequences, and `starts` has room for `steps`.
    pub unsafe fn find_starts(
        &self,
        stream: Stream,
        (lengths, batch): (*const i32, usize),
        (starts, steps): (*mut i32, usize),
    ) -> Result<(), Error> {
        let parameters = Starts { lengths, starts, batch: batch as i32, steps: steps as i32 };
        // SAFETY: as ours.
        unsafe { launch(&self.starts, stream, steps.div_ceil(THREADS as usize), &parameters) }
    }
}

fn source(element: Element) -> Source {
    let option = match element {
        Element::Float => "-DELEMENT_FLOAT",
        Element::Half => "-DELEMENT_HALF",
        Element::Bfloat16 => "-DELEMENT_BFLOAT16",
    };
    let text = include_str!("../../kernels/rnn/input.cu");
    Source { name: "rnn/input.cu", text, headers: HEADERS, options: vec![option.into()] }
}

/// # Safety
/// `parameters` are the kernel's, and so is the memory that they name.
unsafe fn launch<P>(function: &Function, stream: Stream, blocks: usize, parameters: &P) -> Result<(), Error> {
    let launch = Launch { grid: [blocks as u32, 1, 1], block: [THREADS, 1, 1], ..Launch::default() };
    let mut arguments = [std::ptr::from_ref(parameters).cast_mut().cast()];
    // SAFETY: as ours.
    unsafe { function.launch(stream, &launch, &mut arguments) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::jit::Nvrtc;

    /// Runs where `UCUDNN_TEST_REAL_CUDNN` names the folder of the real cuDNN, beside which NVRTC is.
    #[test]
    fn compiles_for_all_gpus() {
        if std::env::var_os("UCUDNN_TEST_REAL_CUDNN").is_none() {
            eprintln!("SKIPPED: UCUDNN_TEST_REAL_CUDNN does not name the real cuDNN's folder");
            return;
        }
        let nvrtc = Nvrtc::of_process(0).expect("the loader's search path leads to NVRTC");
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for capability in [80, 89, 90, 100] {
                let architecture = nvrtc.architecture(capability).unwrap();
                nvrtc.compile(&source(element), &architecture).unwrap_or_else(|error| panic!("{element:?}: {error}"));
            }
        }
    }
}
