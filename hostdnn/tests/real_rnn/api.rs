//! The two libraries, loaded side by side.

use crate::built;
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

pub type Desc = *mut c_void;
pub type Ints = *const c_int;
pub type Out = *mut c_int;
pub type Data = *const c_void;
pub type Place = *mut *mut c_void;
type Int = c_int;

macro_rules! api {
    ($($name:ident($($type:ty),*);)*) => {
        /// One of the two libraries, and its handle.
        #[allow(non_snake_case)]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($type),*) -> c_int,)*
            pub library: Library,
            pub handle: Desc,
            /// Whether this library computes, on a device that exists.
            pub computes: bool,
        }

        impl Api {
            fn open(path: &Path) -> Self {
                // SAFETY: the constructors of cuDNN and hostdnn need nothing of the process.
                let library = unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let mut handle = null_mut();
                // SAFETY: cuDNN declares the functions with the types above.
                unsafe {
                    let api = Self {
                        $($name: *library.get(concat!(stringify!($name), "\0")).unwrap(),)*
                        library,
                        handle,
                        computes: true,
                    };
                    if (api.cudnnCreate)(&mut handle) == 0 {
                        return Self { handle, ..api };
                    }
                    // No GPU. Before they reach the device, cuDNN's RNN functions only check that a handle is not null:
                    // memory of zeros suffices, as observed with 9.19. It stays for the whole process.
                    let handle = Box::leak(vec![0u64; 1 << 17].into_boxed_slice()).as_mut_ptr().cast();
                    Self { handle, computes: false, ..api }
                }
            }
        }
    };
}
api! {
    cudnnCreate(*mut Desc);
    cudnnCreateTensorDescriptor(*mut Desc);
    cudnnCreateDropoutDescriptor(*mut Desc);
    cudnnCreateRNNDescriptor(*mut Desc);
    cudnnCreateRNNDataDescriptor(*mut Desc);
    cudnnDestroyTensorDescriptor(Desc);
    cudnnDestroyDropoutDescriptor(Desc);
    cudnnDestroyRNNDescriptor(Desc);
    cudnnDestroyRNNDataDescriptor(Desc);
    cudnnSetTensorNdDescriptor(Desc, Int, Int, Ints, Ints);
    cudnnGetTensorNdDescriptor(Desc, Int, Out, Out, Out, Out);
    cudnnSetDropoutDescriptor(Desc, Desc, f32, Desc, usize, u64);
    cudnnRestoreDropoutDescriptor(Desc, Desc, f32, Desc, usize, u64);
    cudnnGetDropoutDescriptor(Desc, Desc, *mut f32, Place, *mut u64);
    cudnnDropoutGetStatesSize(Desc, *mut usize);
    cudnnSetRNNDescriptor_v8(Desc, Int, Int, Int, Int, Int, Int, Int, Int, Int, Int, Int, Int, Desc, u32);
    cudnnGetRNNDescriptor_v8(Desc, Out, Out, Out, Out, Out, Out, Out, Out, Out, Out, Out, Out, *mut Desc, *mut u32);
    cudnnRNNSetClip_v8(Desc, Int, Int, f64, f64);
    cudnnRNNSetClip_v9(Desc, Int, f64, f64);
    cudnnRNNGetClip_v8(Desc, Out, Out, *mut f64, *mut f64);
    cudnnRNNGetClip_v9(Desc, Out, *mut f64, *mut f64);
    cudnnSetRNNDataDescriptor(Desc, Int, Int, Int, Int, Int, Ints, Desc);
    cudnnGetRNNDataDescriptor(Desc, Out, Out, Out, Out, Out, Int, Out, Desc);
    cudnnGetRNNTempSpaceSizes(Desc, Desc, Int, Desc, *mut usize, *mut usize);
    cudnnGetRNNWeightSpaceSize(Desc, Desc, *mut usize);
    cudnnGetRNNWeightParams(Desc, Desc, Int, usize, Data, Int, Desc, Place, Desc, Place);
    cudnnRNNForward(Desc, Desc, Int, Ints, Desc, Data, Desc, Desc, Desc, Data, Desc, Desc, Data, Desc, usize, Data, usize, Desc, usize, Desc);
}

/// Both libraries, hostdnn first. `None`, and a skipped test, without the real one.
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
    assert_ne!(ours.cudnnCreate as usize, real.cudnnCreate as usize, "the two libraries are one");
    Some([ours, real])
}
