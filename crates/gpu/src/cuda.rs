//! CUDA's driver, loaded at run time. Every function reports a failure as a value, and none panics without a driver.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use cudarc::driver::sys;
use once_cell::sync::Lazy;
use parking_lot::RwLock;

use super::stream::{Elapsed, Stream};

/// The presence of the driver. cudarc panics at the first call without one, so [`ok`] checks this first.
// SAFETY: opens a library by name. Its constructors are the driver's, which the program loads for its own use of CUDA
// anyway.
static PRESENT: Lazy<bool> = Lazy::new(|| unsafe { sys::is_culib_present() });

pub(super) fn ok(call: impl FnOnce() -> sys::CUresult) -> bool {
    *PRESENT && call() == sys::CUresult::CUDA_SUCCESS
}

fn pointer(address: NonNull<c_void>) -> sys::CUdeviceptr {
    address.as_ptr() as sys::CUdeviceptr
}

/// A call that must not disturb another thread's capture into a CUDA graph: allocating, waiting and timing would
/// otherwise end that capture. Only for streams that are not captured themselves.
pub(super) fn relaxed(call: impl FnOnce() -> sys::CUresult) -> bool {
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: exchanges the calling thread's mode with the one in `mode`, a live variable.
    let mut exchange = || ok(|| unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) });
    let exchanged = exchange();
    let done = ok(call);
    if exchanged {
        exchange();
    }
    done
}

/// The device of the current context. A thread without a context gets device 0, as from CUDA's runtime.
pub fn ordinal() -> i32 {
    device_of_context().unwrap_or(0)
}

/// The device of the current context. `None` in a thread without a context.
fn device_of_context() -> Option<sys::CUdevice> {
    let (mut context, mut device) = (std::ptr::null_mut(), 0);
    // cuCtxGetDevice without a context is an error, which compute-sanitizer would report for the program.
    // SAFETY: writes one pointer to a live variable.
    let has_context = ok(|| unsafe { sys::cuCtxGetCurrent(&mut context) }) && !context.is_null();
    // SAFETY: writes one number to a live variable.
    (has_context && ok(|| unsafe { sys::cuCtxGetDevice(&mut device) })).then_some(device)
}

/// The number of devices; 0 without a driver.
pub fn count() -> i32 {
    let mut count = 0;
    // SAFETY: every CUDA program starts with cuInit, which may be repeated; the other call writes one number.
    let known = ok(|| unsafe { sys::cuInit(0) }) && ok(|| unsafe { sys::cuDeviceGetCount(&mut count) });
    if known { count } else { 0 }
}

fn device(ordinal: i32) -> Option<sys::CUdevice> {
    let mut device = 0;
    // SAFETY: writes one number, and returns an error for an unknown ordinal.
    (ok(|| unsafe { sys::cuInit(0) }) && ok(|| unsafe { sys::cuDeviceGet(&mut device, ordinal) })).then_some(device)
}

/// The name of a device, and its number of multiprocessors.
pub fn properties(ordinal: i32) -> Option<(String, i32)> {
    let (device, multiprocessors) = (device(ordinal)?, multiprocessors(ordinal)?);
    let mut name = [0; 256];
    // SAFETY: writes a C string of at most `name.len()` bytes to `name`.
    let named = ok(|| unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) });
    // SAFETY: cuDeviceGetName has succeeded, so `name` holds a C string.
    named.then(|| (unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(), multiprocessors))
}

/// An attribute of a device, which never changes. Each is asked for once, because calls look at some of them.
fn attribute(ordinal: i32, attribute: sys::CUdevice_attribute) -> Option<i32> {
    static KNOWN: RwLock<BTreeMap<(i32, sys::CUdevice_attribute), i32>> = RwLock::new(BTreeMap::new());
    if let Some(known) = KNOWN.read().get(&(ordinal, attribute)) {
        return Some(*known);
    }
    let device = device(ordinal)?;
    let mut value = 0;
    // SAFETY: writes one number to a live variable.
    let is_told = ok(|| unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) });
    is_told.then(|| {
        KNOWN.write().insert((ordinal, attribute), value);
        value
    })
}

/// The multiprocessors of a device.
pub fn multiprocessors(ordinal: i32) -> Option<i32> {
    attribute(ordinal, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
}

/// The compute capability of a device: 10 · major + minor.
pub fn compute_capability(ordinal: i32) -> Option<u32> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    u32::try_from(10 * attribute(ordinal, MAJOR)? + attribute(ordinal, MINOR)?).ok()
}

/// The most blocks of a cluster, non-portable sizes included; 0 before compute capability 9.0. GPUs beside a CPU on one chip,
/// as in Thor and GB10, hold clusters of portable sizes alone.
pub fn cluster_blocks(ordinal: i32) -> usize {
    match compute_capability(ordinal) {
        None | Some(..90) => 0,
        Some(101 | 110 | 121) => 8,
        Some(_) => 16,
    }
}

/// The most bytes of shared memory that a block may opt in to.
pub fn shared_bytes(ordinal: i32) -> Option<usize> {
    use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as BYTES;
    usize::try_from(attribute(ordinal, BYTES)?).ok()
}

/// The driver's version: 1000 · major + 10 · minor; 0 without a driver.
pub fn driver_version() -> i32 {
    let mut version = 0;
    // SAFETY: writes one number to a live variable.
    if ok(|| unsafe { sys::cuDriverGetVersion(&mut version) }) { version } else { 0 }
}

/// Directs the calling thread's work to a device until dropped, in the context that CUDA's runtime uses. Meanwhile the
/// thread does not disturb captures of other threads into CUDA graphs.
pub struct Entered {
    /// `None` if the thread's context was on the device already.
    pushed: Option<sys::CUdevice>,
    mode: sys::CUstreamCaptureMode,
}

impl Entered {
    pub fn new(ordinal: i32) -> Option<Self> {
        let current = device_of_context();
        let mut entered = Self { pushed: None, mode: sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED };
        let device = device(ordinal)?;
        if current != Some(device) {
            let mut context = std::ptr::null_mut();
            // SAFETY: writes one context, which `drop` releases.
            if !relaxed(|| unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) }) {
                return None;
            }
            // SAFETY: the context was just retained, so it is live.
            if !ok(|| unsafe { sys::cuCtxPushCurrent_v2(context) }) {
                // SAFETY: the context was retained above, and is released once.
                ok(|| unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) });
                return None;
            }
            entered.pushed = Some(device);
        }
        entered.exchange_mode();
        Some(entered)
    }

    fn exchange_mode(&mut self) {
        // SAFETY: exchanges the calling thread's mode with the one in `self.mode`.
        ok(|| unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut self.mode) });
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.exchange_mode();
        if let Some(device) = self.pushed {
            let mut context = std::ptr::null_mut();
            // SAFETY: pops the context that `new` pushed. It is current again, because code that pushed another one in
            // between has popped it.
            ok(|| unsafe { sys::cuCtxPopCurrent_v2(&mut context) });
            // SAFETY: `new` retained the context, and only this drop releases it.
            ok(|| unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) });
        }
    }
}

/// Creates a stream that does not wait for other streams.
pub fn create_stream() -> Option<Stream> {
    let mut stream = std::ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: writes one stream to a live variable.
    relaxed(|| unsafe { sys::cuStreamCreate(&mut stream, flags) }).then_some(stream.cast())
}

pub fn destroy_stream(stream: Stream) {
    // SAFETY: `create_stream` made the stream, and its owner destroys it once.
    relaxed(|| unsafe { sys::cuStreamDestroy_v2(stream.cast()) });
}

pub fn allocate(bytes: usize) -> Option<NonNull<c_void>> {
    let mut address: sys::CUdeviceptr = 0;
    // SAFETY: writes one address to a live variable.
    let allocated = relaxed(|| unsafe { sys::cuMemAlloc_v2(&mut address, bytes) });
    NonNull::new(address as *mut c_void).filter(|_| allocated)
}

pub fn free(data: NonNull<c_void>) {
    // SAFETY: `allocate` made the memory, and its owner frees it once.
    relaxed(|| unsafe { sys::cuMemFree_v2(pointer(data)) });
}

/// Allocates memory of the host that the device copies from by itself.
pub fn allocate_pinned(bytes: usize) -> Option<NonNull<c_void>> {
    let mut data = std::ptr::null_mut();
    // SAFETY: writes one pointer to a live variable.
    relaxed(|| unsafe { sys::cuMemAllocHost_v2(&mut data, bytes) }).then(|| NonNull::new(data)).flatten()
}

pub fn free_pinned(data: NonNull<c_void>) {
    // SAFETY: `allocate_pinned` returned the pointer, and only its owner frees it.
    relaxed(|| unsafe { sys::cuMemFreeHost(data.as_ptr()) });
}

/// # Safety
/// As for `Pinned::send`.
pub unsafe fn send(to: *mut c_void, from: *const c_void, bytes: usize, stream: Stream) -> bool {
    // SAFETY: the caller promises `bytes` bytes of device memory, and pinned ones that stay until the copy has ended.
    relaxed(|| unsafe { sys::cuMemcpyHtoDAsync_v2(to as u64, from, bytes, stream.cast()) })
}

/// Returns whether the value is the handle that names another stream in each thread.
pub fn is_per_thread(stream: Stream) -> bool {
    const PER_THREAD: usize = 2; // CU_STREAM_PER_THREAD
    stream.addr() == PER_THREAD
}

pub fn is_capturing(stream: Stream) -> bool {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the program passes a live stream. The query fails for the legacy stream while another stream captures;
    // nothing may be timed then either, so a failure counts as capturing.
    let known = ok(|| unsafe { sys::cuStreamIsCapturing(stream.cast(), &mut status) });
    !known || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

pub fn synchronize(stream: Stream) -> bool {
    // SAFETY: the program passes a live stream.
    relaxed(|| unsafe { sys::cuStreamSynchronize(stream.cast()) })
}

/// # Safety
/// As for `Device::copy`.
pub unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize, stream: Stream) -> bool {
    // SAFETY: the caller promises two separate ranges of device memory, `bytes` long.
    relaxed(|| unsafe { sys::cuMemcpyDtoDAsync_v2(to as u64, from as u64, bytes, stream.cast()) })
}

/// # Safety
/// As for `Device::read`.
pub unsafe fn read(to: &mut [u8], from: *const c_void, stream: Stream) -> bool {
    // SAFETY: the caller promises `to.len()` bytes of device memory; `to` stays borrowed until the copy has ended.
    relaxed(|| unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from as u64, to.len(), stream.cast()) })
        && synchronize(stream)
}

/// # Safety
/// As for `Device::write`.
pub unsafe fn write(to: *mut c_void, from: &[u8], stream: Stream) -> bool {
    // SAFETY: the caller promises `from.len()` bytes of device memory; `from` stays borrowed until the copy has ended.
    relaxed(|| unsafe { sys::cuMemcpyHtoDAsync_v2(to as u64, from.as_ptr().cast(), from.len(), stream.cast()) })
        && synchronize(stream)
}

/// An event that is destroyed with its owner.
pub struct Event(sys::CUevent);

// SAFETY: CUDA's driver allows the use of its events from any thread.
unsafe impl Send for Event {}
// SAFETY: CUDA's driver allows concurrent calls with one event.
unsafe impl Sync for Event {}

impl Event {
    pub fn record(stream: Stream) -> Option<Self> {
        Self::new(sys::CUevent_flags::CU_EVENT_DEFAULT).filter(|event| event.set(stream))
    }

    /// Creates an event for waiting only, without times.
    pub fn untimed() -> Option<Self> {
        Self::new(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn new(flags: sys::CUevent_flags) -> Option<Self> {
        let mut event = std::ptr::null_mut();
        // SAFETY: writes one event to a live variable.
        relaxed(|| unsafe { sys::cuEventCreate(&mut event, flags as u32) }).then_some(Self(event))
    }

    /// Moves the event to the end of the stream's work so far.
    pub fn set(&self, stream: Stream) -> bool {
        // SAFETY: `self` keeps the event alive, and the program passes a live stream.
        relaxed(|| unsafe { sys::cuEventRecord(self.0, stream.cast()) })
    }

    pub fn wait(&self) -> bool {
        // SAFETY: `self` keeps the event alive.
        relaxed(|| unsafe { sys::cuEventSynchronize(self.0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: `new` created the event, and only this drop destroys it.
        relaxed(|| unsafe { sys::cuEventDestroy_v2(self.0) });
    }
}

pub fn elapsed(from: &Event, to: &Event) -> Elapsed {
    let (mut milliseconds, mut result) = (0.0, sys::CUresult::CUDA_SUCCESS);
    relaxed(|| {
        // SAFETY: the borrows keep both events alive; writes one number.
        result = unsafe { sys::cuEventElapsedTime(&mut milliseconds, from.0, to.0) };
        result
    });
    match result {
        sys::CUresult::CUDA_SUCCESS => Elapsed::Ready(f64::from(milliseconds)),
        sys::CUresult::CUDA_ERROR_NOT_READY => Elapsed::Pending,
        _ => Elapsed::Lost,
    }
}
