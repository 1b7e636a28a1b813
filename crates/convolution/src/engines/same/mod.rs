//! Convolutions whose results have the size of their input, and their gradients, on the tensor cores of warpgroups, by our
//! own kernels. They read NCHW directly, whatever the alignment of an image's rows, and need no workspace. cuDNN's engines
//! first convert both tensors.

mod gradient;
#[cfg(test)]
mod tests;

pub use gradient::SameGradient;

use std::ffi::c_void;
use std::sync::Arc;

use crate::engines::implicit_gemm::{Correlation, CorrelationMemory, compute};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Launch, Source};
use gpu::{Device, Element, Stream};

/// Threads of a block, and its warpgroups, as in `kernels/convolution/same.cu`.
const THREADS: usize = 256;
const WARPGROUPS: usize = 2;
/// Rows and columns of a warpgroup's product.
const ROWS: usize = 64;
const COLUMNS: usize = 128;
/// The pixels of a group.
const GROUP: usize = 8;
/// The depth of a stage: filters and neighbours of a pixel; of a filter's gradient, pixels.
const DEPTH: usize = 64;
/// The blocks that share a multiprocessor with enough memory, and the bytes of shared memory that each takes in addition to its own.
const BLOCKS: usize = 2;
const RESERVED: usize = 1 << 10;
/// What a block loses to begin its memory at a multiple of this.
const ALIGNMENT: usize = 1 << 10;
/// The most and the fewest stages: one in use, the others in flight.
const MOST_STAGES: usize = 4;
const LEAST_STAGES: usize = 2;
/// The elements of one copy of images, if not 1.
const ACCESSES: [usize; 3] = [8, 4, 2];
/// The most blocks of a launch.
const MOST_COUNTED: usize = 1 << 30;

/// The elements of one copy, for images of so many pixels.
fn access_of(pixels: usize) -> usize {
    ACCESSES.into_iter().find(|access| pixels.is_multiple_of(*access)).unwrap_or(1)
}

/// How a block works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// The warpgroups that share out its rows; the others share out its columns.
    row_warpgroups: usize,
    stages: usize,
    /// The elements of one copy of images.
    access: usize,
}

impl Tiling {
    /// A tiling for this many bytes of shared memory of a multiprocessor's block. `None` if there are too few.
    fn of(of: &Correlation, shared: usize) -> Option<Self> {
        let row_warpgroups = if of.rows > ROWS { WARPGROUPS } else { 1 };
        let access = access_of(of.from[0] * of.from[1]);
        let at_stages = |stages| Self { row_warpgroups, stages, access };
        let fits = |tiling: &Self, blocks: usize| blocks * (tiling.shared_bytes() + RESERVED) <= shared + RESERVED;
        let of_blocks = |blocks| (LEAST_STAGES..=MOST_STAGES).rev().map(at_stages).find(|tiling| fits(tiling, blocks));
        of_blocks(BLOCKS).or_else(|| of_blocks(1))
    }

    fn rows(&self) -> usize {
        ROWS * self.row_warpgroups
    }

    fn columns(&self) -> usize {
        COLUMNS * (WARPGROUPS / self.row_warpgroups)
    }

    /// The shared memory of a block in bytes.
    fn shared_bytes(&self) -> usize {
        // Elements have 2 bytes.
        ALIGNMENT + self.stages * (self.rows() + self.columns()) * DEPTH * 2
    }

    /// The number of blocks.
    fn blocks(&self, of: &Correlation) -> usize {
        let groups = (of.from[0] * of.from[1]).div_ceil(GROUP).saturating_mul(of.images);
        groups.div_ceil(self.columns() / GROUP).saturating_mul(of.rows.div_ceil(self.rows()))
    }

    fn options(&self, of: &Correlation) -> Vec<String> {
        let values = [
            ("FILTER", of.filter),
            ("ROW_WARPGROUPS", self.row_warpgroups),
            ("STAGES", self.stages),
            ("ACCESS", self.access),
        ];
        let gradient = of.is_gradient.then(|| "-DGRADIENT".to_owned());
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        [of.element.option().to_owned()].into_iter().chain(values).chain(gradient).collect()
    }
}

/// The code, by its compiler options. There are few.
static KNOWN: Loaded<Vec<String>, Option<Function>> = Loaded::kept();

/// A convolution whose result has the size of its input, or an input gradient, on one device.
pub struct SameConvolution {
    of: Correlation,
    tiling: Tiling,
    /// `None`: the host runs loops.
    code: Arc<Option<Function>>,
}

/// Twin of `Images` in `kernels/convolution/groups.cuh`.
#[repr(C)]
struct Images {
    count: i32,
    height: i32,
    width: i32,
}

impl Images {
    fn of(count: usize, [height, width]: [usize; 2]) -> Self {
        Self { count: count as i32, height: height as i32, width: width as i32 }
    }
}

/// The parameters of `kernels/convolution/same.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: Images,
    channels: i32,
    rows: i32,
    alpha: f32,
    beta: f32,
}

impl SameConvolution {
    /// Returns whether our kernel computes the correlation on the calling thread's device.
    pub fn computes(device: Device, of: &Correlation) -> bool {
        Self::tiling(device, of).is_some()
    }

    fn tiling(device: Device, of: &Correlation) -> Option<Tiling> {
        // Filters are read 8 at once.
        let along = if of.is_gradient { of.rows } else { of.depth };
        let is_ours = of.is_for_us()
            && of.element != Element::Float
            && (of.stride, of.padding) == (1, of.filter / 2)
            && of.from == of.to
            && of.depth.is_multiple_of(8)
            && along.is_multiple_of(8)
            && device.has_warpgroup_products(device.ordinal());
        let tiling = is_ours.then(|| Tiling::of(of, device.shared_bytes(device.ordinal())?)).flatten()?;
        (tiling.blocks(of) <= MOST_COUNTED).then_some(tiling)
    }

    /// Prepares a correlation on the calling thread's device. Compiles at the first call for its kind, which may take a
    /// second; do not call it under capture. `Err` says why there is no kernel.
    pub fn new(device: Device, of: Correlation) -> Result<Self, String> {
        let tiling = Self::tiling(device, &of).ok_or("no kernel of ours computes it")?;
        let code = KNOWN.get(device, tiling.options(&of), || match device {
            Device::Host => Ok(None),
            Device::Cuda => compiled(device, &of, &tiling).map(Some),
        })?;
        Ok(Self { of, tiling, code })
    }

    /// out = `alpha` · sums + `beta` · out, where a `beta` of 0 leaves out unread. Returns whether it was launched.
    ///
    /// # Safety
    /// All pointers are device memory as large as the tensors, aligned to 16 bytes; the output overlaps nothing else. The
    /// stream belongs to the same device.
    pub unsafe fn run(&self, stream: Stream, memory: CorrelationMemory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling, code } = self;
        let Some(function) = &**code else {
            // SAFETY: the caller promises memory as large as the tensors, which is host memory on this device.
            unsafe { compute(of, memory, alpha, beta) };
            return true;
        };
        let CorrelationMemory { w, from, to } = memory;
        let [channels, rows] = [of.depth, of.rows].map(|count| count as i32);
        let images = Images::of(of.images, of.from);
        let mut parameters = Parameters { w, from, to, images, channels, rows, alpha, beta };
        let launch = Launch {
            grid: [tiling.blocks(of) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: tiling.shared_bytes() as u32,
            ..Launch::default()
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { function.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}

fn source(of: &Correlation, tiling: &Tiling) -> Source {
    Source::new(&kernels::convolution::SAME, tiling.options(of))
}

fn compiled(device: Device, of: &Correlation, tiling: &Tiling) -> Result<Function, String> {
    let compile = || {
        let function = device.load(&source(of, tiling))?.function(c"same")?;
        function.allow_shared(tiling.shared_bytes() as u32)?;
        Ok(function)
    };
    compile().map_err(|error: gpu::jit::Error| error.to_string())
}
