//! Gradients of filters of convolutions whose results have the size of their input, and of 1×1 filters with strides.
//! They need no workspace.

use std::ffi::c_void;
use std::sync::Arc;

use super::tile::{BLOCKS, DEPTH, MOST_STAGES, Tile};
use super::{GROUP, Images, MOST_COUNTED, THREADS};
use crate::engines::backward_filter::{FilterGradient, GradientMemory, MOST_SUMMED, compute};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Launch, Source};
use gpu::{Device, Element, Stream};

/// The bytes of an Mbarrier.
const MBARRIER: usize = 8;

/// How a cluster works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    pub(super) tile: Tile,
    /// The blocks that share out the pixels.
    pub(super) cluster: usize,
}

impl Tiling {
    /// The tiling for a device with so many multiprocessors. A block may have `shared` bytes of shared memory, and a
    /// cluster `most_blocks` blocks. `None` if there is too little memory, or one sum would be of too many pixels.
    pub(super) fn of(of: &FilterGradient, shared: usize, multiprocessors: usize, most_blocks: usize) -> Option<Self> {
        let pixels = of.dy[0] * of.dy[1];
        let whole = Self { tile: Tile::of(of.k, pixels, MBARRIER, shared)?, cluster: 1 };
        let at_once = BLOCKS * multiprocessors;
        let stages = (of.images * pixels.div_ceil(GROUP)).div_ceil(DEPTH / GROUP);
        // As many blocks as run at once, each with some stages; more where a sum would be of too many pixels.
        let wanted = (at_once / whole.tiles(of)).min(stages / MOST_STAGES).max(1);
        let least = (of.images * pixels).div_ceil(MOST_SUMMED);
        let mut clusters = (0..).map(|power| 1 << power).take_while(|&blocks| blocks <= most_blocks.max(1));
        let cluster = clusters.clone().take_while(|&blocks| blocks <= wanted).last().unwrap_or(1);
        let cluster = clusters.find(|&blocks| blocks >= cluster.max(least))?;
        Some(Self { cluster, ..whole })
    }

    /// The number of clusters.
    fn tiles(&self, of: &FilterGradient) -> usize {
        let columns = of.c * of.filter[0] * of.filter[1];
        of.k.div_ceil(self.tile.rows()) * columns.div_ceil(self.tile.columns())
    }

    /// The shared memory of a block in bytes.
    fn shared_bytes(&self) -> usize {
        self.tile.shared_bytes() + MBARRIER
    }

    fn options(&self, of: &FilterGradient) -> Vec<String> {
        let stride = (of.stride > 1).then(|| format!("-DSTRIDE={}", of.stride));
        let own = [format!("-DFILTER={}", of.filter[0]), format!("-DCLUSTER={}", self.cluster)];
        [of.element.option().to_owned()].into_iter().chain(own).chain(stride).chain(self.tile.options()).collect()
    }
}

/// The code, by its compiler options. There are few.
static KNOWN: Loaded<Vec<String>, Option<Function>> = Loaded::kept();

/// The gradient of a filter on one device.
pub struct SameGradient {
    pub(super) of: FilterGradient,
    pub(super) tiling: Tiling,
    /// `None`: the host runs loops.
    pub(super) code: Arc<Option<Function>>,
}

/// The parameters of `kernels/convolution/same_gradient.cu`.
#[repr(C)]
struct Parameters {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    images: Images,
    x_images: Images,
    rows: i32,
    channels: i32,
    alpha: f32,
    beta: f32,
}

impl SameGradient {
    /// Returns whether our kernel computes the gradient on the calling thread's device.
    pub fn computes(device: Device, of: &FilterGradient) -> bool {
        Self::tiling(device, of).is_some()
    }

    fn tiling(device: Device, of: &FilterGradient) -> Option<Tiling> {
        let ordinal = device.ordinal();
        let is_ours = of.is_for_us()
            && of.element != Element::Float
            && of.filter == [2 * of.padding + 1; 2]
            && (of.stride == 1 || of.filter == [1, 1])
            // Tensors are whole reads of 8 elements.
            && of.k.is_multiple_of(8)
            && of.c.is_multiple_of(8)
            && device.has_warpgroup_products(ordinal);
        if !is_ours {
            return None;
        }
        let (shared, multiprocessors) = (device.shared_bytes(ordinal)?, device.multiprocessors(ordinal)?);
        let tiling = Tiling::of(of, shared, multiprocessors, device.cluster_blocks(ordinal))?;
        (tiling.tiles(of).saturating_mul(tiling.cluster) <= MOST_COUNTED).then_some(tiling)
    }

    /// Prepares a gradient on the calling thread's device. Compiles at the first call for its kind, which may take a
    /// second; do not call it under capture. `Err` says why there is no kernel.
    pub fn new(device: Device, of: FilterGradient) -> Result<Self, String> {
        let tiling = Self::tiling(device, &of).ok_or("no kernel of ours computes it")?;
        let code = KNOWN.get(device, tiling.options(&of), || match device {
            Device::Host => Ok(None),
            Device::Cuda => compiled(device, &of, &tiling).map(Some),
        })?;
        Ok(Self { of, tiling, code })
    }

    /// dw = `alpha` · gradient + `beta` · dw, where a `beta` of 0 leaves dw unread. Returns whether it was launched.
    ///
    /// # Safety
    /// All pointers are device memory as large as the tensors, aligned to 16 bytes; dw overlaps nothing else. The stream
    /// belongs to the same device.
    pub unsafe fn run(&self, stream: Stream, memory: GradientMemory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling, code } = self;
        let Some(function) = &**code else {
            // SAFETY: the caller promises memory as large as the tensors, which is host memory on this device.
            unsafe { compute(of, memory, alpha, beta) };
            return true;
        };
        let GradientMemory { x, dy, dw, .. } = memory;
        let [rows, channels] = [of.k, of.c].map(|count| count as i32);
        let [images, x_images] = [of.dy, of.x].map(|size| Images::of(of.images, size));
        let mut parameters = Parameters { x, dy, dw, images, x_images, rows, channels, alpha, beta };
        let launch = Launch {
            grid: [(tiling.tiles(of) * tiling.cluster) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            cluster: [tiling.cluster as u32, 1, 1],
            shared_bytes: tiling.shared_bytes() as u32,
            ..Launch::default()
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { function.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}

pub(super) fn source(of: &FilterGradient, tiling: &Tiling) -> Source {
    Source::new(&kernels::convolution::SAME_GRADIENT, tiling.options(of))
}

pub(super) fn compiled(device: Device, of: &FilterGradient, tiling: &Tiling) -> Result<Function, String> {
    let compile = || {
        let function = device.load(&source(of, tiling))?.function(c"same_gradient")?;
        function.allow_shared(tiling.shared_bytes() as u32)?;
        if tiling.cluster > 1 {
            function.allow_large_clusters()?;
        }
        Ok(function)
    };
    compile().map_err(|error: gpu::jit::Error| error.to_string())
}
