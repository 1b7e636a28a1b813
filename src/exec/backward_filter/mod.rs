//! The gradient of a filter on tensor cores by a kernel of ours, which reads NCHW as it is: cuDNN's engines convert both
//! tensors first, in a workspace of their size.

#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;
use half::{bf16, f16};

use super::elements::{self, Element};
use super::for_each_device::ForEachDevice;
use super::tiles::pitch_of;
use crate::device::jit::{Function, Launch, Source};
use crate::device::{Device, Stream};

/// Of c, where these are many, what a block works on, as `kernels/backward_filter.cu` has it; and of k.
const C_TILE: usize = 64;
const K_TILE: usize = 64;
/// Of k, where floats are multiplied as such: registers hold two numbers for each factor.
const EXACT_K_TILE: usize = 32;
/// The same for filters of one place, where k are many.
const EXACT_K_TILE_OF_ONE_PLACE: usize = 128;
/// Warps that share a block's k there, where filters have one place.
const K_WARPS_OF_ONE_PLACE: usize = 4;
/// Rows of the filters of few channels, over all channels, that a block has at most: eight for a warp of each kind.
const MOST_FEW_ROWS: usize = 24;
/// The most k, or c, with which a filter of one place is computed fast: it is a product of matrices as they are stored, which
/// cuDNN's engines are fast at unless one of them has few rows.
const MOST_ROWS_OF_ONE_PLACE: usize = 32;
/// Warps for parts of a tile's pixels, where channels are few, as there.
const PIXEL_WARPS: usize = 4;
/// Bytes that tensor cores take of the depth at once, as there.
const DEPTH_BYTES: usize = 32;
/// Of what is copied at once, in bytes.
const ACCESSES: [usize; 4] = [16, 8, 4, 2];
/// Columns of a tile, for images as wide as networks have them; more rows than help; and how often tensor cores take the
/// depth of a tile at most: the kernel has code for each time.
const TILE_COLUMNS: [usize; 5] = [32, 28, 16, 14, 8];
const MOST_TILE_ROWS: usize = 16;
const MOST_PIECES: usize = 16;
/// Tiles in shared memory: one that is worked on, and one or two that are copied.
const STAGES: [usize; 2] = [3, 2];
/// The most pixels that a sum has: tensor cores round each towards zero, and floats lose some bits too.
const MOST_SUMMED: usize = 1 << 17;
/// The most tiles of pixels, and blocks.
const MOST_COUNTED: usize = 1 << 30;
/// What a tile costs besides its pixels, in bytes of dy.
const BYTES_OF_A_TILE: usize = 80;
/// How long a multiprocessor works on a byte of dy for a column of the product, and what is summed up a microsecond, in bytes,
/// once launched: of an H200. Only what is best of two is found by these.
const MICROSECONDS_OF_A_PRODUCT: f64 = 0.0008 / (64.0 * 64.0);
const SUMMED_IN_A_MICROSECOND: f64 = 3e6;
const MICROSECONDS_OF_A_LAUNCH: f64 = 3.0;

/// A gradient: dw\[k\]\[c\]\[r\]\[s\] = Σ over n, p, q of dy\[n\]\[k\]\[p\]\[q\] ·
/// x\[n\]\[c\]\[p · stride + r - padding\]\[q · stride + s - padding\], of packed tensors in NCHW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterGradient {
    /// Of all three tensors: half, bfloat16, or float.
    pub data_type: cudnnDataType_t,
    /// Whether floats are multiplied as such, and not in TF32. Of no other type.
    pub is_exact: bool,
    /// n
    pub images: usize,
    /// k: dy's channels.
    pub k: usize,
    /// c: x's channels.
    pub c: usize,
    /// Rows and columns of x.
    pub x: [usize; 2],
    /// Rows p and columns q of dy.
    pub dy: [usize; 2],
    /// Rows r and columns s of the filter.
    pub filter: [usize; 2],
    /// Both ways.
    pub stride: usize,
    /// Zeros on all sides of x.
    pub padding: usize,
}

impl FilterGradient {
    /// Whether x has so few channels that columns of the product are rows of the filter.
    fn has_few_channels(&self) -> bool {
        self.c.saturating_mul(self.filter[0]) <= MOST_FEW_ROWS
    }

    /// Whether cuDNN's engines on tensor cores are not faster, if they have room.
    pub fn is_fast(&self) -> bool {
        // Single elements of two bytes are waited for.
        let is_copied = |width: usize| (width * self.element()).is_multiple_of(size_of::<u32>());
        let is_one_place = self.filter == [1, 1];
        let is_product = is_one_place && !self.is_exact && self.k.min(self.c) > MOST_ROWS_OF_ONE_PLACE;
        !is_product && is_copied(self.x[1]) && is_copied(self.dy[1])
    }

    /// Whether the kernel computes it: its sums are in registers.
    fn is_for_us(&self) -> bool {
        let [rows, columns] = self.filter;
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let most = if self.has_few_channels() { 7 } else { 3 };
        let is_of_x = |axis: usize| {
            let beyond = (self.x[axis] + 2 * self.padding).checked_sub(self.filter[axis]);
            beyond.is_some_and(|beyond| self.dy[axis] == beyond / self.stride + 1)
        };
        let counts = [&[self.images][..], &self.x, &self.dy, &[self.k, self.c, rows, columns]].map(product);
        // What is beside a tensor is counted too.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 30).contains(&count));
        elements::TYPES.contains(&self.data_type)
            && rows.max(columns) <= most
            && (!self.is_exact || self.data_type == CUDNN_DATA_FLOAT)
            && !(2..4).contains(&(rows * columns))
            && (1..=2).contains(&self.stride)
            && self.padding < rows.min(columns)
            && counts.into_iter().all(is_counted)
            && is_of_x(0)
            && is_of_x(1)
    }

    /// Bytes of an element.
    fn element(&self) -> usize {
        elements::bytes(self.data_type)
    }

    /// Values of dw.
    fn elements(&self) -> usize {
        self.k * self.c * self.filter[0] * self.filter[1]
    }

    /// Of k, what a block works on.
    fn k_tile(&self) -> usize {
        match (self.is_exact, self.k_warps()) {
            (true, 1) => EXACT_K_TILE,
            (true, _) if self.k > K_TILE => EXACT_K_TILE_OF_ONE_PLACE,
            _ => K_TILE,
        }
    }

    /// Warps that share a block's k.
    fn k_warps(&self) -> usize {
        if self.is_exact && !self.has_few_channels() && self.filter == [1, 1] { K_WARPS_OF_ONE_PLACE } else { 1 }
    }

    /// Products that one is computed by.
    fn products(&self) -> usize {
        if self.is_exact { 3 } else { 1 }
    }

    /// Blocks that share no sum.
    fn blocks(&self) -> usize {
        self.k.div_ceil(self.k_tile()) * if self.has_few_channels() { 1 } else { self.c.div_ceil(C_TILE) }
    }

    /// Columns of a block's product, without those that shift x.
    fn columns(&self) -> usize {
        if self.has_few_channels() { (self.c * self.filter[0]).next_multiple_of(8) } else { C_TILE * self.filter[0] }
    }

    /// Warps of a block that have the same columns.
    fn pixel_warps(&self) -> usize {
        if self.has_few_channels() { PIXEL_WARPS } else { 1 }
    }

    /// Of a block.
    fn threads(&self) -> usize {
        let column_warps = if self.has_few_channels() { self.columns() / 8 } else { C_TILE / 8 };
        32 * column_warps * self.pixel_warps()
    }
}

/// How a block goes through the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Of dy's pixels.
    rows: usize,
    columns: usize,
    /// Elements that are copied at once.
    access: usize,
    stages: usize,
}

impl Tiling {
    /// The best that `shared` bytes of a block's memory hold.
    fn of(gradient: &FilterGradient, shared: usize) -> Option<Self> {
        let mut best: Option<(usize, Self)> = None;
        let element = gradient.element();
        let (depth, of_lane) = (DEPTH_BYTES / element, DEPTH_BYTES / element / 4);
        for columns in TILE_COLUMNS {
            // Of few channels there are so many warps that registers are short: no piece of the depth is in two rows.
            let piece = if gradient.has_few_channels() { depth } else { of_lane };
            if !columns.is_multiple_of(piece) || 2 * columns < depth {
                continue;
            }
            let divides = |access: &usize| {
                [columns, gradient.x[1], gradient.dy[1]].iter().all(|length| length.is_multiple_of(*access))
            };
            let access =
                ACCESSES.into_iter().map(|bytes| bytes / element).filter(|access| *access > 0).find(divides)?;
            for rows in 1..=MOST_TILE_ROWS {
                // Of a warp.
                let pixels = rows / gradient.pixel_warps() * columns;
                let is_cut = rows.is_multiple_of(gradient.pixel_warps()) && pixels.is_multiple_of(depth);
                if !is_cut || pixels > MOST_PIECES * depth {
                    continue;
                }
                let at_stages = |stages| Self { rows, columns, access, stages };
                let tiling = STAGES.into_iter().map(at_stages).find(|it| it.shared_bytes(gradient) <= shared);
                let Some(tiling) = tiling else { continue };
                let costs = tiling.tiles(gradient) * tiling.bytes(gradient);
                if best.is_none_or(|(least, _)| costs < least) {
                    best = Some((costs, tiling));
                }
            }
        }
        best.map(|(_, tiling)| tiling)
    }

    /// What a tile costs, in bytes of dy.
    fn bytes(&self, gradient: &FilterGradient) -> usize {
        self.rows * self.columns * gradient.element() + BYTES_OF_A_TILE
    }

    /// Of all images.
    fn tiles(&self, gradient: &FilterGradient) -> usize {
        gradient.images * gradient.dy[0].div_ceil(self.rows) * gradient.dy[1].div_ceil(self.columns)
    }

    /// Of a block, as the kernel lays it out.
    fn shared_bytes(&self, gradient: &FilterGradient) -> usize {
        let FilterGradient { filter, stride, padding, .. } = *gradient;
        let per_word = size_of::<u32>() / gradient.element();
        let vector = 4 * per_word;
        let left = padding.next_multiple_of(vector);
        let x_rows = (self.rows - 1) * stride + filter[0];
        let x_columns = ((self.columns - 1) * stride + left - padding + filter[1]).next_multiple_of(vector);
        let (x_row, beyond) = (x_columns / per_word, 8 * stride);
        let x = if gradient.has_few_channels() {
            let x_row = pitch_of(x_row, beyond);
            gradient.c * pitch_of(x_rows * x_row, filter[0] * x_row)
        } else {
            C_TILE * pitch_of(x_rows * x_row, beyond)
        };
        let dy = gradient.k_tile() * pitch_of(self.rows * self.columns / per_word, 8);
        self.stages * (x + dy) * size_of::<u32>()
    }

    fn options(&self, gradient: &FilterGradient) -> Vec<String> {
        let FilterGradient { filter, stride, padding, .. } = *gradient;
        let values = [
            ("FILTER_ROWS", filter[0]),
            ("FILTER_COLUMNS", filter[1]),
            ("STRIDE", stride),
            ("PADDING", padding),
            ("TILE_ROWS", self.rows),
            ("TILE_COLUMNS", self.columns),
            ("ACCESS", self.access),
            ("STAGES", self.stages),
            ("K_TILE", gradient.k_tile()),
        ];
        let element = elements::option(gradient.data_type);
        let of_channels = match gradient.has_few_channels() {
            true => ("CHANNELS", gradient.c),
            false => ("K_WARPS", gradient.k_warps()),
        };
        let exact = gradient.is_exact.then_some(("EXACT", 1));
        values
            .into_iter()
            .chain([of_channels])
            .chain(exact)
            .map(|(name, value)| format!("-D{name}={value}"))
            .chain([element.to_owned()])
            .collect()
    }
}

enum Code {
    /// Loops of this file.
    Host,
    Compiled {
        gradient: Function,
        sum: Function,
    },
}

/// By what it is compiled with.
static KNOWN: ForEachDevice<Vec<String>, Code> = ForEachDevice::new();

/// A gradient on one device.
pub struct BackwardFilter {
    of: FilterGradient,
    splits: usize,
    tiling: Tiling,
    code: Arc<Code>,
}

/// `kernels/backward_filter.cu`'s.
#[repr(C)]
struct Gradient {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    images: i32,
    k: i32,
    c: i32,
    height: i32,
    width: i32,
    p: i32,
    q: i32,
    splits: i32,
    alpha: f32,
    beta: f32,
}

/// Likewise.
#[repr(C)]
struct Sum {
    sums: *const c_void,
    dw: *mut c_void,
    elements: i32,
    count: i32,
    alpha: f32,
    beta: f32,
}

/// What a gradient is computed from, aligned to 16 bytes, and where it goes.
#[derive(Clone, Copy)]
pub struct GradientMemory {
    /// The input.
    pub x: *const c_void,
    /// The output's gradient.
    pub dy: *const c_void,
    /// The filter's.
    pub dw: *mut c_void,
    /// Of [`BackwardFilter::workspace`] bytes.
    pub workspace: *mut c_void,
}

impl BackwardFilter {
    /// Into how many parts, each with a sum of its own, the pixels of a gradient are best cut within `limit` bytes of
    /// workspace on the calling thread's device. `None` where it is not computed here, or would not be exact enough.
    pub fn best_splits(device: Device, of: &FilterGradient, limit: usize) -> Option<usize> {
        let tiling = Self::tiling(device, of)?;
        let multiprocessors = device.multiprocessors(device.ordinal())?;
        let (blocks, tiles) = (of.blocks(), tiling.tiles(of));
        let bytes = of.elements() * size_of::<f32>();
        let products = of.k_tile() * of.columns() * of.filter[1] * of.products();
        let tile = (tiling.bytes(of) * products) as f64 * MICROSECONDS_OF_A_PRODUCT;
        let time = |splits: usize| {
            let rounds = (blocks * splits).div_ceil(multiprocessors) * tiles.div_ceil(splits);
            let summed = (2 * splits * bytes) as f64 / SUMMED_IN_A_MICROSECOND + MICROSECONDS_OF_A_LAUNCH;
            rounds as f64 * tile + if splits > 1 { summed } else { 0.0 }
        };
        let most = (limit / bytes).min(2 * multiprocessors).min(tiles).max(1);
        let least = (of.images * of.dy[0] * of.dy[1]).div_ceil(MOST_SUMMED);
        (least..=most).min_by(|one, other| time(*one).total_cmp(&time(*other)))
    }

    fn tiling(device: Device, of: &FilterGradient) -> Option<Tiling> {
        if !of.is_for_us() || !device.copies_asynchronously(device.ordinal()) {
            return None;
        }
        Tiling::of(of, device.shared_bytes(device.ordinal())?)
    }

    /// On the calling thread's device, in so many parts. Compiles at the first call for such filters and tiles, which may
    /// take a second; not to be called under capture. `Err` says why there is none.
    pub fn new(device: Device, of: FilterGradient, splits: usize) -> Result<Self, String> {
        let tiling = Self::tiling(device, &of).ok_or("no kernel of ours computes it")?;
        let code = KNOWN.get(device, tiling.options(&of), || match device {
            Device::Host => Ok(Code::Host),
            Device::Cuda => Code::compiled(device, &of, &tiling),
        })?;
        Self::of_code(of, splits, tiling, code)
    }

    fn of_code(of: FilterGradient, splits: usize, tiling: Tiling, code: Arc<Code>) -> Result<Self, String> {
        let tiles = tiling.tiles(&of);
        let is_possible =
            (1..=tiles).contains(&splits) && tiles.max(of.blocks().saturating_mul(splits)) <= MOST_COUNTED;
        is_possible.then_some(Self { of, splits, tiling, code }).ok_or_else(|| format!("it has no {splits} parts"))
    }

    /// Bytes that it takes.
    pub fn workspace(&self) -> usize {
        if self.splits > 1 { self.splits * self.of.elements() * size_of::<f32>() } else { 0 }
    }

    /// dw = `alpha` · gradient + `beta` · dw; where `beta` is 0 dw is not read. Whether that was launched.
    ///
    /// # Safety
    /// All is memory of the device, as large as the tensors; none of it overlaps dw and the workspace. The stream is of that
    /// device.
    pub unsafe fn run(&self, stream: Stream, memory: GradientMemory, alpha: f32, beta: f32) -> bool {
        let Self { of, splits, tiling, code } = self;
        let (function, sum) = match &**code {
            Code::Host => {
                // SAFETY: as ours.
                unsafe { compute(of, memory, alpha, beta) };
                return true;
            }
            Code::Compiled { gradient, sum } => (gradient, sum),
        };
        let GradientMemory { x, dy, dw, workspace } = memory;
        let is_whole = *splits == 1;
        let [images, k, c, height, width, p, q, parts] =
            [of.images, of.k, of.c, of.x[0], of.x[1], of.dy[0], of.dy[1], *splits].map(|count| count as i32);
        let dw_of_parts = if is_whole { dw } else { workspace };
        let mut gradient =
            Gradient { x, dy, dw: dw_of_parts, images, k, c, height, width, p, q, splits: parts, alpha, beta };
        let launch = Launch {
            grid: [(of.blocks() * splits) as u32, 1, 1],
            block: [of.threads() as u32, 1, 1],
            shared_bytes: tiling.shared_bytes(of) as u32,
            ..Launch::default()
        };
        // SAFETY: the kernel's one parameter, and memory as ours.
        let launched = unsafe { function.launch(stream, &launch, &mut [(&raw mut gradient).cast()]) };
        if is_whole || launched.is_err() {
            return launched.is_ok();
        }
        let elements = of.elements();
        let mut summed = Sum { sums: workspace, dw, elements: elements as i32, count: parts, alpha, beta };
        let blocks = elements.div_ceil(of.threads()) as u32;
        let launch = Launch { grid: [blocks, 1, 1], block: [of.threads() as u32, 1, 1], ..Launch::default() };
        // SAFETY: likewise.
        unsafe { sum.launch(stream, &launch, &mut [(&raw mut summed).cast()]) }.is_ok()
    }
}

impl Code {
    fn source(of: &FilterGradient, tiling: &Tiling) -> Source {
        Source {
            name: "backward_filter.cu",
            text: include_str!("../../../kernels/backward_filter.cu"),
            headers: elements::HEADERS,
            options: tiling.options(of),
        }
    }

    fn compiled(device: Device, of: &FilterGradient, tiling: &Tiling) -> Result<Self, String> {
        let compile = || {
            let module = device.load(&Self::source(of, tiling))?;
            let gradient = module.function(c"backward_filter")?;
            gradient.allow_shared(tiling.shared_bytes(of) as u32)?;
            Ok(Self::Compiled { gradient, sum: module.function(c"sum_up")? })
        };
        compile().map_err(|error: crate::device::jit::Error| error.to_string())
    }
}

/// # Safety
/// As for [`BackwardFilter::run`], in the host's memory.
unsafe fn compute(of: &FilterGradient, memory: GradientMemory, alpha: f32, beta: f32) {
    // SAFETY: as ours; the tensors' elements are of that type.
    unsafe {
        match of.data_type {
            CUDNN_DATA_HALF => compute_in::<f16>(of, memory, alpha, beta),
            CUDNN_DATA_BFLOAT16 => compute_in::<bf16>(of, memory, alpha, beta),
            _ => compute_in::<f32>(of, memory, alpha, beta),
        }
    }
}

/// # Safety
/// Likewise, of elements of this type.
unsafe fn compute_in<T: Element>(of: &FilterGradient, memory: GradientMemory, alpha: f32, beta: f32) {
    let FilterGradient { images, k, c, x: [height, width], dy: [p, q], filter: [rows, columns], .. } = *of;
    // SAFETY: as ours.
    let (x, dy, dw) = unsafe {
        (
            std::slice::from_raw_parts(memory.x.cast::<T>(), images * c * height * width),
            std::slice::from_raw_parts(memory.dy.cast::<T>(), images * k * p * q),
            std::slice::from_raw_parts_mut(memory.dw.cast::<T>(), of.elements()),
        )
    };
    // Where a place of dy finds x, if that is no zero beside it.
    let below =
        |at: usize, by: usize, length: usize| (at * of.stride + by).checked_sub(of.padding).filter(|it| *it < length);
    for (place, dw) in dw.iter_mut().enumerate() {
        let (s, r) = (place % columns, place / columns % rows);
        let (of_c, of_k) = (place / (columns * rows) % c, place / (columns * rows * c));
        let mut sum = 0.0;
        for image in 0..images {
            let x = &x[(image * c + of_c) * height * width..][..height * width];
            let dy = &dy[(image * k + of_k) * p * q..][..p * q];
            for (row, h) in (0..p).filter_map(|row| Some((row, below(row, r, height)?))) {
                for (column, w) in (0..q).filter_map(|column| Some((column, below(column, s, width)?))) {
                    sum += f64::from(dy[row * q + column].to_f32()) * f64::from(x[h * width + w].to_f32());
                }
            }
        }
        dw.add_scaled(sum, alpha, beta);
    }
}
