//! Gradients of 3×3 filters: the products of all places read the same pixels, shifted.

use std::ffi::c_void;
use std::sync::Arc;

use super::tile::{ELEMENT, RESERVED};
use super::{Images, MOST_COUNTED};
use crate::engines::backward_filter::{FilterGradient, GradientMemory, MOST_SUMMED, compute};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Launch, Source};
use gpu::{Device, Element, Stream};

/// Threads of a block, as in `kernels/convolution/shifted_gradient.cu`.
const THREADS: usize = 384;
const PLACES: usize = 9;
/// The channels of a block's tile, on either side.
const TILE: usize = 64;
/// The bytes of a line, which has the channels of one pixel.
const LINE_BYTES: usize = TILE * ELEMENT;
/// The depth of a product.
const DEPTH: usize = 16;
/// The pixels that a stage has at the most, unless one row has more.
const MOST_PIXELS: usize = 256;
/// So many blocks' sums take as long as one stage, on their way through the workspace.
const SUMS_OF_A_STAGE: usize = 26;

/// How blocks work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// The pixels of a stage.
    stage: Stage,
    /// The shares of all rows, each with sums of its own.
    pub(super) splits: usize,
}

/// The pixels of a stage: rows, and columns that divide an image's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    rows: usize,
    columns: usize,
}

impl Stage {
    /// The fewest lines for each pixel, in `shared` bytes of shared memory.
    fn best(of: &FilterGradient, shared: usize) -> Option<Self> {
        let width = of.x[1];
        let most = shared / (2 * LINE_BYTES);
        let columns = (1..=width.min(most)).filter(|columns| width.is_multiple_of(*columns));
        let highest = |columns: usize| {
            let most = (MOST_PIXELS / columns).max(1);
            let stages = (1..=most).rev().map(|rows| Self { rows, columns });
            stages.into_iter().find(|stage| stage.shared_bytes(of) + RESERVED <= shared)
        };
        columns.filter_map(highest).min_by_key(|stage| (stage.shared_bytes(of) << 10) / (stage.rows * stage.columns))
    }

    /// The shared memory of two stages.
    fn shared_bytes(&self, of: &FilterGradient) -> usize {
        let row = self.columns + if self.columns < of.x[1] { 2 } else { 1 };
        let dy = (self.rows * row).next_multiple_of(DEPTH);
        let x = (dy + 2 * row + 2).next_multiple_of(8);
        2 * (dy + x) * LINE_BYTES
    }

    /// The stages of all images.
    fn count(&self, of: &FilterGradient) -> usize {
        all_rows(of).div_ceil(self.rows) * (of.x[1] / self.columns)
    }
}

/// The rows of all images, with a row of zeros behind each.
fn all_rows(of: &FilterGradient) -> usize {
    of.images * (of.x[0] + 1)
}

fn tiles(of: &FilterGradient) -> usize {
    of.k.div_ceil(TILE) * of.c.div_ceil(TILE)
}

/// The bytes of one split's sums.
fn split_bytes(of: &FilterGradient) -> usize {
    tiles(of) * TILE * TILE * PLACES * size_of::<f32>()
}

impl Tiling {
    /// The fastest tiling within `limit` bytes of workspace, for a device with so many multiprocessors, whose blocks may
    /// have `shared` bytes of shared memory. `None` if there is too little of either.
    pub(super) fn of(of: &FilterGradient, limit: usize, shared: usize, multiprocessors: usize) -> Option<Self> {
        let stage = Stage::best(of, shared)?;
        let stages = stage.count(of);
        let time = |splits: usize| {
            let blocks = tiles(of) * splits;
            let of_sums = if splits > 1 { blocks.div_ceil(SUMS_OF_A_STAGE) } else { 0 };
            blocks.div_ceil(multiprocessors.max(1)) * stages.div_ceil(splits) + of_sums
        };
        // A sum of too many pixels would lose digits.
        let least = (of.images * of.x[0] * of.x[1]).div_ceil(MOST_SUMMED);
        let most = (2 * multiprocessors / tiles(of)).min(stages).max(least);
        let has_room = |splits: &usize| *splits == 1 || splits * split_bytes(of) <= limit;
        let splits = (least..=most).filter(has_room).min_by_key(|&splits| time(splits))?;
        Some(Self { stage, splits })
    }
}

/// The kernels of an element type.
pub(super) struct Code {
    shifted_gradient: Function,
    add_splits: Function,
}

/// The code, by its compiler options.
static KNOWN: Loaded<Vec<String>, Option<Code>> = Loaded::kept();

/// The gradient of a 3×3 filter on one device.
pub struct ShiftedGradient {
    pub(super) of: FilterGradient,
    pub(super) tiling: Tiling,
    /// `None`: the host runs loops.
    pub(super) code: Arc<Option<Code>>,
}

/// The parameters of both kernels.
#[repr(C)]
struct Parameters {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    sums: *mut c_void,
    images: Images,
    m: i32,
    d: i32,
    rows: i32,
    columns: i32,
    stages: i32,
    splits: i32,
    alpha: f32,
    beta: f32,
}

impl ShiftedGradient {
    /// Returns the best number of splits within `limit` bytes of workspace. `None` if our kernel does not compute the
    /// gradient on the calling thread's device.
    pub fn best_splits(device: Device, of: &FilterGradient, limit: usize) -> Option<usize> {
        Self::tiling(device, of, limit).map(|tiling| tiling.splits)
    }

    fn tiling(device: Device, of: &FilterGradient, limit: usize) -> Option<Tiling> {
        let ordinal = device.ordinal();
        let is_ours = of.is_for_us()
            && of.element != Element::Float
            && (of.filter, of.padding, of.stride) == ([3, 3], 1, 1)
            // Tensors are whole reads of 8 elements, and a thread has four channels.
            && of.k.is_multiple_of(8)
            && of.c.is_multiple_of(8)
            && device.has_warpgroup_products(ordinal)
            && all_rows(of).saturating_mul(of.x[1] + 1) <= MOST_COUNTED;
        let shared = is_ours.then(|| device.shared_bytes(ordinal)).flatten()?;
        Tiling::of(of, limit, shared, device.multiprocessors(ordinal)?)
    }

    /// Prepares a gradient in so many splits on the calling thread's device. Compiles at the first call for its type,
    /// which may take a second; do not call it under capture. `Err` says why there is no kernel.
    pub fn new(device: Device, of: FilterGradient, splits: usize) -> Result<Self, String> {
        let is_counted = (1..=all_rows(&of)).contains(&splits) && splits.saturating_mul(tiles(&of)) <= MOST_COUNTED;
        let best = Self::tiling(device, &of, usize::MAX).filter(|_| is_counted);
        let tiling = Tiling { splits, ..best.ok_or("no kernel of ours computes it")? };
        let code = KNOWN.get(device, options(&of), || match device {
            Device::Host => Ok(None),
            Device::Cuda => compiled(device, &of).map(Some),
        })?;
        Ok(Self { of, tiling, code })
    }

    /// The bytes of workspace: the sums of several splits.
    pub fn workspace(&self) -> usize {
        if self.tiling.splits > 1 { self.tiling.splits * split_bytes(&self.of) } else { 0 }
    }

    /// dw = `alpha` · gradient + `beta` · dw, where a `beta` of 0 leaves dw unread. Returns whether it was launched.
    ///
    /// # Safety
    /// All pointers are device memory as large as the tensors, and the workspace has [`Self::workspace`] bytes; all are
    /// aligned to 16 bytes; dw and the workspace overlap nothing else. The stream belongs to the same device.
    pub unsafe fn run(&self, stream: Stream, memory: GradientMemory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling, code } = self;
        let Some(Code { shifted_gradient, add_splits }) = &**code else {
            // SAFETY: the caller promises memory as large as the tensors, which is host memory on this device.
            unsafe { compute(of, memory, alpha, beta) };
            return true;
        };
        let GradientMemory { x, dy, dw, workspace: sums } = memory;
        if !sums.addr().is_multiple_of(size_of::<[f32; 2]>()) {
            return false;
        }
        let Tiling { stage, splits } = *tiling;
        let sizes = [of.k, of.c, stage.rows, stage.columns, stage.count(of), splits];
        let [m, d, rows, columns, stages, splits] = sizes.map(|count| count as i32);
        let images = Images::of(of.images, of.x);
        let mut parameters = Parameters { x, dy, dw, sums, images, m, d, rows, columns, stages, splits, alpha, beta };
        let block = [THREADS as u32, 1, 1];
        let launch = Launch {
            grid: [(tiles(of) * tiling.splits) as u32, 1, 1],
            block,
            shared_bytes: stage.shared_bytes(of) as u32,
            ..Launch::default()
        };
        let sums = tiles(of) * TILE * TILE * PLACES;
        let next = Launch { grid: [sums.div_ceil(THREADS) as u32, 1, 1], block, ..Launch::default() };
        // SAFETY: `parameters` is both kernels' only parameter; the caller promises memory as large as the tensors and
        // the workspace.
        unsafe {
            shifted_gradient.launch(stream, &launch, &mut [(&raw mut parameters).cast()]).is_ok()
                && (tiling.splits == 1 || add_splits.launch(stream, &next, &mut [(&raw mut parameters).cast()]).is_ok())
        }
    }
}

fn options(of: &FilterGradient) -> Vec<String> {
    vec![of.element.option().to_owned()]
}

pub(super) fn source(of: &FilterGradient) -> Source {
    Source::new(&kernels::convolution::SHIFTED_GRADIENT, options(of))
}

pub(super) fn compiled(device: Device, of: &FilterGradient) -> Result<Code, String> {
    let compile = || {
        let module = device.load(&source(of))?;
        let [shifted_gradient, add_splits] = [c"shifted_gradient", c"add_splits"].map(|name| module.function(name));
        let (shifted_gradient, add_splits) = (shifted_gradient?, add_splits?);
        // Images of other sizes, which need other amounts, share the code.
        shifted_gradient.allow_shared(device.shared_bytes(device.ordinal()).unwrap_or_default() as u32)?;
        Ok(Code { shifted_gradient, add_splits })
    };
    compile().map_err(|error: gpu::jit::Error| error.to_string())
}
