//! Transposing matrices in the device's memory: what turns a tensor with its channels first into one with its channels
//! last, and back.

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use cudnn_abi::*;

use super::element_kernels::{ElementKernels, MOST_IMAGES};
use super::for_each_device::ForEachDevice;
use crate::cudnn::graph::Matrices;
use crate::cudnn::kernel::element_size;
use crate::device::jit::{Function, Launch};
use crate::device::{Device, Stream};

/// Threads of a block, as `kernels/transpose.cu` has them.
const THREADS: usize = 256;
/// Tiles of registers that a block has: one a warp.
const TILES: usize = THREADS / 32;
/// Rows or columns that go through shared memory at a time.
const STRIP: usize = 64;
/// What every device has of shared memory for a block, in bytes.
const SHARED: usize = 48 << 10;
/// The side of the squares for what fits nothing else.
const SQUARE: usize = 32;
/// The most blocks that add.
const MOST_ADDING: usize = 4096;

/// One of the kernels that transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Tiles of so many rows and columns in a thread's registers.
    Registers(usize, usize),
    /// Strips of rows, with all of their columns.
    Rows,
    /// Strips of columns, with all of their rows.
    Columns,
    /// Squares.
    Any,
}

impl Way {
    /// The best first.
    const ALL: [(Self, &'static CStr); 7] = [
        (Self::Registers(8, 8), c"transpose_8x8"),
        (Self::Registers(8, 4), c"transpose_8x4"),
        (Self::Registers(4, 8), c"transpose_4x8"),
        (Self::Registers(4, 4), c"transpose_4x4"),
        (Self::Rows, c"transpose_rows"),
        (Self::Columns, c"transpose_columns"),
        (Self::Any, c"transpose_any"),
    ];

    /// Whether it transposes these, of elements of so many bytes.
    fn admits(self, Matrices { rows, columns, .. }: Matrices, element: usize) -> bool {
        match self {
            // No access is wider than 16 bytes.
            Self::Registers(r, c) => r.max(c) * element <= 16 && rows.is_multiple_of(r) && columns.is_multiple_of(c),
            Self::Rows => rows.is_multiple_of(STRIP) && STRIP * columns * element <= SHARED,
            Self::Columns => columns.is_multiple_of(STRIP) && STRIP * rows * element <= SHARED,
            Self::Any => true,
        }
    }

    fn launch(self, Matrices { images, rows, columns }: Matrices, element: usize) -> Launch {
        let (blocks, shared) = match self {
            Self::Registers(r, c) => ((rows.div_ceil(8 * r) * columns.div_ceil(4 * c)).div_ceil(TILES), 0),
            Self::Rows => (rows / STRIP, STRIP * columns * element),
            Self::Columns => (columns / STRIP, STRIP * rows * element),
            Self::Any => (rows.div_ceil(SQUARE) * columns.div_ceil(SQUARE), 0),
        };
        launch([blocks, images.min(MOST_IMAGES)], shared)
    }
}

fn launch([x, y]: [usize; 2], shared: usize) -> Launch {
    Launch {
        grid: [x as u32, y as u32, 1],
        block: [THREADS as u32, 1, 1],
        shared_bytes: shared as u32,
        ..Launch::default()
    }
}

/// For matrices of one type of elements, on one device.
pub struct Transposes {
    data_type: cudnnDataType_t,
    element: usize,
    on: On,
}

enum On {
    /// Loops of this file.
    Host,
    /// Its kernels.
    Compiled { ways: Vec<(Way, Function)>, add: Function },
}

/// The kernels' parameters, as `kernels/transpose.cu` has them.
#[repr(C)]
struct Transposition {
    from: *const c_void,
    to: *mut c_void,
    images: i32,
    rows: i32,
    columns: i32,
}

#[repr(C)]
struct Addition {
    from: *const c_void,
    sum: *mut c_void,
    images: i32,
    rows: i32,
    columns: i32,
    begins: i32,
}

static KNOWN: ForEachDevice<cudnnDataType_t, Transposes> = ForEachDevice::new();

impl Transposes {
    /// For elements of a type (half, bfloat16 or float) on the calling thread's device. Compiles at the first call, which
    /// may take a second; not to be called under capture. `Err` says why there are none.
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
        let text = include_str!("../../kernels/transpose.cu");
        let kernels = ElementKernels::load(device, "transpose.cu", text, element, own)?;
        let nothing = Matrices { images: 0, rows: 0, columns: 0 };
        let there = Way::ALL.iter().filter(|(way, _)| way.admits(nothing, element));
        let ways = there.map(|&(way, name)| Ok((way, kernels.function(name)?))).collect::<Result<_, String>>()?;
        let on = On::Compiled { ways, add: kernels.function(c"add_transposed")? };
        Ok(Self { data_type, element, on })
    }

    /// Transposes `matrices` into as many of as many columns as they have rows. Whether it was launched.
    ///
    /// # Safety
    /// Both are memory of the device that the elements fill, apart from each other and aligned to 16 bytes; the stream
    /// is of that device.
    pub unsafe fn run(&self, stream: Stream, matrices: Matrices, from: *const c_void, to: *mut c_void) -> bool {
        match &self.on {
            On::Host => {
                // SAFETY: as ours.
                unsafe {
                    match self.element {
                        2 => transpose::<u16>(matrices, from, to),
                        _ => transpose::<u32>(matrices, from, to),
                    }
                }
                true
            }
            On::Compiled { ways, .. } => {
                let Some((way, function)) = ways.iter().find(|(way, _)| way.admits(matrices, self.element)) else {
                    return false;
                };
                let [images, rows, columns] =
                    [matrices.images, matrices.rows, matrices.columns].map(|count| count as i32);
                let mut parameters = Transposition { from, to, images, rows, columns };
                let mut arguments = [(&raw mut parameters).cast()];
                // SAFETY: the kernel's parameters, and memory as ours.
                unsafe { function.launch(stream, &way.launch(matrices, self.element), &mut arguments) }.is_ok()
            }
        }
    }

    /// sum = transposed matrices + sum, in float; or, where the sum `begins`, these alone.
    ///
    /// # Safety
    /// As for [`Self::run`]; `sum` is as many floats.
    pub unsafe fn add(
        &self,
        stream: Stream,
        matrices: Matrices,
        from: *const c_void,
        sum: *mut c_void,
        begins: bool,
    ) -> bool {
        match &self.on {
            On::Host => {
                // SAFETY: as ours.
                unsafe { add(matrices, self.data_type, from, sum.cast(), begins) };
                true
            }
            On::Compiled { add, .. } => {
                let [images, rows, columns] =
                    [matrices.images, matrices.rows, matrices.columns].map(|count| count as i32);
                let mut parameters = Addition { from, sum, images, rows, columns, begins: begins.into() };
                let blocks = matrices.elements().div_ceil(THREADS).min(MOST_ADDING);
                let mut arguments = [(&raw mut parameters).cast()];
                // SAFETY: the kernel's parameters, and memory as ours.
                unsafe { add.launch(stream, &launch([blocks, 1], 0), &mut arguments) }.is_ok()
            }
        }
    }
}

/// # Safety
/// As for [`Transposes::run`], in the host's memory.
unsafe fn transpose<T: Copy>(matrices: Matrices, from: *const c_void, to: *mut c_void) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for_each(matrices, |source, target| {
        // SAFETY: places within both.
        unsafe { to.add(target).write(from.add(source).read()) }
    });
}

/// # Safety
/// As for [`Transposes::add`], in the host's memory.
unsafe fn add(matrices: Matrices, data_type: cudnnDataType_t, from: *const c_void, sum: *mut f32, begins: bool) {
    for_each(matrices, |source, target| {
        // SAFETY: places within both.
        unsafe {
            let term = match data_type {
                CUDNN_DATA_HALF => from.cast::<half::f16>().add(source).read().to_f32(),
                CUDNN_DATA_BFLOAT16 => from.cast::<half::bf16>().add(source).read().to_f32(),
                _ => from.cast::<f32>().add(source).read(),
            };
            let sum = sum.add(target);
            sum.write(if begins { term } else { sum.read() + term });
        }
    });
}

/// Where each element stands, and where it goes.
fn for_each(Matrices { images, rows, columns }: Matrices, mut visit: impl FnMut(usize, usize)) {
    for image in 0..images {
        for row in 0..rows {
            for column in 0..columns {
                visit((image * rows + row) * columns + column, (image * columns + column) * rows + row);
            }
        }
    }
}
