//! Our own cuDNN handles and descriptors, each destroyed with its owner.

use std::ffi::c_int;
use std::ptr;

use cudnn_abi::*;

use crate::calls;

use crate::rnn::{Data, Network};
use crate::tensor::Tensor;

macro_rules! owned {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $create:path, $destroy:path) => {
        $(#[$doc])*
        pub struct $name($raw);

        // SAFETY: a cuDNN descriptor is plain memory that only its setters change, and this one is set before any other
        // thread sees it.
        unsafe impl Send for $name {}
        // SAFETY: a shared descriptor is only read, because it is set before any other thread sees it.
        unsafe impl Sync for $name {}

        impl $name {
            pub fn create() -> Result<Self, cudnnStatus_t> {
                let mut raw = ptr::null_mut();
                // SAFETY: cuDNN writes one pointer to `raw`.
                checked(unsafe { $create(&mut raw) })?;
                Ok(Self(raw))
            }

            /// The descriptor, valid as long as `self`.
            pub fn raw(&self) -> $raw {
                self.0
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: `create` made the descriptor, and `drop` runs once.
                unsafe { $destroy(self.0) };
            }
        }
    };
}

owned!(
    /// A tensor descriptor.
    OwnedTensor,
    cudnnTensorDescriptor_t,
    calls::cudnnCreateTensorDescriptor,
    calls::cudnnDestroyTensorDescriptor
);
owned!(
    /// A filter descriptor.
    OwnedFilter,
    cudnnFilterDescriptor_t,
    calls::cudnnCreateFilterDescriptor,
    calls::cudnnDestroyFilterDescriptor
);
owned!(
    /// A convolution descriptor.
    OwnedConvolution,
    cudnnConvolutionDescriptor_t,
    calls::cudnnCreateConvolutionDescriptor,
    calls::cudnnDestroyConvolutionDescriptor
);
owned!(
    /// A descriptor of an element-wise operation.
    OwnedOpTensor,
    cudnnOpTensorDescriptor_t,
    calls::cudnnCreateOpTensorDescriptor,
    calls::cudnnDestroyOpTensorDescriptor
);

owned!(
    /// A dropout descriptor.
    OwnedDropout,
    cudnnDropoutDescriptor_t,
    calls::cudnnCreateDropoutDescriptor,
    calls::cudnnDestroyDropoutDescriptor
);
owned!(
    /// A descriptor of a batch of sequences.
    OwnedRnnData,
    cudnnRNNDataDescriptor_t,
    calls::cudnnCreateRNNDataDescriptor,
    calls::cudnnDestroyRNNDataDescriptor
);
owned!(
    /// A recurrent network's descriptor, without its dropout descriptor.
    RnnDescriptor,
    cudnnRNNDescriptor_t,
    calls::cudnnCreateRNNDescriptor,
    calls::cudnnDestroyRNNDescriptor
);

/// A handle for the device that was current at its creation; one thread at a time may use it.
pub struct OwnedHandle(cudnnHandle_t);

impl OwnedHandle {
    /// A handle whose work goes to `stream`, which must outlive it.
    pub fn new(stream: calls::Stream) -> Result<Self, cudnnStatus_t> {
        let mut raw = ptr::null_mut();
        // SAFETY: cuDNN writes one handle to `raw`.
        checked(unsafe { calls::cudnnCreate(&mut raw) })?;
        let handle = Self(raw);
        // SAFETY: the handle was just created, and the caller passes a stream of its device.
        checked(unsafe { calls::cudnnSetStream(handle.0, stream.cast()) })?;
        Ok(handle)
    }

    /// The handle, valid as long as `self`.
    pub fn raw(&self) -> cudnnHandle_t {
        self.0
    }
}

impl Drop for OwnedHandle {
    fn drop(&mut self) {
        // SAFETY: `new` made the handle, and `drop` runs once.
        unsafe { calls::cudnnDestroy(self.0) };
    }
}

pub fn checked(status: cudnnStatus_t) -> Result<(), cudnnStatus_t> {
    if status == CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

impl OwnedTensor {
    /// An unset descriptor, for cuDNN to write to.
    pub fn unset() -> Result<Self, cudnnStatus_t> {
        Self::create()
    }

    /// A tensor of the first `rank` dimensions and strides of `tensor`.
    pub fn new(rank: usize, tensor: &Tensor) -> Result<Self, cudnnStatus_t> {
        let owned = Self::create()?;
        // SAFETY: `rank` is at most MAX_RANK, the length of both arrays.
        checked(unsafe {
            calls::cudnnSetTensorNdDescriptor(
                owned.0,
                tensor.data_type,
                rank as c_int,
                tensor.dims.as_ptr(),
                tensor.strides.as_ptr(),
            )
        })?;
        Ok(owned)
    }

    /// A row of `count` packed values.
    pub fn row(data_type: cudnnDataType_t, count: usize) -> Result<Self, cudnnStatus_t> {
        let count = c_int::try_from(count).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED)?;
        let row = Tensor { data_type, dims: [1, 1, 1, count, 0], strides: [count, count, count, 1, 0] };
        Self::new(4, &row)
    }
}

impl OwnedRnnData {
    /// A batch of sequences.
    pub fn new(data: &Data) -> Result<Self, cudnnStatus_t> {
        let owned = Self::create()?;
        let int = |size: usize| c_int::try_from(size).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED);
        let mut fill = data.padding_fill;
        // SAFETY: `lengths` has one entry per sequence, and `fill` holds one element of any type.
        checked(unsafe {
            calls::cudnnSetRNNDataDescriptor(
                owned.0,
                data.data_type,
                data.layout,
                int(data.steps)?,
                int(data.batch())?,
                int(data.vector)?,
                data.lengths.as_ptr(),
                fill.as_mut_ptr().cast(),
            )
        })?;
        Ok(owned)
    }
}

/// A recurrent network's descriptor, with the dropout descriptor (probability 0) that it refers to.
pub struct OwnedRnn {
    descriptor: RnnDescriptor,
    _dropout: OwnedDropout,
}

impl OwnedRnn {
    /// The descriptor of `network`: unclipped, computed in double for double data and in float for all other types.
    pub fn new(handle: &OwnedHandle, network: &Network) -> Result<Self, cudnnStatus_t> {
        let (descriptor, dropout) = (RnnDescriptor::create()?, OwnedDropout::create()?);
        let int = |size: usize| i32::try_from(size).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED);
        // SAFETY: the handle and both descriptors are live; a dropout probability of 0 needs no states.
        unsafe {
            checked(calls::cudnnSetDropoutDescriptor(dropout.raw(), handle.0, 0.0, ptr::null_mut(), 0, 0))?;
            checked(calls::cudnnSetRNNDescriptor_v8(
                descriptor.raw(),
                network.algorithm,
                network.cell,
                network.bias,
                network.direction,
                network.input_mode,
                network.data_type,
                if network.data_type == CUDNN_DATA_DOUBLE { CUDNN_DATA_DOUBLE } else { CUDNN_DATA_FLOAT },
                network.math_type,
                int(network.input)?,
                int(network.hidden)?,
                int(network.projection)?,
                int(network.layers)?,
                dropout.raw(),
                network.flags,
            ))?;
        }
        Ok(Self { descriptor, _dropout: dropout })
    }

    /// The descriptor, valid as long as `self`.
    pub fn raw(&self) -> cudnnRNNDescriptor_t {
        self.descriptor.raw()
    }
}

impl OwnedOpTensor {
    /// A sum of tensors, computed in float.
    pub fn add() -> Result<Self, cudnnStatus_t> {
        let owned = Self::create()?;
        // SAFETY: a live descriptor and plain values.
        checked(unsafe {
            calls::cudnnSetOpTensorDescriptor(owned.0, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN)
        })?;
        Ok(owned)
    }
}
