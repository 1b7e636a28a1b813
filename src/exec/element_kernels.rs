//! Compiles kernels that work on elements of any type of 2 or 4 bytes.

use std::ffi::CStr;

use crate::device::Device;
use crate::device::jit::{Function, Module, Source};

/// A source in `kernels/`, compiled for elements of one size.
pub struct ElementKernels(Module);

impl ElementKernels {
    /// Compiles and loads `text` on the calling thread's device, for elements of `element` bytes. `own` holds further
    /// options of this source. `Err` says why the kernels are unavailable.
    pub fn load(
        device: Device,
        name: &'static str,
        text: &'static str,
        element: usize,
        own: &[&str],
    ) -> Result<Self, String> {
        let mut options = vec![
            format!("-DELEMENT={}", if element == 2 { "unsigned short" } else { "unsigned" }),
            format!("-DELEMENT_BYTES={element}"),
        ];
        options.extend(own.iter().map(|&option| option.to_owned()));
        let headers = &[("device.cuh", include_str!("../../kernels/device.cuh"))];
        let source = Source { name, text, headers, options };
        device.load(&source).map(Self).map_err(|error| error.to_string())
    }

    /// One of the kernels, by name.
    pub fn function(&self, name: &CStr) -> Result<Function, String> {
        self.0.function(name).map_err(|error| error.to_string())
    }
}
