//! The kernels that all nets share (`kernels/dynamic/products.cu`), and the choice between them and cublasLt.

use std::ffi::c_void;
use std::sync::Arc;

use gpu::cublaslt::CublasLt;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Source};
use gpu::products::{self, Multiplier, Products, TENSOR_COLUMNS, TILE, Transposed};
use gpu::{Device, Element, Stream};

use super::launches::{launch, launch_sharing, launch_together};
use super::slices::{outer_tiles, row_tiles};
use crate::emit::THREADS;

/// The warps of a block, and the rows and columns that a warp of `few_rows` multiplies.
const WARPS: usize = THREADS as usize / 32;
const ROWS: usize = 8;
const COLUMNS: usize = 2;
/// The most rows for which `few_rows` multiplies: it reads the weights once for eight rows.
const FEW: usize = 64;

/// Elements of shared memory of a block of sums of outer products. Twin of the numbers in
/// `kernels/dynamic/outer_products.cuh`.
const OUTER_ELEMENTS: usize = 3 * 16 * (128 + 8 + 64 + 8);
/// The rows from which on a level of a static batch is wide, so that its product is computed by tiles.
pub const WIDE: usize = 33;

/// The most blocks of rows of a table; they take turns where there are more rows.
const MOST_TABLE_ROWS: usize = 1 << 16;

/// The kernels on one device, for one type of elements.
pub struct Library {
    element: Element,
    few_rows: Function,
    level_few_rows: Function,
    /// `None` for elements of 2 bytes, whose products tensor cores compute exactly as they are.
    exact: Option<Exact>,
    level_tensor_tiles: Function,
    outer_products: Function,
    transpose: Function,
    sum_rows: Function,
    sum_parts: Function,
    find_indices: Function,
    add_rows: Function,
    sum_readers: Function,
    narrow: Function,
    fill_zeros: Function,
    cross_entropy: Function,
    sum_losses: Function,
    descend: Function,
    descend_rows: Function,
    multiplier: Multiplier,
    /// The blocks that fill the device.
    pub most_blocks: usize,
}

/// Kernels for floats alone, which are not rounded.
struct Exact {
    /// For rows that are aligned for quads.
    level_tiles: Function,
    level_tiles_of_any_rows: Function,
    outer_products: Function,
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
        let exact = match element {
            Element::Float => Some(Exact {
                level_tiles: module.function(c"level_exact_tiles")?,
                level_tiles_of_any_rows: module.function(c"level_exact_tiles_of_any_rows")?,
                outer_products: module.function(c"exact_outer_products")?,
            }),
            Element::Half | Element::Bfloat16 => None,
        };
        let level_tensor_tiles = module.function(c"level_tensor_tiles")?;
        let exact_tiles = exact.iter().flat_map(|exact| [&exact.level_tiles, &exact.level_tiles_of_any_rows]);
        for tiles in exact_tiles.chain([&level_tensor_tiles]) {
            tiles.allow_shared(products::tensor_shared_bytes(element))?;
        }
        Ok(Self {
            element,
            few_rows: module.function(c"few_rows")?,
            level_few_rows: module.function(c"level_few_rows")?,
            exact,
            level_tensor_tiles,
            outer_products: module.function(c"outer_products")?,
            transpose: module.function(c"transpose")?,
            sum_rows: module.function(c"sum_rows")?,
            sum_parts: module.function(c"sum_parts")?,
            find_indices: module.function(c"find_indices")?,
            add_rows: module.function(c"add_rows")?,
            sum_readers: module.function(c"sum_readers")?,
            narrow: module.function(c"narrow")?,
            fill_zeros: module.function(c"fill_zeros")?,
            cross_entropy: module.function(c"cross_entropy")?,
            sum_losses: module.function(c"sum_losses")?,
            descend: module.function(c"descend")?,
            descend_rows: module.function(c"descend_rows")?,
            multiplier: Multiplier::new(&multiplying, element, cublaslt)?,
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
        let is_aligned = product.depth % 4 == 0 && (product.x.addr() | product.weights.addr()).is_multiple_of(16);
        let by_tiles = match self.exact.as_ref().filter(|_| !tf32) {
            Some(exact) if is_aligned => &exact.level_tiles,
            Some(exact) => &exact.level_tiles_of_any_rows,
            None => &self.level_tensor_tiles,
        };
        let (function, tile_rows, tile_columns, shared_bytes) = match is_wide {
            false => (&self.level_few_rows, ROWS, WARPS * COLUMNS, 0),
            true => (by_tiles, TILE, TENSOR_COLUMNS, products::tensor_shared_bytes(self.element)),
        };
        let across = (product.columns as usize).div_ceil(tile_columns);
        let down = rows.div_ceil(tile_rows).clamp(1, (self.most_blocks / across).max(1));
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_sharing(function, stream, [across, down], shared_bytes, product) }
    }

    /// Adds up outer products of rows. No two of the sums are one.
    ///
    /// # Safety
    /// The structs' arrays are on the stream's device, as long as they say.
    pub unsafe fn sum_outer_products(&self, stream: Stream, all: &[OuterProducts], tf32: bool) -> Result<(), Error> {
        let exact = self.exact.as_ref().filter(|_| !tf32);
        let function = exact.map_or(&self.outer_products, |exact| &exact.outer_products);
        let shared_bytes = (OUTER_ELEMENTS * self.element.bytes()) as u32;
        let blocks = |its: &OuterProducts| its.slices as usize * outer_tiles(its.rows as usize, its.columns as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(function, stream, all, shared_bytes, blocks) }
    }

    /// Adds up the sums of slices. No two of the sums are one.
    ///
    /// # Safety
    /// The structs' arrays are on the stream's device, as long as they say.
    pub unsafe fn sum_parts(&self, stream: Stream, all: &[PartsSum]) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.sum_parts, stream, all, 0, |its| self.blocks(its.count)) }
    }

    /// Transposes matrices.
    ///
    /// # Safety
    /// All matrices are on the stream's device, and do not overlap.
    pub unsafe fn transpose(&self, stream: Stream, matrices: &[Transposed]) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.transpose, stream, matrices, 0, Transposed::squares) }
    }

    /// Adds up rows. No two of the sums are one.
    ///
    /// # Safety
    /// The structs' arrays are on the stream's device, as long as they say.
    pub unsafe fn sum_rows(&self, stream: Stream, all: &[RowSums]) -> Result<(), Error> {
        let blocks = |its: &RowSums| its.slices as usize * row_tiles(its.columns as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.sum_rows, stream, all, 0, blocks) }
    }

    /// Finds the rows of a table that rows of a kind name.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn find_indices(&self, stream: Stream, parameters: TableIndices) -> Result<(), Error> {
        let blocks = self.blocks(parameters.count as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.find_indices, stream, [blocks, 1], parameters) }
    }

    /// Adds rows to those of a table that indices name.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn add_rows(&self, stream: Stream, parameters: AddedRows) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.add_rows, stream, parameters.its.grid(), parameters) }
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
        unsafe { launch_together(&self.descend, stream, all, 0, |its| self.blocks(its.count)) }
    }

    /// Takes the step of a table. Its gradient is the sum of rows.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it says.
    pub unsafe fn descend_rows(&self, stream: Stream, parameters: DescentOfRows) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.descend_rows, stream, parameters.its.grid(), parameters) }
    }

    /// Writes zeros.
    ///
    /// # Safety
    /// The memory is on the stream's device, as long as the structs say.
    pub unsafe fn fill_zeros(&self, stream: Stream, all: &[Zeros]) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&self.fill_zeros, stream, all, 0, |its| self.blocks(its.bytes / 4)) }
    }
}

/// Rows dy and x whose outer products are added up: `count`, or as many as a script says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OuterProducts {
    pub dy: *const c_void,
    pub x: *const c_void,
    /// `[slices][rows][columns]`
    pub sums: *mut f32,
    pub script: *const c_void,
    pub count: i32,
    /// The numbers of a row of dy, and of x.
    pub rows: i32,
    pub columns: i32,
    pub slices: i32,
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
    /// `[slices][columns]`
    pub sums: *mut f32,
    pub script: *const c_void,
    pub count: i32,
    pub columns: i32,
    pub slices: i32,
    /// The sums are added to the numbers that are there.
    pub adds: i32,
    /// Rows are edges.
    pub is_of_children: i32,
}

/// The sums of slices.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PartsSum {
    pub sums: *mut f32,
    /// `[part_count][count]`
    pub parts: *const f32,
    pub count: usize,
    pub part_count: i32,
    /// They are added to the numbers that are there.
    pub adds: i32,
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

/// Rows of a kind that name rows of a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TableIndices {
    pub indices: *mut i32,
    pub rows_of_kind: *const c_void,
    /// Where the rows are; null for `count` rows of `rows_of_kind`.
    pub script: *const c_void,
    pub pulled: *const c_void,
    pub indices_of_input: *const c_void,
    pub count: i32,
    pub table: i32,
}

/// Rows for those of a table, which their indices name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RowsOfTable {
    pub rows: *const c_void,
    pub indices: *const i32,
    /// Where the number of rows is; null for `count`.
    pub script: *const c_void,
    pub count: i32,
    pub columns: i32,
}

impl RowsOfTable {
    /// The blocks: those of rows, and for each some of the columns.
    fn grid(&self) -> [usize; 2] {
        [(self.count as usize).clamp(1, MOST_TABLE_ROWS), (self.columns as usize).div_ceil(THREADS as usize)]
    }
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
