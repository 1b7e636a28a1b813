//! Making and freeing handles and descriptors.

use super::boundary::{Context, create, destroy};
use super::entries::*;
use crate::descriptor::*;
use crate::error::Result;

macro_rules! objects {
    ($($object:ty, $argument:ident: $create:ident $destroy:ident;)*) => {$(
        impl Answer for $create {
            unsafe fn answer(self) -> Result {
                // SAFETY: the pointer is null or valid by cuDNN's contract.
                unsafe { create::<$object>(self.$argument) }
            }
        }

        impl Answer for $destroy {
            unsafe fn answer(self) -> Result {
                // SAFETY: null or a live object by cuDNN's contract.
                unsafe { destroy::<$object>(self.$argument) }
            }
        }
    )*};
}

objects! {
    Context, handle: cudnnCreate cudnnDestroy;
    TensorDescriptor, descriptor: cudnnCreateTensorDescriptor cudnnDestroyTensorDescriptor;
    FilterDescriptor, descriptor: cudnnCreateFilterDescriptor cudnnDestroyFilterDescriptor;
    ConvolutionDescriptor, descriptor: cudnnCreateConvolutionDescriptor cudnnDestroyConvolutionDescriptor;
    ActivationDescriptor, descriptor: cudnnCreateActivationDescriptor cudnnDestroyActivationDescriptor;
    OpTensorDescriptor, descriptor: cudnnCreateOpTensorDescriptor cudnnDestroyOpTensorDescriptor;
    DropoutDescriptor, descriptor: cudnnCreateDropoutDescriptor cudnnDestroyDropoutDescriptor;
    RnnDescriptor, descriptor: cudnnCreateRNNDescriptor cudnnDestroyRNNDescriptor;
    RnnDataDescriptor, descriptor: cudnnCreateRNNDataDescriptor cudnnDestroyRNNDataDescriptor;
}
