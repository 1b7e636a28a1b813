//! Convolutions and input gradients on tensor cores by our own kernel, which reads NCHW directly and needs no
//! workspace. cuDNN's engines first convert both tensors, in a workspace as large as the tensors. Our kernel also
//! multiplies floats exactly; cuDNN's exact engines use no tensor cores, or a workspace of several times that size.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{Correlation, Memory, Slices};
use crate::engines::tiles::pitch_of;
use crate::problem::graph::Knob;
use gpu::jit::{Function, Launch};
use gpu::{Device, Element, Stream};
use kernels::KernelSource;

/// The rows of a block's product, and the threads of a block, as in `kernels/convolution/implicit_gemm.cu`.
const ROW_TILE: usize = 64;
const THREADS: usize = 256;
/// The columns of a block's product, and the blocks that share a multiprocessor, for 1 × 1 filters and for larger ones.
const COLUMNS: [usize; 2] = [128, 256];
const BLOCKS: [usize; 2] = [2, 1];
/// Bytes of shared memory that each block takes in addition to its own.
const RESERVED: usize = 1 << 10;
/// The channels of one step for 1 × 1 filters; for larger filters the bytes of one tensor core depth.
const DEPTH_OF_ONE_PLACE: usize = 32;
const DEPTH_BYTES: usize = 32;
/// The widths of asynchronous copies, in bytes.
const ACCESSES: [usize; 4] = [16, 8, 4, 2];
/// The depth steps in shared memory: one in use and one or two in flight.
const STAGES: [usize; 2] = [3, 2];
/// The largest filter side: shared memory cannot hold two depth steps of larger filters.
const MOST_PLACES_ACROSS: usize = 5;
/// With fewer channels on either side, most of a block would be idle.
const LEAST_DEPTH: usize = 16;
const LEAST_ROWS: usize = 32;
/// The most blocks of a launch.
const MOST_COUNTED: usize = 1 << 30;
/// From this many rounds of blocks on, a nearly empty last round is negligible.
const MANY_ROUNDS: usize = 8;
/// The number of exact products that take as long as one copy. It serves only to rank tilings.
const PRODUCTS_OF_AN_ACCESS: usize = 40;

impl Correlation {
    /// Returns whether the kernel supports the correlation, and has enough work in it.
    pub fn is_for_us(&self) -> bool {
        // The kernel also counts positions beside a tensor, so the lengths leave room for them.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 31).contains(&count));
        let is_small = |lengths: &[usize; 2]| lengths.iter().all(|length| *length < 1 << 28);
        (!self.is_exact || self.element == Element::Float)
            && self.filter % 2 == 1
            && self.filter <= MOST_PLACES_ACROSS
            && self.padding < self.filter
            && (1..=2).contains(&self.stride)
            && !(self.is_gradient && self.stride > 1)
            && self.depth >= LEAST_DEPTH
            && self.rows >= LEAST_ROWS
            && is_small(&self.from)
            && is_small(&self.to)
            && self.counts().into_iter().all(is_counted)
    }

    /// The same correlation over images of a single row if the kernel need not tell rows apart.
    fn flattened(self) -> Self {
        let one_row = |[rows, columns]: [usize; 2]| [1, rows * columns];
        match (self.filter, self.stride) {
            (1, 1) if self.from == self.to => Self { from: one_row(self.from), to: one_row(self.to), ..self },
            _ => self,
        }
    }

    /// The index into the pairs of constants above.
    fn kind(&self) -> usize {
        usize::from(self.filter > 1)
    }

    fn places(&self) -> usize {
        self.filter * self.filter
    }

    /// The channels d of one depth step.
    fn depth_at_once(&self) -> usize {
        if self.filter == 1 { DEPTH_OF_ONE_PLACE } else { DEPTH_BYTES / self.element.bytes() }
    }

    /// The tensor core products for each product.
    fn products(&self) -> usize {
        if self.is_exact { 3 } else { 1 }
    }

    /// The consecutive filter elements of one channel.
    fn filters(&self) -> usize {
        self.places() * if self.is_gradient { self.rows } else { self.depth }
    }
}

/// The tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    images: usize,
    /// The tile's rows and columns of the images written.
    rows: usize,
    columns: usize,
    /// The elements of one asynchronous copy, for images and for filters.
    image_access: usize,
    filter_access: usize,
    stages: usize,
}

impl Tiling {
    /// The best tiling for this many multiprocessors, each with `shared` bytes of memory for a block.
    fn of(correlation: &Correlation, shared: usize, multiprocessors: usize) -> Option<Self> {
        let Correlation { images, from, to: [p, q], stride, .. } = *correlation;
        let (most, blocks) = (COLUMNS[correlation.kind()], BLOCKS[correlation.kind()]);
        let accesses = ACCESSES.map(|bytes| bytes / correlation.element.bytes());
        let access_of =
            |length: usize| accesses.into_iter().find(|access| *access > 0 && length.is_multiple_of(*access));
        let (image_access, filter_access) = (access_of(from[1])?, access_of(correlation.filters())?);
        let mut best: Option<(usize, Self)> = None;
        // Copies need an aligned start of each tile.
        let begins = |columns: &usize| *columns == q || (columns * stride).is_multiple_of(image_access);
        for columns in (1..=q.min(most)).filter(begins) {
            for rows in 1..=p.min(most / columns) {
                for images in 1..=images.min(most / (rows * columns)) {
                    let at_stages = |stages| Self { images, rows, columns, image_access, filter_access, stages };
                    let bytes = |tiling: &Self| blocks * (tiling.shared_bytes(correlation) + RESERVED);
                    let fits = |tiling: &Self| bytes(tiling) <= shared + RESERVED;
                    let Some(tiling) = STAGES.into_iter().map(at_stages).find(fits) else { continue };
                    let costs = tiling.costs(correlation, multiprocessors * blocks);
                    if best.is_none_or(|(least, _)| costs < least) {
                        best = Some((costs, tiling));
                    }
                }
            }
        }
        best.map(|(_, tiling)| tiling)
    }

    /// The number of blocks.
    fn blocks(&self, correlation: &Correlation) -> usize {
        let Correlation { images, rows, to: [p, q], .. } = *correlation;
        let pixels = images.div_ceil(self.images) * p.div_ceil(self.rows) * q.div_ceil(self.columns);
        pixels.saturating_mul(rows.div_ceil(ROW_TILE))
    }

    /// The cost of all blocks with `at_once` of them running, as products for one depth step.
    fn costs(&self, correlation: &Correlation, at_once: usize) -> usize {
        let (depth, places) = (correlation.depth_at_once(), correlation.places());
        let [x_rows, x_columns] = self.image(correlation);
        let images = self.images * depth * x_rows * x_columns / self.image_access;
        let filters = ROW_TILE * depth * places / self.filter_access;
        let products = ROW_TILE * COLUMNS[correlation.kind()] * depth * places * correlation.products() / 3;
        let costs = products + (images + filters) * PRODUCTS_OF_AN_ACCESS;
        // With many rounds a partial last round is ignored, so that problems of other channels share tiles and code.
        match self.blocks(correlation) {
            blocks if blocks >= MANY_ROUNDS * at_once => blocks.saturating_mul(costs),
            blocks => blocks.next_multiple_of(at_once).saturating_mul(costs),
        }
    }

    /// Rows and columns of an image in shared memory, laid out like the kernel's.
    fn image(&self, correlation: &Correlation) -> [usize; 2] {
        let Correlation { filter, stride, padding, .. } = *correlation;
        let left = padding.next_multiple_of(self.image_access);
        let columns = (self.columns - 1) * stride + left - padding + filter;
        [(self.rows - 1) * stride + filter, columns.next_multiple_of(self.image_access)]
    }

    /// The shared memory of a block in bytes, laid out like the kernel's.
    fn shared_bytes(&self, correlation: &Correlation) -> usize {
        let (depth, places, element) = (correlation.depth_at_once(), correlation.places(), correlation.element.bytes());
        let filters = match correlation.is_gradient {
            true => depth * pitch_of(ROW_TILE * places, 8),
            false => ROW_TILE * (depth * places + 4 * size_of::<u32>() / element),
        };
        let [rows, columns] = self.image(correlation);
        let images = depth * pitch_of(self.images * rows * columns, 8);
        self.stages * (filters + images) * element
    }

    fn options(&self, correlation: &Correlation) -> Vec<String> {
        let Correlation { is_gradient, filter, stride, padding, .. } = *correlation;
        let values = [
            ("FILTER_ROWS", filter),
            ("FILTER_COLUMNS", filter),
            ("STRIDE", stride),
            ("PADDING", padding),
            ("DEPTH", correlation.depth_at_once()),
            ("TILE_IMAGES", self.images),
            ("TILE_ROWS", self.rows),
            ("TILE_COLUMNS", self.columns),
            ("X_ACCESS", self.image_access),
            ("W_ACCESS", self.filter_access),
            ("STAGES", self.stages),
        ];
        let element = correlation.element.option();
        let exact = correlation.is_exact.then_some("-DEXACT");
        let gradient = is_gradient.then_some("-DGRADIENT");
        let names = [element].into_iter().chain(exact).chain(gradient).map(str::to_owned);
        values.into_iter().map(|(name, value)| format!("-D{name}={value}")).chain(names).collect()
    }
}

/// Convolutions and input gradients on tensor cores.
#[derive(Clone, Copy, Debug)]
pub struct ImplicitGemm {
    /// Flattened if possible.
    of: Correlation,
    tiling: Tiling,
}

/// The parameters of `kernels/convolution/implicit_gemm.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: i32,
    depth: i32,
    rows: i32,
    height: i32,
    width: i32,
    p: i32,
    q: i32,
    alpha: f32,
    beta: f32,
}

impl Engine for ImplicitGemm {
    type Problem = Correlation;
    const SOURCE: &'static KernelSource = &kernels::convolution::IMPLICIT_GEMM;
    const KERNELS: &'static [&'static CStr] = &[c"implicit_gemm"];
    const IS_KEPT: bool = false;

    fn priority(of: &Correlation) -> Priority {
        if of.is_exact { Priority::Fast } else { Priority::Slow }
    }

    fn new(device: Device, of: &Correlation, knobs: &[Knob]) -> Option<Self> {
        if !knobs.is_empty()
            || !of.is_for_us()
            || of.slices != Slices::ONE
            || !device.copies_asynchronously(device.ordinal())
        {
            return None;
        }
        let of = of.flattened();
        let multiprocessors = device.multiprocessors(device.ordinal())?;
        let tiling = Tiling::of(&of, device.shared_bytes(device.ordinal())?, multiprocessors)?;
        (tiling.blocks(&of) <= MOST_COUNTED).then_some(Self { of, tiling })
    }

    fn problem(&self) -> &Correlation {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        self.tiling.options(&self.of)
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        Ok(kernels[0].allow_shared(self.tiling.shared_bytes(&self.of) as u32)?)
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling } = self;
        let [from, to] = of.images_in(memory);
        let [images, depth, rows, height, width, p, q] =
            [of.images, of.depth, of.rows, of.from[0], of.from[1], of.to[0], of.to[1]].map(|count| count as i32);
        let mut parameters =
            Parameters { w: memory.w, from, to, images, depth, rows, height, width, p, q, alpha, beta };
        let launch = Launch {
            grid: [tiling.blocks(of) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: tiling.shared_bytes(of) as u32,
            ..Launch::default()
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
