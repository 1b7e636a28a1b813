//! Adding up sums of parts of the pixels, of a filter's gradient, which stand in the workspace.

use std::ffi::c_void;

use crate::problem::graph::Knob;
use cudnn_abi::cudnnBackendKnobType_t;
use gpu::Stream;
use gpu::jit::{Function, Launch};

/// The knob of engines that share out the pixels in parts, each with its own sums in the workspace. Without it, there is
/// one part.
pub const PARTS: cudnnBackendKnobType_t = 0;
/// The most parts.
pub const MOST_PARTS: usize = 1024;

/// The knobs for this number of parts.
pub fn knobs_of(parts: usize) -> Vec<Knob> {
    if parts > 1 { vec![(PARTS, parts as i64)] } else { vec![] }
}

/// The number of parts by an engine's knobs. `None` if they are none of [`knobs_of`].
pub fn parts_of(knobs: &[Knob]) -> Option<usize> {
    match *knobs {
        [] => Some(1),
        [(PARTS, parts)] => usize::try_from(parts).ok().filter(|parts| (2..=MOST_PARTS).contains(parts)),
        _ => None,
    }
}

/// The number of parts that share out `turns`, where a part has at most `most_turns`: as many as `wanted` says, given the
/// most parts whose sums of so many elements fit in the limit. One part needs no memory.
pub fn parts_within(
    limit: usize,
    elements: usize,
    [turns, most_turns]: [usize; 2],
    wanted: impl FnOnce(usize) -> usize,
) -> usize {
    let most = (limit / (elements * size_of::<f32>())).min(MOST_PARTS);
    wanted(most.max(1)).max(turns.div_ceil(most_turns)).min(most).max(1)
}

/// The parameters of the kernel in `kernels/convolution/sum_up.cuh`: dw = `alpha` · sum + `beta` · dw.
#[repr(C)]
pub struct Sum {
    pub sums: *const c_void,
    pub dw: *mut c_void,
    /// Those of dw, and of each part.
    pub elements: i32,
    /// The parts.
    pub count: i32,
    pub alpha: f32,
    pub beta: f32,
}

/// The bytes of this number of sums for each element. A single sum is written to the result at once.
pub fn workspace_of(sums: usize, elements: usize) -> usize {
    if sums > 1 { sums * elements * size_of::<f32>() } else { 0 }
}

impl Sum {
    /// Launches the kernel after the one that computes the sums, if that worked. A single sum of each element needs none:
    /// it is in dw already. Returns whether all of it worked.
    ///
    /// # Safety
    /// As for [`Self::launch`], where there are several.
    pub unsafe fn launch_after(self, is_computed: bool, kernel: &Function, threads: usize, stream: Stream) -> bool {
        // SAFETY: the caller's promise (see `# Safety`).
        is_computed && (self.count == 1 || unsafe { self.launch(kernel, threads, stream) })
    }

    /// Launches the kernel in blocks of `threads` threads. Returns whether that worked.
    ///
    /// # Safety
    /// The caller promises device memory as large as dw and the parts' sums, and a kernel that was compiled with this
    /// number of threads.
    pub unsafe fn launch(mut self, kernel: &Function, threads: usize, stream: Stream) -> bool {
        let blocks = (self.elements as usize).div_ceil(threads);
        let launch = Launch { grid: [blocks as u32, 1, 1], block: [threads as u32, 1, 1], ..Launch::default() };
        // SAFETY: `self` is the kernel's only parameter, and the caller promises its memory.
        unsafe { kernel.launch(stream, &launch, &mut [(&raw mut self).cast()]) }.is_ok()
    }
}
