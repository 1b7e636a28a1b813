//! Filter gradients on tensor cores by our own kernel, which reads NCHW directly. cuDNN's engines first convert both
//! tensors, in a workspace as large as the tensors.

mod gradient;
mod parts;
#[cfg(test)]
mod tests;
mod tiling;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority, is_short};
use crate::engines::problem::Memory;
use crate::engines::sum_up::Sum;
use crate::problem::graph::Knob;
use gpu::jit::Function;
use gpu::{Device, Stream};
use gradient::GroupedGradient;
use kernels::KernelSource;
use parts::Parts;
pub use tiling::MOST_SUMMED;
use tiling::{Tiling, multiprocessors_of_clusters};

/// The largest number of pixel tiles, and of blocks.
const MOST_COUNTED: usize = 1 << 30;
/// The largest cluster that every device with clusters supports for small enough blocks.
const PORTABLE_CLUSTER: usize = 8;

/// Filter gradients on tensor cores.
#[derive(Clone, Copy, Debug)]
pub struct BackwardFilterGemm {
    of: GroupedGradient,
    parts: Parts,
    tiling: Tiling,
}

/// The parameters of `kernels/convolution/backward_filter.cu`'s gradient kernel.
#[repr(C)]
struct Gradient {
    x: *const c_void,
    dy: *const c_void,
    dw: *mut c_void,
    images: i32,
    groups: i32,
    k: i32,
    c: i32,
    slices: i32,
    height: i32,
    width: i32,
    z: i32,
    p: i32,
    q: i32,
    splits: i32,
    alpha: f32,
    beta: f32,
}

impl BackwardFilterGemm {
    /// The best divisions of a gradient's pixels on the calling thread's device, within `limit` bytes of workspace. The
    /// fastest comes first; the best in smaller clusters and the best without clusters follow, in case the device
    /// supports no clusters that large. Empty if our kernel does not compute the gradient or would be too inexact.
    fn best_parts(device: Device, of: &GroupedGradient, limit: usize) -> Vec<Parts> {
        let multiprocessors = device.multiprocessors(device.ordinal());
        let shared = device.shared_bytes(device.ordinal());
        let whole = Self::tiling(device, of, Parts::InWorkspace(1));
        let (Some(multiprocessors), Some(shared), Some(whole)) = (multiprocessors, shared, whole) else {
            return vec![];
        };
        let least = of.images.saturating_mul(of.dy.iter().product()).div_ceil(MOST_SUMMED * of.pixel_warps());
        let bytes = of.elements() * size_of::<f32>();
        let most = (limit / bytes).min(2 * multiprocessors).min(whole.tiles(of)).max(1);
        let in_workspace = (least..=most).map(|count| (Parts::InWorkspace(count), whole));

        let tiled = |parts| Some((parts, Tiling::of(of, parts, shared)?));
        let in_clusters = Parts::in_clusters(of, Self::most_in_a_cluster(device)).filter_map(tiled);
        let in_clusters = in_clusters.filter(|(parts, tiling)| {
            parts.count() <= tiling.tiles(of) && (parts.count() >= least || tiling.has_totals())
        });

        let timed = in_workspace.chain(in_clusters);
        let mut timed: Vec<_> =
            timed.map(|(parts, tiling)| (parts, tiling.microseconds(of, parts, multiprocessors))).collect();
        timed.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let best_within = |cluster| timed.iter().map(|(parts, _)| *parts).find(|parts| parts.cluster() <= cluster);
        let mut best: Vec<_> = [usize::MAX, PORTABLE_CLUSTER, 1].into_iter().filter_map(best_within).collect();
        best.dedup();
        best
    }

    fn most_in_a_cluster(device: Device) -> usize {
        let ordinal = device.ordinal();
        device.cluster_blocks(ordinal).min(device.multiprocessors(ordinal).map_or(0, multiprocessors_of_clusters))
    }

    fn tiling(device: Device, of: &GroupedGradient, parts: Parts) -> Option<Tiling> {
        let ordinal = device.ordinal();
        let is_possible = match parts {
            Parts::InWorkspace(_) => true,
            Parts::InCluster { .. } => Parts::in_clusters(of, Self::most_in_a_cluster(device)).any(|it| it == parts),
        };
        if !is_possible || !of.is_for_us() || !device.copies_asynchronously(ordinal) {
            return None;
        }
        Tiling::of(of, parts, device.shared_bytes(ordinal)?)
    }

    /// The engine for these parts. `None` if there are more parts than tiles, or too many of both.
    fn of_tiling(of: GroupedGradient, parts: Parts, tiling: Tiling) -> Option<Self> {
        let (tiles, count) = (tiling.tiles(&of), parts.count());
        let blocks = of.blocks(tiling.k_tile).saturating_mul(count);
        let is_possible = (1..=tiles).contains(&count) && tiles.max(blocks) <= MOST_COUNTED;
        is_possible.then_some(Self { of, parts, tiling })
    }
}

impl Engine for BackwardFilterGemm {
    type Problem = GroupedGradient;
    const SOURCE: &'static KernelSource = &kernels::convolution::BACKWARD_FILTER;
    const KERNELS: &'static [&'static CStr] = &[c"backward_filter", c"sum_up"];
    const IS_KEPT: bool = false;

    fn priority(of: &GroupedGradient) -> Priority {
        if of.is_fast() { Priority::Fast } else { Priority::Slow }
    }

    fn has_short_sums(of: &GroupedGradient) -> bool {
        is_short(of.element, of.images.saturating_mul(of.dy.iter().product()))
    }

    fn choices(device: Device, of: &GroupedGradient, limit: usize) -> Vec<Vec<Knob>> {
        Self::best_parts(device, of, limit).into_iter().map(Parts::knobs).collect()
    }

    fn new(device: Device, of: &GroupedGradient, knobs: &[Knob]) -> Option<Self> {
        let parts = Parts::of_knobs(knobs)?;
        Self::of_tiling(*of, parts, Self::tiling(device, of, parts)?)
    }

    fn problem(&self) -> &GroupedGradient {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        self.tiling.options(&self.of)
    }

    fn allow(&self, _: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>> {
        let Self { of, tiling, .. } = self;
        kernels[0].allow_shared(tiling.shared_bytes(of) as u32)?;
        if tiling.cluster > PORTABLE_CLUSTER {
            kernels[0].allow_large_clusters()?;
        }
        if tiling.cluster > 1 && kernels[0].resident_clusters(&tiling.launch(of, tiling.cluster))? == 0 {
            return Err(format!("the device holds no cluster of {} blocks", tiling.cluster).into());
        }
        Ok(())
    }

    fn workspace(&self) -> usize {
        match self.parts {
            Parts::InWorkspace(count) if count > 1 => count * self.of.elements() * size_of::<f32>(),
            _ => 0,
        }
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, parts, tiling } = self;
        let Memory { x, w: dw, y: dy, workspace, .. } = memory;
        let is_whole = self.workspace() == 0;
        let [images, groups, k, c, splits] =
            [of.images, of.groups, of.k, of.c, parts.count()].map(|count| count as i32);
        let [[slices, height, width], [z, p, q]] = [of.x, of.dy].map(|sizes| sizes.map(|size| size as i32));
        let mut gradient = Gradient {
            x,
            dy,
            dw: if is_whole { dw } else { workspace },
            images,
            groups,
            k,
            c,
            slices,
            height,
            width,
            z,
            p,
            q,
            splits,
            alpha,
            beta,
        };
        let launch = tiling.launch(of, parts.count());
        // SAFETY: `gradient` is the kernel's only parameter; the caller promises memory as large as the tensors.
        let launched = unsafe { kernels[0].launch(stream, &launch, &mut [(&raw mut gradient).cast()]) };
        if is_whole || launched.is_err() {
            return launched.is_ok();
        }
        let summed = Sum { sums: workspace, dw, elements: of.elements() as i32, count: splits, alpha, beta };
        // SAFETY: the caller promises dw and the workspace. Both kernels have this number of threads.
        unsafe { summed.launch(&kernels[1], of.threads(), stream) }
    }
}
