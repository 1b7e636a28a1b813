//! What a graph is to run on.

use std::sync::Arc;

use cudnn_abi::*;

use super::descriptor::Owned;

/// What a graph is to run on: a handle's device, or one that need not be there.
#[derive(Clone)]
pub enum Target {
    /// The device of a handle, which outlives all that is made for it and serves one thread at a time.
    Handle(cudnnHandle_t),
    /// A device's properties: plans finalize for it and tell their workspaces,
    /// and run on any handle of such a device.
    Properties(Arc<Owned>),
}

// SAFETY: a handle is only handed on to cuDNN, which ties it to no thread; properties are finalized.
unsafe impl Send for Target {}
// SAFETY: as above; who uses a handle's target sees to it that one thread at a time does.
unsafe impl Sync for Target {}

impl Target {
    /// A device's properties from the JSON text in which cuDNN tells them
    /// (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`).
    pub fn from_json(text: &str) -> Result<Self, cudnnStatus_t> {
        let mut properties = Owned::create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text.as_bytes())?;
        properties.finalize()?;
        Ok(Self::Properties(Arc::new(properties)))
    }

    /// The properties of a handle's device. Plans made for them run on every handle of the device; the handle itself is
    /// not kept.
    pub fn of_device(handle: cudnnHandle_t) -> Result<Self, cudnnStatus_t> {
        let mut properties = Owned::create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        properties.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, &[handle])?;
        properties.finalize()?;
        Ok(Self::Properties(Arc::new(properties)))
    }

    /// The text that [`Self::from_json`] takes.
    pub fn json(&self) -> Result<String, cudnnStatus_t> {
        let Self::Properties(properties) = self else { return Err(CUDNN_STATUS_NOT_SUPPORTED) };
        let text = properties.get::<u8>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR)?;
        String::from_utf8(text).map_err(|_| CUDNN_STATUS_INTERNAL_ERROR)
    }

    /// Tells `descriptor` of the target by the attribute it has for it: one for a handle, one for properties.
    pub(super) fn set_on(
        &self,
        descriptor: &mut Owned,
        handle: Option<cudnnBackendAttributeName_t>,
        properties: Option<cudnnBackendAttributeName_t>,
    ) -> Result<(), cudnnStatus_t> {
        match (self, handle, properties) {
            (Self::Handle(raw), Some(name), _) => descriptor.set(name, CUDNN_TYPE_HANDLE, &[*raw]),
            (Self::Properties(owned), _, Some(name)) => descriptor.set_descriptors(name, &[owned]),
            _ => Ok(()),
        }
    }
}
