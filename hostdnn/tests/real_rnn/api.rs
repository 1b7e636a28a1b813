//! The functions of the RNN API, and a handle for them.

use crate::libraries::api;
pub use crate::libraries::{Desc, Ints, Out};
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::path::Path;
use std::ptr::null_mut;

type Data = *const c_void;
type Place = *mut *mut c_void;
type Int = c_int;

api! { Functions:
    cudnnCreate(*mut Desc) -> Int;
    cudnnCreateTensorDescriptor(*mut Desc) -> Int;
    cudnnCreateDropoutDescriptor(*mut Desc) -> Int;
    cudnnCreateRNNDescriptor(*mut Desc) -> Int;
    cudnnCreateRNNDataDescriptor(*mut Desc) -> Int;
    cudnnDestroyTensorDescriptor(Desc) -> Int;
    cudnnDestroyDropoutDescriptor(Desc) -> Int;
    cudnnDestroyRNNDescriptor(Desc) -> Int;
    cudnnDestroyRNNDataDescriptor(Desc) -> Int;
    cudnnSetTensorNdDescriptor(Desc, Int, Int, Ints, Ints) -> Int;
    cudnnGetTensorNdDescriptor(Desc, Int, Out, Out, Out, Out) -> Int;
    cudnnSetDropoutDescriptor(Desc, Desc, f32, Desc, usize, u64) -> Int;
    cudnnRestoreDropoutDescriptor(Desc, Desc, f32, Desc, usize, u64) -> Int;
    cudnnGetDropoutDescriptor(Desc, Desc, *mut f32, Place, *mut u64) -> Int;
    cudnnDropoutGetStatesSize(Desc, *mut usize) -> Int;
    cudnnDropoutGetReserveSpaceSize(Desc, *mut usize) -> Int;
    cudnnDropoutForward(Desc, Desc, Desc, Data, Desc, Desc, Desc, usize) -> Int;
    cudnnDropoutBackward(Desc, Desc, Desc, Data, Desc, Desc, Desc, usize) -> Int;
    cudnnSetRNNDescriptor_v8(Desc, Int, Int, Int, Int, Int, Int, Int, Int, Int, Int, Int, Int, Desc, u32) -> Int;
    cudnnGetRNNDescriptor_v8(
        Desc, Out, Out, Out, Out, Out, Out, Out, Out, Out, Out, Out, Out, *mut Desc, *mut u32
    ) -> Int;
    cudnnRNNSetClip_v8(Desc, Int, Int, f64, f64) -> Int;
    cudnnRNNSetClip_v9(Desc, Int, f64, f64) -> Int;
    cudnnRNNGetClip_v8(Desc, Out, Out, *mut f64, *mut f64) -> Int;
    cudnnRNNGetClip_v9(Desc, Out, *mut f64, *mut f64) -> Int;
    cudnnSetRNNDataDescriptor(Desc, Int, Int, Int, Int, Int, Ints, Desc) -> Int;
    cudnnGetRNNDataDescriptor(Desc, Out, Out, Out, Out, Out, Int, Out, Desc) -> Int;
    cudnnGetRNNTempSpaceSizes(Desc, Desc, Int, Desc, *mut usize, *mut usize) -> Int;
    cudnnGetRNNWeightSpaceSize(Desc, Desc, *mut usize) -> Int;
    cudnnGetRNNWeightParams(Desc, Desc, Int, usize, Data, Int, Desc, Place, Desc, Place) -> Int;
    cudnnRNNForward(
        Desc, Desc, Int, Ints, Desc, Data, Desc, Desc, Desc, Data, Desc, Desc, Data, Desc, usize, Data, usize, Desc,
        usize, Desc
    ) -> Int;
    cudnnRNNBackwardData_v8(
        Desc, Desc, Ints, Desc, Data, Data, Desc, Desc, Desc, Data, Data, Desc, Desc, Data, Data, Desc, usize, Data,
        usize, Desc, usize, Desc
    ) -> Int;
    cudnnRNNBackwardWeights_v8(
        Desc, Desc, Int, Ints, Desc, Data, Desc, Data, Desc, Data, usize, Desc, usize, Desc, usize, Desc
    ) -> Int;
}

/// One of the two libraries, and its handle.
pub struct Api {
    functions: Functions,
    pub handle: Desc,
    /// True if this library computes, on a device that exists.
    pub computes: bool,
}

impl Api {
    pub fn open(path: &Path) -> Self {
        let (functions, mut handle) = (Functions::open(path), null_mut());
        // SAFETY: the call writes one handle.
        let computes = unsafe { (functions.cudnnCreate)(&mut handle) } == 0;
        if !computes {
            // No GPU. Before they reach the device, cuDNN's RNN functions only check that a handle is not null:
            // memory of zeros suffices, as observed with 9.19. It stays for the whole process.
            handle = Box::leak(vec![0u64; 1 << 17].into_boxed_slice()).as_mut_ptr().cast();
        }
        Self { functions, handle, computes }
    }
}

impl Deref for Api {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}
