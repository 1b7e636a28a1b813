//! The graph API of one library, loaded by its path.

use cudnn_abi::*;
use libloading::Library;
use std::ffi::{c_char, c_void};
use std::path::Path;

type Descriptor = cudnnBackendDescriptor_t;

macro_rules! backend {
    ($($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// One library's functions.
        #[allow(non_snake_case)]
        pub struct Backend {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
            pub library: Library,
        }

        impl Backend {
            pub fn open(path: &Path) -> Self {
                // SAFETY: loading cuDNN or hostdnn runs nothing that needs care.
                let library = unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                // SAFETY: the types are cuDNN's.
                unsafe {
                    Self { $($name: *library.get(concat!(stringify!($name), "\0")).unwrap(),)* library }
                }
            }
        }
    };
}
backend! {
    cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, *mut Descriptor) -> cudnnStatus_t;
    cudnnBackendDestroyDescriptor(Descriptor) -> cudnnStatus_t;
    cudnnBackendInitialize(Descriptor) -> cudnnStatus_t;
    cudnnBackendFinalize(Descriptor) -> cudnnStatus_t;
    cudnnBackendSetAttribute(
        Descriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i64, *const c_void
    ) -> cudnnStatus_t;
    cudnnBackendGetAttribute(
        Descriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i64, *mut i64, *mut c_void
    ) -> cudnnStatus_t;
    cudnnBackendExecute(cudnnHandle_t, Descriptor, Descriptor) -> cudnnStatus_t;
    cudnnGetLastErrorString(*mut c_char, usize) -> ();
}
