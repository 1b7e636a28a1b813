//! Where work runs: memory, streams, timing, capture state, CUDA graphs and kernels compiled at run time, of a GPU or
//! of this machine's CPU. Asks `cudnn` which of the two its library computes on, and where libraries are.

pub mod background;
pub mod cublaslt;
mod cuda;
pub mod cuda_graph;
pub mod host;
pub mod jit;
pub mod testing;

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use once_cell::sync::OnceCell;

use guest::settings::{self, Fault};

/// A stream of the device: a CUDA stream, or an opaque value on the host, where calls are finished
/// when they return.
pub type Stream = *mut c_void;

/// What the loaded cuDNN computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Host pointers; the library is hostdnn.
    Host,
    /// Pointers of the calling thread's current CUDA device.
    Cuda,
}

/// Devices of equal identity take equal times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The GPU's, or the processor's.
    pub name: String,
    /// Of the GPU; on the host the threads that compute.
    pub multiprocessors: i32,
    /// Version of CUDA's driver: 1000 · major + 10 · minor; 0 on the host.
    pub driver: i32,
}

/// The calling thread's device is another until this is dropped.
pub struct Entered {
    _before: Before,
    _here: PhantomData<*const ()>,
}

/// What the thread goes back to.
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

/// A stream, destroyed with its owner, on whose thread and device.
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

/// How far apart two marks are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Elapsed {
    /// Milliseconds.
    Ready(f64),
    /// The later mark has not been reached yet.
    Pending,
    /// It cannot be told.
    Lost,
}

impl Device {
    /// The number of the calling thread's device, for keys: equal kernels on two devices are planned apart.
    pub fn ordinal(self) -> i32 {
        match self {
            Self::Host => host::ordinal(),
            Self::Cuda => cuda::ordinal(),
        }
    }

    /// How many devices there are; their numbers are those below.
    pub fn count(self) -> i32 {
        match self {
            Self::Host => host::count(),
            Self::Cuda => cuda::count(),
        }
    }

    /// What tells whether the device of this number takes the times of another. `None` if there is none
    /// of this number.
    pub fn identity(self, ordinal: i32) -> Option<Identity> {
        let ((name, multiprocessors), driver) = match self {
            Self::Host => (host::properties(ordinal)?, 0),
            Self::Cuda => (cuda::properties(ordinal)?, cuda::driver_version()),
        };
        Some(Identity { name, multiprocessors, driver })
    }

    /// Multiprocessors that kernels find on the device of this number; the host is as many of them to all.
    pub fn multiprocessors(self, ordinal: i32) -> Option<usize> {
        match self {
            Self::Host => Some(jit::MULTIPROCESSORS_OF_HOST as usize),
            Self::Cuda => usize::try_from(cuda::properties(ordinal)?.1).ok(),
        }
    }

    /// Bytes of shared memory that a block of the device of this number may have.
    pub fn shared_bytes(self, ordinal: i32) -> Option<usize> {
        match self {
            Self::Host => Some(jit::SHARED_BYTES_OF_HOST),
            Self::Cuda => cuda::shared_bytes(ordinal),
        }
    }

    /// Whether kernels copy to shared memory without waiting and multiply on tensor cores in every type, on the device of this
    /// number: compute capability 8.0 and above.
    pub fn copies_asynchronously(self, ordinal: i32) -> bool {
        match self {
            Self::Host => true,
            Self::Cuda => cuda::compute_capability(ordinal).is_some_and(|capability| capability >= 80),
        }
    }

    /// The most blocks of a cluster on the device of this number; 0 where it has none.
    pub fn cluster_blocks(self, ordinal: i32) -> usize {
        match self {
            Self::Host => jit::CLUSTER_BLOCKS_OF_HOST as usize,
            Self::Cuda => cuda::cluster_blocks(ordinal),
        }
    }

    /// Makes a device the calling thread's until the guard is dropped. `None` if there is none of this
    /// number.
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

    /// A stream of our own on the calling thread's device, which waits for no other.
    pub fn stream(self) -> Option<OwnStream> {
        let stream = match self {
            Self::Host => std::ptr::null_mut(),
            Self::Cuda => cuda::create_stream()?,
        };
        Some(OwnStream { device: self, stream })
    }

    /// The alignment, in bytes, that every micro-batch's data must keep: cuDNN's GPU kernels load up
    /// to 16 bytes at once from pointers that it takes to be aligned as allocations are.
    pub fn alignment(self) -> usize {
        match self {
            Self::Host => 1,
            Self::Cuda => 16,
        }
    }

    /// Memory of the device, or `None` where it cannot be had.
    pub fn allocate(self, bytes: usize) -> Option<Buffer> {
        let bytes = bytes.max(1);
        if matches!(settings::get().fault, Some(Fault::Allocation(above)) if bytes > above) {
            return None;
        }
        let data = match self {
            Self::Host => {
                let mut data = std::ptr::null_mut();
                // SAFETY: a power of two, and a place for the pointer.
                let status = unsafe { libc::posix_memalign(&mut data, 256, bytes) };
                NonNull::new(data).filter(|_| status == 0)
            }
            Self::Cuda => cuda::allocate(bytes),
        }?;
        Some(Buffer { device: self, data, bytes })
    }

    /// Whether the stream is being captured into a CUDA graph, when nothing may be timed, allocated
    /// or waited for.
    pub fn is_capturing(self, stream: Stream) -> bool {
        self == Self::Cuda && cuda::is_capturing(stream)
    }

    /// A point in the stream's work, to measure time from and to.
    pub fn mark(self, stream: Stream) -> Option<Mark> {
        Some(match self {
            Self::Host => Mark(Point::Host(Instant::now())),
            Self::Cuda => Mark(Point::Cuda(cuda::Event::record(stream)?)),
        })
    }

    /// Waits for the stream's work; whether it went well.
    pub fn synchronize(self, stream: Stream) -> bool {
        self == Self::Host || cuda::synchronize(stream)
    }

    /// Whether the stream is another in each thread, whose work nothing orders: `cudaStreamPerThread`, and
    /// any on the host.
    pub fn has_one_for_each_thread(self, stream: Stream) -> bool {
        self == Self::Host || cuda::is_per_thread(stream)
    }

    /// Copies within the device, in the stream's order.
    ///
    /// # Safety
    /// Both are memory of the device, `bytes` long, apart from each other.
    pub unsafe fn copy(self, to: *mut c_void, from: *const c_void, bytes: usize, stream: Stream) -> bool {
        match self {
            Self::Host => {
                // SAFETY: as ours.
                unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
                true
            }
            // SAFETY: as ours.
            Self::Cuda => unsafe { cuda::copy(to, from, bytes, stream) },
        }
    }

    /// Reads the device's memory once the stream's work is done.
    ///
    /// # Safety
    /// `from` is memory of the device, as long as `to`.
    pub unsafe fn read(self, to: &mut [u8], from: *const c_void, stream: Stream) -> bool {
        match self {
            Self::Host => {
                // SAFETY: as ours.
                unsafe { std::ptr::copy_nonoverlapping(from.cast(), to.as_mut_ptr(), to.len()) };
                true
            }
            // SAFETY: as ours.
            Self::Cuda => unsafe { cuda::read(to, from, stream) },
        }
    }

    /// Writes the device's memory in the stream's order; it is written when this returns. Copies that name
    /// no stream would wait for all of the program's, and end its captures.
    ///
    /// # Safety
    /// `to` is memory of the device, as long as `from`.
    pub unsafe fn write(self, to: *mut c_void, from: &[u8], stream: Stream) -> bool {
        match self {
            Self::Host => {
                // SAFETY: as ours.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), from.len()) };
                true
            }
            // SAFETY: as ours.
            Self::Cuda => unsafe { cuda::write(to, from, stream) },
        }
    }
}

/// A point in a stream's work.
pub struct Mark(Point);

enum Point {
    Host(Instant),
    Cuda(cuda::Event),
}

impl Mark {
    /// The time from `earlier` to here; never waits.
    pub fn since(&self, earlier: &Self) -> Elapsed {
        match (&earlier.0, &self.0) {
            (Point::Host(from), Point::Host(to)) => Elapsed::Ready(to.duration_since(*from).as_secs_f64() * 1e3),
            (Point::Cuda(from), Point::Cuda(to)) => cuda::elapsed(from, to),
            _ => Elapsed::Lost,
        }
    }
}

/// The end of what was launched last, of which it is enough that it can be waited for. That neither ends a
/// program's captures, as waiting for the whole device does, nor takes its stream, which may be gone by then.
#[derive(Default)]
pub struct Fence {
    /// None on the host, where calls are finished when they return.
    event: OnceCell<cuda::Event>,
    /// What was launched cannot be waited for.
    is_lost: AtomicBool,
}

impl Fence {
    /// The stream has been given something.
    pub fn launched(&self, device: Device, stream: Stream) {
        let set = || self.event.get_or_try_init(|| cuda::Event::untimed().ok_or(())).is_ok_and(|end| end.set(stream));
        if device == Device::Cuda && !set() {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until it is done; whether that can be told.
    pub fn wait(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed) && self.event.get().is_none_or(cuda::Event::wait)
    }
}

/// Memory of the device, freed with its owner.
pub struct Buffer {
    device: Device,
    data: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: memory that no thread owns; who writes it is its user's concern.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Its first byte; aligned to 256 bytes.
    pub fn data(&self) -> *mut c_void {
        self.data.as_ptr()
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.device {
            // SAFETY: allocated by posix_memalign, freed once.
            Device::Host => unsafe { libc::free(self.data.as_ptr()) },
            Device::Cuda => cuda::free(self.data),
        }
    }
}
