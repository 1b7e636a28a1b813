//! The kernels around the recurrences (`kernels/recurrent/training.cu`), and products of any form. Twins of the structs
//! there.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::input::Input;
use crate::kernels::input;
use crate::training::owner::reserve::Header;
use gpu::Pinned;
use gpu::cublaslt::Product;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Launch, Source};
use gpu::products::StridedProducts;
use gpu::{Element, Stream};

const THREADS: usize = 256;
/// The most blocks of a launch whose threads take several elements.
const MOST_BLOCKS: usize = 1 << 12;
/// The rows of a part of a column's sum, and the columns of a block.
const PART_ROWS: usize = 64;
const SUM_COLUMNS: usize = 32;

/// Rows of vectors in the program's layout and packed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Rows {
    pub memory: *mut c_void,
    pub packed: *mut c_void,
    pub lengths: *const i32,
    pub starts: *const i32,
    pub order: *const i32,
    pub width: i32,
    pub steps: i32,
    pub batch: i32,
    pub time_stride: i32,
    pub batch_stride: i32,
    pub fill: u32,
}

/// The rows of a matrix, and where they are copied to: rows that are as wide or wider, with zeros behind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CopiedRows {
    pub from: *const c_void,
    pub to: *mut c_void,
    pub rows: i32,
    pub width: i32,
    /// Numbers from one row to the next, of both.
    pub strides: [i32; 2],
    /// The bytes of a number: 2 or 4.
    pub bytes: i32,
}

impl CopiedRows {
    /// The same in numbers of 4 bytes, if all rows begin and end at such a number.
    fn in_words(self) -> Self {
        let [from_stride, to_stride] = self.strides;
        let sizes = [self.width, from_stride, to_stride];
        let are_words = |size: i32| (size * self.bytes) % 4 == 0;
        if self.bytes == 4
            || !sizes.into_iter().all(are_words)
            || !(self.from.addr() | self.to.addr()).is_multiple_of(4)
        {
            return self;
        }
        let [width, from_stride, to_stride] = sizes.map(|size| size / 2);
        Self { width, strides: [from_stride, to_stride], bytes: 4, ..self }
    }
}

/// The hidden states before the steps of packed rows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PreviousStates {
    pub y: *const c_void,
    pub h0: *const c_void,
    pub to: *mut c_void,
    pub lengths: *const i32,
    pub starts: *const i32,
    pub y_stride: i32,
    pub width: i32,
    pub steps: i32,
    pub batch: i32,
    pub reverse: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct AnyProducts {
    factors: StridedProducts,
    products: *mut c_void,
    is_float: i32,
    adds: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Narrowed {
    from: *const f32,
    to: *mut c_void,
    count: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Ones {
    to: *mut c_void,
    count: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Kept {
    from: *const c_void,
    to: *mut c_void,
    count: i64,
    scale: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Added {
    to: *mut c_void,
    from: *const c_void,
    count: i64,
}

/// The sums of the columns of gates' gradients, for biases.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ColumnSums {
    pub rows: *const c_void,
    /// See [`ColumnSums::parts`].
    pub sums: *mut f32,
    pub count: i32,
    pub columns: i32,
    pub parts: i32,
    pub input_bias: *mut c_void,
    pub recurrent_bias: *mut c_void,
    pub hidden: i32,
    pub input_gates: i32,
}

impl ColumnSums {
    /// The parts of the sums over this many rows: each has a float for each column.
    pub fn parts(rows: usize) -> usize {
        rows.div_ceil(PART_ROWS)
    }
}

/// R of [gates, H, H], dealt out by its columns to blocks of this many units: [blocks, H, gates · units], with zeros after
/// the last unit. One block of all units has R's transpose.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Dealt {
    pub from: *const c_void,
    pub to: *mut c_void,
    pub gates: i32,
    pub hidden: i32,
    pub units: i32,
}

/// The side of a square that a block of threads deals out.
const SQUARE_SIDE: usize = 32;

impl Dealt {
    fn squares(&self) -> usize {
        let [gates, hidden, units] = [self.gates, self.hidden, self.units].map(|count| count as usize);
        gates * hidden.next_multiple_of(units).div_ceil(SQUARE_SIDE) * hidden.div_ceil(SQUARE_SIDE)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Claim {
    header: *mut c_void,
    expected: Header,
    next_state: u32,
    is_found_wrong: i32,
    is_wrong: *mut i32,
    alarm: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Spoiled {
    is_wrong: *const i32,
    results: [*mut c_void; 3],
    counts: [i64; 3],
}

/// Parts of the depth of a product that may be summed apart, and the most bytes of their sums: large products fill the
/// device without.
const SPLITS: usize = 8;
const MOST_SPLIT: usize = 4 << 20;

/// Bytes of a product's workspace, for parts of this many sums.
pub fn split_bytes(sums: usize) -> usize {
    sums.saturating_mul(SPLITS * size_of::<f32>()).min(MOST_SPLIT)
}

/// The kernels for elements of one type, on one device.
pub struct Kernels {
    element: Element,
    pub input: Arc<Input>,
    pack_rows: Function,
    unpack_rows: Function,
    copy_rows: Function,
    previous_states: Function,
    deal_columns: Function,
    strided_products: Function,
    narrow: Function,
    add: Function,
    fill_ones: Function,
    keep: Function,
    sum_columns: Function,
    add_sums: Function,
    stamp: Function,
    claim: Function,
    spoil: Function,
    /// A number that [`Self::claim`] sets where something is wrong.
    alarm: Pinned,
    has_said: AtomicBool,
}

pub fn source(element: Element) -> Source {
    Source::new(&kernels::recurrent::TRAINING, vec![element.option().into()])
}

/// Launches blocks of as many threads as the kernels around the recurrences have.
///
/// # Safety
/// `parameters` is the kernel's struct, and its pointers fit it.
pub unsafe fn launch<P: Copy>(
    function: &Function,
    stream: Stream,
    grid: [usize; 2],
    mut parameters: P,
) -> Result<(), Error> {
    let grid = [grid[0] as u32, grid[1] as u32, 1];
    let launch = Launch { grid, block: [THREADS as u32, 1, 1], ..Launch::default() };
    // SAFETY: the caller's promise.
    unsafe { function.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }
}

/// The grid of blocks whose threads take so many elements.
pub fn blocks(count: usize) -> [usize; 2] {
    [count.div_ceil(THREADS).clamp(1, MOST_BLOCKS), 1]
}

impl Kernels {
    /// Finds the kernels of the calling thread's device, or compiles and loads them.
    pub fn load(element: Element) -> Result<Arc<Self>, String> {
        static LOADED: Loaded<Element, Kernels> = Loaded::kept();
        let device = cudnn::device();
        LOADED.get(device, element, || {
            let text = |error: Error| error.to_string();
            let module = device.load(&source(element)).map_err(text)?;
            let function = |name| module.function(name).map_err(text);
            let input = input(element)?;
            // Both modules stay loaded anyway, so no launch has to ask whether a graph will hold it.
            input.keep_loaded();
            let stamp = function(c"stamp")?;
            stamp.keep_loaded();
            Ok(Self {
                element,
                input,
                pack_rows: function(c"pack_rows")?,
                unpack_rows: function(c"unpack_rows")?,
                copy_rows: function(c"copy_rows")?,
                previous_states: function(c"previous_states")?,
                deal_columns: function(c"deal_columns")?,
                strided_products: function(c"strided_products")?,
                narrow: function(c"narrow")?,
                add: function(c"add")?,
                fill_ones: function(c"fill_ones")?,
                keep: function(c"keep")?,
                sum_columns: function(c"sum_columns")?,
                add_sums: function(c"add_sums")?,
                stamp,
                claim: function(c"claim")?,
                spoil: function(c"spoil")?,
                alarm: Pinned::new(device, 1).ok_or("the host has no memory that the device reaches")?,
                has_said: AtomicBool::new(false),
            })
        })
    }

    /// Copies rows from the program's memory to packed memory.
    ///
    /// # Safety
    /// All memory is the stream's device's, as large as the sizes say.
    pub unsafe fn pack(&self, stream: Stream, rows: &Rows) -> Result<(), Error> {
        let grid = blocks(rows.steps as usize * rows.batch as usize * rows.width as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.pack_rows, stream, grid, *rows) }
    }

    /// Copies rows back, and fills the program's padding.
    ///
    /// # Safety
    /// As for [`Self::pack`].
    pub unsafe fn unpack(&self, stream: Stream, rows: &Rows) -> Result<(), Error> {
        let grid = blocks(rows.steps as usize * rows.batch as usize * rows.width as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.unpack_rows, stream, grid, *rows) }
    }

    /// Copies the rows of a matrix.
    ///
    /// # Safety
    /// As for [`Self::pack`].
    pub unsafe fn copy_rows(&self, stream: Stream, rows: &CopiedRows) -> Result<(), Error> {
        let grid = [(rows.rows as usize).clamp(1, MOST_BLOCKS), 1];
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.copy_rows, stream, grid, rows.in_words()) }
    }

    /// Gathers the hidden states before the steps.
    ///
    /// # Safety
    /// As for [`Self::pack`].
    pub unsafe fn previous_states(&self, stream: Stream, states: &PreviousStates) -> Result<(), Error> {
        let grid = blocks(states.steps as usize * states.batch as usize * states.width as usize);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.previous_states, stream, grid, *states) }
    }

    /// Deals out R to blocks of units, by its columns.
    ///
    /// # Safety
    /// As for [`Self::pack`].
    pub unsafe fn deal_columns(&self, stream: Stream, dealt: &Dealt) -> Result<(), Error> {
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.deal_columns, stream, [dealt.squares(), 1], *dealt) }
    }

    /// Multiplies by cublasLt, or by our own kernel where that cannot. `tf32` allows floats to be rounded to TF32.
    ///
    /// # Safety
    /// The memory is the stream's device's, with the sizes that [`Product`] gives.
    pub unsafe fn multiply(&self, stream: Stream, product: &Product, tf32: bool) -> Result<(), Error> {
        // SAFETY: the caller makes the same promise.
        match unsafe { self.input.products.multiply_any(stream, product, tf32) } {
            Ok(()) => return Ok(()),
            Err(why) if !self.has_said.swap(true, Ordering::Relaxed) => {
                log::debug!("{why}; a kernel of ours multiplies (said once)");
            }
            Err(_) => {}
        }
        let factors = StridedProducts::of(product);
        let (grid, is_float) = ([factors.tiles(), 1], i32::from(product.output == Element::Float));
        let adds = i32::from(product.beta != 0.0);
        let parameters = AnyProducts { factors, products: product.products, is_float, adds };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.strided_products, stream, grid, parameters) }
    }

    /// Rounds floats to elements.
    ///
    /// # Safety
    /// There are `count` of each, on the stream's device.
    pub unsafe fn narrow(&self, stream: Stream, from: *const f32, to: *mut c_void, count: usize) -> Result<(), Error> {
        let parameters = Narrowed { from, to, count: count as i64 };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.narrow, stream, blocks(count), parameters) }
    }

    /// Writes halves of 1.
    ///
    /// # Safety
    /// There is room for `count` of them, on the stream's device.
    pub unsafe fn fill_ones(&self, stream: Stream, to: *mut c_void, count: usize) -> Result<(), Error> {
        let parameters = Ones { to, count: count as i64 };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.fill_ones, stream, blocks(count), parameters) }
    }

    /// Replaces halves by elements times `scale`, or by 0 where the half is 0.
    ///
    /// # Safety
    /// There are `count` elements of 2 bytes and as many halves, on the stream's device.
    pub unsafe fn keep(
        &self,
        stream: Stream,
        (from, to): (*const c_void, *mut c_void),
        count: usize,
        scale: f32,
    ) -> Result<(), Error> {
        let parameters = Kept { from, to, count: count as i64, scale };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.keep, stream, blocks(count), parameters) }
    }

    /// Adds elements to others.
    ///
    /// # Safety
    /// As for [`Self::narrow`].
    pub unsafe fn add(&self, stream: Stream, to: *mut c_void, from: *const c_void, count: usize) -> Result<(), Error> {
        let parameters = Added { to, from, count: count as i64 };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.add, stream, blocks(count), parameters) }
    }

    /// Adds the sums of columns to biases' gradients.
    ///
    /// # Safety
    /// As for [`Self::pack`].
    pub unsafe fn add_column_sums(&self, stream: Stream, sums: &ColumnSums) -> Result<(), Error> {
        let columns = sums.columns as usize;
        // SAFETY: the caller's promise, and the kernels' own struct.
        unsafe {
            let grid = [sums.parts as usize, columns.div_ceil(SUM_COLUMNS)];
            launch(&self.sum_columns, stream, grid, *sums)?;
            launch(&self.add_sums, stream, blocks(columns), *sums)
        }
    }

    /// Writes a reserve's header.
    ///
    /// # Safety
    /// The header's place is memory of the stream's device, aligned to 4 bytes.
    pub unsafe fn stamp(&self, stream: Stream, place: *mut c_void, header: Header) -> Result<(), Error> {
        let claim = Claim {
            header: place,
            expected: header,
            next_state: 0,
            is_found_wrong: 0,
            is_wrong: null_mut(),
            alarm: null_mut(),
        };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.stamp, stream, [1, 1], claim) }
    }

    /// Looks at a reserve's header, which is to be as expected; then its state becomes `next_state`. Else it is spoilt,
    /// 1 is written to `is_wrong`, and the alarm is set.
    ///
    /// # Safety
    /// The header's place and `is_wrong` are memory of the stream's device, aligned to 4 bytes.
    pub unsafe fn claim(
        &self,
        stream: Stream,
        place: *mut c_void,
        expected: Header,
        next_state: u32,
        is_wrong: *mut i32,
    ) -> Result<(), Error> {
        let alarm = self.alarm.place();
        let claim = Claim { header: place, expected, next_state, is_found_wrong: 0, is_wrong, alarm };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.claim, stream, [1, 1], claim) }
    }

    /// Looks at a reserve of cuDNN's, where our header, in any state, is wrong.
    ///
    /// # Safety
    /// As for [`Self::claim`].
    pub unsafe fn claim_theirs(
        &self,
        stream: Stream,
        place: *mut c_void,
        header: Header,
        is_wrong: *mut i32,
    ) -> Result<(), Error> {
        let alarm = self.alarm.place();
        let claim = Claim { header: place, expected: header, next_state: 0, is_found_wrong: 1, is_wrong, alarm };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.claim, stream, [1, 1], claim) }
    }

    /// Makes all results NaN if `is_wrong` holds 1. Null results have no elements.
    ///
    /// # Safety
    /// Each result is null or has this many elements, on the stream's device.
    pub unsafe fn spoil(
        &self,
        stream: Stream,
        is_wrong: *const i32,
        results: [(*mut c_void, usize); 3],
    ) -> Result<(), Error> {
        let counts = results.map(|(result, count)| if result.is_null() { 0 } else { count as i64 });
        let most = counts.into_iter().max().unwrap_or(0) as usize;
        let parameters = Spoiled { is_wrong, results: results.map(|(result, _)| result), counts };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch(&self.spoil, stream, blocks(most), parameters) }
    }

    /// Returns whether the alarm was set since the last time.
    pub fn take_alarm(&self) -> bool {
        self.alarm.take_first() != 0
    }

    /// The type of elements.
    pub fn element(&self) -> Element {
        self.element
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::testing::resources::{LDL, STL, compile, nvrtc};

    /// Needs `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.
    #[test]
    fn compiles_for_all_gpus_without_spills() {
        let Some(nvrtc) = nvrtc() else { return };
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for capability in [80, 89, 90, 100] {
                let resources = compile(nvrtc, &source(element), capability);
                assert!(!resources.has(STL) && !resources.has(LDL), "{element:?}, sm_{capability}");
            }
        }
    }
}
