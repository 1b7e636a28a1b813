//! Convolutions and their gradients on the tensor cores of warpgroups, by our own kernels. They read NCHW directly,
//! whatever the alignment of an image's rows. cuDNN's engines first convert both tensors.
//!
//! | file | what its kernel computes |
//! | --- | --- |
//! | `same` | convolutions whose results have the size of their input, their input gradients, and convolutions by 1×1 filters with strides |
//! | `same_gradient` | the filter gradients of these convolutions |
//! | `shifted` | convolutions by filters of several places whose results have the size of their input, and their input gradients |
//! | `few_channels` | convolutions of images with few channels |
//! | `tile` | the tile of a block |

mod few_channels;
mod same;
mod same_gradient;
mod shifted;
#[cfg(test)]
mod tests;
mod tile;

pub use few_channels::FewChannels;
pub use same::SameConvolution;
pub use same_gradient::SameGradient;
pub use shifted::ShiftedConvolution;

use std::error::Error;
use std::ffi::CStr;

use super::problem::Correlation;
use gpu::jit::{Function, Launch, Module};
use gpu::{Device, Element};

/// Threads of a block in all of these kernels.
const THREADS: usize = 256;
/// The pixels of a group.
const GROUP: usize = 8;
/// The most blocks of a launch, and of pixels that a kernel counts.
const MOST_COUNTED: usize = 1 << 30;

/// Returns whether the device has the products that a correlation needs, and the result has its input's size.
fn is_same(device: Device, of: &Correlation) -> bool {
    is_for_warpgroups(device, of) && (of.stride, of.padding) == (1, of.filter / 2) && of.from == of.to
}

/// Returns whether the device has the products that a correlation needs.
fn is_for_warpgroups(device: Device, of: &Correlation) -> bool {
    of.is_for_us() && of.element != Element::Float && device.has_warpgroup_products(device.ordinal())
}

/// A kernel whose blocks may have so many bytes of shared memory.
fn function(module: &Module, name: &CStr, shared_bytes: usize) -> Result<Function, Box<dyn Error>> {
    let function = module.function(name)?;
    function.allow_shared(shared_bytes as u32)?;
    Ok(function)
}

/// A launch of so many blocks, each with so many bytes of shared memory.
fn launch_of(blocks: usize, shared_bytes: usize) -> Launch {
    Launch {
        grid: [blocks as u32, 1, 1],
        block: [THREADS as u32, 1, 1],
        shared_bytes: shared_bytes as u32,
        ..Launch::default()
    }
}

/// Twin of `Images` in `kernels/convolution/groups.cuh`.
#[repr(C)]
struct Images {
    count: i32,
    height: i32,
    width: i32,
}

impl Images {
    fn of(count: usize, [height, width]: [usize; 2]) -> Self {
        Self { count: count as i32, height: height as i32, width: width as i32 }
    }
}
