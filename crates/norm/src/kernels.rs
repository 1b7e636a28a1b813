//! The kernels: compiling, loading and launching.

use std::convert::Infallible;
use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::time::Duration;

use super::shape::{Planes, Room, Shape, VECTOR_BYTES};
use super::subject::Pass;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Launch, Source};
use gpu::{Device, Element, Stream};
use kernels::norm as sources;

/// Threads of a block: THREADS.
const THREADS: usize = 512;
/// The blocks that a multiprocessor holds at once. While one exchanges its sums, the other reads or writes.
const MULTIPROCESSOR_BLOCKS: usize = 2;
/// The vectors that a thread reads at once if they do not stay in shared memory. More would not fit into registers.
const AHEAD: usize = 2;
/// The bytes of a block's `Exchange` (`kernels/norm/totals.cuh`): an Mbarrier, and 16 totals.
const EXCHANGE_BYTES: usize = 16 + 16 * 16;
/// The bytes of a block's static shared memory, a total for each warp; and those that CUDA takes for itself.
const OTHER_BYTES: usize = 16 * (THREADS / 32) + 1024;
/// Longer than cuDNN takes to launch.
pub const PAUSE: Duration = Duration::from_micros(50);
/// The fewest vectors for each thread of a block, if there are more blocks than multiprocessors need.
const LEAST_FOR_A_THREAD: usize = 2;

/// The tensors that a pass reads: x, and dy.
fn tensors(pass: Pass) -> usize {
    match pass {
        Pass::Forward => 1,
        Pass::Backward => 2,
    }
}

/// The name of a pass's kernel for planes that are whole vectors, or that are not.
fn kernel(pass: Pass, is_whole: bool) -> &'static CStr {
    match (pass, is_whole) {
        (Pass::Forward, true) => c"normalize_whole",
        (Pass::Forward, false) => c"normalize_uneven",
        (Pass::Backward, true) => c"differentiate_whole",
        (Pass::Backward, false) => c"differentiate_uneven",
    }
}

/// Twin of `Forward` in `kernels/norm/forward.cu`. Arrays of parameters have a number for each channel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Forward {
    pub shape: Shape,
    /// Aligned to 16 bytes, as y, which may be x.
    pub x: *const c_void,
    pub y: *mut c_void,
    pub scale: *const f32,
    pub bias: *const f32,
    /// Null, or old statistics, which become old · (1 − factor) + new · factor. The variance is the unbiased one.
    pub running_mean: *mut f32,
    pub running_variance: *mut f32,
    /// Null, or where the mean and 1 / √(variance + epsilon) go.
    pub saved_mean: *mut f32,
    pub saved_inverse: *mut f32,
    pub epsilon: f64,
    pub factor: f64,
}

/// Twin of `Backward` in `kernels/norm/backward.cu`. Arrays of parameters have a number for each channel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Backward {
    pub shape: Shape,
    /// Aligned to 16 bytes, as dy and dx, which may be x or dy.
    pub x: *const c_void,
    pub dy: *const c_void,
    pub dx: *mut c_void,
    pub scale: *const f32,
    pub saved_mean: *const f32,
    pub saved_inverse: *const f32,
    pub dscale: *mut f32,
    pub dbias: *mut f32,
}

/// The source of a pass's kernels.
pub fn source(pass: Pass, element: Element) -> Source {
    let source = match pass {
        Pass::Forward => &sources::FORWARD,
        Pass::Backward => &sources::BACKWARD,
    };
    let options = vec![
        element.option().into(),
        format!("-DTHREADS={THREADS}"),
        format!("-DMULTIPROCESSOR_BLOCKS={MULTIPROCESSOR_BLOCKS}"),
        format!("-DAHEAD={AHEAD}"),
    ];
    Source::new(source, options)
}

/// The bytes of dynamic shared memory that a block may have, if a multiprocessor is to hold [`MULTIPROCESSOR_BLOCKS`].
fn block_bytes(room: &Room) -> usize {
    // A multiprocessor has 1 KiB more than a block may opt in to.
    ((room.shared_bytes + 1024) / MULTIPROCESSOR_BLOCKS).saturating_sub(OTHER_BYTES)
}

/// The shapes of a pass, by the blocks of their clusters: powers of two, from one on. Empty if our kernels do not take
/// the tensor.
pub fn shapes(pass: Pass, planes: &Planes, room: &Room) -> Vec<Shape> {
    let bytes = block_bytes(room).saturating_sub(EXCHANGE_BYTES);
    let blocks = (0..).map(|power| 1 << power).take_while(|&blocks| blocks <= room.cluster_blocks);
    blocks.filter_map(|blocks| Shape::new(planes, blocks, bytes, tensors(pass))).collect()
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

/// A pass's kernels for a type, loaded on the device that was current then.
pub struct Engine {
    pass: Pass,
    whole: Function,
    uneven: Function,
    /// `None` on the host, where a launch has ended when its call returns.
    pause: Option<Function>,
}

/// Few kinds of kernels: they stay, and so does the reason why one cannot run.
static ENGINES: Loaded<(Pass, Element), Result<Arc<Engine>, String>> = Loaded::kept();

impl Engine {
    /// Finds or compiles and loads the kernels for the calling thread's device. `Err` says why they cannot run there.
    pub fn load(device: Device, pass: Pass, element: Element) -> Result<Arc<Self>, String> {
        let make = || Ok::<_, Infallible>(Self::new(device, pass, element).map(Arc::new));
        let Ok(loaded) = ENGINES.get(device, (pass, element), make);
        Result::clone(&loaded)
    }

    /// Returns true if [`Self::load`] has been called for these kernels before. It loads nothing a second time.
    pub fn is_loaded(device: Device, pass: Pass, element: Element) -> bool {
        ENGINES.find(device, &(pass, element)).is_some()
    }

    fn new(device: Device, pass: Pass, element: Element) -> Result<Self, String> {
        let room = Room::of(device).ok_or("the device does not tell its properties")?;
        if room.cluster_blocks == 0 {
            return Err("the device has no clusters of blocks".into());
        }
        let text = |error: Error| error.to_string();
        let module = device.load(&source(pass, element)).map_err(text)?;
        let function = |is_whole| {
            let function = module.function(kernel(pass, is_whole)).map_err(text)?;
            function.allow_shared(block_bytes(&room) as u32).map_err(text)?;
            function.allow_large_clusters().map_err(text)?;
            match function.resources().map_err(text)?.local_bytes {
                0 => Ok(function),
                spilled => Err(format!("{spilled} bytes of a thread do not fit into registers")),
            }
        };
        let pause = module.function(c"pause").ok();
        Ok(Self { pass, whole: function(true)?, uneven: function(false)?, pause })
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

    fn function(&self, planes: &Planes) -> &Function {
        if planes.is_whole() { &self.whole } else { &self.uneven }
    }

    fn launch_of(&self, planes: &Planes, shape: &Shape) -> Launch {
        let vectors = shape.resident() * tensors(self.pass);
        Launch {
            grid: [(planes.channels * shape.blocks()) as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            cluster: [shape.blocks() as u32, 1, 1],
            shared_bytes: (vectors * VECTOR_BYTES + EXCHANGE_BYTES) as u32,
            ..Launch::default()
        }
    }

    /// The clusters that the device holds at once.
    pub fn resident_clusters(&self, planes: &Planes, shape: &Shape) -> Result<u32, Error> {
        self.function(planes).resident_clusters(&self.launch_of(planes, shape))
    }

    /// # Safety
    /// `parameters` is a [`Forward`] or a [`Backward`], by the engine's pass, with pointers as [`Self::normalize`] and
    /// [`Self::differentiate`] require.
    unsafe fn launch<T>(&self, stream: Stream, planes: &Planes, shape: &Shape, mut parameters: T) -> Result<(), Error> {
        let launch = self.launch_of(planes, shape);
        // SAFETY: the kernel takes one parameter, of the type of `parameters` (see `# Safety`).
        unsafe { self.function(planes).launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }
    }

    /// Normalizes a tensor.
    ///
    /// # Safety
    /// The engine is of the forward pass and of the planes' type, on the stream's device. The pointers of `parameters`
    /// are to tensors of the planes and to numbers for each of their channels, and the shape is for the planes.
    pub unsafe fn normalize(&self, stream: Stream, planes: &Planes, parameters: &Forward) -> Result<(), Error> {
        debug_assert_eq!(self.pass, Pass::Forward);
        // SAFETY: the caller's promise is that of `launch`.
        unsafe { self.launch(stream, planes, &parameters.shape, *parameters) }
    }

    /// Computes gradients.
    ///
    /// # Safety
    /// As for [`Self::normalize`], with an engine of the backward pass.
    pub unsafe fn differentiate(&self, stream: Stream, planes: &Planes, parameters: &Backward) -> Result<(), Error> {
        debug_assert_eq!(self.pass, Pass::Backward);
        // SAFETY: the caller's promise is that of `launch`.
        unsafe { self.launch(stream, planes, &parameters.shape, *parameters) }
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

    /// Measured on an H100 for all of these sizes: at most 4% slower than the fastest.
    #[test]
    fn likely_shapes() {
        let h100 = Room { multiprocessors: 132, shared_bytes: 227 << 10, cluster_blocks: 16 };
        let blocks = |pass, channels, side: usize| {
            let planes = Planes { element: Element::Half, images: 128, channels, plane: side * side };
            let shapes = shapes(pass, &planes, &h100);
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
