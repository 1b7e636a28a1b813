//! Convolutions whose results have the size of their input, their input gradients, and convolutions by 1×1 filters with
//! strides. They need no workspace.

use std::ffi::c_void;
use std::sync::Arc;

use super::tile::Tile;
use super::{GROUP, Images, MOST_COUNTED, THREADS, is_for_warpgroups, is_same};
use crate::engines::implicit_gemm::{Correlation, CorrelationMemory, compute};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Launch, Source};
use gpu::{Device, Stream};

/// The tile of a block for a correlation. `None` if a block has too few bytes of shared memory,
/// or images are too small.
pub(super) fn tile(of: &Correlation, shared: usize) -> Option<Tile> {
    let pixels = of.to[0] * of.to[1];
    Tile::of(of.rows, pixels, 0, shared).filter(|tile| tile.has_results_of(pixels))
}

/// The number of blocks.
fn blocks(of: &Correlation, tile: &Tile) -> usize {
    let groups = (of.to[0] * of.to[1]).div_ceil(GROUP).saturating_mul(of.images);
    groups.div_ceil(tile.columns() / GROUP).saturating_mul(of.rows.div_ceil(tile.rows()))
}

fn options(of: &Correlation, tile: &Tile) -> Vec<String> {
    let gradient = of.is_gradient.then(|| "-DGRADIENT".to_owned());
    let stride = (of.stride > 1).then(|| format!("-DSTRIDE={}", of.stride));
    let own = [of.element.option().to_owned(), format!("-DFILTER={}", of.filter)];
    own.into_iter().chain(stride).chain(tile.options()).chain(gradient).collect()
}

/// The code, by its compiler options. There are few.
static KNOWN: Loaded<Vec<String>, Option<Function>> = Loaded::kept();

/// A convolution whose result has the size of its input, or an input gradient, or a convolution by a 1×1 filter with
/// strides, on one device.
pub struct SameConvolution {
    pub(super) of: Correlation,
    pub(super) tile: Tile,
    /// `None`: the host runs loops.
    pub(super) code: Arc<Option<Function>>,
}

/// The parameters of `kernels/convolution/same.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: Images,
    from_images: Images,
    channels: i32,
    rows: i32,
    alpha: f32,
    beta: f32,
}

impl SameConvolution {
    /// Returns whether our kernel computes the correlation on the calling thread's device.
    pub fn computes(device: Device, of: &Correlation) -> bool {
        Self::tile(device, of).is_some()
    }

    fn tile(device: Device, of: &Correlation) -> Option<Tile> {
        // Filters are read 8 at once.
        let along = if of.is_gradient { of.rows } else { of.depth };
        let is_sample = is_for_warpgroups(device, of) && (of.filter, of.padding) == (1, 0);
        let is_ours = (is_same(device, of) || is_sample) && of.depth.is_multiple_of(8) && along.is_multiple_of(8);
        let tile = is_ours.then(|| tile(of, device.shared_bytes(device.ordinal())?)).flatten()?;
        (blocks(of, &tile) <= MOST_COUNTED).then_some(tile)
    }

    /// Prepares a correlation on the calling thread's device. Compiles at the first call for its kind, which may take a
    /// second; do not call it under capture. `Err` says why there is no kernel.
    pub fn new(device: Device, of: Correlation) -> Result<Self, String> {
        let tile = Self::tile(device, &of).ok_or("no kernel of ours computes it")?;
        let code = KNOWN.get(device, options(&of, &tile), || match device {
            Device::Host => Ok(None),
            Device::Cuda => compiled(device, &of, &tile).map(Some),
        })?;
        Ok(Self { of, tile, code })
    }

    /// Returns whether this is an input gradient.
    pub fn is_gradient(&self) -> bool {
        self.of.is_gradient
    }

    /// out = `alpha` · sums + `beta` · out, where a `beta` of 0 leaves out unread. Returns whether it was launched.
    ///
    /// # Safety
    /// All pointers are device memory as large as the tensors, aligned to 16 bytes; the output overlaps nothing else. The
    /// stream belongs to the same device.
    pub unsafe fn run(&self, stream: Stream, memory: CorrelationMemory, alpha: f32, beta: f32) -> bool {
        let Self { of, tile, code } = self;
        let Some(function) = &**code else {
            // SAFETY: the caller promises memory as large as the tensors, which is host memory on this device.
            unsafe { compute(of, memory, alpha, beta) };
            return true;
        };
        let CorrelationMemory { w, from, to } = memory;
        let [channels, rows] = [of.depth, of.rows].map(|count| count as i32);
        let [images, from_images] = [of.to, of.from].map(|size| Images::of(of.images, size));
        let mut parameters = Parameters { w, from, to, images, from_images, channels, rows, alpha, beta };
        let launch = Launch {
            grid: [blocks(of, tile) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: tile.shared_bytes() as u32,
            ..Launch::default()
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { function.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}

pub(super) fn source(of: &Correlation, tile: &Tile) -> Source {
    Source::new(&kernels::convolution::SAME, options(of, tile))
}

pub(super) fn compiled(device: Device, of: &Correlation, tile: &Tile) -> Result<Function, String> {
    let compile = || {
        let function = device.load(&source(of, tile))?.function(c"same")?;
        function.allow_shared(tile.shared_bytes() as u32)?;
        Ok(function)
    };
    compile().map_err(|error: gpu::jit::Error| error.to_string())
}
