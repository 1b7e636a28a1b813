//! CUDA's driver, loaded at run time: every function answers a failure as none, and nothing panics
//! where there is no driver.

use std::ffi::c_void;
use std::ptr::NonNull;

use cudarc::driver::sys;
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

/// A call that must not disturb a capture into a CUDA graph that goes on in another thread: allocating,
/// waiting and timing would end it. Only for streams that are not captured themselves.
fn relaxed(call: impl FnOnce() -> sys::CUresult) -> bool {
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: swaps the calling thread's mode with the one in the place.
    let mut exchange = || ok(|| unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) });
    let exchanged = exchange();
    let done = ok(call);
    if exchanged {
        exchange();
    }
    done
}

/// The current context's device. A thread that has none yet gets device 0 from CUDA's runtime.
pub fn ordinal() -> i32 {
    let mut device = 0;
    // SAFETY: writes one number.
    if ok(|| unsafe { sys::cuCtxGetDevice(&mut device) }) { device } else { 0 }
}

pub fn allocate(bytes: usize) -> Option<NonNull<c_void>> {
    let mut address: sys::CUdeviceptr = 0;
    // SAFETY: writes one address.
    let allocated = relaxed(|| unsafe { sys::cuMemAlloc_v2(&mut address, bytes) });
    NonNull::new(address as *mut c_void).filter(|_| allocated)
}

pub fn free(data: NonNull<c_void>) {
    // SAFETY: allocated by `allocate`, freed once.
    relaxed(|| unsafe { sys::cuMemFree_v2(pointer(data)) });
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
    relaxed(|| unsafe { sys::cuStreamSynchronize(stream.cast()) })
}

pub fn synchronize_all() -> bool {
    // SAFETY: waits for the current context.
    relaxed(|| unsafe { sys::cuCtxSynchronize() })
}

/// # Safety
/// As `Device::copy`.
pub unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize, stream: Stream) -> bool {
    // SAFETY: as ours.
    relaxed(|| unsafe { sys::cuMemcpyDtoDAsync_v2(to as u64, from as u64, bytes, stream.cast()) })
}

/// # Safety
/// As `Device::read`.
pub unsafe fn read(to: &mut [u8], from: *const c_void) -> bool {
    // SAFETY: as ours.
    relaxed(|| unsafe { sys::cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from as u64, to.len()) })
}

/// # Safety
/// As `Device::write`.
pub unsafe fn write(to: *mut c_void, from: &[u8]) -> bool {
    // SAFETY: as ours.
    relaxed(|| unsafe { sys::cuMemcpyHtoD_v2(to as u64, from.as_ptr().cast(), from.len()) })
}

/// A recorded event, destroyed with its owner.
pub struct Event(sys::CUevent);

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub fn record(stream: Stream) -> Option<Self> {
        let mut event = std::ptr::null_mut();
        // SAFETY: writes one event.
        if !relaxed(|| unsafe { sys::cuEventCreate(&mut event, sys::CUevent_flags::CU_EVENT_DEFAULT as u32) }) {
            return None;
        }
        let event = Self(event);
        // SAFETY: the program's own stream.
        relaxed(|| unsafe { sys::cuEventRecord(event.0, stream.cast()) }).then_some(event)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `record`, destroyed once.
        relaxed(|| unsafe { sys::cuEventDestroy_v2(self.0) });
    }
}

pub fn elapsed(from: &Event, to: &Event) -> Elapsed {
    let (mut milliseconds, mut result) = (0.0, sys::CUresult::CUDA_SUCCESS);
    relaxed(|| {
        // SAFETY: both were recorded; writes one number.
        result = unsafe { sys::cuEventElapsedTime(&mut milliseconds, from.0, to.0) };
        result
    });
    match result {
        sys::CUresult::CUDA_SUCCESS => Elapsed::Ready(f64::from(milliseconds)),
        sys::CUresult::CUDA_ERROR_NOT_READY => Elapsed::Pending,
        _ => Elapsed::Lost,
    }
}
