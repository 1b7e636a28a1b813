//! The work before the recurrence: the products of all time steps' inputs with W, and one launch for the rest, if there
//! is any (sequence lengths in device memory, zeros). Twins of the structs and sizes in `kernels/recurrent/input.cu`.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::configuration::Element;
use gpu::cublaslt::{self, Compute, CublasLt, Product};
use gpu::jit::{Error, Function, Launch, Source};
use gpu::{Device, Stream};

const THREADS: u32 = 256;
/// The side of a block's square of products, the length of a strip of a row, and the strips in shared memory at once.
const TILE: usize = 32;
const STRIP: usize = 64;
const STAGES: usize = 3;
/// Bytes of padding between the rows of a strip.
const APART: usize = 16;
/// The most work of our kernel where there is cublasLt, counted in whole squares of rows: products, and multiply-adds;
/// fewer multiply-adds where cublasLt uses tensor cores, or where most of a square would be empty. On an H200, for
/// LSTMs with 64 to 1,024 units, our kernel took as long as cublasLt or less, timed by events. For example, 100 rows
/// with H = 256 in float took 9.7 µs, and cublasLt 16.6; an empty launch takes 7.
const MOST_PRODUCTS: usize = 1 << 19;
const MOST_IN_FLOAT: usize = 1 << 29;
const MOST_OF_OTHERS: usize = 1 << 25;
/// Sequence lengths that a launch carries.
const LENGTHS: usize = 896;

/// `products[row][column] = Σ x[row][k] · weights[column][k]`; all are row-major and packed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Products {
    /// `[rows][depth]`
    pub x: *const c_void,
    /// `[columns][depth]`
    pub weights: *const c_void,
    /// `[rows][columns]`
    pub products: *mut f32,
    pub rows: i32,
    pub columns: i32,
    pub depth: i32,
}

impl Products {
    fn sizes(&self) -> [usize; 3] {
        [self.rows, self.columns, self.depth].map(|count| count as usize)
    }
}

/// The preparation of a call.
#[derive(Clone, Copy)]
pub struct Preparation<'a> {
    /// Memory to zero, aligned to 16 bytes, and its bytes, a multiple of 16.
    pub zeroed: (*mut c_void, usize),
    /// Sequence lengths, and their destination.
    pub lengths: Option<(&'a [i32], *mut i32)>,
    /// For packed sequences: the destination of each step's first row index, and the number of steps.
    pub starts: Option<(*mut i32, usize)>,
}

/// The parameters of the kernel `prepare`.
#[repr(C)]
struct Prepare {
    zeroed: *mut c_void,
    quads: i64,
    first: i32,
    count: i32,
    lengths: *mut i32,
    starts: *mut i32,
    steps: i32,
    values: [i32; LENGTHS],
}

/// The kernels of this file, for elements of one type, on one device.
pub struct Input {
    element: Element,
    /// Multiplies large matrices, also on tensor cores. `None` where it is not found.
    cublaslt: Option<CublasLt>,
    cublaslt_failed: AtomicBool,
    products: Function,
    prepare: Function,
}

impl Input {
    /// Compiles and loads the kernels.
    pub fn load(device: Device, element: Element) -> Result<Self, Error> {
        let module = device.load(&source(element))?;
        let function = |name: &CStr| module.function(name);
        let cublaslt = match device {
            Device::Host => None,
            Device::Cuda => {
                // In this scope, calls do not disturb captures of other threads.
                let _entered = device.enter(device.ordinal());
                let made = CublasLt::new();
                made.inspect_err(|why| log::warn!("RNNs' inputs are multiplied by a kernel of ours: {why}")).ok()
            }
        };
        let products = function(c"input_products")?;
        products.allow_shared(shared_bytes(element))?;
        Ok(Self {
            element,
            cublaslt,
            cublaslt_failed: AtomicBool::new(false),
            products,
            prepare: function(c"prepare")?,
        })
    }

    /// Returns true if the kernels are on disk, compiled for the calling thread's device.
    pub fn is_compiled(device: Device, element: Element) -> bool {
        device.is_compiled(&source(element))
    }

    /// Multiplies; `tf32` allows floats to be rounded to TF32. Returns true if our kernel multiplies: the next launch
    /// may then be early, because our kernel is not early itself and begins after all earlier launches have ended.
    ///
    /// # Safety
    /// The memory is the stream's device's, with the sizes that [`Products`] gives.
    pub unsafe fn multiply(&self, stream: Stream, products: &Products, tf32: bool) -> Result<bool, Error> {
        let [rows, columns, depth] = products.sizes();
        let whole = rows.next_multiple_of(TILE) * columns;
        let full_in_float = self.element == Element::Float && !tf32 && 2 * rows >= TILE;
        let most = if full_in_float { MOST_IN_FLOAT } else { MOST_OF_OTHERS };
        let is_few = whole <= MOST_PRODUCTS && whole * depth <= most;
        if let Some(cublaslt) = self.cublaslt.as_ref().filter(|_| !is_few) {
            // SAFETY: the caller promises the memory of `products`, which is all that `multiply_by` requires.
            match unsafe { self.multiply_by(cublaslt, stream, products, tf32) } {
                Ok(()) => return Ok(false),
                Err(why) if !self.cublaslt_failed.swap(true, Ordering::Relaxed) => {
                    log::warn!("{why}; a kernel of ours multiplies (said once)");
                }
                Err(_) => {}
            }
        }
        // SAFETY: the caller promises the memory of `products`, which is all that `multiply_by_ours` requires.
        unsafe { self.multiply_by_ours(stream, products) }.map(|()| true)
    }

    /// # Safety
    /// As for [`Self::multiply`].
    unsafe fn multiply_by(
        &self,
        cublaslt: &CublasLt,
        stream: Stream,
        products: &Products,
        tf32: bool,
    ) -> Result<(), String> {
        let [rows, columns, depth] = products.sizes();
        let Products { x, weights, products, .. } = *products;
        let product = Product { x, weights, products, rows, columns, depth };
        let (input, compute) = match self.element {
            Element::Float => (cublaslt::Input::Float, if tf32 { Compute::Tf32 } else { Compute::Float }),
            Element::Half => (cublaslt::Input::Half, Compute::Float),
            Element::Bfloat16 => (cublaslt::Input::Bfloat16, Compute::Float),
        };
        // SAFETY: `product` has the pointers and sizes of `products`, which the caller vouches for.
        unsafe { cublaslt.multiply(stream, &product, input, compute) }
    }

    /// # Safety
    /// As for [`Self::multiply`].
    unsafe fn multiply_by_ours(&self, stream: Stream, products: &Products) -> Result<(), Error> {
        let [rows, columns, _] = products.sizes();
        // SAFETY: `products` is the kernel's parameter; the caller promises its memory.
        unsafe {
            let blocks = rows.div_ceil(TILE) * columns.div_ceil(TILE);
            launch(&self.products, stream, blocks, shared_bytes(self.element), products)
        }
    }

    /// Zeroes memory, writes lengths and finds starts, in the stream's order: in one launch, or none if there is
    /// nothing to do. More than `LENGTHS` sequences take more launches. The lengths are launch parameters: nothing
    /// waits, and a CUDA graph keeps them.
    ///
    /// # Safety
    /// The memory is the stream's device's, with the sizes that [`Preparation`] gives.
    pub unsafe fn prepare(&self, stream: Stream, preparation: &Preparation) -> Result<(), Error> {
        let Preparation { zeroed: (zeroed, bytes), lengths, starts } = *preparation;
        let (values, lengths) = lengths.unwrap_or((&[], ptr::null_mut()));
        let (starts, steps) = starts.unwrap_or((ptr::null_mut(), 0));
        let quads = bytes / 16;
        let mut parameters = Prepare {
            zeroed,
            quads: quads as i64,
            first: 0,
            count: 0,
            lengths,
            starts,
            steps: steps as i32,
            values: [0; LENGTHS],
        };
        let mut elements = [quads, steps, LENGTHS.min(values.len())];
        let mut parts = values.chunks(LENGTHS);
        let mut part = parts.next().unwrap_or_default();
        loop {
            let most = elements.into_iter().max().unwrap_or(0);
            if most == 0 {
                return Ok(());
            }
            parameters.count = part.len() as i32;
            parameters.values[..part.len()].copy_from_slice(part);
            // SAFETY: `parameters` is the kernel's parameter; the caller promises its memory.
            unsafe { launch(&self.prepare, stream, most.div_ceil(THREADS as usize), 0, &parameters) }?;
            // Further launches carry the lengths of other sequences.
            let Some(next) = parts.next() else { return Ok(()) };
            parameters.first += part.len() as i32;
            parameters.quads = 0;
            (part, elements) = (next, [0, steps, next.len()]);
        }
    }
}

/// Dynamic shared memory of a block of products, in bytes: strips of both factors' rows.
fn shared_bytes(element: Element) -> u32 {
    (STAGES * 2 * TILE * (STRIP * element.bytes() + APART)) as u32
}

fn source(element: Element) -> Source {
    let option = match element {
        Element::Float => "-DELEMENT_FLOAT",
        Element::Half => "-DELEMENT_HALF",
        Element::Bfloat16 => "-DELEMENT_BFLOAT16",
    };
    Source::new(&kernels::recurrent::INPUT, vec![option.into()])
}

/// # Safety
/// `parameters` is the one parameter of the kernel, and its pointers are to valid memory.
unsafe fn launch<P>(
    function: &Function,
    stream: Stream,
    blocks: usize,
    shared_bytes: u32,
    parameters: &P,
) -> Result<(), Error> {
    let launch = Launch { grid: [blocks as u32, 1, 1], block: [THREADS, 1, 1], shared_bytes, ..Launch::default() };
    let mut arguments = [std::ptr::from_ref(parameters).cast_mut().cast()];
    // SAFETY: the caller promises that `parameters` is the kernel's one parameter, with valid memory.
    unsafe { function.launch(stream, &launch, &mut arguments) }
}

#[cfg(test)]
mod tests {
    use cudnn_abi::*;
    use half::{bf16, f16};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use gpu::Buffer;
    use gpu::testing::buffers::{GUARD, between_nans, bits, errors, filled, read, write};
    use gpu::testing::emulated;
    use gpu::testing::on_gpu;
    use gpu::testing::resources;
    use guest::testing::skip;

    /// Lengths of more sequences than a launch carries, starts and zeros; memory behind them stays unchanged.
    #[test]
    fn all_is_prepared() {
        if !emulated::is_child("input::tests::all_is_prepared") {
            return;
        }
        let loaded = Input::load(Device::Host, Element::Float).map_err(|error| error.to_string());
        let Some(input) = emulated::compiled(loaded) else { return };
        let steps = 6;
        for (sequences, quads) in [(3, 0), (0, 300), (LENGTHS, 1), (2 * LENGTHS + 5, 40)] {
            let lengths: Vec<i32> = (0..sequences).map(|i| (i * 5 % (steps + 1)) as i32).collect();
            let mut zeroed = vec![-1_i128; quads + 1];
            let (mut written, mut starts) = (vec![-1; sequences + 1], vec![-1; steps + 1]);
            let preparation = Preparation {
                zeroed: (zeroed.as_mut_ptr().cast(), 16 * quads),
                lengths: (sequences > 0).then_some((&lengths, written.as_mut_ptr())),
                starts: (sequences > 0).then_some((starts.as_mut_ptr(), steps)),
            };
            // SAFETY: the vectors have the sizes that `preparation` gives, and outlive the launch.
            unsafe { input.prepare(ptr::null_mut(), &preparation) }.unwrap();
            assert!(zeroed[..quads].iter().all(|&quad| quad == 0));
            assert_eq!((zeroed[quads], written[sequences], starts[steps]), (-1, -1, -1));
            assert_eq!(written[..sequences], lengths);
            if sequences > 0 {
                let before = |step: usize| lengths.iter().map(|&length| length.min(step as i32)).sum::<i32>();
                assert_eq!(starts[..steps], [0, 1, 2, 3, 4, 5].map(before));
            }
        }
        // Nothing to do means no launch; a launch without blocks would fail.
        let nothing = Preparation { zeroed: (ptr::null_mut(), 0), lengths: None, starts: None };
        // SAFETY: `nothing` has no memory to write.
        unsafe { input.prepare(ptr::null_mut(), &nothing) }.unwrap();
    }

    /// Compares products of random numbers with double precision, also for partial squares and strips, and unaligned.
    fn check_products(
        device: Device,
        stream: Stream,
        element: Element,
        [rows, columns, depth]: [usize; 3],
        offset: usize,
    ) {
        let loaded = Input::load(device, element).map_err(|error| error.to_string());
        let Some(input) = emulated::compiled(loaded) else { return };
        let data_type = match element {
            Element::Float => CUDNN_DATA_FLOAT,
            Element::Half => CUDNN_DATA_HALF,
            Element::Bfloat16 => CUDNN_DATA_BFLOAT16,
        };
        let mut random = SmallRng::seed_from_u64(31);
        let mut numbers = |count: usize| -> (Vec<u8>, Vec<f64>) {
            let values = (0..count).map(|_| f32::from(f16::from_f32(random.random_range(-1.0..1.0))));
            let values =
                values.map(|value| if element == Element::Bfloat16 { bf16::from_f32(value).to_f32() } else { value });
            let values: Vec<f32> = values.collect();
            (
                values.iter().flat_map(|&value| bits(data_type, value)).collect(),
                values.into_iter().map(f64::from).collect(),
            )
        };
        let [(x_bytes, x), (w_bytes, weights)] = [rows * depth, columns * depth].map(&mut numbers);
        // Elements in front change the alignment of the matrix.
        let [x_memory, w_memory] = [x_bytes, w_bytes]
            .map(|bytes| between_nans(device, &[&vec![0xff; offset * element.bytes()], &bytes[..]].concat(), stream));
        let products = device.allocate(4 * rows * columns + GUARD).unwrap();
        write(device, &products, &vec![0xff; 4 * rows * columns + GUARD], stream);
        let place = |memory: &Buffer| memory.data().wrapping_byte_add(GUARD + offset * element.bytes()).cast_const();
        let what = Products {
            x: place(&x_memory),
            weights: place(&w_memory),
            products: products.data().cast(),
            rows: rows as i32,
            columns: columns as i32,
            depth: depth as i32,
        };
        // SAFETY: the buffers have the sizes in `what`.
        unsafe { input.multiply_by_ours(stream, &what) }.unwrap();
        let found = read(device, &products, 4 * rows * columns + GUARD, stream);
        let (found, guard) = found.split_at(4 * rows * columns);
        assert!(guard.iter().all(|&byte| byte == 0xff), "written behind {rows} × {columns}");
        let exact: Vec<f64> = (0..rows * columns)
            .map(|at| {
                (x[at / columns * depth..][..depth].iter())
                    .zip(&weights[at % columns * depth..])
                    .map(|(x, w)| x * w)
                    .sum()
            })
            .collect();
        let (error, _) = errors(found, &exact);
        assert!(error < 4e-7, "{rows} × {columns} × {depth} of {element:?}: {error:.1e}");
    }

    #[test]
    fn products_emulated_as_in_double() {
        if emulated::is_child("input::tests::products_emulated_as_in_double") {
            for (element, sizes, offset) in [
                (Element::Float, [5, 33, 36], 0),
                (Element::Float, [33, 5, 130], 0),
                (Element::Float, [2, 40, 7], 0),
                (Element::Float, [3, 12, 64], 1),
                (Element::Half, [40, 20, 136], 0),
                (Element::Half, [7, 9, 50], 0),
                (Element::Bfloat16, [1, 64, 24], 1),
                // More strips than shared memory holds at once.
                (Element::Float, [3, 5, 4 * STRIP + 4], 0),
                (Element::Half, [3, 5, 5 * STRIP + 8], 0),
                (Element::Float, [2, 3, 4 * STRIP + 1], 0),
            ] {
                check_products(Device::Host, ptr::null_mut(), element, sizes, offset);
            }
        }
    }

    #[test]
    fn products_on_a_gpu_as_in_double() {
        let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for (sizes, offset) in [
                ([100, 1024, 256], 0),
                ([100, 1024, 256], 1),
                ([1000, 512, 128], 0),
                ([77, 300, 90], 0),
                ([1, 64, 7], 0),
            ] {
                check_products(Device::Cuda, stream.raw(), element, sizes, offset);
            }
        }
    }

    /// Prints the times of our kernel and of cublasLt.
    #[test]
    fn products_on_a_gpu_are_timed() {
        let device = Device::Cuda;
        let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
        let mut random = SmallRng::seed_from_u64(32);
        for (element, data_type) in [(Element::Float, CUDNN_DATA_FLOAT), (Element::Half, CUDNN_DATA_HALF)] {
            let input = Input::load(device, element).unwrap();
            let Some(cublaslt) = &input.cublaslt else { return skip("there is no cublasLt") };
            let hidden = [64, 128, 256, 512, 1024].into_iter();
            for (rows, depth) in hidden.flat_map(|hidden| [20, 100, 400, 1000, 2000].map(|rows| (rows, hidden))) {
                let columns = 4 * depth;
                let [x, weights] = [rows * depth, columns * depth]
                    .map(|count| filled(device, data_type, count, &mut random, stream.raw()));
                let products = device.allocate(4 * rows * columns).unwrap();
                let what = Products {
                    x: x.data(),
                    weights: weights.data(),
                    products: products.data().cast(),
                    rows: rows as i32,
                    columns: columns as i32,
                    depth: depth as i32,
                };
                // SAFETY: the buffers have the sizes in `what`.
                let ours = on_gpu::median(stream, || unsafe { input.multiply_by_ours(stream.raw(), &what) }.unwrap());
                let theirs = on_gpu::median(stream, || {
                    // SAFETY: the buffers have the sizes in `what`.
                    unsafe { input.multiply_by(cublaslt, stream.raw(), &what, false) }.unwrap();
                });
                let millions = (rows.next_multiple_of(TILE) * columns * depth) as f64 / 1e6;
                println!(
                    "{element:?} {rows} × {columns} × {depth} ({millions:.0} M): {ours:.4} ms, cublasLt {theirs:.4}"
                );
            }
        }
    }

    /// Needs `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.
    #[test]
    fn compiles_for_all_gpus() {
        let Some(nvrtc) = resources::nvrtc() else { return };
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for capability in [75, 80, 89, 90, 100] {
                let architecture = nvrtc.architecture(capability).unwrap();
                nvrtc.compile(&source(element), &architecture).unwrap_or_else(|error| panic!("{element:?}: {error}"));
            }
        }
    }
}
