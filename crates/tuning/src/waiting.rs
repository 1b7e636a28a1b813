//! Timing while the program waits for an answer: each candidate alone, and configurations in place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudnn_abi::*;

use super::executable::Executable;
use cudnn::convolution::Workspace;
use cudnn::tensor::element_size;
use gpu::{Buffer, Device, Elapsed, Moment, Stream};
use planner::MicroConfiguration;

/// A candidate runs until it has run twice and for this long, or until it has run `OFTEN` times.
const ENOUGH: f64 = 10.0; // milliseconds
const OFTEN: usize = 4;
/// The most micro-batches between two marks. On an idle GPU, a single micro-batch would also measure its launch; in a
/// row, the one before hides the launch.
const ROW: usize = 4;
/// A candidate slower per image than the fastest so far by this factor runs at most twice: a program that never uses
/// the problem again must not wait long for it.
const FAR: f64 = 1.5;
/// A candidate no slower than this runs as often as the fastest ones.
const BRIEF: f64 = 1.0; // milliseconds

/// The program's total waiting time after which we warn.
const LONG: u64 = 10_000; // milliseconds

/// The buffers in which a problem is timed: the program's or our own. The result is overwritten.
pub struct Bench<K: Executable> {
    pub device: Device,
    pub handle: cudnnHandle_t,
    pub stream: Stream,
    pub operands: K::Operands,
    pub workspace: Workspace,
}

/// The most time that tuning may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Wall-clock time.
    pub time: Duration,
    /// In executions of the fastest undivided algorithm.
    pub executions: f64,
    /// True if it is the rest of a larger budget. A search that spends such a rest has not ended.
    pub is_rest: bool,
}

impl Budget {
    /// A whole budget of wall-clock time, without a bound on executions.
    pub fn of_time(time: Duration) -> Self {
        Self { time, executions: f64::INFINITY, is_rest: false }
    }
}

/// Returns the time in milliseconds above which a micro-batch of `batch` images needs only a rough timing, given the
/// times `measured` so far.
pub fn far_above<A>(measured: &[MicroConfiguration<A>], batch: usize) -> f64 {
    let rates = measured.iter().map(|micro| micro.time / micro.batch as f64);
    (FAR * batch as f64 * rates.fold(f64::INFINITY, f64::min)).max(BRIEF)
}

/// Returns the number of micro-batches of `batch` images out of `whole` to run between two marks.
pub fn row_of(whole: usize, batch: usize) -> usize {
    (whole / batch).min(ROW)
}

/// Adds up the program's waiting time, and warns once when it is long: a program that stands still silently looks
/// broken.
pub struct Waited(Instant);

impl Waited {
    pub fn since(start: Instant) -> Self {
        Self(start)
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        static MILLISECONDS: AtomicU64 = AtomicU64::new(0);
        let this = self.0.elapsed().as_millis() as u64;
        let before = MILLISECONDS.fetch_add(this, Ordering::Relaxed);
        if (before..before + this).contains(&LONG) {
            log::warn!(
                "timing convolutions has taken {} s so far, once a run; UCUDNN_TUNE_SECONDS bounds it, UCUDNN_LOG=info \
                 shows it",
                (before + this) / 1000
            );
        }
    }
}

impl<K: Executable> Bench<K> {
    /// Returns the least of several times, in milliseconds: disturbances only make a run longer. A time above `far` may
    /// be rough. `Err` is cuDNN's status.
    ///
    /// # Safety
    /// The caller promises that the bench holds the data of the plan's problem, or of a larger one that contains it,
    /// and that its handle is the one that the plan was made for, in no other use.
    pub unsafe fn time(&self, plan: &K::Plan, row: usize, far: f64, deadline: Moment) -> Result<f64, cudnnStatus_t> {
        let row = match self.device {
            Device::Host => 1,
            Device::Cuda => {
                // SAFETY: the caller makes the same promise to us. This run loads the GPU kernels' code, which takes
                // longer than most runs.
                unsafe { self.time_row(plan, 1) }?;
                row
            }
        };
        let (mut least, mut spent, mut runs) = (f64::MAX, 0.0, 0);
        loop {
            // SAFETY: the caller makes the promise that `time_row` requires (see `# Safety`).
            let time = unsafe { self.time_row(plan, row) }?;
            least = least.min(time);
            spent += time * row as f64;
            runs += 1;
            let (twice, long) = (runs >= 2, spent > ENOUGH);
            let known = if least > far { twice || long } else { twice && long || runs >= OFTEN };
            if known || Moment::now() >= deadline {
                return Ok(least);
            }
        }
    }

    /// Returns the milliseconds of one of `row` runs in a row.
    ///
    /// # Safety
    /// The caller makes the promise of [`Self::time`].
    pub unsafe fn time_row(&self, plan: &K::Plan, row: usize) -> Result<f64, cudnnStatus_t> {
        const DEVICE_FAILED: cudnnStatus_t = CUDNN_STATUS_EXECUTION_FAILED;
        let Self { device, handle, stream, .. } = *self;
        if !device.synchronize(stream) {
            return Err(DEVICE_FAILED);
        }
        let start = device.mark(stream).ok_or(DEVICE_FAILED)?;
        for _ in 0..row {
            // SAFETY: the caller promises the plan's handle and operands that fit the plan's problem (see `# Safety`).
            unsafe { K::run(plan, handle, &self.operands, self.workspace) }?;
        }
        let end = device.mark(stream).ok_or(DEVICE_FAILED)?;
        match (device.synchronize(stream), end.since(&start)) {
            (true, Elapsed::Ready(time)) => Ok(time / row as f64),
            _ => Err(DEVICE_FAILED),
        }
    }
}

/// Buffers of our own for a problem's data, filled with random numbers: zeros may run faster than the program's data.
pub struct OwnBuffers {
    tensors: Vec<Buffer>,
    workspace: Buffer,
}

impl OwnBuffers {
    /// The bytes of a problem's data, without workspace.
    pub fn data_bytes<K: Executable>(problem: &K) -> usize {
        problem.tensors().iter().fold(0, |sum, (bytes, _)| sum.saturating_add(*bytes))
    }

    /// Allocates the buffers, at most `most` bytes in all, and fills them on the stream. `Err` is the message.
    pub fn allocate<K: Executable>(
        device: Device,
        stream: Stream,
        problem: &K,
        workspace: usize,
        most: usize,
    ) -> Result<Self, String> {
        let bytes = Self::data_bytes(problem).saturating_add(workspace);
        if bytes > most {
            return Err(format!("timing it takes {bytes} bytes, UCUDNN_TUNE_BYTES allows {most}"));
        }
        let allocate = |bytes| device.allocate(bytes).ok_or(format!("{bytes} bytes cannot be allocated"));
        let tensor = |(bytes, data_type)| {
            let buffer = allocate(bytes)?;
            if fill(device, stream, &buffer, data_type) {
                Ok(buffer)
            } else {
                Err("its buffers cannot be filled".to_owned())
            }
        };
        let tensors = problem.tensors().into_iter().map(tensor).collect::<Result<_, _>>()?;
        Ok(Self { tensors, workspace: allocate(workspace)? })
    }

    /// The buffers of the tensors, in their order.
    pub fn tensors(&self) -> &[Buffer] {
        &self.tensors
    }

    /// A bench on these buffers.
    pub fn bench<K: Executable>(&self, device: Device, handle: cudnnHandle_t, stream: Stream, problem: &K) -> Bench<K> {
        let tensors: Vec<_> = self.tensors.iter().map(Buffer::data).collect();
        let workspace = Workspace { data: self.workspace.data(), size: self.workspace.bytes() };
        Bench { device, handle, stream, operands: problem.operands(&tensors), workspace }
    }
}

/// The most bytes that are written at once: each write waits for the device.
const WRITTEN: usize = 1 << 20;

/// Fills a buffer with numbers between −1 and 1; random numbers repeat. Returns false if that fails.
pub fn fill(device: Device, stream: Stream, buffer: &Buffer, data_type: cudnnDataType_t) -> bool {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        // xorshift64 of Marsaglia, "Xorshift RNGs", 2003
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let size = element_size(data_type).unwrap_or(size_of::<f32>());
    let elements = WRITTEN.min(buffer.bytes()).div_ceil(size).max(1);
    let mut tile = Vec::new();
    // The program goes on where there is no memory.
    if tile.try_reserve_exact(elements * size).is_err() {
        return false;
    }
    for _ in 0..elements {
        let value = random();
        match data_type {
            CUDNN_DATA_DOUBLE => tile.extend(f64::from(value).to_ne_bytes()),
            CUDNN_DATA_HALF => tile.extend(half::f16::from_f32(value).to_ne_bytes()),
            CUDNN_DATA_BFLOAT16 => tile.extend(half::bf16::from_f32(value).to_ne_bytes()),
            _ => tile.extend(value.to_ne_bytes()),
        }
    }
    write_tiles(device, stream, buffer, &tile)
}

/// Fills a buffer with a tile that repeats. Returns false if that fails.
pub fn write_tiles(device: Device, stream: Stream, buffer: &Buffer, tile: &[u8]) -> bool {
    let count = WRITTEN.min(buffer.bytes()) / tile.len();
    let mut several = Vec::new();
    if count > 1 {
        // The program goes on where there is no memory.
        if several.try_reserve_exact(count * tile.len()).is_err() {
            return false;
        }
        (0..count).for_each(|_| several.extend_from_slice(tile));
    }
    let tile = if count > 1 { &several } else { tile };
    (0..buffer.bytes()).step_by(tile.len()).all(|start| {
        let bytes = tile.len().min(buffer.bytes() - start);
        // SAFETY: the range starts inside `buffer`, and is cut at its end.
        unsafe { device.write(buffer.data().wrapping_byte_add(start), &tile[..bytes], stream) }
    })
}
