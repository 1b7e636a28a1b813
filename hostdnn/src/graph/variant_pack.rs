//! Variant packs: the addresses of an execution's tensors and workspace.

use super::*;

/// The most tensors.
const TENSORS_MAX: usize = 1 << 16;

const fn many(name: cudnnBackendAttributeName_t, types: &'static [cudnnBackendAttributeType_t]) -> Attribute {
    Attribute::many(name, types, TENSORS_MAX).answering(NOT_SUPPORTED, BAD_PARAM)
}

/// Shapes other than the graph's: setting them succeeds, and executing a plan with them is refused.
const fn overriding(name: cudnnBackendAttributeName_t, types: &'static [cudnnBackendAttributeType_t]) -> Attribute {
    many(name, types).unreadable(BAD_PARAM)
}

pub const KIND: Kind = Kind {
    attributes: &[
        many(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, INTEGER).unreadable(NOT_SUPPORTED),
        many(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, POINTER).unreadable(NOT_SUPPORTED),
        many(CUDNN_ATTR_VARIANT_PACK_INTERMEDIATES, POINTER).unsettable(NOT_SUPPORTED).unreadable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, POINTER)
            .answering(NOT_SUPPORTED, BAD_PARAM)
            .read_as(POINTER, CUDNN_STATUS_NOT_INITIALIZED)
            .or_null(),
        overriding(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, INTEGER),
        overriding(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, POINTER),
        overriding(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES, POINTER),
    ],
    finalize: |descriptor| {
        let ids = descriptor.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).to_vec();
        let pointers = descriptor.pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).to_vec();
        require(ids.len() == pointers.len(), "as many pointers as unique ids")?;
        let workspace = descriptor.pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).first().copied().unwrap_or(0);
        let overrides = !descriptor.integers(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS).is_empty();
        let pack = Pack { ids, pointers, workspace, overrides };
        descriptor.made = Some(Made::Pack(Arc::new(pack)));
        Ok(())
    },
    ..Kind::USUAL
};

/// A finalized variant pack.
#[derive(Debug)]
pub struct Pack {
    ids: Vec<i64>,
    pointers: Vec<usize>,
    /// The workspace's address; 0 if there is none.
    pub workspace: usize,
    /// Whether it has other shapes than the graph's.
    pub overrides: bool,
}

impl Pack {
    /// The pack of a finalized descriptor.
    pub fn of(descriptor: &Descriptor) -> Result<&Self> {
        match &descriptor.made {
            Some(Made::Pack(pack)) => Ok(pack),
            _ => Err(Error::new(CUDNN_STATUS_BAD_PARAM, "a variant pack that is finalized")),
        }
    }

    /// The address of a tensor.
    pub fn address(&self, uid: i64) -> Option<usize> {
        self.ids.iter().position(|&id| id == uid).map(|place| self.pointers[place])
    }
}
