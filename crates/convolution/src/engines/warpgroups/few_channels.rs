//! Convolutions of images with few channels, such as a network's first layer. They need no workspace.

use std::ffi::c_void;
use std::sync::Arc;

use super::tile::Tile;
use super::{GROUP, Images, MOST_COUNTED, THREADS};
use crate::engines::implicit_gemm::{Correlation, CorrelationMemory, compute};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Launch, Source};
use gpu::{Device, Element, Stream};

/// The most channels of the images. With more, other engines waste less.
const MOST_CHANNELS: usize = 8;
/// The largest filter side, stride and padding: each combination is compiled.
const MOST_PLACES_ACROSS: usize = 16;
const MOST_STRIDE: usize = 8;

/// A convolution of images with few channels, on one device.
pub struct FewChannels {
    pub(super) of: Correlation,
    pub(super) tile: Tile,
    /// `None`: the host runs loops.
    pub(super) code: Arc<Option<Function>>,
}

/// The code, by its compiler options. There are few.
static KNOWN: Loaded<Vec<String>, Option<Function>> = Loaded::kept();

/// The parameters of `kernels/convolution/few_channels.cu`.
#[repr(C)]
struct Parameters {
    w: *const c_void,
    from: *const c_void,
    to: *mut c_void,
    images: Images,
    height: i32,
    width: i32,
    channels: i32,
    rows: i32,
    alpha: f32,
    beta: f32,
}

/// The number of blocks.
fn blocks(of: &Correlation, tile: &Tile) -> usize {
    let groups = (of.to[0] * of.to[1]).div_ceil(GROUP).saturating_mul(of.images);
    groups.div_ceil(tile.columns() / GROUP).saturating_mul(of.rows.div_ceil(tile.rows()))
}

fn options(of: &Correlation, tile: &Tile) -> Vec<String> {
    let values = [("FILTER", of.filter), ("STRIDE", of.stride), ("PADDING", of.padding)];
    let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
    // Reads of two numbers are then aligned, and both are in the image or neither is.
    let words = (of.from[1].is_multiple_of(2) && of.stride.is_multiple_of(2)).then(|| "-DWORDS".to_owned());
    [of.element.option().to_owned()].into_iter().chain(values).chain(words).chain(tile.options()).collect()
}

impl FewChannels {
    /// Returns whether our kernel computes the correlation on the calling thread's device.
    pub fn computes(device: Device, of: &Correlation) -> bool {
        Self::tile(device, of).is_some()
    }

    fn tile(device: Device, of: &Correlation) -> Option<Tile> {
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let counts = [
            product(&[of.images, of.depth, of.from[0], of.from[1]]),
            product(&[of.images, of.rows, of.to[0], of.to[1]]),
            product(&[of.rows, of.depth, of.filter, of.filter]),
        ];
        // The kernel also counts positions beside a tensor, so there is room for them.
        let is_counted = |count: Option<usize>| count.is_some_and(|count| (1..1 << 30).contains(&count));
        let is_ours = of.element != Element::Float
            && !of.is_gradient
            && of.depth <= MOST_CHANNELS
            && (1..=MOST_PLACES_ACROSS).contains(&of.filter)
            && (1..=MOST_STRIDE).contains(&of.stride)
            && of.padding < of.filter
            && counts.into_iter().all(is_counted)
            && device.has_warpgroup_products(device.ordinal());
        let shared = is_ours.then(|| device.shared_bytes(device.ordinal())).flatten()?;
        let pixels = of.to[0] * of.to[1];
        let tile = Tile::of(of.rows, pixels, 0, shared).filter(|tile| tile.has_results_of(pixels))?;
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
        let [channels, rows, height, width] = [of.depth, of.rows, of.from[0], of.from[1]].map(|count| count as i32);
        let images = Images::of(of.images, of.to);
        let mut parameters = Parameters { w, from, to, images, height, width, channels, rows, alpha, beta };
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
    Source::new(&kernels::convolution::FEW_CHANNELS, options(of, tile))
}

pub(super) fn compiled(device: Device, of: &Correlation, tile: &Tile) -> Result<Function, String> {
    let compile = || {
        let function = device.load(&source(of, tile))?.function(c"few_channels")?;
        function.allow_shared(tile.shared_bytes() as u32)?;
        Ok(function)
    };
    compile().map_err(|error: gpu::jit::Error| error.to_string())
}
