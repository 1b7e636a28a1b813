//! The kernels: compiling, loading and launching.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::pass::Pass;
use super::shape::{Cut, Flat, Planes, Room, Shape, VECTOR_BYTES};
use super::subject::{Normalization, Types};
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Launch, Source};
use gpu::{Device, Stream};

/// Threads of a block: THREADS.
const THREADS: usize = 512;
/// The warps of a block: WARPS.
pub const WARPS: usize = THREADS / 32;
/// The blocks that a multiprocessor holds at once. While one exchanges its sums, the other reads or writes.
const MULTIPROCESSOR_BLOCKS: usize = 2;
/// The vectors that a thread reads at once if they do not stay in shared memory. More would not fit into registers.
const AHEAD: usize = 2;
/// Likewise, in a pass that is one sweep, and of groups, which often are larger than shared memory: with these, enough
/// bytes are on their way at any time.
const MORE_AHEAD: usize = 4;
/// The bytes of a block's `Exchange` (`kernels/norm/totals.cuh`): an Mbarrier, and 16 totals.
const EXCHANGE_BYTES: usize = 16 + 16 * 16;
/// The bytes of a block's static shared memory, a total for each warp; and those that CUDA takes for itself.
const OTHER_BYTES: usize = 16 * WARPS + 1024;
/// Longer than cuDNN takes to launch.
pub const PAUSE: Duration = Duration::from_micros(50);
/// The fewest vectors for each thread of a block, if there are more blocks than multiprocessors need.
const LEAST_FOR_A_THREAD: usize = 2;

/// The source of a pass's kernels.
pub fn source(pass: Pass, types: Types) -> Source {
    let row = pass.row();
    let ahead = if row.kept == 0 || pass == Pass::GroupForward { MORE_AHEAD } else { AHEAD };
    let mut options = vec![
        types.element.option().into(),
        format!("-DTHREADS={THREADS}"),
        format!("-DMULTIPROCESSOR_BLOCKS={MULTIPROCESSOR_BLOCKS}"),
        format!("-DAHEAD={ahead}"),
    ];
    if types.has_parameters_as_elements {
        options.push("-DPARAMETERS_AS_ELEMENTS".into());
    }
    Source::new(row.source, options)
}

/// The bytes of dynamic shared memory that a block may have, if a multiprocessor is to hold [`MULTIPROCESSOR_BLOCKS`].
fn block_bytes(room: &Room) -> usize {
    // A multiprocessor has 1 KiB more than a block may opt in to.
    ((room.shared_bytes + 1024) / MULTIPROCESSOR_BLOCKS).saturating_sub(OTHER_BYTES)
}

/// The shapes of a pass that keeps `tensors` tensors in shared memory, by the blocks of their clusters: powers of two,
/// from one on. Empty if our kernels do not take the tensor.
pub fn shapes(tensors: usize, planes: &Planes, room: &Room) -> Vec<Shape> {
    let bytes = block_bytes(room).saturating_sub(EXCHANGE_BYTES);
    let blocks = (0..).map(|power| 1 << power).take_while(|&blocks| blocks <= room.cluster_blocks);
    blocks.filter_map(|blocks| Shape::new(planes, blocks, bytes, tensors)).collect()
}

/// The place in [`shapes`] that is likely the fastest. A channel should stay in shared memory, and all multiprocessors
/// should work, but threads should not be left without vectors.
pub fn likely(planes: &Planes, room: &Room, shapes: &[Shape]) -> usize {
    let vectors = planes.vectors().unwrap_or(0);
    let is_enough = |shape: &Shape| {
        let is_busy = planes.channels * shape.blocks() >= room.multiprocessors;
        let is_thin = vectors < 2 * shape.blocks() * THREADS * LEAST_FOR_A_THREAD;
        shape.is_resident() && (is_busy || is_thin)
    };
    shapes.iter().position(is_enough).unwrap_or(shapes.len().saturating_sub(1))
}

/// How a pass over a tensor is likely the fastest. `Err` says why our kernels cannot run it on the device.
pub fn cut(pass: Pass, planes: &Planes, room: &Room) -> Result<Cut, &'static str> {
    let kept = pass.row().kept;
    if kept == 0 {
        return Flat::new(planes).map(Cut::Flat).ok_or("our kernels do not take the tensor");
    }
    let shapes = shapes(kept, planes, room);
    let likely = shapes.get(likely(planes, room, &shapes));
    likely
        .copied()
        .map(Cut::Clusters)
        .ok_or("the device has no clusters of blocks, or our kernels do not take the tensor")
}

/// A pass's kernels for a type, loaded on the device that was current then.
pub struct Engine {
    pass: Pass,
    whole: Function,
    uneven: Function,
    behind: Option<Function>,
    /// `None` on the host, where a launch has ended when its call returns.
    pause: Option<Function>,
}

/// Few kinds of kernels: they stay, and so does the reason why one cannot run.
static ENGINES: Loaded<(Pass, Types), Result<Arc<Engine>, String>> = Loaded::kept();

impl Engine {
    /// Finds or compiles and loads the kernels for the calling thread's device. `Err` says why they cannot run there.
    pub fn load(device: Device, pass: Pass, types: Types) -> Result<Arc<Self>, String> {
        let make = || Ok::<_, Infallible>(Self::new(device, pass, types).map(Arc::new));
        let Ok(loaded) = ENGINES.get(device, (pass, types), make);
        Result::clone(&loaded)
    }

    /// Returns true if [`Self::load`] has been called for these kernels before. It loads nothing a second time.
    pub fn is_loaded(device: Device, pass: Pass, types: Types) -> bool {
        ENGINES.find(device, &(pass, types)).is_some()
    }

    fn new(device: Device, pass: Pass, types: Types) -> Result<Self, String> {
        let room = Room::of(device).ok_or("the device does not tell its properties")?;
        let has_clusters = pass.row().kept > 0;
        if has_clusters && room.cluster_blocks == 0 {
            return Err("the device has no clusters of blocks".into());
        }
        let text = |error: Error| error.to_string();
        let module = device.load(&source(pass, types)).map_err(text)?;
        let in_registers = |name| {
            let function = module.function(name).map_err(text)?;
            match function.resources().map_err(text)?.local_bytes {
                0 => Ok(function),
                spilled => Err(format!("{spilled} bytes of a thread do not fit into registers")),
            }
        };
        let function = |name| {
            let function = in_registers(name)?;
            if has_clusters {
                function.allow_shared(block_bytes(&room) as u32).map_err(text)?;
                function.allow_large_clusters().map_err(text)?;
            }
            Ok::<_, String>(function)
        };
        let [whole, uneven] = pass.row().kernels.map(function);
        let behind = pass.row().behind.map(in_registers).transpose()?;
        let pause = module.function(c"pause").ok();
        Ok(Self { pass, whole: whole?, uneven: uneven?, behind, pause })
    }

    /// Keeps the stream busy for [`PAUSE`], so that what the caller launches next is queued before it begins: time marks
    /// around it then measure the device alone, also of a pass that takes less time than its launch. Returns whether it
    /// does so.
    pub fn pause(&self, stream: Stream) -> bool {
        let Some(pause) = &self.pause else { return false };
        let mut nanoseconds = PAUSE.as_nanos() as u64;
        let launch = Launch { grid: [1; 3], block: [1; 3], ..Launch::default() };
        // SAFETY: the kernel takes one number of 8 bytes, and touches no memory.
        unsafe { pause.launch(stream, &launch, &mut [(&raw mut nanoseconds).cast()]) }.is_ok()
    }

    fn function(&self, subject: &Normalization) -> &Function {
        if subject.planes.is_whole() { &self.whole } else { &self.uneven }
    }

    fn launch_of(&self, subject: &Normalization, cut: &Cut) -> Launch {
        let planes = subject.reduced();
        let block = [THREADS as u32, 1, 1];
        match cut {
            Cut::Clusters(shape) => {
                let vectors = shape.resident() * self.pass.row().kept;
                Launch {
                    grid: [(planes.channels * shape.blocks()) as u32, 1, 1],
                    block,
                    cluster: [shape.blocks() as u32, 1, 1],
                    shared_bytes: (vectors * VECTOR_BYTES + EXCHANGE_BYTES) as u32,
                    ..Launch::default()
                }
            }
            Cut::Flat(flat) => {
                let of_block = THREADS * MORE_AHEAD * VECTOR_BYTES / planes.element.bytes();
                Launch { grid: [flat.elements().div_ceil(of_block) as u32, 1, 1], block, ..Launch::default() }
            }
        }
    }

    /// The clusters that the device holds at once.
    pub fn resident_clusters(&self, subject: &Normalization, cut: &Cut) -> Result<u32, Error> {
        self.function(subject).resident_clusters(&self.launch_of(subject, cut))
    }

    /// Runs the pass.
    ///
    /// # Safety
    /// The engine is of the subject's pass and types, on the stream's device, and the cut is for the subject. `parameters`
    /// are those of the pass's kernels, with the cut, and with pointers to tensors of the subject's planes and to numbers
    /// for each of their channels.
    pub unsafe fn launch<T>(
        &self,
        stream: Stream,
        subject: &Normalization,
        cut: &Cut,
        mut parameters: T,
    ) -> Result<(), Error> {
        let launch = self.launch_of(subject, cut);
        // SAFETY: the kernel takes one parameter, of the type of `parameters` (see `# Safety`).
        unsafe { self.function(subject).launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }
    }

    /// Runs the kernel that is launched behind the pass's others ([`super::pass::Row::behind`]), with a warp for each of
    /// so many numbers.
    ///
    /// # Safety
    /// As for [`Self::launch`]. The pass has such a kernel.
    pub unsafe fn launch_behind<T>(&self, stream: Stream, warps: usize, mut parameters: T) -> Result<(), Error> {
        let behind = self.behind.as_ref().expect("the pass has a kernel behind the others");
        let grid = [warps.div_ceil(WARPS) as u32, 1, 1];
        let launch = Launch { grid, block: [THREADS as u32, 1, 1], ..Launch::default() };
        // SAFETY: as above.
        unsafe { behind.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }
    }
}

impl Room {
    /// What the calling thread's device offers. `None` if it does not tell.
    pub fn of(device: Device) -> Option<Self> {
        let ordinal = device.ordinal();
        Some(Self {
            multiprocessors: device.multiprocessors(ordinal)?,
            shared_bytes: device.shared_bytes(ordinal)?,
            cluster_blocks: device.cluster_blocks(ordinal),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::Element;

    /// Measured on an H100 for all of these sizes: at most 4% slower than the fastest.
    #[test]
    fn likely_shapes() {
        let h100 = Room { multiprocessors: 132, shared_bytes: 227 << 10, cluster_blocks: 16 };
        let blocks = |pass: Pass, channels, side: usize| {
            let planes = Planes { element: Element::Half, images: 128, channels, plane: side * side };
            let shapes = shapes(pass.row().kept, &planes, &h100);
            shapes[likely(&planes, &h100, &shapes)].blocks()
        };
        assert_eq!([64, 256].map(|channels| blocks(Pass::Forward, channels, 56)), [8, 8]);
        assert_eq!([64, 256].map(|channels| blocks(Pass::Backward, channels, 56)), [16, 16]);
        assert_eq!([128, 512].map(|channels| blocks(Pass::Forward, channels, 28)), [2, 2]);
        assert_eq!([256, 1024].map(|channels| blocks(Pass::Forward, channels, 14)), [1, 1]);
        assert_eq!([512, 2048].map(|channels| blocks(Pass::Backward, channels, 7)), [1, 1]);
        assert_eq!(blocks(Pass::Backward, 64, 112), 16);
    }
}
