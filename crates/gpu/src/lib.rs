//! Where work runs: memory, streams, timing, capture state, CUDA graphs and run-time compiled kernels, on a GPU or on
//! this machine's CPU. `cudnn` tells which of the two the loaded library uses.

pub mod background;
mod clock;
pub mod cublaslt;
mod cuda;
pub mod cuda_graph;
mod divisor;
mod element;
mod functions;
pub mod host;
pub mod jit;
mod pinned;
pub mod products;
mod recorder;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;

pub use clock::Moment;
pub use divisor::Divisor;
pub use element::Element;
use guest::settings::{self, Fault};
pub use pinned::Pinned;
pub use recorder::Recorder;
pub use stream::{Elapsed, Stream};

/// The kind of device that the loaded cuDNN computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Host pointers; the library is hostdnn.
    Host,
    /// Pointers of the calling thread's current CUDA device.
    Cuda,
}

/// The properties that determine timings: equal identities share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The name of the GPU or processor.
    pub name: String,
    /// The GPU's multiprocessors; on the host the number of computing threads.
    pub multiprocessors: i32,
    /// The version of CUDA's driver: 1000 · major + 10 · minor; 0 on the host.
    pub driver: i32,
}

/// Keeps another device current for the calling thread until it is dropped.
pub struct Entered {
    _before: Before,
    _here: PhantomData<*const ()>,
}

/// The state that the thread returns to.
enum Before {
    Host(i32),
    Cuda { _guard: cuda::Entered },
}

impl Drop for Before {
    fn drop(&mut self) {
        if let Self::Host(ordinal) = self {
            host::set(*ordinal);
        }
    }
}

/// A stream that is destroyed with its owner, on any thread and device.
pub struct OwnStream {
    device: Device,
    stream: Stream,
}

impl OwnStream {
    /// The stream, valid as long as `self`.
    pub fn raw(&self) -> Stream {
        self.stream
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        if self.device == Device::Cuda {
            cuda::destroy_stream(self.stream);
        }
    }
}

impl Device {
    /// The calling thread's device number. Registry keys include it: each device plans its problems separately.
    pub fn ordinal(self) -> i32 {
        match self {
            Self::Host => host::ordinal(),
            Self::Cuda => cuda::ordinal(),
        }
    }

    /// The number of devices. Ordinals start at 0.
    pub fn count(self) -> i32 {
        match self {
            Self::Host => host::count(),
            Self::Cuda => cuda::count(),
        }
    }

    /// The identity of the device `ordinal`; devices of equal identity share timings. `None` if there is no such
    /// device.
    pub fn identity(self, ordinal: i32) -> Option<Identity> {
        let ((name, multiprocessors), driver) = match self {
            Self::Host => (host::properties(ordinal)?, 0),
            Self::Cuda => (cuda::properties(ordinal)?, cuda::driver_version()),
        };
        Some(Identity { name, multiprocessors, driver })
    }

    /// The multiprocessors of the device `ordinal`. The host reports a constant.
    pub fn multiprocessors(self, ordinal: i32) -> Option<usize> {
        match self {
            Self::Host => Some(host::MULTIPROCESSORS as usize),
            Self::Cuda => usize::try_from(cuda::multiprocessors(ordinal)?).ok(),
        }
    }

    /// The most bytes of shared memory for a block on the device `ordinal`.
    pub fn shared_bytes(self, ordinal: i32) -> Option<usize> {
        match self {
            Self::Host => Some(host::SHARED_BYTES),
            Self::Cuda => cuda::shared_bytes(ordinal),
        }
    }

    /// Returns whether the device `ordinal` has asynchronous copies to shared memory, and tensor cores for all our
    /// types: compute capability 8.0 and above.
    pub fn copies_asynchronously(self, ordinal: i32) -> bool {
        match self {
            Self::Host => true,
            Self::Cuda => cuda::compute_capability(ordinal).is_some_and(|capability| capability >= 80),
        }
    }

    /// Returns whether the device `ordinal` has tensor cores for warpgroups (wgmma): compute capability 9.
    pub fn has_warpgroup_products(self, ordinal: i32) -> bool {
        match self {
            Self::Host => true,
            Self::Cuda => cuda::compute_capability(ordinal).is_some_and(|capability| capability / 10 == 9),
        }
    }

    /// The most blocks of a cluster on the device `ordinal`; 0 without clusters.
    pub fn cluster_blocks(self, ordinal: i32) -> usize {
        match self {
            Self::Host => host::MOST_IN_A_CLUSTER as usize,
            Self::Cuda => cuda::cluster_blocks(ordinal),
        }
    }

    /// Makes `ordinal` the calling thread's device until the guard is dropped. `None` if there is no such device.
    pub fn enter(self, ordinal: i32) -> Option<Entered> {
        let before = match self {
            Self::Host => {
                let before = host::ordinal();
                host::set(ordinal).then(|| Before::Host(before))?
            }
            Self::Cuda => Before::Cuda { _guard: cuda::Entered::new(ordinal)? },
        };
        Some(Entered { _before: before, _here: PhantomData })
    }

    /// Creates a stream on the calling thread's device. It does not wait for other streams.
    pub fn stream(self) -> Option<OwnStream> {
        let stream = match self {
            Self::Host => std::ptr::null_mut(),
            Self::Cuda => cuda::create_stream()?,
        };
        Some(OwnStream { device: self, stream })
    }

    /// The alignment in bytes that every micro-batch's data must keep. cuDNN's GPU kernels load up to 16 bytes at once,
    /// and assume that pointers are aligned like allocations.
    pub fn alignment(self) -> usize {
        match self {
            Self::Host => 1,
            Self::Cuda => 16,
        }
    }

    /// Allocates device memory. `None` if the allocation fails.
    pub fn allocate(self, bytes: usize) -> Option<Buffer> {
        let bytes = bytes.max(1);
        if matches!(settings::get().fault, Some(Fault::Allocation(above)) if bytes > above) {
            return None;
        }
        let data = match self {
            Self::Host => {
                let mut data = std::ptr::null_mut();
                // SAFETY: 256 is a valid alignment (a power of two), and `data` receives the pointer.
                let status = unsafe { libc::posix_memalign(&mut data, 256, bytes) };
                NonNull::new(data).filter(|_| status == 0)
            }
            Self::Cuda => cuda::allocate(bytes),
        }?;
        Some(Buffer { device: self, data, bytes })
    }

    /// Returns whether the stream is being captured into a CUDA graph; during capture nothing may be timed, allocated
    /// or waited for.
    pub fn is_capturing(self, stream: Stream) -> bool {
        self == Self::Cuda && cuda::is_capturing(stream)
    }

    /// Marks a point in the stream's work, for timing. `None` if the mark cannot be recorded.
    pub fn mark(self, stream: Stream) -> Option<Mark> {
        Some(match self {
            Self::Host => Mark(Point::Host(Moment::now())),
            Self::Cuda => Mark(Point::Cuda(cuda::Event::record(stream)?)),
        })
    }

    /// Waits for the stream's work. Returns whether the wait succeeded.
    pub fn synchronize(self, stream: Stream) -> bool {
        self == Self::Host || cuda::synchronize(stream)
    }

    /// Returns whether the value names a separate, unordered stream in each thread: `cudaStreamPerThread`, and every
    /// stream on the host.
    pub fn has_one_for_each_thread(self, stream: Stream) -> bool {
        self == Self::Host || cuda::is_per_thread(stream)
    }

    /// Copies within the device, in the stream's order. Returns whether the copy was queued.
    ///
    /// # Safety
    /// Both pointers are memory of the device, `bytes` long, and do not overlap.
    pub unsafe fn copy(self, to: *mut c_void, from: *const c_void, bytes: usize, stream: Stream) -> bool {
        match self {
            Self::Host => {
                // SAFETY: the caller promises separate ranges of `bytes` bytes, here host memory.
                unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
                true
            }
            // SAFETY: the caller makes the same promise to `cuda::copy`.
            Self::Cuda => unsafe { cuda::copy(to, from, bytes, stream) },
        }
    }

    /// Reads device memory after the stream's work so far. Returns whether the read succeeded.
    ///
    /// # Safety
    /// `from` is memory of the device, as long as `to`.
    pub unsafe fn read(self, to: &mut [u8], from: *const c_void, stream: Stream) -> bool {
        match self {
            Self::Host => {
                // SAFETY: the caller promises `to.len()` bytes at `from`; the borrow of `to` excludes overlap.
                unsafe { std::ptr::copy_nonoverlapping(from.cast(), to.as_mut_ptr(), to.len()) };
                true
            }
            // SAFETY: the caller makes the same promise to `cuda::read`.
            Self::Cuda => unsafe { cuda::read(to, from, stream) },
        }
    }

    /// Writes device memory in the stream's order, and waits for the copy. A copy without a stream would wait for all
    /// of the program's streams, and end their captures.
    ///
    /// # Safety
    /// `to` is memory of the device, as long as `from`.
    pub unsafe fn write(self, to: *mut c_void, from: &[u8], stream: Stream) -> bool {
        match self {
            Self::Host => {
                // SAFETY: the caller promises `from.len()` writable bytes, which are host memory on this device.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), from.len()) };
                true
            }
            // SAFETY: the caller makes the same promise to `cuda::write`.
            Self::Cuda => unsafe { cuda::write(to, from, stream) },
        }
    }
}

/// A point in a stream's work.
pub struct Mark(Point);

enum Point {
    Host(Moment),
    Cuda(cuda::Event),
}

impl Mark {
    /// The time from `earlier` to this mark. Never waits.
    pub fn since(&self, earlier: &Self) -> Elapsed {
        match (&earlier.0, &self.0) {
            (Point::Host(from), Point::Host(to)) => Elapsed::Ready(to.since(*from).as_secs_f64() * 1e3),
            (Point::Cuda(from), Point::Cuda(to)) => cuda::elapsed(from, to),
            _ => Elapsed::Lost,
        }
    }
}

/// The end of the last launch, for threads that wait for it. Unlike a wait for the whole device, waiting for a fence
/// does not end the program's captures. It needs no stream, which may be destroyed by then.
#[derive(Default)]
pub struct Fence {
    /// Empty on the host, where calls finish before they return.
    event: OnceCell<cuda::Event>,
    /// An event could not be recorded, so nobody can wait for the launch.
    is_lost: AtomicBool,
}

impl Fence {
    /// Records that the stream has new work.
    pub fn launched(&self, device: Device, stream: Stream) {
        let set = || self.event.get_or_try_init(|| cuda::Event::untimed().ok_or(())).is_ok_and(|end| end.set(stream));
        if device == Device::Cuda && !set() {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for the last launch. Returns false if the end of a launch could not be recorded, or the wait failed.
    pub fn wait(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed) && self.event.get().is_none_or(cuda::Event::wait)
    }
}

/// Device memory that is freed with its owner.
pub struct Buffer {
    device: Device,
    data: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: no thread owns the memory, and `Buffer` never accesses it; users who do synchronize themselves.
unsafe impl Send for Buffer {}
// SAFETY: the methods only read two fields that never change.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The first byte's address, aligned to 256 bytes.
    pub fn data(&self) -> *mut c_void {
        self.data.as_ptr()
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.device {
            // SAFETY: `posix_memalign` allocated the memory, and only this drop frees it.
            Device::Host => unsafe { libc::free(self.data.as_ptr()) },
            Device::Cuda => cuda::free(self.data),
        }
    }
}
