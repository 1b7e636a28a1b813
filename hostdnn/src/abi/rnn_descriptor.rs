//! RNN descriptors and their clipping.

use super::boundary::{refer, refer_mut, write, write_all};
use super::entries::*;
use crate::descriptor::{DropoutDescriptor, RnnDescriptor, RnnSettings};
use crate::error::Result;
use cudnn_abi::*;
use std::ffi::c_double;

/// Copies the dropout descriptor's settings: later changes to it, or its destruction, have no effect.
impl Answer for cudnnSetRNNDescriptor_v8 {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let descriptor = unsafe { refer_mut::<RnnDescriptor>(self.descriptor) }?;
        let dropout = if self.dropout.is_null() {
            DropoutDescriptor::default()
        } else {
            // SAFETY: not null, and live by cuDNN's contract.
            *unsafe { refer::<DropoutDescriptor>(self.dropout) }?
        };
        descriptor.set(RnnSettings {
            algorithm: self.algorithm,
            cell: self.cell,
            bias: self.bias,
            direction: self.direction,
            input_mode: self.input_mode,
            data_type: self.data_type,
            math_precision: self.math_precision,
            math_type: self.math_type,
            sizes: [self.input, self.hidden, self.projection, self.layers],
            dropout_address: self.dropout as usize,
            dropout,
            flags: self.flags,
        })
    }
}

impl Answer for cudnnGetRNNDescriptor_v8 {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let s = refer::<RnnDescriptor>(self.descriptor)?.settings()?;
            let [input, hidden, projection, layers] = s.sizes;
            let outs = [
                (self.algorithm, s.algorithm),
                (self.cell, s.cell),
                (self.bias, s.bias),
                (self.direction, s.direction),
                (self.input_mode, s.input_mode),
                (self.data_type, s.data_type),
                (self.math_precision, s.math_precision),
                (self.math_type, s.math_type),
                (self.input, input),
                (self.hidden, hidden),
                (self.projection, projection),
                (self.layers, layers),
            ];
            write_all(outs.map(|(to, _)| to), outs.map(|(_, value)| value))?;
            write(self.dropout, s.dropout_address as cudnnDropoutDescriptor_t)?;
            write(self.flags, s.flags)
        }
    }
}

impl Answer for cudnnRNNSetClip_v8 {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, mode, propagate_nan, least, greatest } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let descriptor = unsafe { refer_mut::<RnnDescriptor>(descriptor) }?;
        descriptor.set_clipping(mode, Some(propagate_nan), [least, greatest])
    }
}

impl Answer for cudnnRNNSetClip_v9 {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, mode, least, greatest } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<RnnDescriptor>(descriptor) }?.set_clipping(mode, None, [least, greatest])
    }
}

/// Null results are skipped.
impl Answer for cudnnRNNGetClip_v8 {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, mode, propagate_nan, least, greatest } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { read_clipping(descriptor, mode, propagate_nan, [least, greatest]) }
    }
}

/// Null results are skipped.
impl Answer for cudnnRNNGetClip_v9 {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, mode, least, greatest } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { read_clipping(descriptor, mode, std::ptr::null_mut(), [least, greatest]) }
    }
}

/// # Safety
/// The descriptor is null or live, and results are null or valid for a write.
unsafe fn read_clipping(
    descriptor: cudnnRNNDescriptor_t,
    mode: *mut cudnnRNNClipMode_t,
    nan_propagation: *mut cudnnNanPropagation_t,
    range: [*mut c_double; 2],
) -> crate::error::Result {
    // SAFETY: the caller's promise.
    unsafe {
        let clipping = refer::<RnnDescriptor>(descriptor)?.clipping();
        for (to, value) in [(mode, clipping.mode), (nan_propagation, clipping.nan_propagation)] {
            if !to.is_null() {
                write(to, value)?;
            }
        }
        for (to, value) in range.into_iter().zip(clipping.range) {
            if !to.is_null() {
                write(to, value)?;
            }
        }
    }
    Ok(())
}
