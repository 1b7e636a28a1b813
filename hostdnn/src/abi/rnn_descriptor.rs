//! RNN descriptors and their clipping.

use super::boundary::{create, destroy, refer, refer_mut, write, write_all};
use crate::descriptor::{DropoutDescriptor, RnnDescriptor, RnnSettings};
use cudnn_abi::*;
use std::ffi::c_double;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateRNNDescriptor(rnnDesc: *mut cudnnRNNDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnCreateRNNDescriptor, { unsafe { create::<RnnDescriptor>(rnnDesc) } })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDestroyRNNDescriptor(rnnDesc: cudnnRNNDescriptor_t) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnDestroyRNNDescriptor, { unsafe { destroy::<RnnDescriptor>(rnnDesc) } })
}

/// Copies the dropout descriptor's settings: later changes to it, or its destruction, have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetRNNDescriptor_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    algo: cudnnRNNAlgo_t,
    cellMode: cudnnRNNMode_t,
    biasMode: cudnnRNNBiasMode_t,
    dirMode: cudnnDirectionMode_t,
    inputMode: cudnnRNNInputMode_t,
    dataType: cudnnDataType_t,
    mathPrec: cudnnDataType_t,
    mathType: cudnnMathType_t,
    inputSize: i32,
    hiddenSize: i32,
    projSize: i32,
    numLayers: i32,
    dropoutDesc: cudnnDropoutDescriptor_t,
    auxFlags: u32,
) -> cudnnStatus_t {
    export!(cudnnSetRNNDescriptor_v8, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let descriptor = unsafe { refer_mut::<RnnDescriptor>(rnnDesc) }?;
        let dropout = if dropoutDesc.is_null() {
            DropoutDescriptor::default()
        } else {
            // SAFETY: not null, and live by cuDNN's contract.
            *unsafe { refer::<DropoutDescriptor>(dropoutDesc) }?
        };
        descriptor.set(RnnSettings {
            algo,
            cell: cellMode,
            bias: biasMode,
            direction: dirMode,
            input_mode: inputMode,
            data_type: dataType,
            math_precision: mathPrec,
            math_type: mathType,
            sizes: [inputSize, hiddenSize, projSize, numLayers],
            dropout_address: dropoutDesc as usize,
            dropout,
            flags: auxFlags,
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNDescriptor_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    algo: *mut cudnnRNNAlgo_t,
    cellMode: *mut cudnnRNNMode_t,
    biasMode: *mut cudnnRNNBiasMode_t,
    dirMode: *mut cudnnDirectionMode_t,
    inputMode: *mut cudnnRNNInputMode_t,
    dataType: *mut cudnnDataType_t,
    mathPrec: *mut cudnnDataType_t,
    mathType: *mut cudnnMathType_t,
    inputSize: *mut i32,
    hiddenSize: *mut i32,
    projSize: *mut i32,
    numLayers: *mut i32,
    dropoutDesc: *mut cudnnDropoutDescriptor_t,
    auxFlags: *mut u32,
) -> cudnnStatus_t {
    export!(cudnnGetRNNDescriptor_v8, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            let s = refer::<RnnDescriptor>(rnnDesc)?.settings()?;
            let [input, hidden, projection, layers] = s.sizes;
            write_all(
                [
                    algo, cellMode, biasMode, dirMode, inputMode, dataType, mathPrec, mathType, inputSize, hiddenSize,
                    projSize, numLayers,
                ],
                [
                    s.algo,
                    s.cell,
                    s.bias,
                    s.direction,
                    s.input_mode,
                    s.data_type,
                    s.math_precision,
                    s.math_type,
                    input,
                    hidden,
                    projection,
                    layers,
                ],
            )?;
            write(dropoutDesc, s.dropout_address as cudnnDropoutDescriptor_t)?;
            write(auxFlags, s.flags)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNSetClip_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: cudnnRNNClipMode_t,
    clipNanOpt: cudnnNanPropagation_t,
    lclip: c_double,
    rclip: c_double,
) -> cudnnStatus_t {
    export!(cudnnRNNSetClip_v8, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let descriptor = unsafe { refer_mut::<RnnDescriptor>(rnnDesc) }?;
        descriptor.set_clipping(clipMode, Some(clipNanOpt), [lclip, rclip])
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNSetClip_v9(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: cudnnRNNClipMode_t,
    lclip: c_double,
    rclip: c_double,
) -> cudnnStatus_t {
    export!(cudnnRNNSetClip_v9, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { refer_mut::<RnnDescriptor>(rnnDesc) }?.set_clipping(clipMode, None, [lclip, rclip])
    })
}

/// Null results are skipped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNGetClip_v8(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: *mut cudnnRNNClipMode_t,
    clipNanOpt: *mut cudnnNanPropagation_t,
    lclip: *mut c_double,
    rclip: *mut c_double,
) -> cudnnStatus_t {
    // SAFETY: each pointer is null or valid by cuDNN's contract.
    export!(cudnnRNNGetClip_v8, { unsafe { read_clipping(rnnDesc, clipMode, clipNanOpt, [lclip, rclip]) } })
}

/// Null results are skipped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnRNNGetClip_v9(
    rnnDesc: cudnnRNNDescriptor_t,
    clipMode: *mut cudnnRNNClipMode_t,
    lclip: *mut c_double,
    rclip: *mut c_double,
) -> cudnnStatus_t {
    export!(cudnnRNNGetClip_v9, {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { read_clipping(rnnDesc, clipMode, std::ptr::null_mut(), [lclip, rclip]) }
    })
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
