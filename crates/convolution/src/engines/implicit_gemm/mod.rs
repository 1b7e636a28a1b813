//! Convolutions, and their inputs' gradients, on tensor cores by a kernel of ours, which reads NCHW as it is and needs no
//! workspace: cuDNN's engines convert both tensors first, in a workspace of their size. Floats may be multiplied as such:
//! cuDNN's engines that do so are on no tensor cores, or transform the tensors in a workspace several times their size.

#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;
use half::{bf16, f16};

use crate::engines::elements::{self, Element};
use crate::engines::for_each_device::ForEachDevice;
use crate::engines::tiles::pitch_of;
use gpu::jit::{Function, Launch, Source};
use gpu::{Device, Stream};

/// Rows of a block's product, and threads, as `kernels/implicit_gemm.cu` has them.
const ROW_TILE: usize = 64;
const THREADS: usize = 256;
/// Columns of its product, and blocks that share a multiprocessor: of filters of one place, and of larger ones.
const COLUMNS: [usize; 2] = [128, 256];
const BLOCKS: [usize; 2] = [2, 1];
/// Bytes of shared memory that a block takes besides its own.
const RESERVED: usize = 1 << 10;
/// Channels that a block works on at once, of filters of one place; of larger ones it is what tensor cores take, in bytes.
const DEPTH_OF_ONE_PLACE: usize = 32;
const DEPTH_BYTES: usize = 32;
/// Of what is copied at once, in bytes.
const ACCESSES: [usize; 4] = [16, 8, 4, 2];
/// Depths in shared memory: one that is worked on, and one or two that are copied.
const STAGES: [usize; 2] = [3, 2];
/// The largest filter: of larger ones shared memory does not hold two depths.
const MOST_PLACES_ACROSS: usize = 5;
/// Fewer channels on either side leave most of a block's work undone.
const LEAST_DEPTH: usize = 16;
const LEAST_ROWS: usize = 32;
/// The most blocks.
const MOST_COUNTED: usize = 1 << 30;
/// Rounds of blocks of which the last one may be nearly empty.
const MANY_ROUNDS: usize = 8;
/// As many exact products take as long as one thing that is copied. Only what is best of several tiles is found by this.
const PRODUCTS_OF_AN_ACCESS: usize = 40;

/// Sums of products of images and filters, packed: out\[n\]\[m\]\[p\]\[q\] = Σ over d, r, s of v\[m\]\[d\]\[r\]\[s\] ·
/// in\[n\]\[d\]\[p · stride + r - padding\]\[q · stride + s - padding\]. Of a convolution v is the filter w. Of its input's
/// gradient m are the convolution's inputs and d its outputs: v\[m\]\[d\]\[r\]\[s\] is w\[d\]\[m\] from its last place on
/// backwards, and the padding what the filter's rows reach beyond the convolution's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// Of all three tensors: half, bfloat16, or float.
    pub data_type: cudnnDataType_t,
    /// Whether floats are multiplied as such, and not in TF32. Of no other type.
    pub is_exact: bool,
    /// Whether it is the gradient of a convolution's input.
    pub is_gradient: bool,
    /// n
    pub images: usize,
    /// d: channels of what is read.
    pub depth: usize,
    /// m: channels of what is written.
    pub rows: usize,
    /// Rows and columns of the images that are read.
    pub from: [usize; 2],
    /// Rows p and columns q of those that are written.
    pub to: [usize; 2],
    /// Rows r and columns s of the filter, of which there are as many.
    pub filter: usize,
    /// Both ways.
    pub stride: usize,
    /// Zeros above the images and on their left.
    pub padding: usize,
}

impl Correlation {
    /// Whether the kernel computes it, and there is enough to be done.
    fn is_for_us(&self) -> bool {
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let counts = [
            product(&[self.images, self.depth, self.from[0], self.from[1]]),
            product(&[self.images, self.rows, self.to[0], self.to[1]]),
            product(&[self.rows, self.depth, self.filter, self.filter]),
        ];
        // What is beside a tensor is counted too.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 31).contains(&count));
        let is_small = |lengths: &[usize; 2]| lengths.iter().all(|length| *length < 1 << 28);
        elements::TYPES.contains(&self.data_type)
            && (!self.is_exact || self.data_type == CUDNN_DATA_FLOAT)
            && self.filter % 2 == 1
            && self.filter <= MOST_PLACES_ACROSS
            && self.padding < self.filter
            && (1..=2).contains(&self.stride)
            && !(self.is_gradient && self.stride > 1)
            && self.depth >= LEAST_DEPTH
            && self.rows >= LEAST_ROWS
            && is_small(&self.from)
            && is_small(&self.to)
            && counts.into_iter().all(is_counted)
    }

    /// The same where images of one row are: pixels that do not have to be told from each other's rows.
    fn flattened(self) -> Self {
        let one_row = |[rows, columns]: [usize; 2]| [1, rows * columns];
        match (self.filter, self.stride) {
            (1, 1) if self.from == self.to => Self { from: one_row(self.from), to: one_row(self.to), ..self },
            _ => self,
        }
    }

    /// Of the pairs of constants above, which.
    fn kind(&self) -> usize {
        usize::from(self.filter > 1)
    }

    fn places(&self) -> usize {
        self.filter * self.filter
    }

    /// Bytes of an element.
    fn element(&self) -> usize {
        elements::bytes(self.data_type)
    }

    /// Channels d that a block works on at once.
    fn depth_at_once(&self) -> usize {
        if self.filter == 1 { DEPTH_OF_ONE_PLACE } else { DEPTH_BYTES / self.element() }
    }

    /// Products that one is computed by.
    fn products(&self) -> usize {
        if self.is_exact { 3 } else { 1 }
    }

    /// Elements of a channel's filters.
    fn filters(&self) -> usize {
        self.places() * if self.is_gradient { self.rows } else { self.depth }
    }
}

/// What a block works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    images: usize,
    /// Of the images that are written.
    rows: usize,
    columns: usize,
    /// Elements that are copied at once, of images and of filters.
    image_access: usize,
    filter_access: usize,
    stages: usize,
}

impl Tiling {
    /// The best on so many multiprocessors, each of which has `shared` bytes of memory for a block.
    fn of(correlation: &Correlation, shared: usize, multiprocessors: usize) -> Option<Self> {
        let Correlation { images, from, to: [p, q], stride, .. } = *correlation;
        let (most, blocks) = (COLUMNS[correlation.kind()], BLOCKS[correlation.kind()]);
        let accesses = ACCESSES.map(|bytes| bytes / correlation.element());
        let access_of =
            |length: usize| accesses.into_iter().find(|access| *access > 0 && length.is_multiple_of(*access));
        let (image_access, filter_access) = (access_of(from[1])?, access_of(correlation.filters())?);
        let mut best: Option<(usize, Self)> = None;
        // Accesses are aligned where tiles begin.
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

    /// Blocks that there are.
    fn blocks(&self, correlation: &Correlation) -> usize {
        let Correlation { images, rows, to: [p, q], .. } = *correlation;
        let pixels = images.div_ceil(self.images) * p.div_ceil(self.rows) * q.div_ceil(self.columns);
        pixels.saturating_mul(rows.div_ceil(ROW_TILE))
    }

    /// What they cost where so many run at once, in products for DEPTH channels.
    fn costs(&self, correlation: &Correlation, at_once: usize) -> usize {
        let (depth, places) = (correlation.depth_at_once(), correlation.places());
        let [x_rows, x_columns] = self.image(correlation);
        let images = self.images * depth * x_rows * x_columns / self.image_access;
        let filters = ROW_TILE * depth * places / self.filter_access;
        let products = ROW_TILE * COLUMNS[correlation.kind()] * depth * places * correlation.products() / 3;
        let costs = products + (images + filters) * PRODUCTS_OF_AN_ACCESS;
        // Kernels of other channels are to have the same tiles, and code, unless it matters how the last round is filled.
        match self.blocks(correlation) {
            blocks if blocks >= MANY_ROUNDS * at_once => blocks.saturating_mul(costs),
            blocks => blocks.next_multiple_of(at_once).saturating_mul(costs),
        }
    }

    /// Rows and columns of an image in shared memory, as the kernel lays it out.
    fn image(&self, correlation: &Correlation) -> [usize; 2] {
        let Correlation { filter, stride, padding, .. } = *correlation;
        let left = padding.next_multiple_of(self.image_access);
        let columns = (self.columns - 1) * stride + left - padding + filter;
        [(self.rows - 1) * stride + filter, columns.next_multiple_of(self.image_access)]
    }

    /// Of a block, as the kernel lays it out.
    fn shared_bytes(&self, correlation: &Correlation) -> usize {
        let (depth, places, element) = (correlation.depth_at_once(), correlation.places(), correlation.element());
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
        let element = elements::option(correlation.data_type);
        let exact = correlation.is_exact.then_some("-DEXACT");
        let gradient = is_gradient.then_some("-DGRADIENT");
        let names = [element].into_iter().chain(exact).chain(gradient).map(str::to_owned);
        values.into_iter().map(|(name, value)| format!("-D{name}={value}")).chain(names).collect()
    }
}

enum Code {
    /// Loops of this file.
    Host,
    Compiled(Function),
}

/// By what it is compiled with.
static KNOWN: ForEachDevice<Vec<String>, Code> = ForEachDevice::while_used();

/// A correlation on one device.
pub struct ImplicitGemm {
    of: Correlation,
    tiling: Tiling,
    code: Arc<Code>,
}

/// `kernels/implicit_gemm.cu`'s.
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

/// What a correlation is computed from, aligned to 16 bytes, and where it goes.
#[derive(Clone, Copy)]
pub struct CorrelationMemory {
    /// The filter.
    pub w: *const c_void,
    /// Images.
    pub from: *const c_void,
    /// Others.
    pub to: *mut c_void,
}

impl ImplicitGemm {
    /// Whether it is computed here, on the calling thread's device.
    pub fn computes(device: Device, of: &Correlation) -> bool {
        Self::tiling(device, of).is_some()
    }

    /// Also what is best computed in its place.
    fn tiling(device: Device, of: &Correlation) -> Option<(Correlation, Tiling)> {
        if !of.is_for_us() || !device.copies_asynchronously(device.ordinal()) {
            return None;
        }
        let of = of.flattened();
        let multiprocessors = device.multiprocessors(device.ordinal())?;
        let tiling = Tiling::of(&of, device.shared_bytes(device.ordinal())?, multiprocessors)?;
        (tiling.blocks(&of) <= MOST_COUNTED).then_some((of, tiling))
    }

    /// On the calling thread's device. Compiles at the first call for such filters and tiles, which may take a second; not to
    /// be called under capture. `Err` says why there is none.
    pub fn new(device: Device, of: Correlation) -> Result<Self, String> {
        let (of, tiling) = Self::tiling(device, &of).ok_or("no kernel of ours computes it")?;
        let code = KNOWN.get(device, tiling.options(&of), || match device {
            Device::Host => Ok(Code::Host),
            Device::Cuda => Code::compiled(device, &of, &tiling),
        })?;
        Ok(Self { of, tiling, code })
    }

    /// Whether it is the gradient of a convolution's input.
    pub fn is_gradient(&self) -> bool {
        self.of.is_gradient
    }

    /// out = `alpha` · sums + `beta` · out; where `beta` is 0 out is not read. Whether that was launched.
    ///
    /// # Safety
    /// All is memory of the device, as large as the tensors; what is written overlaps nothing else. The stream is of that
    /// device.
    pub unsafe fn run(&self, stream: Stream, memory: CorrelationMemory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling, code } = self;
        let function = match &**code {
            Code::Host => {
                // SAFETY: as ours.
                unsafe { compute(of, memory, alpha, beta) };
                return true;
            }
            Code::Compiled(function) => function,
        };
        let CorrelationMemory { w, from, to } = memory;
        let [images, depth, rows, height, width, p, q] =
            [of.images, of.depth, of.rows, of.from[0], of.from[1], of.to[0], of.to[1]].map(|count| count as i32);
        let mut parameters = Parameters { w, from, to, images, depth, rows, height, width, p, q, alpha, beta };
        let launch = Launch {
            grid: [tiling.blocks(of) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: tiling.shared_bytes(of) as u32,
            ..Launch::default()
        };
        // SAFETY: the kernel's one parameter, and memory as ours.
        unsafe { function.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}

impl Code {
    fn source(of: &Correlation, tiling: &Tiling) -> Source {
        Source::new(&kernels::convolution::IMPLICIT_GEMM, tiling.options(of))
    }

    fn compiled(device: Device, of: &Correlation, tiling: &Tiling) -> Result<Self, String> {
        let compile = || {
            let function = device.load(&Self::source(of, tiling))?.function(c"implicit_gemm")?;
            function.allow_shared(tiling.shared_bytes(of) as u32)?;
            Ok(Self::Compiled(function))
        };
        compile().map_err(|error: gpu::jit::Error| error.to_string())
    }
}

/// # Safety
/// As for [`ImplicitGemm::run`], in the host's memory.
unsafe fn compute(of: &Correlation, memory: CorrelationMemory, alpha: f32, beta: f32) {
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
unsafe fn compute_in<T: Element>(of: &Correlation, memory: CorrelationMemory, alpha: f32, beta: f32) {
    let Correlation { images, depth, rows, from: [height, width], to: [p, q], filter, .. } = *of;
    let places = of.places();
    // SAFETY: as ours.
    let (w, from, to) = unsafe {
        (
            std::slice::from_raw_parts(memory.w.cast::<T>(), rows * depth * places),
            std::slice::from_raw_parts(memory.from.cast::<T>(), images * depth * height * width),
            std::slice::from_raw_parts_mut(memory.to.cast::<T>(), images * rows * p * q),
        )
    };
    // Where a place of the result finds its own, if that is no zero beside the image.
    let below =
        |at: usize, by: usize, length: usize| (at * of.stride + by).checked_sub(of.padding).filter(|it| *it < length);
    for (index, to) in to.iter_mut().enumerate() {
        let (column, row, m, n) = (index % q, index / q % p, index / (q * p) % rows, index / (q * p * rows));
        let mut sum = 0.0;
        for d in 0..depth {
            let from = &from[(n * depth + d) * height * width..][..height * width];
            let w = match of.is_gradient {
                true => &w[(d * rows + m) * places..][..places],
                false => &w[(m * depth + d) * places..][..places],
            };
            for (r, h) in (0..filter).filter_map(|r| Some((r, below(row, r, height)?))) {
                for (s, x) in (0..filter).filter_map(|s| Some((s, below(column, s, width)?))) {
                    let place = r * filter + s;
                    let w = w[if of.is_gradient { places - 1 - place } else { place }];
                    sum += f64::from(w.to_f32()) * f64::from(from[h * width + x].to_f32());
                }
            }
        }
        to.add_scaled(sum, alpha, beta);
    }
}
