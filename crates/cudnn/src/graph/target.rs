//! The device that a graph is for.

use std::sync::Arc;

use cudnn_abi::*;

use crate::graph::descriptor::Owned;

/// The properties of a device, which need not be present. Plans finalize for these properties and report their
/// workspaces; they run on any handle of such a device.
#[derive(Clone)]
pub struct Target(Arc<Owned>);

impl Target {
    /// A device's properties from cuDNN's JSON text for them (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`).
    pub fn from_json(text: &str) -> Result<Self, cudnnStatus_t> {
        let mut properties = Owned::create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text.as_bytes())?;
        properties.finalize()?;
        Ok(Self(Arc::new(properties)))
    }

    /// The properties of the handle's device. Plans made for them run on every handle of that device; the handle itself
    /// is not kept.
    pub fn of_device(handle: cudnnHandle_t) -> Result<Self, cudnnStatus_t> {
        let mut properties = Owned::create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        properties.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, &[handle])?;
        properties.finalize()?;
        Ok(Self(Arc::new(properties)))
    }

    /// The text for [`Self::from_json`].
    pub fn json(&self) -> Result<String, cudnnStatus_t> {
        let text = self.0.get::<u8>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR)?;
        String::from_utf8(text).map_err(|_| CUDNN_STATUS_INTERNAL_ERROR)
    }

    /// Sets the target on `descriptor`, under the attribute that its kind has for device properties.
    pub fn set_on(&self, descriptor: &mut Owned, name: cudnnBackendAttributeName_t) -> Result<(), cudnnStatus_t> {
        descriptor.set_descriptors(name, &[&self.0])
    }
}
