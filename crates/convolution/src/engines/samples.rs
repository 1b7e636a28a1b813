//! Gathers the pixels that a strided 1 × 1 convolution reads, from a channels-first tensor into a channels-last one.
//! Scatters them back, with zeros for all other pixels.

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use cudnn_abi::cudnnDataType_t;

use crate::engines::element_kernels::ElementKernels;
use crate::problem::graph::Sampling;
use cudnn::tensor::element_size;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};

/// The threads of a block, as in `kernels/convolution/sample.cu`.
const THREADS: u32 = 256;
/// The warps of a block.
const WARPS: usize = THREADS as usize / 32;
/// The samples of a block's tile.
const PIXELS: usize = 32;
/// The channels of a block's tile.
const CHANNELS: usize = 64;
/// The largest size of a grid's second dimension, which runs over images; each block loops over further images.
const MOST_IMAGES: usize = u16::MAX as usize;
/// The bytes of channels in a thread's registers, and the most bytes of pixels.
const RUN: usize = 16;

/// What a copy does, and the index of its kernel in each variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Copies the sampled pixels of the channels-first tensor into the channels-last one, which holds no other pixels.
    Gather,
    /// The reverse, with zeros for all other pixels.
    Scatter,
}

/// The gather and scatter kernels for elements of one size, on one device.
pub struct Samples {
    element: usize,
    on: On,
}

enum On {
    Host,
    /// The gather kernel and the scatter kernel of each variant.
    Compiled(Vec<(Way, [Function; 2])>),
}

/// A variant of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Samples every second pixel; a thread has this many samples in its registers.
    Pairs(usize),
    /// Moves tiles through shared memory.
    Any,
}

impl Way {
    /// All variants, the fastest first.
    const ALL: [(Self, [&'static CStr; 2]); 4] = [
        (Self::Pairs(4), [c"gather_pairs_4", c"scatter_pairs_4"]),
        (Self::Pairs(2), [c"gather_pairs_2", c"scatter_pairs_2"]),
        (Self::Pairs(1), [c"gather_pairs_1", c"scatter_pairs_1"]),
        (Self::Any, [c"gather", c"scatter"]),
    ];

    /// Returns whether the variant exists for elements of `element` bytes.
    fn is_for(self, element: usize) -> bool {
        self == Self::Any || matches!(self, Self::Pairs(samples) if 2 * samples * element <= RUN)
    }

    fn admits(self, Sampling { channels, width, right, .. }: Sampling, element: usize) -> bool {
        let Self::Pairs(samples) = self else { return true };
        self.is_for(element)
            && right == 2
            && width.is_multiple_of(2 * samples)
            && channels.is_multiple_of(RUN / element)
    }

    fn blocks(self, sampling: Sampling, element: usize) -> usize {
        let Sampling { channels, .. } = sampling;
        match self {
            Self::Pairs(samples) => {
                let across = (sampling.sampled() / samples).div_ceil(4);
                (across * channels.div_ceil(8 * RUN / element)).div_ceil(WARPS)
            }
            Self::Any => sampling.sampled().div_ceil(PIXELS) * channels.div_ceil(CHANNELS),
        }
    }
}

/// The kernels' parameters, as in `kernels/convolution/sample.cu`.
#[repr(C)]
struct Parameters {
    from: *const c_void,
    to: *mut c_void,
    images: i32,
    channels: i32,
    height: i32,
    width: i32,
    down: i32,
    right: i32,
}

static KNOWN: Loaded<usize, Samples> = Loaded::kept();

impl Samples {
    /// The kernels for a type of 2 or 4 bytes on the calling thread's device. The first call compiles, which may take a
    /// second; do not call it under capture. `Err` says why the kernels are unavailable.
    pub fn of(device: Device, data_type: cudnnDataType_t) -> Result<Arc<Self>, String> {
        let element = element_size(data_type).unwrap_or(1);
        KNOWN.get(device, element, || Self::new(device, element))
    }

    fn new(device: Device, element: usize) -> Result<Self, String> {
        match device {
            Device::Host => Ok(Self { element, on: On::Host }),
            Device::Cuda => Self::compiled(device, element),
        }
    }

    fn compiled(device: Device, element: usize) -> Result<Self, String> {
        let kernels = ElementKernels::load(device, &kernels::convolution::SAMPLE, element, &[])?;
        let function = |name| kernels.function(name);
        let there = Way::ALL.into_iter().filter(|(way, _)| way.is_for(element));
        let ways = there.map(|(way, [gather, scatter])| Ok((way, [function(gather)?, function(scatter)?])));
        Ok(Self { element, on: On::Compiled(ways.collect::<Result<_, String>>()?) })
    }

    /// The size of an element in bytes.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Copies between the channels-first tensor and the channels-last one. Returns whether the kernel was launched.
    ///
    /// # Safety
    /// `from` and `to` are device memory as large as the tensors, aligned to 16 bytes, and do not overlap. The stream
    /// belongs to the same device.
    pub unsafe fn run(
        &self,
        kind: Move,
        stream: Stream,
        sampling: Sampling,
        from: *const c_void,
        to: *mut c_void,
    ) -> bool {
        let ways = match &self.on {
            On::Host => {
                // SAFETY: the caller promises memory as large as the tensors, which is host memory on this device.
                unsafe {
                    match self.element {
                        2 => run_in_loops::<u16>(kind, sampling, from, to),
                        _ => run_in_loops::<u32>(kind, sampling, from, to),
                    }
                }
                return true;
            }
            On::Compiled(ways) => ways,
        };
        let Some((way, functions)) = ways.iter().find(|(way, _)| way.admits(sampling, self.element)) else {
            return false;
        };
        let Sampling { images, channels, height, width, down, right } = sampling;
        let grid = [way.blocks(sampling, self.element) as u32, images.min(MOST_IMAGES) as u32, 1];
        let [images, channels, height, width, down, right] =
            [images, channels, height, width, down, right].map(|count| count as i32);
        let mut parameters = Parameters { from, to, images, channels, height, width, down, right };
        let launch = Launch { grid, block: [THREADS, 1, 1], ..Launch::default() };
        // SAFETY: `parameters` is the kernels' only parameter; the caller promises memory as large as the tensors.
        unsafe { functions[kind as usize].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}

/// # Safety
/// As for [`Samples::run`], in the host's memory.
unsafe fn run_in_loops<T: Copy + Default>(kind: Move, sampling: Sampling, from: *const c_void, to: *mut c_void) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for_each(sampling, |pixel, sample| {
        // SAFETY: both indices lie within the tensors, whose sizes the caller promises.
        unsafe {
            match (kind, sample) {
                (Move::Gather, Some(sample)) => to.add(sample).write(from.add(pixel).read()),
                (Move::Gather, None) => {}
                (Move::Scatter, Some(sample)) => to.add(pixel).write(from.add(sample).read()),
                (Move::Scatter, None) => to.add(pixel).write(T::default()),
            }
        }
    });
}

/// Visits each element with its channels-first index, and its index among the samples if it is sampled.
fn for_each(sampling: Sampling, mut visit: impl FnMut(usize, Option<usize>)) {
    let Sampling { images, channels, height, width, down, right } = sampling;
    let across = width.div_ceil(right);
    for image in 0..images {
        for channel in 0..channels {
            for row in 0..height {
                for column in 0..width {
                    let pixel = ((image * channels + channel) * height + row) * width + column;
                    let is_sampled = row.is_multiple_of(down) && column.is_multiple_of(right);
                    let place = image * sampling.sampled() + row / down * across + column / right;
                    visit(pixel, is_sampled.then_some(place * channels + channel));
                }
            }
        }
    }
}
