//! The two libraries, loaded side by side.

use crate::built;
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

pub type Desc = *mut c_void;
pub type Ints = *const c_int;
pub type Out = *mut c_int;

macro_rules! api {
    ($($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// One of the two libraries.
        #[allow(non_snake_case)]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
            pub library: Library,
        }

        impl Api {
            fn open(path: &Path) -> Self {
                // SAFETY: the constructors of cuDNN and hostdnn need nothing of the process.
                let library = unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                // SAFETY: the types above are cuDNN's.
                unsafe {
                    Self { $($name: *library.get(concat!(stringify!($name), "\0")).unwrap(),)* library }
                }
            }
        }
    };
}
api! {
    cudnnGetVersion() -> usize;
    cudnnGetErrorString(c_int) -> *const c_char;
    cudnnGetProperty(c_int, Out) -> c_int;
    cudnnCreateTensorDescriptor(*mut Desc) -> c_int;
    cudnnCreateFilterDescriptor(*mut Desc) -> c_int;
    cudnnCreateConvolutionDescriptor(*mut Desc) -> c_int;
    cudnnCreateActivationDescriptor(*mut Desc) -> c_int;
    cudnnCreateOpTensorDescriptor(*mut Desc) -> c_int;
    cudnnDestroy(Desc) -> c_int;
    cudnnDestroyTensorDescriptor(Desc) -> c_int;
    cudnnDestroyFilterDescriptor(Desc) -> c_int;
    cudnnDestroyConvolutionDescriptor(Desc) -> c_int;
    cudnnDestroyActivationDescriptor(Desc) -> c_int;
    cudnnDestroyOpTensorDescriptor(Desc) -> c_int;
    cudnnSetStream(Desc, Desc) -> c_int;
    cudnnSetTensor4dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetTensor4dDescriptorEx(Desc, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetTensorNdDescriptor(Desc, c_int, c_int, Ints, Ints) -> c_int;
    cudnnSetTensorNdDescriptorEx(Desc, c_int, c_int, c_int, Ints) -> c_int;
    cudnnGetTensor4dDescriptor(Desc, Out, Out, Out, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetTensorNdDescriptor(Desc, c_int, Out, Out, Out, Out) -> c_int;
    cudnnGetTensorSizeInBytes(Desc, *mut usize) -> c_int;
    cudnnSetFilter4dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetFilterNdDescriptor(Desc, c_int, c_int, c_int, Ints) -> c_int;
    cudnnGetFilter4dDescriptor(Desc, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetFilterNdDescriptor(Desc, c_int, Out, Out, Out, Out) -> c_int;
    cudnnGetFilterSizeInBytes(Desc, *mut usize) -> c_int;
    cudnnSetConvolution2dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetConvolutionNdDescriptor(Desc, c_int, Ints, Ints, Ints, c_int, c_int) -> c_int;
    cudnnGetConvolution2dDescriptor(Desc, Out, Out, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetConvolutionNdDescriptor(Desc, c_int, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnSetConvolutionMathType(Desc, c_int) -> c_int;
    cudnnGetConvolutionMathType(Desc, Out) -> c_int;
    cudnnSetConvolutionGroupCount(Desc, c_int) -> c_int;
    cudnnGetConvolutionGroupCount(Desc, Out) -> c_int;
    cudnnSetConvolutionReorderType(Desc, c_int) -> c_int;
    cudnnGetConvolutionReorderType(Desc, Out) -> c_int;
    cudnnGetConvolution2dForwardOutputDim(Desc, Desc, Desc, Out, Out, Out, Out) -> c_int;
    cudnnGetConvolutionNdForwardOutputDim(Desc, Desc, Desc, c_int, Out) -> c_int;
    cudnnSetActivationDescriptor(Desc, c_int, c_int, f64) -> c_int;
    cudnnGetActivationDescriptor(Desc, Out, Out, *mut f64) -> c_int;
    cudnnSetActivationDescriptorSwishBeta(Desc, f64) -> c_int;
    cudnnGetActivationDescriptorSwishBeta(Desc, *mut f64) -> c_int;
    cudnnSetOpTensorDescriptor(Desc, c_int, c_int, c_int) -> c_int;
    cudnnGetOpTensorDescriptor(Desc, Out, Out, Out) -> c_int;
    cudnnGetConvolutionForwardAlgorithmMaxCount(Desc, Out) -> c_int;
    cudnnGetConvolutionForwardWorkspaceSize(Desc, Desc, Desc, Desc, Desc, c_int, *mut usize) -> c_int;
}

/// Both libraries. `None`, and a skipped test, without the real one.
pub fn both() -> Option<[Api; 2]> {
    let Some(folder) = std::env::var_os("UCUDNN_TEST_REAL_CUDNN") else {
        built::skip("UCUDNN_TEST_REAL_CUDNN is not set: no real cuDNN to compare with");
        return None;
    };
    let (ours, real) = (Api::open(&built::library()), Api::open(&Path::new(&folder).join("libcudnn.so.9")));
    let marked = |api: &Api| {
        // SAFETY: the symbol is only looked up, never called.
        unsafe { api.library.get::<unsafe extern "C" fn() -> *const c_char>("hostdnnGetVersion\0") }.is_ok()
    };
    assert!(marked(&ours) && !marked(&real), "the two libraries are not hostdnn and another");
    assert_ne!(ours.cudnnGetVersion as usize, real.cudnnGetVersion as usize, "the two libraries are one");
    Some([ours, real])
}
