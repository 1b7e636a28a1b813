//! Gathering the pixels that a strided convolution of single places reads, from a tensor with its channels first into
//! one that has them last; and back, with zeros between.

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use cudnn_abi::cudnnDataType_t;

use crate::engines::element_kernels::ElementKernels;
use crate::engines::for_each_device::ForEachDevice;
use crate::problem::graph::Sampling;
use cudnn::tensor::element_size;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};

/// Of a block, as `kernels/sample.cu` has them.
const THREADS: u32 = 256;
/// Warps of a block.
const WARPS: usize = THREADS as usize / 32;
/// Samples of a block's tile.
const PIXELS: usize = 32;
/// Channels of a block's tile.
const CHANNELS: usize = 64;
/// The most blocks along the second dimension of a grid, which is over images: a block goes on with others.
const MOST_IMAGES: usize = u16::MAX as usize;
/// Bytes of channels that a thread has in registers, and of pixels at most.
const RUN: usize = 16;

/// For tensors of elements of one size, on one device.
pub struct Samples {
    element: usize,
    on: On,
}

enum On {
    Host,
    /// What gathers and what scatters, in each way.
    Compiled(Vec<(Way, [Function; 2])>),
}

/// One of the kernels' ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// So many samples in a thread's registers, of every second pixel.
    Pairs(usize),
    /// Tiles in shared memory.
    Any,
}

impl Way {
    /// The best first.
    const ALL: [(Self, [&'static CStr; 2]); 4] = [
        (Self::Pairs(4), [c"gather_pairs_4", c"scatter_pairs_4"]),
        (Self::Pairs(2), [c"gather_pairs_2", c"scatter_pairs_2"]),
        (Self::Pairs(1), [c"gather_pairs_1", c"scatter_pairs_1"]),
        (Self::Any, [c"gather", c"scatter"]),
    ];

    /// Whether there is such a kernel for elements of so many bytes.
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

/// The kernels' parameters.
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

static KNOWN: ForEachDevice<usize, Samples> = ForEachDevice::kept();

impl Samples {
    /// For elements of a type of 2 or 4 bytes on the calling thread's device. Compiles at the first call, which may take
    /// a second; not to be called under capture. `Err` says why there are none.
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

    /// Bytes of an element.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Copies the sampled pixels of a tensor with its channels first into one of these alone that has them last. Whether
    /// it was launched.
    ///
    /// # Safety
    /// Both are memory of the device that the elements fill, apart from each other and aligned to 16 bytes; the stream is
    /// of that device.
    pub unsafe fn gather(&self, stream: Stream, sampling: Sampling, from: *const c_void, to: *mut c_void) -> bool {
        match &self.on {
            On::Host => {
                // SAFETY: as ours.
                unsafe {
                    match self.element {
                        2 => gather::<u16>(sampling, from, to),
                        _ => gather::<u32>(sampling, from, to),
                    }
                }
                true
            }
            // SAFETY: as ours.
            On::Compiled(ways) => unsafe { self.launch(ways, 0, stream, sampling, from, to) },
        }
    }

    /// The reverse, with zeros for the pixels that are not sampled. Whether it was launched.
    ///
    /// # Safety
    /// As for [`Self::gather`].
    pub unsafe fn scatter(&self, stream: Stream, sampling: Sampling, from: *const c_void, to: *mut c_void) -> bool {
        match &self.on {
            On::Host => {
                // SAFETY: as ours.
                unsafe {
                    match self.element {
                        2 => scatter::<u16>(sampling, from, to),
                        _ => scatter::<u32>(sampling, from, to),
                    }
                }
                true
            }
            // SAFETY: as ours.
            On::Compiled(ways) => unsafe { self.launch(ways, 1, stream, sampling, from, to) },
        }
    }

    /// # Safety
    /// As for [`Self::gather`].
    unsafe fn launch(
        &self,
        ways: &[(Way, [Function; 2])],
        which: usize,
        stream: Stream,
        sampling: Sampling,
        from: *const c_void,
        to: *mut c_void,
    ) -> bool {
        let Some((way, functions)) = ways.iter().find(|(way, _)| way.admits(sampling, self.element)) else {
            return false;
        };
        let Sampling { images, channels, height, width, down, right } = sampling;
        let grid = [way.blocks(sampling, self.element) as u32, images.min(MOST_IMAGES) as u32, 1];
        let [images, channels, height, width, down, right] =
            [images, channels, height, width, down, right].map(|count| count as i32);
        let mut parameters = Parameters { from, to, images, channels, height, width, down, right };
        let launch = Launch { grid, block: [THREADS, 1, 1], ..Launch::default() };
        // SAFETY: the kernels' one parameter, and memory as ours.
        unsafe { functions[which].launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}

/// # Safety
/// As for [`Samples::gather`], in the host's memory.
unsafe fn gather<T: Copy>(sampling: Sampling, from: *const c_void, to: *mut c_void) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for_each(sampling, |pixel, sample| {
        if let Some(sample) = sample {
            // SAFETY: places within both.
            unsafe { to.add(sample).write(from.add(pixel).read()) }
        }
    });
}

/// # Safety
/// As for [`Samples::scatter`], in the host's memory.
unsafe fn scatter<T: Copy + Default>(sampling: Sampling, from: *const c_void, to: *mut c_void) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for_each(sampling, |pixel, sample| {
        // SAFETY: places within both.
        unsafe { to.add(pixel).write(sample.map_or(T::default(), |sample| from.add(sample).read())) }
    });
}

/// Where each element stands with channels first, and where it does among the samples if it is one.
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
