//! CUDA's driver, loaded at run time: every function answers a failure as none, and nothing panics
//! where there is no driver.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use cudarc::driver::sys;
use once_cell::sync::Lazy;

use super::{Elapsed, Stream};

/// cudarc panics at the first call when there is no driver, so it is asked for first.
// SAFETY: opens a library by its name; the driver's constructors are the program's own risk, which
// uses it anyway.
static PRESENT: Lazy<bool> = Lazy::new(|| unsafe { sys::is_culib_present() });

pub(super) fn ok(call: impl FnOnce() -> sys::CUresult) -> bool {
    *PRESENT && call() == sys::CUresult::CUDA_SUCCESS
}

fn pointer(address: NonNull<c_void>) -> sys::CUdeviceptr {
    address.as_ptr() as sys::CUdeviceptr
}

/// A call that must not disturb a capture into a CUDA graph that goes on in another thread: allocating,
/// waiting and timing would end it. Only for streams that are not captured themselves.
pub(super) fn relaxed(call: impl FnOnce() -> sys::CUresult) -> bool {
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
    let (mut context, mut device) = (std::ptr::null_mut(), 0);
    // Asked first: to ask for the device of none is an error, which compute-sanitizer would report of the program.
    // SAFETY: writes one pointer.
    let has_context = ok(|| unsafe { sys::cuCtxGetCurrent(&mut context) }) && !context.is_null();
    // SAFETY: writes one number.
    if has_context && ok(|| unsafe { sys::cuCtxGetDevice(&mut device) }) { device } else { 0 }
}

/// How many devices there are; none where there is no driver.
pub fn count() -> i32 {
    let mut count = 0;
    // SAFETY: a program that has not used CUDA yet would begin so too; writes one number.
    let known = ok(|| unsafe { sys::cuInit(0) }) && ok(|| unsafe { sys::cuDeviceGetCount(&mut count) });
    if known { count } else { 0 }
}

fn device(ordinal: i32) -> Option<sys::CUdevice> {
    let mut device = 0;
    // SAFETY: writes one number; refuses those of no device.
    (ok(|| unsafe { sys::cuInit(0) }) && ok(|| unsafe { sys::cuDeviceGet(&mut device, ordinal) })).then_some(device)
}

/// A device's name and how many multiprocessors it has.
pub fn properties(ordinal: i32) -> Option<(String, i32)> {
    use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as COUNT;
    let device = device(ordinal)?;
    let (mut name, mut multiprocessors) = ([0; 256], 0);
    // SAFETY: writes a C string of at most that length.
    let named = ok(|| unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) });
    // SAFETY: writes one number.
    let known = named && ok(|| unsafe { sys::cuDeviceGetAttribute(&mut multiprocessors, COUNT, device) });
    // SAFETY: written above.
    known.then(|| (unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(), multiprocessors))
}

fn attribute(ordinal: i32, attribute: sys::CUdevice_attribute) -> Option<i32> {
    let device = device(ordinal)?;
    let mut value = 0;
    // SAFETY: writes one number.
    ok(|| unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) }).then_some(value)
}

/// A device's compute capability: 10 · major + minor.
pub fn compute_capability(ordinal: i32) -> Option<u32> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    u32::try_from(10 * attribute(ordinal, MAJOR)? + attribute(ordinal, MINOR)?).ok()
}

/// The most blocks of a cluster, of those that not every kernel gets; 0 before compute capability 9.0.
pub fn cluster_blocks(ordinal: i32) -> usize {
    if compute_capability(ordinal).is_some_and(|capability| capability >= 90) { 16 } else { 0 }
}

/// Bytes of shared memory that a block may opt in to.
pub fn shared_bytes(ordinal: i32) -> Option<usize> {
    use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as BYTES;
    usize::try_from(attribute(ordinal, BYTES)?).ok()
}

/// The driver's version: 1000 · major + 10 · minor; 0 where there is none.
pub fn driver_version() -> i32 {
    let mut version = 0;
    // SAFETY: writes one number.
    if ok(|| unsafe { sys::cuDriverGetVersion(&mut version) }) { version } else { 0 }
}

/// The calling thread's work goes to a device, in the context that CUDA's runtime uses, and does not
/// disturb what other threads capture into CUDA graphs, until this is dropped.
pub struct Entered {
    /// `None` if the thread's context was the device's already.
    pushed: Option<sys::CUdevice>,
    mode: sys::CUstreamCaptureMode,
}

impl Entered {
    pub fn new(ordinal: i32) -> Option<Self> {
        let mut current = 0;
        // SAFETY: writes one number; fails in a thread without a context.
        let has_context = ok(|| unsafe { sys::cuCtxGetDevice(&mut current) });
        let mut entered = Self { pushed: None, mode: sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED };
        let device = device(ordinal)?;
        if !has_context || current != device {
            let mut context = std::ptr::null_mut();
            // SAFETY: writes one context, which is released when this is dropped.
            if !relaxed(|| unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) }) {
                return None;
            }
            // SAFETY: a live context.
            if !ok(|| unsafe { sys::cuCtxPushCurrent_v2(context) }) {
                // SAFETY: retained above.
                ok(|| unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) });
                return None;
            }
            entered.pushed = Some(device);
        }
        entered.exchange_mode();
        Some(entered)
    }

    fn exchange_mode(&mut self) {
        // SAFETY: swaps the calling thread's mode with the one in the place.
        ok(|| unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut self.mode) });
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.exchange_mode();
        if let Some(device) = self.pushed {
            let mut context = std::ptr::null_mut();
            // SAFETY: the context that was pushed is the current one again: whoever pushed others has popped
            // them.
            ok(|| unsafe { sys::cuCtxPopCurrent_v2(&mut context) });
            // SAFETY: retained once, released once.
            ok(|| unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) });
        }
    }
}

/// A stream that waits for no other.
pub fn create_stream() -> Option<Stream> {
    let mut stream = std::ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: writes one stream.
    relaxed(|| unsafe { sys::cuStreamCreate(&mut stream, flags) }).then_some(stream.cast())
}

pub fn destroy_stream(stream: Stream) {
    // SAFETY: made by `create_stream`, destroyed once.
    relaxed(|| unsafe { sys::cuStreamDestroy_v2(stream.cast()) });
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

/// Whether it is the one value that means another stream in each thread.
pub fn is_per_thread(stream: Stream) -> bool {
    const PER_THREAD: usize = 2; // CU_STREAM_PER_THREAD
    stream.addr() == PER_THREAD
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

/// # Safety
/// As `Device::copy`.
pub unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize, stream: Stream) -> bool {
    // SAFETY: as ours.
    relaxed(|| unsafe { sys::cuMemcpyDtoDAsync_v2(to as u64, from as u64, bytes, stream.cast()) })
}

/// # Safety
/// As `Device::read`.
pub unsafe fn read(to: &mut [u8], from: *const c_void, stream: Stream) -> bool {
    // SAFETY: as ours; `to` is not used before the copy has ended.
    relaxed(|| unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from as u64, to.len(), stream.cast()) })
        && synchronize(stream)
}

/// # Safety
/// As `Device::write`.
pub unsafe fn write(to: *mut c_void, from: &[u8], stream: Stream) -> bool {
    // SAFETY: as ours; `from` lives until the copy has ended.
    relaxed(|| unsafe { sys::cuMemcpyHtoDAsync_v2(to as u64, from.as_ptr().cast(), from.len(), stream.cast()) })
        && synchronize(stream)
}

/// A recorded event, destroyed with its owner.
pub struct Event(sys::CUevent);

// SAFETY: the driver's objects may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub fn record(stream: Stream) -> Option<Self> {
        Self::new(sys::CUevent_flags::CU_EVENT_DEFAULT).filter(|event| event.set(stream))
    }

    /// One that is waited for, and tells no times.
    pub fn untimed() -> Option<Self> {
        Self::new(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn new(flags: sys::CUevent_flags) -> Option<Self> {
        let mut event = std::ptr::null_mut();
        // SAFETY: writes one event.
        relaxed(|| unsafe { sys::cuEventCreate(&mut event, flags as u32) }).then_some(Self(event))
    }

    /// It is the end of what the stream has been given so far.
    pub fn set(&self, stream: Stream) -> bool {
        // SAFETY: a live event, and the program's own stream.
        relaxed(|| unsafe { sys::cuEventRecord(self.0, stream.cast()) })
    }

    pub fn wait(&self) -> bool {
        // SAFETY: a live event.
        relaxed(|| unsafe { sys::cuEventSynchronize(self.0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
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
