//! The kernels that all nets share (`kernels/dynamic/products.cu`), and the choice between them and cublasLt.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu::cublaslt::{CublasLt, Factor, Product};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Source};
use gpu::products::{self, Multiplier, Products, StridedProducts, TENSOR_COLUMNS, TILE, Transposed};
use gpu::{Device, Element, Stream};

use super::launches::{launch, launch_sharing, launch_together};
use crate::emit::THREADS;

/// The warps of a block, and the rows and columns that a warp of `few_rows` multiplies.
const WARPS: usize = THREADS as usize / 32;
const ROWS: usize = 8;
const COLUMNS: usize = 2;
/// The columns that a block of `sum_rows` sums.
const SUM_COLUMNS: usize = 8;

/// The most rows for which `few_rows` multiplies: it reads the weights once for eight rows. Gradients of at most as many rows
/// are sums of outer products, all in one launch: a launch of cublasLt takes longer than such a sum.
pub const FEW: usize = 64;
/// The side of a block's square of sums of outer products. Twin of the number in `kernels/dynamic/outer_products.cuh`.
const OUTER_SIDE: usize = 64;

/// The rows from which on a level of a static batch is wide, so that its product is computed by tiles.
pub const WIDE: usize = 33;

/// The most rows that one product adds up, and the most of floats by multiply-adds. The error of a longer sum grows with
/// its root: on an H200, a batch of 256 trees was 3.4 times as far from float64 as eager PyTorch, which adds a product a
/// level. On an H100, a time-delay net was 2.05 times as far with 512 rows of floats. cublasLt also prepares one shape less
/// for each batch.
const MOST_SUMMED: usize = 512;
const MOST_SUMMED_FLOATS: usize = 256;

/// The kernels on one device, for one type of elements.
pub struct Library {
    element: Element,
    few_rows: Function,
    level_few_rows: Function,
    level_square_tiles: Function,
    level_tensor_tiles: Function,
    clear_tails: Function,
    any_form: Function,
    outer_products: Function,
    transpose: Function,
    sum_rows: Function,
    add_rows: Function,
    sum_readers: Function,
    narrow: Function,
    fill_zeros: Function,
    cross_entropy: Function,
    sum_losses: Function,
    descend: Function,
    descend_rows: Function,
    multiplier: Multiplier,
    has_said: AtomicBool,
    /// The blocks that fill the device.
    pub most_blocks: usize,
}

/// A place for a sum, and whether to add to the numbers there.
#[derive(Clone, Copy)]
pub struct Sum {
    pub to: *mut f32,
    pub adds: bool,
}

impl Library {
    /// Finds the kernels of the calling thread's device, or loads them.
    pub fn of_device(device: Device, element: Element) -> Result<Arc<Self>, Error> {
        static LOADED: Loaded<Element, Library> = Loaded::kept();
        LOADED.get(device, element, || Self::load(device, element, &|source| source))
    }

    /// The kernels' source.
    pub fn source(element: Element) -> Source {
        Source::new(&kernels::dynamic::PRODUCTS, vec![element.option().into()])
    }

    /// Loads the kernels; `change` takes their source.
    pub fn load(device: Device, element: Element, change: &dyn Fn(Source) -> Source) -> Result<Self, Error> {
        let module = device.load(&change(Self::source(element)))?;
        let multiplying = device.load(&products::source(element))?;
        let cublaslt = match device {
            Device::Host => None,
            Device::Cuda => CublasLt::new().inspect_err(|why| log::warn!("{why}; kernels of ours multiply")).ok(),
        };
        let (square_tiles, tensor_tiles) =
            (module.function(c"level_square_tiles")?, module.function(c"level_tensor_tiles")?);
        square_tiles.allow_shared(products::shared_bytes(element))?;
        tensor_tiles.allow_shared(products::tensor_shared_bytes(element))?;
        Ok(Self {
            element,
            few_rows: module.function(c"few_rows")?,
            level_few_rows: module.function(c"level_few_rows")?,
            level_square_tiles: square_tiles,
            level_tensor_tiles: tensor_tiles,
            clear_tails: module.function(c"clear_tails")?,
            any_form: module.function(c"any_form")?,
            outer_products: module.function(c"outer_products")?,
            transpose: module.function(c"transpose")?,
            sum_rows: module.function(c"sum_rows")?,
            add_rows: module.function(c"add_rows")?,
            sum_readers: module.function(c"sum_readers")?,
            narrow: module.function(c"narrow")?,
            fill_zeros: module.function(c"fill_zeros")?,
            cross_entropy: module.function(c"cross_entropy")?,
            sum_losses: module.function(c"sum_losses")?,
            descend: module.function(c"descend")?,
            descend_rows: module.function(c"descend_rows")?,
            multiplier: Multiplier::new(&multiplying, element, cublaslt)?,
            has_said: AtomicBool::new(false),
            most_blocks: 8 * device.multiprocessors(device.ordinal()).unwrap_or(64),
        })
    }

    /// Keeps the kernels loaded for good.
    pub fn keep_loaded(&self) {
        self.few_rows.keep_loaded();
    }

    fn blocks(&self, threads: usize) -> usize {
        threads.div_ceil(THREADS as usize).clamp(1, self.most_blocks)
    }

    /// products = x weightsᵀ.
    ///
    /// # Safety
    /// As for [`Multiplier::multiply`].
    pub unsafe fn multiply(&self, stream: Stream, products: &Products, tf32: bool) -> Result<(), Error> {
        let (rows, columns) = (products.rows as usize, products.columns as usize);
        // SAFETY: the caller's promise, for either kernel; `Products` is `FewRows`.
        unsafe {
            if rows <= FEW {
                let grid = [columns.div_ceil(WARPS * COLUMNS), rows.div_ceil(ROWS)];
                return launch(&self.few_rows, stream, grid, *products);
            }
            self.multiplier.multiply(stream, products, tf32).map(drop)
        }
    }

    /// Likewise for the rows that a script counts. There are blocks for `rows`, and those of a wide level compute tiles.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it and the script say.
    pub unsafe fn multiply_level(
        &self,
        stream: Stream,
        product: LevelProduct,
        rows: usize,
        is_wide: bool,
        tf32: bool,
    ) -> Result<(), Error> {
        let (function, tile_rows, tile_columns, shared_bytes) = if !is_wide {
            (&self.level_few_rows, ROWS, WARPS * COLUMNS, 0)
        } else if self.element == Element::Float && !tf32 {
            (&self.level_square_tiles, TILE, TILE, products::shared_bytes(self.element))
        } else {
            (&self.level_tensor_tiles, TILE, TENSOR_COLUMNS, products::tensor_shared_bytes(self.element))
        };
        let across = (product.columns as usize).div_ceil(tile_columns);
        let down = rows.div_ceil(tile_rows).clamp(1, (self.most_blocks / across).max(1));
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_sharing(function, stream, [across, down], shared_bytes, product) }
    }

    /// Writes zeros behind the last row of two matrices, up to `rows`. A script counts their rows.
    ///
    /// # Safety
    /// The matrices have as many rows, of these columns, on the stream's device.
    pub unsafe fn clear_tails(
        &self,
        stream: Stream,
        [(left, left_columns), (right, right_columns)]: [(*mut c_void, usize); 2],
        rows: usize,
        script: *const c_void,
        is_of_children: bool,
    ) -> Result<(), Error> {
        let parameters = Tails {
            matrices: [left, right],
            script,
            columns: [left_columns as i32, right_columns as i32],
            rows: rows as i32,
            is_of_children: is_of_children.into(),
        };
        let blocks = self.blocks(rows * left_columns.max(right_columns));
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.clear_tails, stream, [blocks, 1], parameters) }
    }

    /// The sum over rows of the products of a column dy and a row x: `[columns of dy][columns of x]`.
    ///
    /// # Safety
    /// dy and x have `rows` rows of these columns, and the sum a number for each pair of columns; all are on the stream's
    /// device.
    pub unsafe fn accumulate(
        &self,
        stream: Stream,
        rows: usize,
        (dy, dy_columns): (*const c_void, usize),
        (x, x_columns): (*const c_void, usize),
        sum: Sum,
        tf32: bool,
    ) -> Result<(), Error> {
        let none = Rest { script: std::ptr::null(), skipped: 0, is_of_children: 0 };
        let most = if self.element == Element::Float && !tf32 { MOST_SUMMED_FLOATS } else { MOST_SUMMED };
        for first in (0..rows).step_by(most) {
            let row = |of: *const c_void, columns: usize| of.wrapping_byte_add(first * columns * self.element.bytes());
            let product = Product {
                left: Factor { data: row(dy, dy_columns), stride: dy_columns, is_transposed: true },
                right: Factor { data: row(x, x_columns), stride: x_columns, is_transposed: false },
                products: sum.to.cast(),
                output: Element::Float,
                beta: if sum.adds || first > 0 { 1.0 } else { 0.0 },
                rows: dy_columns,
                columns: x_columns,
                depth: most.min(rows - first),
                workspace: (std::ptr::null_mut(), 0),
            };
            // SAFETY: the caller's promise, for a part of the rows.
            match unsafe { self.multiplier.multiply_any(stream, &product, tf32) } {
                Ok(()) => continue,
                Err(why) if !self.has_said.swap(true, Ordering::Relaxed) => {
                    log::debug!("{why}; a kernel of ours multiplies (said once)");
                }
                Err(_) => {}
            }
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_by_ours(stream, &product, none) }?;
        }
        Ok(())
    }

    /// Adds to a sum the products of a column dy and a row x, of the rows that a script counts behind some. `dy` and `x`
    /// begin with the first of these.
    ///
    /// # Safety
    /// As for [`Self::accumulate`], with as many rows as the script says.
    pub unsafe fn accumulate_rest(
        &self,
        stream: Stream,
        (dy, dy_columns): (*const c_void, usize),
        (x, x_columns): (*const c_void, usize),
        to: *mut f32,
        rest: Rest,
    ) -> Result<(), Error> {
        let product = Product {
            left: Factor { data: dy, stride: dy_columns, is_transposed: true },
            right: Factor { data: x, stride: x_columns, is_transposed: false },
            products: to.cast(),
            output: Element::Float,
            beta: 1.0,
            rows: dy_columns,
            columns: x_columns,
            depth: 0,
            workspace: (std::ptr::null_mut(), 0),
        };
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_by_ours(stream, &product, rest) }
    }

    /// # Safety
    /// As for [`Self::accumulate`].
    unsafe fn accumulate_by_ours(&self, stream: Stream, product: &Product, rest: Rest) -> Result<(), Error> {
        let Product { products, beta, .. } = *product;
        let factors = StridedProducts::of(product);
        let (tiles, adds) = (factors.tiles(), i32::from(beta > 0.0));
        let parameters = AnyForm { factors, products: products.cast(), adds, rest };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.any_form, stream, [tiles, 1], parameters) }
    }

    /// Adds up outer products of rows. No two of the sums are one.
    ///
    /// # Safety
    /// The structs' arrays are on the stream's device, as long as they say.
    pub unsafe fn sum_outer_products(&self, stream: Stream, all: &[OuterProducts]) -> Result<(), Error> {
        let squares = |of: i32| (of as usize).div_ceil(OUTER_SIDE);
        let blocks = |its: &OuterProducts| squares(its.rows) * squares(its.columns);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.outer_products, stream, all, blocks) }
    }

    /// Transposes matrices.
    ///
    /// # Safety
    /// All matrices are on the stream's device, and do not overlap.
    pub unsafe fn transpose(&self, stream: Stream, matrices: &[Transposed]) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.transpose, stream, matrices, Transposed::squares) }
    }

    /// Adds up rows. No two of the sums are one.
    ///
    /// # Safety
    /// The structs' arrays are on the stream's device, as long as they say.
    pub unsafe fn sum_rows(&self, stream: Stream, all: &[RowSums]) -> Result<(), Error> {
        let blocks = |its: &RowSums| (its.columns as usize).div_ceil(SUM_COLUMNS);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.sum_rows, stream, all, blocks) }
    }

    /// Adds rows to those of a table that indices name.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn add_rows(&self, stream: Stream, parameters: AddedRows) -> Result<(), Error> {
        let blocks = self.blocks(32 * parameters.its.count as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.add_rows, stream, [blocks, 1], parameters) }
    }

    /// Adds up rows that read the same one.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn sum_readers(&self, stream: Stream, parameters: ReadersSums) -> Result<(), Error> {
        let blocks = self.blocks(parameters.count as usize * parameters.columns as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.sum_readers, stream, [blocks, 1], parameters) }
    }

    /// Rounds sums to elements.
    ///
    /// # Safety
    /// Both have `count` numbers on the stream's device.
    pub unsafe fn narrow(
        &self,
        stream: Stream,
        from: *const f32,
        to: *mut c_void,
        count: usize,
        adds: bool,
    ) -> Result<(), Error> {
        let parameters = Narrowed { from, to, count, adds: adds.into() };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.narrow, stream, [self.blocks(count), 1], parameters) }
    }

    /// Turns scores into the gradient of the sum of all vertices' cross-entropies, and computes these.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn cross_entropy(&self, stream: Stream, parameters: Scores) -> Result<(), Error> {
        let blocks = self.blocks(32 * parameters.rows as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.cross_entropy, stream, [blocks, 1], parameters) }
    }

    /// Computes the mean of the labelled vertices' losses, and the share that each has in it.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn sum_losses(&self, stream: Stream, parameters: Losses) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.sum_losses, stream, [1, 1], parameters) }
    }

    /// Takes a step of gradient descent: each p becomes p - rate (share gradient + decay p).
    ///
    /// # Safety
    /// The structs' arrays are on the stream's device, as long as they say.
    pub unsafe fn descend(&self, stream: Stream, all: &[Descent]) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.descend, stream, all, |its| self.blocks(its.count)) }
    }

    /// Takes the step of a table. Its gradient is the sum of rows.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn descend_rows(&self, stream: Stream, parameters: DescentOfRows) -> Result<(), Error> {
        let blocks = self.blocks(32 * parameters.its.count as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.descend_rows, stream, [blocks, 1], parameters) }
    }

    /// Writes zeros.
    ///
    /// # Safety
    /// The memory is on the stream's device, as long as the structs say.
    pub unsafe fn fill_zeros(&self, stream: Stream, all: &[Zeros]) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.fill_zeros, stream, all, |its| self.blocks(its.bytes / 4)) }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct AnyForm {
    factors: StridedProducts,
    products: *mut f32,
    adds: i32,
    rest: Rest,
}

/// The rows that a script counts, behind some.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Rest {
    /// Null for all.
    pub script: *const c_void,
    pub skipped: i32,
    /// Rows are edges.
    pub is_of_children: i32,
}

/// Rows dy and x whose outer products are added up: `count`, or as many as a script says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OuterProducts {
    pub dy: *const c_void,
    pub x: *const c_void,
    pub sums: *mut f32,
    pub script: *const c_void,
    pub count: i32,
    /// The numbers of a row of dy, and of x.
    pub rows: i32,
    pub columns: i32,
    /// The sums are added to the numbers that are there.
    pub adds: i32,
    /// Rows are edges.
    pub is_of_children: i32,
}

/// Rows to add up: `count`, or as many as a script says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RowSums {
    pub rows: *const c_void,
    pub sums: *mut f32,
    pub script: *const c_void,
    pub count: i32,
    pub columns: i32,
    /// The sums are added to the numbers that are there.
    pub adds: i32,
    /// Rows are edges.
    pub is_of_children: i32,
}

/// A product of the rows that a script counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LevelProduct {
    pub x: *const c_void,
    pub weights: *const c_void,
    pub products: *mut f32,
    pub script: *const c_void,
    pub columns: i32,
    pub depth: i32,
    /// x has all rows of the kind, not those of the level alone.
    pub has_all_x: i32,
    /// Likewise the products.
    pub has_all_products: i32,
    /// Rows are edges.
    pub is_of_children: i32,
    /// The first rows, which are left out.
    pub skipped: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Tails {
    matrices: [*mut c_void; 2],
    script: *const c_void,
    columns: [i32; 2],
    rows: i32,
    is_of_children: i32,
}

/// Rows for those of a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RowsOfTable {
    pub rows: *const c_void,
    pub rows_of_kind: *const c_void,
    /// Where the number of rows is; null for `count`.
    pub script: *const c_void,
    pub pulled: *const c_void,
    pub indices: *const c_void,
    pub count: i32,
    pub columns: i32,
    pub table: i32,
}

/// Rows to add to those of a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AddedRows {
    pub its: RowsOfTable,
    pub sums: *mut f32,
}

/// The rows that read each row of an input.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReadersSums {
    pub from: *const f32,
    pub to: *mut c_void,
    pub readers: *const c_void,
    pub readers_end: *const c_void,
    /// Where the number of rows is, behind which zeros are written up to `count`; null for `count`.
    pub script: *const c_void,
    pub count: i32,
    pub columns: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Narrowed {
    from: *const f32,
    to: *mut c_void,
    count: usize,
    adds: i32,
}

/// Memory for zeros.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Zeros {
    pub to: *mut c_void,
    pub bytes: usize,
}

/// The scores of vertices, which become their gradients.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Scores {
    pub scores: *mut c_void,
    pub labels: *const i32,
    pub losses: *mut f32,
    /// Where a static batch's rows of each kind are; null for `rows`.
    pub kinds: *const c_void,
    pub kind_count: i32,
    pub rows: i32,
    pub columns: i32,
}

/// The losses of vertices.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Losses {
    pub losses: *const f32,
    pub labels: *const i32,
    pub kinds: *const c_void,
    /// The place for the mean, or null.
    pub loss: *mut f32,
    /// The place for 1 over the number of labelled vertices.
    pub share: *mut f32,
    pub kind_count: i32,
    pub rows: i32,
    pub columns: i32,
}

/// A parameter's step of gradient descent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Descent {
    pub to: *mut c_void,
    pub gradient: *const f32,
    pub share: *const f32,
    pub rate: f32,
    pub decay: f32,
    pub count: usize,
}

/// A table's step of gradient descent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DescentOfRows {
    pub its: RowsOfTable,
    pub to: *mut c_void,
    pub share: *const f32,
    pub rate: f32,
}
