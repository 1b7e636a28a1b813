//! What a graph is to run on.

use std::sync::Arc;

use cudnn_abi::*;

use crate::graph::descriptor::Owned;

/// A device's properties, of one that need not be there: plans finalize for them and tell their workspaces, and run on any
/// handle of such a device.
#[derive(Clone)]
pub struct Target(Arc<Owned>);

impl Target {
    /// A device's properties from the JSON text in which cuDNN tells them
    /// (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`).
    pub fn from_json(text: &str) -> Result<Self, cudnnStatus_t> {
        let mut properties = Owned::create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text.as_bytes())?;
        properties.finalize()?;
        Ok(Self(Arc::new(properties)))
    }

    /// The properties of a handle's device. Plans made for them run on every handle of the device; the handle itself is
    /// not kept.
    pub fn of_device(handle: cudnnHandle_t) -> Result<Self, cudnnStatus_t> {
        let mut properties = Owned::create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        properties.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, &[handle])?;
        properties.finalize()?;
        Ok(Self(Arc::new(properties)))
    }

    /// The text that [`Self::from_json`] takes.
    pub fn json(&self) -> Result<String, cudnnStatus_t> {
        let text = self.0.get::<u8>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR)?;
        String::from_utf8(text).map_err(|_| CUDNN_STATUS_INTERNAL_ERROR)
    }

    /// Tells `descriptor` of the target by the attribute it has for a device's properties.
    pub fn set_on(&self, descriptor: &mut Owned, name: cudnnBackendAttributeName_t) -> Result<(), cudnnStatus_t> {
        descriptor.set_descriptors(name, &[&self.0])
    }
}
