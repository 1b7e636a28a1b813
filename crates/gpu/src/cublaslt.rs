//! Matrix products by cublasLt, which is found and loaded at first use and never unloaded. Every function reports a
//! failure as a value; programs also run without cublasLt.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::jit::places::{self, Candidate};
use super::recorder;
use super::stream::Stream;
use crate::functions::{functions, in_library};
use crate::{Element, cuda};
use guest::process_end;

type Status = c_int;
const SUCCESS: Status = 0;

/// The arithmetic of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Compute {
    Float = 68,
    /// cublasLt may round float inputs to TF32.
    Tf32 = 77,
}

/// The bytes of a vector. cublasLt's fastest kernels want rows of whole vectors.
pub const VECTOR: usize = 16;

/// Returns whether a row of this number of elements is whole [vectors](VECTOR).
pub fn has_whole_vectors(row: usize, element: Element) -> bool {
    row.is_multiple_of(VECTOR / element.bytes())
}

/// The elements of a row that is filled up to whole [vectors](VECTOR); none if they cannot be counted.
pub fn padded_row(row: usize, element: Element) -> Option<usize> {
    row.checked_next_multiple_of(VECTOR / element.bytes())
}

const FLOAT: c_int = 0;
// Attributes of a product with their values, and attributes of a preference.
const TRANSPOSE_A: c_int = 3;
const TRANSPOSE_B: c_int = 4;
const TRANSPOSED: i32 = 1;
const MOST_WORKSPACE: c_int = 1;
const REDUCTIONS: c_int = 3;
/// How parts of the depth are added up, one after the other in each case: in the products' place, or in the workspace,
/// in float.
const IN_PLACE: u32 = 1;
const IN_WORKSPACE: u32 = 2;
const ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
// Attributes of a matrix.
const BATCH_COUNT: c_int = 5;
const BATCH_APART: c_int = 6;

/// cublasLt's opaque choice of how to compute a product.
type Algorithm = [u64; 8];

#[repr(C)]
#[derive(Clone, Copy)]
struct Heuristic {
    algorithm: Algorithm,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

functions! {
    create = c"cublasLtCreate": fn(*mut *mut c_void) -> Status;
    destroy = c"cublasLtDestroy": fn(*mut c_void) -> Status;
    create_product = c"cublasLtMatmulDescCreate": fn(*mut *mut c_void, c_int, c_int) -> Status;
    destroy_product = c"cublasLtMatmulDescDestroy": fn(*mut c_void) -> Status;
    set_product = c"cublasLtMatmulDescSetAttribute": fn(*mut c_void, c_int, *const c_void, usize) -> Status;
    create_matrix = c"cublasLtMatrixLayoutCreate": fn(*mut *mut c_void, c_int, u64, u64, i64) -> Status;
    destroy_matrix = c"cublasLtMatrixLayoutDestroy": fn(*mut c_void) -> Status;
    set_matrix = c"cublasLtMatrixLayoutSetAttribute": fn(*mut c_void, c_int, *const c_void, usize) -> Status;
    create_preference = c"cublasLtMatmulPreferenceCreate": fn(*mut *mut c_void) -> Status;
    destroy_preference = c"cublasLtMatmulPreferenceDestroy": fn(*mut c_void) -> Status;
    set_preference = c"cublasLtMatmulPreferenceSetAttribute": fn(*mut c_void, c_int, *const c_void, usize) -> Status;
    heuristic = c"cublasLtMatmulAlgoGetHeuristic": fn(
        *mut c_void, *mut c_void, *mut c_void, *mut c_void, *mut c_void, *mut c_void, *mut c_void, c_int,
        *mut Heuristic, *mut c_int
    ) -> Status;
    multiply = c"cublasLtMatmul": fn(
        *mut c_void, *mut c_void, *const c_void, *const c_void, *mut c_void, *const c_void, *mut c_void, *const c_void,
        *const c_void, *mut c_void, *mut c_void, *mut c_void, *const Algorithm, *mut c_void, usize, Stream
    ) -> Status;
}

/// An object of cublasLt, destroyed with its owner.
struct Object {
    raw: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void) -> Status,
}

impl Object {
    fn new(
        destroy: unsafe extern "C" fn(*mut c_void) -> Status,
        create: impl FnOnce(*mut *mut c_void) -> Status,
    ) -> Result<Self, String> {
        let mut raw = null_mut();
        check("creating", create(&mut raw))?;
        Ok(Self { raw, destroy })
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // The program may drop it while it captures; a handle frees memory.
        cuda::relaxed(|| {
            // SAFETY: `raw` comes from the matching create function, and only this drop destroys it.
            unsafe { (self.destroy)(self.raw) };
            CUresult::CUDA_SUCCESS
        });
    }
}

fn check(what: &str, status: Status) -> Result<(), String> {
    if status == SUCCESS { Ok(()) } else { Err(format!("cublasLt: {what} answered status {status}")) }
}

impl Functions {
    /// The process's functions, looked up once.
    fn of_process() -> Result<&'static Self, String> {
        static FUNCTIONS: OnceCell<Result<Functions, String>> = OnceCell::new();
        FUNCTIONS.get_or_init(|| Self::find(places::all("libcublasLt"))).as_ref().map_err(Clone::clone)
    }

    fn find(candidates: impl Iterator<Item = Candidate>) -> Result<Self, String> {
        places::first(candidates, Self::load).map_err(|tried| format!("no cublasLt was found. Tried:{tried}"))
    }

    fn load(candidate: &Candidate) -> Result<Self, String> {
        // SAFETY: runs constructors of a library that the user, or the system, names cublasLt; cuDNN loads it too.
        let library = unsafe { candidate.place.open() }?;
        // SAFETY: the user, or the system, names the library cublasLt; a missing function is an error.
        let functions = unsafe { Self::of(in_library(&library)) }?;
        std::mem::forget(library);
        process_end::loaded();
        log::info!("cublasLt is {}", candidate.place);
        Ok(functions)
    }

    /// `count` matrices that are stored column by column, `stride` elements from one column to the next, and `apart`
    /// elements from one matrix to the next.
    fn matrices(
        &self,
        data_type: c_int,
        [rows, columns]: [usize; 2],
        stride: usize,
        (count, apart): (usize, usize),
    ) -> Result<Object, String> {
        let (rows, columns, leading) = (rows as u64, columns as u64, stride as i64);
        // SAFETY: writes one pointer to a live variable.
        let create = |raw| unsafe { (self.create_matrix)(raw, data_type, rows, columns, leading) };
        let matrices = Object::new(self.destroy_matrix, create)?;
        if count > 1 {
            let set = |attribute, value: *const c_void, bytes| {
                // SAFETY: `matrices` is live, and `value` points to `bytes` bytes.
                check("an attribute of a matrix", unsafe { (self.set_matrix)(matrices.raw, attribute, value, bytes) })
            };
            let count = i32::try_from(count).map_err(|_| "there are too many matrices")?;
            set(BATCH_COUNT, ptr::from_ref(&count).cast(), size_of::<i32>())?;
            set(BATCH_APART, ptr::from_ref(&(apart as i64)).cast(), size_of::<i64>())?;
        }
        Ok(matrices)
    }

    fn set<T>(&self, product: &Object, attribute: c_int, value: T) -> Result<(), String> {
        // SAFETY: `product` is live, and `value` has the size given.
        let status = unsafe { (self.set_product)(product.raw, attribute, (&raw const value).cast(), size_of::<T>()) };
        check("an attribute of a product", status)
    }

    /// Describes a product and its matrices in cublasLt's column-major terms, in which each stored matrix is its
    /// transpose: `products` of [columns, rows] is the right factor's transpose times the left factor's.
    fn describe(&self, shape: &Shape) -> Result<[Object; 4], String> {
        let Shape { element, output, compute, transposed: [left_transposed, right_transposed], .. } = *shape;
        let Shape { strides: [left_stride, right_stride], rows, columns, depth, batch, .. } = *shape;
        let [left_batch, right_batch, products_batch] = batch.apart.map(|apart| (batch.count, apart));
        // SAFETY: writes one pointer to a live variable.
        let create = |raw| unsafe { (self.create_product)(raw, compute as c_int, FLOAT) };
        let product = Object::new(self.destroy_product, create)?;
        let factor = |attribute, is_transposed: bool, [height, width]: [usize; 2], stride, batch| {
            if is_transposed {
                self.set(&product, attribute, TRANSPOSED)?;
            }
            let sizes = if is_transposed { [width, height] } else { [height, width] };
            self.matrices(element.cuda_type(), sizes, stride, batch)
        };
        let right = factor(TRANSPOSE_A, right_transposed, [columns, depth], right_stride, right_batch)?;
        let left = factor(TRANSPOSE_B, left_transposed, [depth, rows], left_stride, left_batch)?;
        let products = self.matrices(output.cuda_type(), [columns, rows], columns, products_batch)?;
        Ok([product, right, left, products])
    }
}

/// The properties that determine a product's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    element: Element,
    /// The type of the products.
    output: Element,
    compute: Compute,
    /// True for the left and the right factor if its transpose is stored.
    transposed: [bool; 2],
    /// The strides of the left and the right factor.
    strides: [usize; 2],
    rows: usize,
    columns: usize,
    depth: usize,
    batch: Batch,
    /// The alignments of the right factor, the left factor and the products, in bytes.
    alignments: [u32; 3],
    workspace_bytes: usize,
}

impl Shape {
    fn of(product: &Product, batch: Batch, element: Element, compute: Compute) -> Self {
        let Product { left, right, rows, columns, depth, output, .. } = *product;
        let alignment = |address: usize, which: usize, element: Element| {
            // Of all of a batch's matrices.
            let apart = if batch.count > 1 { batch.apart[which] * element.bytes() } else { 0 };
            1 << (address | apart).trailing_zeros().min(8)
        };
        let alignments = [
            alignment(right.data.addr(), 1, element),
            alignment(left.data.addr(), 0, element),
            alignment(product.products.addr(), 2, output),
        ];
        let transposed = [left, right].map(|factor| factor.is_transposed);
        let strides = [left, right].map(|factor| factor.stride);
        let workspace_bytes = product.workspace.1;
        Self { element, output, compute, transposed, strides, rows, columns, depth, batch, alignments, workspace_bytes }
    }
}

/// A factor of a product.
#[derive(Clone, Copy)]
pub struct Factor {
    /// The elements, row by row.
    pub data: *const c_void,
    /// Elements from one stored row to the next; at least as many as a stored row has.
    pub stride: usize,
    /// True if the transpose is stored.
    pub is_transposed: bool,
}

/// Products of one form that are computed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    pub count: usize,
    /// The elements from one left factor, right factor and result to the next. Factors may be 0 elements apart.
    pub apart: [usize; 3],
}

impl Batch {
    /// A single product.
    pub const ONE: Self = Self { count: 1, apart: [0; 3] };
}

/// A product of matrices: products = left · right + beta · products.
#[derive(Clone, Copy)]
pub struct Product {
    /// `[rows][depth]`; its transpose is `[depth][rows]`.
    pub left: Factor,
    /// `[depth][columns]`; its transpose is `[columns][depth]`.
    pub right: Factor,
    /// `[rows][columns]`, row by row, without gaps.
    pub products: *mut c_void,
    /// The type of the products: float, or the factors' type. Sums are float, and rounded once.
    pub output: Element,
    /// With 0, the old products are not read.
    pub beta: f32,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// Memory for sums of parts of the depth, and its bytes; or null and 0. Deep products of few rows and columns are
    /// slow without.
    pub workspace: (*mut c_void, usize),
}

/// A prepared product, which can run any number of times.
struct Ready {
    descriptions: [Object; 4],
    algorithm: Algorithm,
}

// SAFETY: nothing writes to the descriptions after their creation, and cublasLt reads them from any thread.
unsafe impl Send for Ready {}
// SAFETY: nothing writes to the descriptions after their creation, so threads may read them at once.
unsafe impl Sync for Ready {}

/// cublasLt on the device that was current at its creation.
pub struct CublasLt {
    functions: &'static Functions,
    handle: Object,
    ready: Mutex<HashMap<Shape, Option<Arc<Ready>>, foldhash::fast::RandomState>>,
}

// SAFETY: cublasLt accepts calls with one handle from any thread.
unsafe impl Send for CublasLt {}
// SAFETY: cublasLt accepts concurrent calls with one handle, and a mutex guards `ready`.
unsafe impl Sync for CublasLt {}

/// Bounds the memory for programs whose shapes never repeat.
const MOST_SHAPES: usize = 1 << 12;

impl CublasLt {
    /// Loads cublasLt and prepares it on the calling thread's device. Never call it while that thread captures.
    pub fn new() -> Result<Self, String> {
        let functions = Functions::of_process()?;
        // SAFETY: writes one handle to a live variable.
        let handle = Object::new(functions.destroy, |raw| unsafe { (functions.create)(raw) })?;
        Ok(Self { functions, handle, ready: Mutex::default() })
    }

    /// Multiplies in the stream's order; the call may be captured into a CUDA graph. The order of sums is fixed. `Err` if
    /// cublasLt cannot compute the product; then nothing was launched.
    ///
    /// # Safety
    /// The pointers are device memory with the sizes given in [`Product`].
    pub unsafe fn multiply(
        &self,
        stream: Stream,
        product: &Product,
        element: Element,
        compute: Compute,
    ) -> Result<(), String> {
        // SAFETY: the caller makes the same promise.
        unsafe { self.multiply_batch(stream, 1.0, (product, Batch::ONE), element, compute) }
    }

    /// Likewise products = `alpha` · left · right + beta · products, for each product of a batch. `product` has the
    /// matrices of the first one.
    ///
    /// # Safety
    /// As for [`Self::multiply`], for all products of the batch.
    pub unsafe fn multiply_batch(
        &self,
        stream: Stream,
        alpha: f32,
        (product, batch): (&Product, Batch),
        element: Element,
        compute: Compute,
    ) -> Result<(), String> {
        let shape = Shape::of(product, batch, element, compute);
        let Product { left, right, products, output, beta, workspace: (workspace, workspace_bytes), .. } = *product;
        let ready = self.ready(&shape)?;
        let [description, right_matrix, left_matrix, matrix] = ready.descriptions.each_ref().map(|object| object.raw);
        // An algorithm is a kernel, given the types and the form of its operands.
        recorder::note((ready.algorithm, element, output, compute, shape.transposed, shape.alignments));
        // SAFETY: `ready` keeps the descriptions alive; the caller promises matrices of the described sizes.
        let status = unsafe {
            (self.functions.multiply)(
                self.handle.raw,
                description,
                ptr::from_ref(&alpha).cast(),
                right.data,
                right_matrix,
                left.data,
                left_matrix,
                ptr::from_ref(&beta).cast(),
                products,
                matrix,
                products,
                matrix,
                &ready.algorithm,
                workspace,
                workspace_bytes,
                stream,
            )
        };
        check("a product", status)
    }

    /// Returns whether cublasLt has an algorithm for products, which may be those of a batch.
    pub fn can_multiply(&self, (product, batch): (&Product, Batch), element: Element, compute: Compute) -> bool {
        self.ready(&Shape::of(product, batch, element, compute)).is_ok()
    }

    /// The descriptions, with the heuristics' first algorithm in the workspace, looked up once for each shape.
    fn ready(&self, shape: &Shape) -> Result<Arc<Ready>, String> {
        let none = || "cublasLt has no algorithm for the product".to_owned();
        if let Some(known) = self.ready.lock().get(shape) {
            return known.clone().ok_or_else(none);
        }
        let descriptions = self.functions.describe(shape)?;
        let found = self.ask(shape, &descriptions).inspect_err(|why| log::debug!("{shape:?}: {why}")).ok();
        let made = found.map(|algorithm| Arc::new(Ready { descriptions, algorithm }));
        let mut ready = self.ready.lock();
        if ready.len() >= MOST_SHAPES {
            ready.clear();
        }
        ready.insert(*shape, made.clone());
        made.ok_or_else(none)
    }

    fn ask(&self, shape: &Shape, descriptions: &[Object; 4]) -> Result<Algorithm, String> {
        let functions = self.functions;
        // SAFETY: writes one pointer to a live variable.
        let create = |raw| unsafe { (functions.create_preference)(raw) };
        let preference = Object::new(functions.destroy_preference, create)?;
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: `preference` is live, and `value` points to `bytes` bytes.
            check("a preference", unsafe { (functions.set_preference)(preference.raw, attribute, value, bytes) })
        };
        set(MOST_WORKSPACE, ptr::from_ref(&shape.workspace_bytes).cast(), size_of::<usize>())?;
        // In the place of products of 2 bytes each part would be rounded.
        let reductions = if shape.output == Element::Float { IN_PLACE | IN_WORKSPACE } else { IN_WORKSPACE };
        set(REDUCTIONS, ptr::from_ref(&reductions).cast(), size_of::<u32>())?;
        let [right, left, products] = shape.alignments;
        for (attribute, bytes) in ALIGNMENTS.into_iter().zip([right, left, products, products]) {
            set(attribute, ptr::from_ref(&bytes).cast(), size_of::<u32>())?;
        }
        let [description, right, left, products] = descriptions.each_ref().map(|object| object.raw);
        let none = Heuristic { algorithm: [0; 8], workspace: 0, state: -1, waves: 0.0, reserved: [0; 4] };
        let (mut result, mut count) = (none, 0);
        // SAFETY: the borrowed objects are live, and `result` has space for the one result requested.
        let status = unsafe {
            (functions.heuristic)(
                self.handle.raw,
                description,
                right,
                left,
                products,
                products,
                preference.raw,
                1,
                &mut result,
                &mut count,
            )
        };
        check("heuristics", status)?;
        if count < 1 || result.state != SUCCESS || result.workspace > shape.workspace_bytes {
            return Err(format!("heuristics have nothing in a workspace of {} bytes", shape.workspace_bytes));
        }
        Ok(result.algorithm)
    }
}

#[cfg(test)]
mod tests;
