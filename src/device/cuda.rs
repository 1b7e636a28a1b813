//! CUDA's driver, loaded at run time: every function answers a failure as none, and nothing panics
//! where there is no driver.

use std::ffi::c_void;
use std::ptr::NonNull;

use cudarc::driver::{result, sys};
use once_cell::sync::Lazy;

use super::{Elapsed, Stream};

/// cudarc panics at the first call when there is no driver, so it is asked for first.
// SAFETY: opens a library by its name; the driver's constructors are the program's own risk, which
// uses it anyway.
static PRESENT: Lazy<bool> = Lazy::new(|| unsafe { sys::is_culib_present() });

fn ok(call: impl FnOnce() -> sys::CUresult) -> bool {
    *PRESENT && call() == sys::CUresult::CUDA_SUCCESS
}

fn pointer(address: NonNull<c_void>) -> sys::CUdeviceptr {
    address.as_ptr() as sys::CUdeviceptr
}

/// The current context's device; −1 where there is none.
pub fn ordinal() -> i32 {
    let mut device = -1;
    // SAFETY: writes one number.
    if ok(|| unsafe { sys::cuCtxGetDevice(&mut device) }) { device } else { -1 }
}

pub fn allocate(bytes: usize) -> Option<NonNull<c_void>> {
    let mut address: sys::CUdeviceptr = 0;
    // SAFETY: writes one address.
    let allocated = ok(|| unsafe { sys::cuMemAlloc_v2(&mut address, bytes) });
    NonNull::new(address as *mut c_void).filter(|_| allocated)
}

pub fn free(data: NonNull<c_void>) {
    // SAFETY: allocated by `allocate`, freed once.
    ok(|| unsafe { sys::cuMemFree_v2(pointer(data)) });
}

pub fn is_capturing(stream: Stream) -> bool {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the program's own stream. Asking of the legacy stream while another captures is an
    // error: then nothing may be timed either.
    let known = ok(|| unsafe { sys::cuStreamIsCapturing(stream.cast(), &mut status) });
    !known || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

pub fn synchronize(stream: Stream) -> bool {
    // SAFETY: the program's own stream.
    ok(|| unsafe { sys::cuStreamSynchronize(stream.cast()) })
}

/// # Safety
/// As `Device::copy`.
pub unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize, stream: Stream) -> bool {
    // SAFETY: as ours.
    ok(|| unsafe { sys::cuMemcpyDtoDAsync_v2(to as u64, from as u64, bytes, stream.cast()) })
}

/// # Safety
/// As `Device::read`.
pub unsafe fn read(to: &mut [u8], from: *const c_void) -> bool {
    // SAFETY: as ours.
    ok(|| unsafe { sys::cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from as u64, to.len()) })
}

/// # Safety
/// As `Device::write`.
pub unsafe fn write(to: *mut c_void, from: &[u8]) -> bool {
    // SAFETY: as ours.
    ok(|| unsafe { sys::cuMemcpyHtoD_v2(to as u64, from.as_ptr().cast(), from.len()) })
}

/// A recorded event, destroyed with its owner.
pub struct Event(sys::CUevent);

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub fn record(stream: Stream) -> Option<Self> {
        if !*PRESENT {
            return None;
        }
        let event = Self(result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).ok()?);
        // SAFETY: the program's own stream.
        unsafe { result::event::record(event.0, stream.cast()) }.ok()?;
        Some(event)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `record`, destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

pub fn elapsed(from: &Event, to: &Event) -> Elapsed {
    // SAFETY: both were recorded.
    match unsafe { result::event::elapsed(from.0, to.0) } {
        Ok(milliseconds) => Elapsed::Ready(f64::from(milliseconds)),
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Elapsed::Pending,
        Err(_) => Elapsed::Lost,
    }
}
