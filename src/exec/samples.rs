//! Gathering the pixels that a strided convolution of single places reads, from a tensor with its channels first into
//! one that has them last; and back, with zeros between.

#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::cudnnDataType_t;

use super::for_each_device::ForEachDevice;
use crate::cudnn::graph::Sampling;
use crate::cudnn::kernel::element_size;
use crate::device::jit::{Function, Launch, Source};
use crate::device::{Device, Stream};

/// Of a block, as `kernels/sample.cu` has them.
const THREADS: u32 = 256;
/// Samples of a block's tile.
const PIXELS: usize = 32;
/// Channels of a block's tile.
const CHANNELS: usize = 64;
/// The most blocks along the second dimension of a grid.
const MOST_IMAGES: usize = u16::MAX as usize;

/// For tensors of elements of one size, on one device.
pub struct Samples {
    element: usize,
    on: On,
}

enum On {
    Host,
    Cuda { gather: Function, scatter: Function },
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

static KNOWN: ForEachDevice<usize, Samples> = ForEachDevice::new();

impl Samples {
    /// For elements of a type of 2 or 4 bytes on the calling thread's device. Compiles at the first call, which may take
    /// a second; not to be called under capture. `Err` says why there are none.
    pub fn of(device: Device, data_type: cudnnDataType_t) -> Result<Arc<Self>, String> {
        let element = element_size(data_type).unwrap_or(1);
        KNOWN.get(device, element, || Self::new(device, element))
    }

    fn new(device: Device, element: usize) -> Result<Self, String> {
        let on = match device {
            Device::Host => On::Host,
            Device::Cuda => {
                let source = Source {
                    name: "sample.cu",
                    text: include_str!("../../kernels/sample.cu"),
                    headers: &[("device.cuh", include_str!("../../kernels/device.cuh"))],
                    options: vec![format!("-DELEMENT={}", if element == 2 { "unsigned short" } else { "unsigned" })],
                };
                let module = device.load(&source).map_err(|error| error.to_string())?;
                let function = |name| module.function(name).map_err(|error| error.to_string());
                On::Cuda { gather: function(c"gather")?, scatter: function(c"scatter")? }
            }
        };
        Ok(Self { element, on })
    }

    /// Copies the sampled pixels of a tensor with its channels first into one of these alone that has them last. Whether
    /// it was launched.
    ///
    /// # Safety
    /// Both are memory of the device that the elements fill, apart from each other; the stream is of that device.
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
            On::Cuda { gather, .. } => unsafe { launch(gather, stream, sampling, from, to) },
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
            On::Cuda { scatter, .. } => unsafe { launch(scatter, stream, sampling, from, to) },
        }
    }
}

/// # Safety
/// As for [`Samples::gather`].
unsafe fn launch(
    function: &Function,
    stream: Stream,
    sampling: Sampling,
    from: *const c_void,
    to: *mut c_void,
) -> bool {
    let Sampling { images, channels, height, width, down, right } = sampling;
    let [height, width, down, right] = [height, width, down, right].map(|count| count as i32);
    let (images_, channels_) = (images as i32, channels as i32);
    let mut parameters = Parameters { from, to, images: images_, channels: channels_, height, width, down, right };
    let blocks = sampling.sampled().div_ceil(PIXELS) * channels.div_ceil(CHANNELS);
    let grid = [blocks as u32, images.min(MOST_IMAGES) as u32, 1];
    let launch = Launch { grid, block: [THREADS, 1, 1], ..Launch::default() };
    // SAFETY: the kernel's one parameter, and memory as ours.
    unsafe { function.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
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
