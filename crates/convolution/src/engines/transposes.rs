//! Transposes matrices in device memory, which turns a channels-first tensor into a channels-last one and back.

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use cudnn_abi::*;

use crate::engines::element_kernels::ElementKernels;
use crate::problem::graph::Matrices;
use cudnn::tensor::element_size;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};

/// The threads of a block, as in `kernels/convolution/transpose.cu`.
const THREADS: usize = 256;
/// The register tiles of a block: one for each warp.
const TILES: usize = THREADS / 32;
/// The rows, or columns, of a strip that passes through shared memory.
const STRIP: usize = 64;
/// The shared memory of a block that every device has, in bytes.
const SHARED: usize = 48 << 10;
/// The widest memory access of a thread, in bytes.
const ACCESS: usize = 16;
/// Accesses that each thread makes where rows, or columns, are few.
const EACH: usize = 4;
/// The side of the square tiles, which handle all remaining shapes.
const SQUARE: usize = 32;
/// The most blocks of a sum.
const MOST_ADDING: usize = 4096;
/// The most transpositions of one launch, as in `kernels/convolution/transpose.cu`.
const MOST_JOBS: usize = 4;

/// A variant of the transposing kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A thread transposes a tile of this many rows and columns in its registers.
    Registers(usize, usize),
    /// Strips of rows with all their columns, through shared memory.
    Rows,
    /// Strips of columns with all their rows, through shared memory.
    Columns,
    /// A thread reads all the few rows of a column, and writes one access of the transposed matrix, padded with zeros.
    FewRows,
    /// The reverse of `FewRows`: drops the padding behind the few columns.
    FewColumns,
    /// Square tiles, for any shape.
    Any,
}

impl Way {
    /// All variants, the fastest first.
    const ALL: [(Self, &'static CStr); 9] = [
        (Self::Registers(8, 8), c"transpose_8x8"),
        (Self::Registers(8, 4), c"transpose_8x4"),
        (Self::Registers(4, 8), c"transpose_4x8"),
        (Self::Registers(4, 4), c"transpose_4x4"),
        (Self::FewRows, c"transpose_few_rows"),
        (Self::FewColumns, c"transpose_few_columns"),
        (Self::Rows, c"transpose_rows"),
        (Self::Columns, c"transpose_columns"),
        (Self::Any, c"transpose_any"),
    ];

    /// Returns whether the variant exists for elements of `element` bytes.
    fn is_for(self, element: usize) -> bool {
        // No access is wider than 16 bytes.
        !matches!(self, Self::Registers(r, c) if r.max(c) * element > ACCESS)
    }

    /// Returns whether the variant transposes these matrices with elements of `element` bytes.
    fn admits(self, matrices: Matrices, element: usize) -> bool {
        let Matrices { rows, columns, pitch, transposed_pitch, .. } = matrices;
        match self {
            Self::FewRows => pitch == columns && transposed_pitch * element == ACCESS,
            Self::FewColumns => transposed_pitch == rows && pitch * element == ACCESS,
            _ if !self.is_for(element) || !matrices.is_packed() => false,
            Self::Registers(r, c) => rows.is_multiple_of(r) && columns.is_multiple_of(c),
            Self::Rows => rows.is_multiple_of(STRIP) && STRIP * columns * element <= SHARED,
            Self::Columns => columns.is_multiple_of(STRIP) && STRIP * rows * element <= SHARED,
            Self::Any => true,
        }
    }

    /// The blocks for one matrix, and the bytes of shared memory of each block.
    fn blocks(self, Matrices { rows, columns, .. }: Matrices, element: usize) -> (usize, usize) {
        match self {
            Self::Registers(r, c) => ((rows.div_ceil(8 * r) * columns.div_ceil(4 * c)).div_ceil(TILES), 0),
            Self::Rows => (rows / STRIP, STRIP * columns * element),
            Self::Columns => (columns / STRIP, STRIP * rows * element),
            Self::FewRows => (columns.div_ceil(THREADS * EACH), 0),
            Self::FewColumns => (rows.div_ceil(THREADS * EACH), 0),
            Self::Any => (rows.div_ceil(SQUARE) * columns.div_ceil(SQUARE), 0),
        }
    }
}

/// A transposition to launch.
#[derive(Clone, Copy)]
pub struct Transposition {
    pub matrices: Matrices,
    pub from: *const c_void,
    pub to: Destination,
}

/// The destination of transposed matrices, which have a column for each original row.
#[derive(Clone, Copy)]
pub enum Destination {
    /// Memory with elements of the same type.
    Tensor(*mut c_void),
    /// A sum of floats without padding between rows. The matrices start the sum if the flag is set, and else are added.
    Sum(*mut c_void, bool),
}

/// The kernels for matrices of one element type, on one device.
pub struct Transposes {
    data_type: cudnnDataType_t,
    element: usize,
    on: On,
}

enum On {
    /// The loops of this file.
    Host,
    /// The kernels; each of them can also add.
    Compiled(Vec<(Way, Function)>),
}

/// One transposition of a launch, as in `kernels/convolution/transpose.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Job {
    from: *const c_void,
    to: *mut c_void,
    images: i32,
    rows: i32,
    columns: i32,
    pitch: i32,
    transposed_pitch: i32,
    blocks: i32,
    what: i32,
}

const WRITES: i32 = 0;
const ADDS: i32 = 1;
const BEGINS: i32 = 2;

impl Job {
    const NONE: Self = Self {
        from: std::ptr::null(),
        to: std::ptr::null_mut(),
        images: 0,
        rows: 0,
        columns: 0,
        pitch: 0,
        transposed_pitch: 0,
        blocks: 0,
        what: WRITES,
    };
}

static KNOWN: Loaded<cudnnDataType_t, Transposes> = Loaded::kept();

impl Transposes {
    /// The kernels for a type (half, bfloat16 or float) on the calling thread's device. The first call compiles, which
    /// may take a second; do not call it under capture. `Err` says why the kernels are unavailable.
    pub fn of(device: Device, data_type: cudnnDataType_t) -> Result<Arc<Self>, String> {
        KNOWN.get(device, data_type, || Self::new(device, data_type))
    }

    fn new(device: Device, data_type: cudnnDataType_t) -> Result<Self, String> {
        let element = element_size(data_type).unwrap_or(1);
        match device {
            Device::Host => Ok(Self { data_type, element, on: On::Host }),
            Device::Cuda => Self::compiled(device, data_type, element),
        }
    }

    fn compiled(device: Device, data_type: cudnnDataType_t, element: usize) -> Result<Self, String> {
        let own: &[&str] = if data_type == CUDNN_DATA_BFLOAT16 { &["-DBFLOAT16"] } else { &[] };
        let kernels = ElementKernels::load(device, &kernels::convolution::TRANSPOSE, element, own)?;
        let there = Way::ALL.iter().filter(|(way, _)| way.is_for(element));
        let ways = there.map(|&(way, name)| Ok((way, kernels.function(name)?))).collect::<Result<_, String>>()?;
        Ok(Self { data_type, element, on: On::Compiled(ways) })
    }

    /// The size of an element in bytes.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Runs all transpositions, up to [`MOST_JOBS`] of one variant in a launch. Returns whether all were launched.
    ///
    /// # Safety
    /// All pointers are device memory as large as the tensors, aligned to 16 bytes. No transposition reads or writes
    /// the destination of another. The stream belongs to the same device.
    pub unsafe fn run(&self, stream: Stream, transpositions: &[Transposition]) -> bool {
        match &self.on {
            On::Host => {
                // Reverse order, because callers may not rely on any order.
                for Transposition { matrices, from, to } in transpositions.iter().rev() {
                    // SAFETY: the caller promises memory as large as the tensors, which is host memory on this device.
                    unsafe {
                        match (*to, self.element) {
                            (Destination::Sum(sum, begins), _) => {
                                add(*matrices, self.data_type, *from, sum.cast(), begins)
                            }
                            (Destination::Tensor(to), 2) => transpose::<u16>(*matrices, *from, to),
                            (Destination::Tensor(to), _) => transpose::<u32>(*matrices, *from, to),
                        }
                    }
                }
                true
            }
            On::Compiled(ways) => {
                let way = |it: &Transposition| ways.iter().position(|(way, _)| way.admits(it.matrices, self.element));
                let is_written = |it: &&Transposition| matches!(it.to, Destination::Tensor(_));
                if !transpositions.iter().filter(is_written).all(|it| way(it).is_some()) {
                    return false;
                }
                // Any kernel can add, so sums join a kernel that runs anyway.
                let first = transpositions.iter().find(is_written).and_then(way).unwrap_or(0);
                let way = |it: &Transposition| if is_written(&it) { way(it) } else { Some(first) };
                ways.iter().enumerate().all(|(index, (of, function))| {
                    let mut its = transpositions.iter().filter(|it| way(it) == Some(index)).peekable();
                    while its.peek().is_some() {
                        // SAFETY: the caller makes the same promise to `launch`, which gets at most `MOST_JOBS`.
                        if !unsafe { self.launch(stream, *of, function, its.by_ref().take(MOST_JOBS)) } {
                            return false;
                        }
                    }
                    true
                })
            }
        }
    }

    /// # Safety
    /// As for [`Self::run`]; there are no more than [`MOST_JOBS`].
    unsafe fn launch<'a>(
        &self,
        stream: Stream,
        way: Way,
        function: &Function,
        transpositions: impl Iterator<Item = &'a Transposition>,
    ) -> bool {
        let (mut jobs, mut all_blocks, mut most_shared) = ([Job::NONE; MOST_JOBS], 0, 0);
        for (job, Transposition { matrices, from, to }) in jobs.iter_mut().zip(transpositions) {
            let (to, blocks, what) = match *to {
                Destination::Tensor(to) => {
                    let (blocks, shared) = way.blocks(*matrices, self.element);
                    most_shared = most_shared.max(shared);
                    (to, blocks * matrices.images, WRITES)
                }
                Destination::Sum(sum, begins) => {
                    let blocks = matrices.transposed().elements().div_ceil(THREADS).min(MOST_ADDING);
                    (sum, blocks, if begins { BEGINS } else { ADDS })
                }
            };
            all_blocks += blocks;
            let Matrices { images, rows, columns, pitch, transposed_pitch } = *matrices;
            let [images, rows, columns, pitch, transposed_pitch, blocks] =
                [images, rows, columns, pitch, transposed_pitch, blocks].map(|count| count as i32);
            *job = Job { from: *from, to, images, rows, columns, pitch, transposed_pitch, blocks, what };
        }
        let Ok(blocks) = i32::try_from(all_blocks) else { return false };
        let launch = Launch {
            grid: [blocks as u32, 1, 1],
            block: [THREADS as u32, 1, 1],
            shared_bytes: most_shared as u32,
            ..Launch::default()
        };
        // SAFETY: `jobs` is the kernels' only parameter; the caller promises memory as large as the tensors.
        unsafe { function.launch(stream, &launch, &mut [(&raw mut jobs).cast()]) }.is_ok()
    }
}

/// # Safety
/// As for [`Transposes::run`], in the host's memory.
unsafe fn transpose<T: Copy + Default>(matrices: Matrices, from: *const c_void, to: *mut c_void) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for_each(matrices, |source, target| {
        // SAFETY: both indices lie within the tensors, whose sizes the caller promises.
        unsafe { to.add(target).write(source.map_or(T::default(), |source| from.add(source).read())) }
    });
}

/// Adds transposed matrices to a float sum, or starts the sum with them.
///
/// # Safety
/// As for [`Transposes::run`], in the host's memory.
unsafe fn add(matrices: Matrices, data_type: cudnnDataType_t, from: *const c_void, sum: *mut f32, begins: bool) {
    for_each(matrices, |source, target| {
        // SAFETY: both indices lie within the tensors, whose sizes the caller promises.
        unsafe {
            let term = source.map_or(0.0, |source| match data_type {
                CUDNN_DATA_HALF => from.cast::<half::f16>().add(source).read().to_f32(),
                CUDNN_DATA_BFLOAT16 => from.cast::<half::bf16>().add(source).read().to_f32(),
                _ => from.cast::<f32>().add(source).read(),
            });
            let sum = sum.add(target);
            sum.write(if begins { term } else { sum.read() + term });
        }
    });
}

/// Visits each element of the transposed matrices with its source (`None` for a zero of the padding) and its target.
fn for_each(matrices: Matrices, mut visit: impl FnMut(Option<usize>, usize)) {
    let Matrices { images, rows, columns, pitch, transposed_pitch } = matrices;
    for image in 0..images {
        for column in 0..columns {
            for row in 0..transposed_pitch {
                let source = (row < rows).then_some((image * rows + row) * pitch + column);
                visit(source, (image * columns + column) * transposed_pitch + row);
            }
        }
    }
}
