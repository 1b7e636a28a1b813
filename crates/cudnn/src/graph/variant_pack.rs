//! What one execution of a plan works on.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::graph::descriptor::Owned;

/// A finalized variant pack: the memory of each tensor, and the workspace.
pub struct VariantPack(Owned);

impl VariantPack {
    /// `pointers` in the order of the tensors' unique ids, both without virtual tensors. `workspace` may be null where
    /// the plan needs none. Takes well below a microsecond; cuDNN refuses to set a finalized one again.
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
