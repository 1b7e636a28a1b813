//! Dropout between the layers of a recurrent network.

use std::ffi::c_void;
use std::ptr;

use cudnn_abi::*;

use crate::calls;
use crate::owned::{OwnedTensor, checked};
use crate::tensor::Tensor;

/// The dropout of a network in training: cuDNN's own, by the program's descriptor, so that random numbers and states are
/// those of cuDNN.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    descriptor: cudnnDropoutDescriptor_t,
    /// The probability that an element is dropped, above 0.
    pub probability: f32,
}

impl Dropout {
    /// Reads a network's dropout descriptor. `None` if the probability is 0. `Err`: cuDNN refuses to tell.
    ///
    /// # Safety
    /// The caller keeps cuDNN's rules for the handle and the descriptor.
    pub unsafe fn read(
        handle: cudnnHandle_t,
        descriptor: cudnnDropoutDescriptor_t,
    ) -> Result<Option<Self>, cudnnStatus_t> {
        if descriptor.is_null() {
            return Ok(None);
        }
        let (mut probability, mut states, mut seed) = (0.0, ptr::null_mut(), 0);
        // SAFETY: the caller keeps cuDNN's rules for both, and each value has a place of its type.
        checked(unsafe {
            calls::cudnnGetDropoutDescriptor(descriptor, handle, &mut probability, &mut states, &mut seed)
        })?;
        Ok((probability != 0.0).then_some(Self { descriptor, probability }))
    }

    /// Drops elements, and scales the others so that the mean stays. If `draws`, it draws random numbers from the
    /// program's states, and notes in the mask which elements are dropped. Else it drops those that the mask notes.
    ///
    /// # Safety
    /// The handle's device has elements of the masked tensor at `from` and `to`, and the mask's bytes at `mask`.
    pub unsafe fn apply(
        &self,
        handle: cudnnHandle_t,
        masked: &Masked,
        (from, to): (*const c_void, *mut c_void),
        mask: *mut c_void,
        draws: bool,
    ) -> Result<(), String> {
        let run = if draws { calls::cudnnDropoutForward } else { calls::cudnnDropoutBackward };
        let (tensor, bytes) = (masked.tensor.raw(), masked.bytes);
        // SAFETY: the caller promises the memory; the descriptors are alive (see `read`).
        let status = checked(unsafe { run(handle, self.descriptor, tensor, from, tensor, to, mask, bytes) });
        status.map_err(|status| format!("cuDNN's dropout answered {status}"))
    }
}

/// A tensor whose elements are dropped.
pub struct Masked {
    tensor: OwnedTensor,
    /// Bytes of its mask.
    pub bytes: usize,
}

impl Masked {
    /// A tensor of packed rows. `Err` if cuDNN refuses it.
    pub fn new(data_type: cudnnDataType_t, rows: usize, width: usize) -> Result<Self, cudnnStatus_t> {
        let int = |size: usize| i32::try_from(size).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED);
        let (rows, width) = (int(rows)?, int(width)?);
        let tensor = Tensor { data_type, dims: [rows, width, 1, 1, 0], strides: [width, 1, 1, 1, 0] };
        let tensor = OwnedTensor::new(4, &tensor)?;
        let mut bytes = 0;
        // SAFETY: a live descriptor, and a place for the size.
        checked(unsafe { calls::cudnnDropoutGetReserveSpaceSize(tensor.raw(), &mut bytes) })?;
        Ok(Self { tensor, bytes })
    }
}
