//! Group normalization, backward.

use std::ffi::c_void;

use crate::kernels::{Engine, WARPS};
use crate::shape::{Cut, Groups, Shape};
use crate::subject::Normalization;
use gpu::{Stream, jit};

/// Twin of `GroupBackward` in `kernels/norm/group_backward.cu`. Numbers for each channel, and for each group of each image,
/// have the type of parameters that the kernels are compiled for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GroupBackward {
    pub shape: Shape,
    pub groups: Groups,
    /// Aligned to 16 bytes, as dy and dx.
    pub x: *const c_void,
    pub dy: *const c_void,
    pub dx: *mut c_void,
    /// For each channel. Null for 1.
    pub weight: *const c_void,
    /// For each group of each image.
    pub saved_mean: *const c_void,
    pub saved_inverse: *const c_void,
    /// For each channel. Null where nobody asks for it, as dbias.
    pub dweight: *mut c_void,
    pub dbias: *mut c_void,
    /// [`partial_bytes`] of memory, aligned to 16 bytes. Null where nobody asks for dweight and dbias.
    pub partial: *mut c_void,
}

/// The bytes of a `Sums`.
const SUMS_BYTES: usize = 16;

/// The bytes of sums that the gradients of parameters take.
pub fn partial_bytes(subject: &Normalization, shape: &Shape) -> usize {
    let groups = subject.groups.unwrap_or(1);
    let of_group = subject.planes.channels / groups + shape.blocks() * WARPS;
    subject.planes.images * groups * of_group * SUMS_BYTES
}

impl GroupBackward {
    /// Runs the pass.
    ///
    /// # Safety
    /// As for [`Engine::launch`].
    pub unsafe fn launch(
        self,
        engine: &Engine,
        stream: Stream,
        subject: &Normalization,
        cut: &Cut,
    ) -> Result<(), jit::Error> {
        // SAFETY: the same kernels, subject and memory (see `# Safety`). The second kernel reads what the first has stored.
        unsafe {
            engine.launch(stream, subject, cut, self)?;
            if self.partial.is_null() { Ok(()) } else { engine.launch_behind(stream, subject.planes.channels, self) }
        }
    }
}
