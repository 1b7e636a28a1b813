//! Variant packs: where an execution finds its tensors and its workspace.

use super::*;

/// The most tensors.
const TENSORS_MAX: usize = 1 << 16;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::many(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, INTEGER, TENSORS_MAX).set_alone(),
        Attribute::many(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, POINTER, TENSORS_MAX).set_alone(),
        Attribute::one(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, POINTER),
        Attribute::many(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, INTEGER, TENSORS_MAX).set_alone(),
    ],
    finalize: |descriptor| {
        let ids = descriptor.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).to_vec();
        let pointers = descriptor.pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).to_vec();
        require(ids.len() == pointers.len(), "as many pointers as unique ids")?;
        let workspace = descriptor.pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).first().copied();
        if workspace.is_none() {
            descriptor.put(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, Value::Pointers(vec![0]));
        }
        let overrides = !descriptor.integers(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS).is_empty();
        let pack = Pack { ids, pointers, workspace: workspace.unwrap_or(0), overrides };
        descriptor.made = Some(Made::Pack(Arc::new(pack)));
        Ok(())
    },
};

/// A finalized variant pack.
#[derive(Debug)]
pub struct Pack {
    ids: Vec<i64>,
    pointers: Vec<usize>,
    /// The workspace's address; 0 if there is none.
    pub workspace: usize,
    /// Whether it asks for other shapes than the graph's.
    pub overrides: bool,
}

impl Pack {
    /// What a finalized descriptor of a variant pack holds.
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
