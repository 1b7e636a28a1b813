//! Gradients of filters of convolutions whose results have the size of their input, and of 1×1 filters with strides.
//! They need no workspace.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::backward_filter::MOST_SUMMED;
use crate::engines::engine::{Engine, Priority};
use crate::engines::problem::{FilterGradient, Memory, Slices};
use crate::engines::warpgroups::tile::{BLOCKS, DEPTH, MOST_STAGES, Tile};
use crate::engines::warpgroups::{GROUP, Images, MOST_COUNTED, is_gradient_for_warpgroups, launch_of};
use crate::problem::graph::Knob;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};
use kernels::KernelSource;

/// The bytes of an Mbarrier.
const MBARRIER: usize = 8;

/// How a cluster works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    tile: Tile,
    /// The blocks that share out the pixels.
    cluster: usize,
}

impl Tiling {
    /// The tiling for a device with this number of multiprocessors. A block may have `shared` bytes of shared memory,
    /// and a cluster `most_blocks` blocks. `None` if there is too little memory, or one sum would be of too many
    /// pixels.
    fn of(of: &FilterGradient, shared: usize, multiprocessors: usize, most_blocks: usize) -> Option<Self> {
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
}

/// The gradient of a filter.
#[derive(Clone, Copy, Debug)]
pub struct SameGradient {
    of: FilterGradient,
    tiling: Tiling,
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

impl Engine for SameGradient {
    type Problem = FilterGradient;
    const SOURCE: &'static KernelSource = &kernels::convolution::SAME_GRADIENT;
    const KERNELS: &'static [&'static CStr] = &[c"same_gradient"];
    const IS_KEPT: bool = true;

    fn priority(_: &FilterGradient) -> Priority {
        Priority::OnWarpgroups
    }

    fn new(device: Device, of: &FilterGradient, knobs: &[Knob]) -> Option<Self> {
        let ordinal = device.ordinal();
        let is_ours = knobs.is_empty()
            && is_gradient_for_warpgroups(of)
            && of.slices == Slices::ONE
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
        (tiling.tiles(of).saturating_mul(tiling.cluster) <= MOST_COUNTED).then_some(Self { of: *of, tiling })
    }

    fn problem(&self) -> &FilterGradient {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Self { of, tiling } = self;
        let stride = (of.stride > 1).then(|| format!("-DSTRIDE={}", of.stride));
        let own = [format!("-DFILTER={}", of.filter[0]), format!("-DCLUSTER={}", tiling.cluster)];
        [of.element.option().to_owned()].into_iter().chain(own).chain(stride).chain(tiling.tile.options()).collect()
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        kernels[0].allow_shared(self.tiling.shared_bytes() as u32)?;
        if self.tiling.cluster > 1 {
            kernels[0].allow_large_clusters()?;
        }
        Ok(())
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, tiling } = self;
        let Memory { x, w: dw, y: dy, .. } = memory;
        let [rows, channels] = [of.k, of.c].map(|count| count as i32);
        let [images, x_images] = [of.dy, of.x].map(|size| Images::of(of.images, size));
        let mut parameters = Parameters { x, dy, dw, images, x_images, rows, channels, alpha, beta };
        let launch = Launch {
            cluster: [tiling.cluster as u32, 1, 1],
            ..launch_of(tiling.tiles(of) * tiling.cluster, tiling.shared_bytes())
        };
        // SAFETY: `parameters` is the kernel's only parameter; the caller promises memory as large as the tensors.
        unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}
