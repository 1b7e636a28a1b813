//! The graph API of one library, loaded by its path.

use cudnn_abi::*;
use libloading::Library;
use std::ffi::c_void;
use std::path::Path;

type Descriptor = cudnnBackendDescriptor_t;

macro_rules! backend {
    ($($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// One library's functions.
        #[allow(non_snake_case)]
        pub struct Backend {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Backend {
            /// The library stays loaded.
            pub fn open(path: &Path) -> Self {
                // SAFETY: the constructors of cuDNN, hostdnn and libucudnn need nothing of the process.
                let library = unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let library: &Library = Box::leak(Box::new(library));
                // SAFETY: cuDNN declares the functions with these types.
                unsafe {
                    Self { $($name: *library.get(concat!(stringify!($name), "\0")).unwrap(),)* }
                }
            }
        }
    };
}
backend! {
    cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, *mut Descriptor) -> cudnnStatus_t;
    cudnnBackendDestroyDescriptor(Descriptor) -> cudnnStatus_t;
    cudnnBackendFinalize(Descriptor) -> cudnnStatus_t;
    cudnnBackendSetAttribute(
        Descriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i64, *const c_void
    ) -> cudnnStatus_t;
    cudnnBackendGetAttribute(
        Descriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i64, *mut i64, *mut c_void
    ) -> cudnnStatus_t;
    cudnnBackendExecute(cudnnHandle_t, Descriptor, Descriptor) -> cudnnStatus_t;
    cudnnGetVersion() -> usize;
}
