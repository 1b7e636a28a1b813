//! The memory that one execution of a plan works on.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::graph::descriptor::Owned;

/// A finalized variant pack: the memory of each tensor, and the workspace.
pub struct VariantPack(Owned);

impl VariantPack {
    /// `pointers` follow the order of the tensors' unique `ids`; neither includes virtual tensors. `workspace` may be
    /// null if the plan needs none. Takes well below 1 µs; cuDNN refuses changes to a finalized pack.
    pub fn new(ids: &[i64], pointers: &[*mut c_void], workspace: *mut c_void) -> Result<Self, cudnnStatus_t> {
        let mut pack = Owned::create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids)?;
        pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers)?;
        pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &[workspace])?;
        pack.finalize()?;
        Ok(Self(pack))
    }

    /// The descriptor, valid as long as `self`.
    pub fn raw(&self) -> cudnnBackendDescriptor_t {
        self.0.raw()
    }
}
