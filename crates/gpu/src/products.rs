//! Products of matrices: by our own kernel where one factor has few rows, or by cublasLt. Twin of the structs and the
//! sizes in `kernels/common/tile_products.cuh`, `strided_products.cuh` and `transpose.cuh`.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cublaslt::{Compute, CublasLt, Factor, Product};
use crate::jit::{Error, Function, Launch, Module, Source};
use crate::{Element, Stream};

const THREADS: u32 = 256;
/// The side of a block's square of products, the length of a strip of a row, and the strips in shared memory at once.
const TILE: usize = 32;
const STRIP: usize = 64;
const STAGES: usize = 3;
/// Bytes of padding between the rows of a strip.
const APART: usize = 16;
/// The side of a block's square of a product of any form.
const STRIDED_TILE: usize = 32;
/// The side of a square that a block transposes.
const SQUARE_SIDE: usize = 32;
/// The most work of our kernel where there is cublasLt, counted in whole squares of rows: products, and multiply-adds;
/// fewer multiply-adds where cublasLt uses tensor cores, or where most of a square would be empty. On an H200, for
/// LSTMs with 64 to 1,024 units, our kernel took as long as cublasLt or less, timed by events. For example, 100 rows
/// with H = 256 in float took 9.7 µs, and cublasLt 16.6; an empty launch takes 7.
const MOST_PRODUCTS: usize = 1 << 19;
const MOST_IN_FLOAT: usize = 1 << 29;
const MOST_OF_OTHERS: usize = 1 << 25;
/// cublasLt adds up the products of a float one after the other, so the error of a sum grows with the root of its length.
/// Sums of 4,096 and 6,144 products were 1.6 times as far from double precision as PyTorch's on an H200, whose kernels cut
/// them too; parts of 2,048 left 1.5. So a sum longer than this is cut into parts of at most this many products.
const LONG_SUM: usize = 2048;
const SUMMED_AT_ONCE: usize = 768;

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

    /// The blocks of our kernel.
    pub fn square_tiles(&self) -> usize {
        let [rows, columns, _] = self.sizes();
        rows.div_ceil(TILE) * columns.div_ceil(TILE)
    }

    /// The same as products of any form with sums of so many products at most. Each adds to what the one before left. Where a
    /// later one fails, an earlier one may have run; our kernel then computes the whole.
    fn cut(&self, element: Element, most: usize) -> impl Iterator<Item = Product> {
        let whole = self.product();
        // Rows of parts begin where whole vectors do, if rows of the whole do.
        let depth_of_part = whole.depth.div_ceil(whole.depth.div_ceil(most).max(1)).next_multiple_of(16).max(16);
        (0..whole.depth.max(1)).step_by(depth_of_part).map(move |first| {
            let from =
                |factor: Factor| Factor { data: factor.data.wrapping_byte_add(first * element.bytes()), ..factor };
            let beta = if first == 0 { 0.0 } else { 1.0 };
            Product {
                left: from(whole.left),
                right: from(whole.right),
                beta,
                depth: depth_of_part.min(whole.depth - first),
                ..whole
            }
        })
    }

    /// The same as a product of any form.
    pub fn product(&self) -> Product {
        let [rows, columns, depth] = self.sizes();
        let left = Factor { data: self.x, stride: depth, is_transposed: false };
        let right = Factor { data: self.weights, stride: depth, is_transposed: true };
        let products = self.products.cast();
        let (output, workspace) = (Element::Float, (ptr::null_mut(), 0));
        Product { left, right, products, output, beta: 0.0, rows, columns, depth, workspace }
    }
}

/// The factors of a product of any form: twin of the struct in `kernels/common/strided_products.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StridedProducts {
    left: *const c_void,
    right: *const c_void,
    rows: i32,
    columns: i32,
    depth: i32,
    left_row: i32,
    left_depth: i32,
    right_depth: i32,
    right_column: i32,
}

impl StridedProducts {
    /// The factors of a product.
    pub fn of(product: &Product) -> Self {
        let Product { left, right, rows, columns, depth, .. } = *product;
        let strides = |factor: Factor| match (factor.stride as i32, factor.is_transposed) {
            (stride, false) => [stride, 1],
            (stride, true) => [1, stride],
        };
        let ([left_row, left_depth], [right_depth, right_column]) = (strides(left), strides(right));
        let [rows, columns, depth] = [rows, columns, depth].map(|count| count as i32);
        let (left, right) = (left.data, right.data);
        Self { left, right, rows, columns, depth, left_row, left_depth, right_depth, right_column }
    }

    /// The blocks that compute the product.
    pub fn tiles(&self) -> usize {
        [self.rows, self.columns].map(|count| (count as usize).div_ceil(STRIDED_TILE)).into_iter().product()
    }
}

/// A matrix to be transposed: twin of the struct in `kernels/common/transpose.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Transposed {
    pub from: *const c_void,
    pub to: *mut c_void,
    pub rows: i32,
    pub columns: i32,
}

impl Transposed {
    /// The blocks that transpose it, each a square.
    pub fn squares(&self) -> usize {
        [self.rows, self.columns].map(|count| (count as usize).div_ceil(SQUARE_SIDE)).into_iter().product()
    }
}

/// Multiplies matrices of one element type, on one device.
pub struct Multiplier {
    element: Element,
    /// Multiplies large matrices, also on tensor cores.
    cublaslt: Option<CublasLt>,
    cublaslt_failed: AtomicBool,
    few_rows: Function,
}

impl Multiplier {
    /// Takes the kernel from the module of [`source`], and cublasLt on the same device, if it is there.
    pub fn new(module: &Module, element: Element, cublaslt: Option<CublasLt>) -> Result<Self, Error> {
        let few_rows = module.function(c"input_products")?;
        few_rows.allow_shared(shared_bytes(element))?;
        Ok(Self { element, cublaslt, cublaslt_failed: AtomicBool::new(false), few_rows })
    }

    /// Our kernel, whose blocks have square tiles of products, takes less time for these than cublasLt would.
    pub fn is_for_square_tiles(&self, products: &Products, tf32: bool) -> bool {
        let [rows, columns, depth] = products.sizes();
        let whole = rows.next_multiple_of(TILE) * columns;
        let full_in_float = self.element == Element::Float && !tf32 && 2 * rows >= TILE;
        let most = if full_in_float { MOST_IN_FLOAT } else { MOST_OF_OTHERS };
        self.cublaslt.is_none() || (whole <= MOST_PRODUCTS && whole * depth <= most)
    }

    /// Multiplies; `tf32` allows floats to be rounded to TF32. Returns true if our kernel multiplies: the next launch
    /// may then be early, because our kernel is not early itself and begins after all earlier launches have ended.
    ///
    /// # Safety
    /// The memory is the stream's device's, with the sizes that [`Products`] gives.
    pub unsafe fn multiply(&self, stream: Stream, products: &Products, tf32: bool) -> Result<bool, Error> {
        if !self.is_for_square_tiles(products, tf32) {
            let is_exact = self.element == Element::Float && !tf32;
            let is_cut = is_exact && products.depth as usize > LONG_SUM;
            let mut parts = products.cut(self.element, if is_cut { SUMMED_AT_ONCE } else { usize::MAX });
            // SAFETY: the caller promises the memory of `products`, and together the parts are the same product.
            match parts.try_for_each(|part| unsafe { self.multiply_any(stream, &part, tf32) }) {
                Ok(()) => return Ok(false),
                Err(why) if !self.cublaslt_failed.swap(true, Ordering::Relaxed) => {
                    log::warn!("{why}; a kernel of ours multiplies (said once)");
                }
                Err(_) => {}
            }
        }
        // SAFETY: the caller promises the memory of `products`, which is all that `multiply_few_rows` requires.
        unsafe { self.multiply_few_rows(stream, products) }.map(|()| true)
    }

    /// Computes a product of any form by cublasLt; `tf32` allows floats to be rounded to TF32. `Err` if there is no
    /// cublasLt, or it cannot compute the product; then nothing was launched.
    ///
    /// # Safety
    /// The memory is the stream's device's, with the sizes that [`Product`] gives.
    pub unsafe fn multiply_any(&self, stream: Stream, product: &Product, tf32: bool) -> Result<(), String> {
        let cublaslt = self.cublaslt.as_ref().ok_or("there is no cublasLt")?;
        let compute = if tf32 && self.element == Element::Float { Compute::Tf32 } else { Compute::Float };
        // SAFETY: the caller makes the same promise.
        unsafe { cublaslt.multiply(stream, product, self.element, compute) }
    }

    /// # Safety
    /// As for [`Self::multiply`].
    unsafe fn multiply_few_rows(&self, stream: Stream, products: &Products) -> Result<(), Error> {
        let (grid, shared_bytes) = ([products.square_tiles() as u32, 1, 1], shared_bytes(self.element));
        let launch = Launch { grid, block: [THREADS, 1, 1], shared_bytes, ..Launch::default() };
        let mut arguments = [ptr::from_ref(products).cast_mut().cast()];
        // SAFETY: the kernel has one parameter, a `Products`; the caller promises its memory.
        unsafe { self.few_rows.launch(stream, &launch, &mut arguments) }
    }
}

/// Dynamic shared memory of a block of products, in bytes: strips of both factors' rows.
pub fn shared_bytes(element: Element) -> u32 {
    (STAGES * 2 * TILE * (STRIP * element.bytes() + APART)) as u32
}

/// The source of the kernel for few rows.
pub fn source(element: Element) -> Source {
    Source::new(&kernels::recurrent::INPUT, vec![element.option().into()])
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::testing::buffers::{GUARD, between_nans, bits, errors, filled, read, write};
    use crate::testing::{emulated, on_gpu, resources};
    use crate::{Buffer, Device};
    use guest::testing::skip;

    fn load(device: Device, element: Element, cublaslt: Option<CublasLt>) -> Result<Multiplier, String> {
        let loaded = device.load(&source(element)).and_then(|module| Multiplier::new(&module, element, cublaslt));
        loaded.map_err(|error| error.to_string())
    }

    /// Compares products of random numbers with double precision, also for partial squares and strips, and unaligned.
    fn check_products(
        device: Device,
        stream: Stream,
        element: Element,
        [rows, columns, depth]: [usize; 3],
        offset: usize,
        cublaslt: Option<CublasLt>,
    ) {
        let is_by_cublaslt = cublaslt.is_some();
        let Some(multiplier) = emulated::compiled(load(device, element, cublaslt)) else { return };
        let mut random = SmallRng::seed_from_u64(31);
        let mut numbers = |count: usize| -> (Vec<u8>, Vec<f64>) {
            let values = (0..count).map(|_| f32::from(f16::from_f32(random.random_range(-1.0..1.0))));
            let values =
                values.map(|value| if element == Element::Bfloat16 { bf16::from_f32(value).to_f32() } else { value });
            let values: Vec<f32> = values.collect();
            (
                values.iter().flat_map(|&value| bits(element, value)).collect(),
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
        unsafe {
            match is_by_cublaslt {
                true => assert!(!multiplier.multiply(stream, &what, false).unwrap(), "cublasLt multiplies"),
                false => multiplier.multiply_few_rows(stream, &what).unwrap(),
            }
        }
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
        // A long sum that is not cut is off by 1.1e-6.
        let most = if is_by_cublaslt { 8e-7 } else { 4e-7 };
        assert!(error < most, "{rows} × {columns} × {depth} of {element:?}: {error:.1e}");
    }

    #[test]
    fn cut_products_are_the_whole() {
        for (depth, most, expected) in [
            (2304, 768, &[768; 3][..]),
            (2049, 768, &[688, 688, 673]),
            (4100, 768, &[688, 688, 688, 688, 688, 660]),
            (768, 768, &[768]),
            (7, usize::MAX, &[7]),
        ] {
            let (x, weights) = (ptr::without_provenance(1 << 20), ptr::without_provenance(1 << 30));
            let whole = Products { x, weights, products: ptr::null_mut(), rows: 3, columns: 5, depth };
            let parts: Vec<_> = whole.cut(Element::Float, most).collect();
            assert_eq!(parts.iter().map(|part| part.depth).collect::<Vec<_>>(), expected, "{depth}");
            let mut first = 0;
            for part in parts {
                assert_eq!([part.left, part.right].map(|factor| factor.stride), [depth as usize; 2]);
                assert_eq!(
                    [part.left.data.addr(), part.right.data.addr()],
                    [(1 << 20) + 4 * first, (1 << 30) + 4 * first]
                );
                assert_eq!(part.beta, if first == 0 { 0.0 } else { 1.0 });
                first += part.depth;
            }
        }
    }

    #[test]
    fn products_emulated_as_in_double() {
        if emulated::is_child("products::tests::products_emulated_as_in_double") {
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
                check_products(Device::Host, ptr::null_mut(), element, sizes, offset, None);
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
                check_products(Device::Cuda, stream.raw(), element, sizes, offset, None);
            }
        }
        for sizes in [[300, 1024, 2049], [300, 1024, 4100], [1000, 640, 6144]] {
            let cublaslt = CublasLt::new().expect("cublasLt is there");
            check_products(Device::Cuda, stream.raw(), Element::Float, sizes, 0, Some(cublaslt));
        }
    }

    /// One form is the gradients of weights: the sum over all rows of left and right factors, added to the old values.
    #[test]
    fn any_form_on_a_gpu_is_exact() {
        let device = Device::Cuda;
        let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
        let mut random = SmallRng::seed_from_u64(33);
        let (rows, columns, depth) = (40, 24, 16);
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            let Ok(cublaslt) = CublasLt::new() else { return skip("there is no cublasLt") };
            let multiplier = load(device, element, Some(cublaslt)).unwrap();
            let workspace = device.allocate(1 << 20).unwrap();
            let cases = (0..4).flat_map(|form| [(form, 0.0, 0), (form, 1.0, 0), (form, 0.0, 8), (form, 1.0, 8)]);
            for (form, beta, gap) in cases {
                let transposed = [form & 1 == 1, form & 2 == 2];
                let output = if gap > 0 { element } else { Element::Float };
                // Between stored rows lie NaNs.
                let mut stored = |[height, width]: [usize; 2], is_transposed: bool| {
                    let [height, width] = if is_transposed { [width, height] } else { [height, width] };
                    let mut number =
                        |column| if column < width { random.random_range(-4..=4) as f32 } else { f32::NAN };
                    let columns = (0..height).flat_map(|_| 0..width + gap);
                    let values: Vec<f32> = columns.map(&mut number).collect();
                    let bytes: Vec<u8> = values.iter().flat_map(|&value| bits(element, value)).collect();
                    (values, between_nans(device, &bytes, stream.raw()), width + gap)
                };
                let left = stored([rows, depth], transposed[0]);
                let right = stored([depth, columns], transposed[1]);
                let before = if beta == 0.0 { f32::NAN } else { 100.0 };
                let products = device.allocate(4 * rows * columns).unwrap();
                let old: Vec<u8> = (0..rows * columns).flat_map(|_| bits(output, before)).collect();
                write(device, &products, &old, stream.raw());
                let factor = |buffer: &Buffer, stride, is_transposed| Factor {
                    data: buffer.data().wrapping_byte_add(GUARD),
                    stride,
                    is_transposed,
                };
                let product = Product {
                    left: factor(&left.1, left.2, transposed[0]),
                    right: factor(&right.1, right.2, transposed[1]),
                    products: products.data(),
                    output,
                    beta,
                    rows,
                    columns,
                    depth,
                    workspace: (workspace.data(), workspace.bytes()),
                };
                // SAFETY: the buffers have the sizes in `product`.
                unsafe { multiplier.multiply_any(stream.raw(), &product, false) }.unwrap();
                let found = read(device, &products, old.len(), stream.raw());
                let expected: Vec<u8> = (0..rows * columns)
                    .flat_map(|index| {
                        let (row, column) = (index / columns, index % columns);
                        let left_at = |k| left.0[if transposed[0] { k * left.2 + row } else { row * left.2 + k }];
                        let right_at =
                            |k| right.0[if transposed[1] { column * right.2 + k } else { k * right.2 + column }];
                        let sum: f32 = (0..depth).map(|k| left_at(k) * right_at(k)).sum();
                        bits(output, sum + if beta == 0.0 { 0.0 } else { before })
                    })
                    .collect();
                assert!(found == expected, "{element:?}, transposed {transposed:?}, beta {beta}, gap {gap}");
            }
        }
    }

    /// Prints the times of our kernel and of cublasLt.
    #[test]
    fn products_on_a_gpu_are_timed() {
        let device = Device::Cuda;
        let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
        let mut random = SmallRng::seed_from_u64(32);
        for element in [Element::Float, Element::Half] {
            let Ok(cublaslt) = CublasLt::new() else { return skip("there is no cublasLt") };
            let multiplier = load(device, element, Some(cublaslt)).unwrap();
            let hidden = [64, 128, 256, 512, 1024].into_iter();
            for (rows, depth) in hidden.flat_map(|hidden| [20, 100, 400, 1000, 2000].map(|rows| (rows, hidden))) {
                let columns = 4 * depth;
                let [x, weights] = [rows * depth, columns * depth]
                    .map(|count| filled(device, element, count, &mut random, stream.raw()));
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
                let ours =
                    on_gpu::median(stream, || unsafe { multiplier.multiply_few_rows(stream.raw(), &what) }.unwrap());
                let theirs = on_gpu::median(stream, || {
                    // SAFETY: the buffers have the sizes in `what`.
                    unsafe { multiplier.multiply_any(stream.raw(), &what.product(), false) }.unwrap();
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
