//! A call of `cudnnRNNForward`.

use std::ops::Deref;

use crate::network::memory::Memory;
use cudnn::arguments::{Promised, RnnForward};

/// A call of `cudnnRNNForward`: its arguments. `device_lengths` are the copy of x's sequence lengths that cuDNN's kernels
/// read; our kernels take those in x's descriptor.
#[derive(Clone, Copy)]
pub struct Call(pub Promised<RnnForward>);

impl Deref for Call {
    type Target = Promised<RnnForward>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Call {
    /// The buffers.
    pub fn memory(&self) -> Memory {
        Memory {
            x: self.x,
            y: self.y,
            hx: self.hx,
            hy: self.hy,
            cx: self.cx,
            cy: self.cy,
            weight_space: self.weight_space,
            weight_space_size: self.weight_space_size,
            workspace: self.workspace,
            workspace_size: self.workspace_size,
        }
    }
}
