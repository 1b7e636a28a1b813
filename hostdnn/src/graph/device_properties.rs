//! A device's properties, for planning without a handle. There is one CPU: the text is kept, and changes nothing.

use super::*;

/// The longest text.
const TEXT_MAX: usize = 1 << 16;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, INTEGER_32).or(0),
        Attribute::one(CUDNN_ATTR_DEVICEPROP_HANDLE, HANDLE)
            .null(Null::Refused(CUDNN_STATUS_BAD_PARAM_NULL_POINTER))
            .unreadable(NOT_SUPPORTED),
        Attribute::many(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, TEXT, TEXT_MAX).listing(Listing::Whole),
    ],
    finalize: |descriptor| {
        let text = descriptor.integers(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
        if text.is_empty() {
            let name = crate::device::name(descriptor.enumerator(CUDNN_ATTR_DEVICEPROP_DEVICE_ID));
            let name = name.ok_or_else(|| Error::new(CUDNN_STATUS_BAD_PARAM, "there is no such device"))?;
            let name: String = name.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
            let threads = rayon::current_num_threads();
            let text = format!("{{\"deviceName\": \"{name}\", \"threads\": {threads}}}");
            let text = Value::Integers(text.bytes().map(i64::from).collect());
            descriptor.put(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text);
            return Ok(());
        }
        let is = |byte: u8| move |c: &&i64| **c == i64::from(byte);
        let visible = || text.iter().filter(|&&c| c > i64::from(b' '));
        let object = visible().next().filter(is(b'{')).is_some() && visible().next_back().filter(is(b'}')).is_some();
        require(object, "a device's properties are a JSON object")
    },
    ..Kind::USUAL
};

/// A descriptor's attribute for them. Any other kind of descriptor, with which cuDNN crashes, is refused.
pub const fn attribute(name: cudnnBackendAttributeName_t) -> Attribute {
    Attribute::one(name, DESCRIPTOR).answering(ATTRIBUTE_TYPE, NOT_SUPPORTED).admitting(|properties| {
        require(properties.kind() == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "properties of a device")
    })
}

/// The device properties that an attribute is set to, if any, are finalized.
pub fn check(descriptor: &Descriptor, name: cudnnBackendAttributeName_t) -> Result {
    if descriptor.descriptors(name).is_empty() {
        return Ok(());
    }
    let early = (BAD_PARAM, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    descriptor.finalized(name, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "the device's properties", early).map(drop)
}
