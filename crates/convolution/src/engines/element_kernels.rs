//! Compiles kernels that work on elements of any type of 2 or 4 bytes.

use std::ffi::CStr;

use gpu::Device;
use gpu::jit::{Function, Module, Source};
use kernels::KernelSource;

/// A source in `kernels/`, compiled for elements of one size.
pub struct ElementKernels(Module);

impl ElementKernels {
    /// Compiles and loads `source` on the calling thread's device. Beside the element's type the source may want options of
    /// its own. `Err` says why it cannot be had.
    pub fn load(device: Device, source: &KernelSource, element: usize, own: &[&str]) -> Result<Self, String> {
        let mut options = vec![
            format!("-DELEMENT={}", if element == 2 { "unsigned short" } else { "unsigned" }),
            format!("-DELEMENT_BYTES={element}"),
        ];
        options.extend(own.iter().map(|&option| option.to_owned()));
        device.load(&Source::new(source, options)).map(Self).map_err(|error| error.to_string())
    }

    /// One of the kernels, by name.
    pub fn function(&self, name: &CStr) -> Result<Function, String> {
        self.0.function(name).map_err(|error| error.to_string())
    }
}
