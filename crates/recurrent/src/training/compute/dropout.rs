//! Dropout of a layer's output, by cuDNN's own masks.

use std::ffi::c_void;

use crate::training::compute::pass::Running;
use gpu::Element;

/// Drops elements of a layer's output, from one place to another. The mask is drawn anew if `draws`, and else the one that
/// is there.
///
/// cuDNN drops no bfloat16: it answers 3000. So it drops halves of 1 instead, which gives the same mask. Then a kernel of
/// our dropout keeps the elements whose ones cuDNN has kept.
///
/// # Safety
/// The memory is the stream's device's, as large as the pass says.
pub unsafe fn apply(
    running: &Running,
    (from, to): (*const c_void, *mut c_void),
    mask: *mut c_void,
    draws: bool,
) -> Result<(), String> {
    let pass = running.pass;
    let (dropout, masked) = pass.dropout.as_ref().ok_or("the network drops nothing")?;
    // SAFETY: the caller promises the memory.
    unsafe {
        if pass.element != Element::Bfloat16 {
            return dropout.apply(pass.handle, masked, (from, to), mask, draws);
        }
        let (around, count) = (&running.engine.around, pass.packing.rows * pass.output());
        let text = |error: gpu::jit::Error| error.to_string();
        around.fill_ones(pass.stream, to, count).map_err(text)?;
        dropout.apply(pass.handle, masked, (to.cast_const(), to), mask, draws)?;
        around.keep(pass.stream, (from, to), count, 1.0 / (1.0 - dropout.probability)).map_err(text)
    }
}
