//! Convolutions whose strides are their filter's sizes, as in the patch embeddings of vision transformers, and their
//! gradients; transposed convolutions of this kind are input gradients. A kernel brings the patches of x into the rows
//! of a matrix, in the workspace, and the result is a product of this matrix, by cublasLt.
//!
//! cublasLt's fastest kernels need rows of whole 16 bytes, and multiply tiles of 128 rows and more. So zeros fill rows of
//! patches up, in a matrix of the filters too. Where an image's places are no such row, or few tiles, y's pixels become
//! rows, and the product is one of all images: that of 196 places and 1,024 outputs in half took 216 µs on an H200 image
//! by image, and 60 so.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ffi::{CStr, c_void};

use crate::engines::engine::{Engine, Priority, is_short};
use crate::engines::problem::{Computed, Convolution, Memory, Refusal};
use crate::engines::products;
use crate::engines::transposes::{Destination, Transposes, Transposition};
use crate::engines::warpgroups::{MOST_COUNTED, THREADS, launch_of};
use crate::problem::graph::{Knob, Matrices};
use cudnn::convolution::Direction;
use cudnn_abi::cudnnBackendKnobType_t;
use gpu::cublaslt::{Batch, Factor, Product, has_whole_vectors, padded_row};
use gpu::jit::Function;
use gpu::{Device, Element, Stream};
use kernels::KernelSource;

/// The knob: the images whose patches are in the workspace at once. Without it, all are.
const IMAGES: cudnnBackendKnobType_t = 0;
/// About as many bytes of patches are in the workspace at once: the product then reads them from an L2 cache of 50 MB.
/// Gradients of filters need room for y's pixels, too. Fewer and larger products gain more in the other directions.
const MOST_BYTES: usize = 40 << 20;
const MOST_BYTES_OF_GRADIENT: usize = 24 << 20;
/// The most products of a batch. Some versions of cublasLt refuse 65,536, or compute them wrongly.
const MOST_IN_BATCH: usize = 1 << 15;
/// The knob of cublasLt's workspace, in MiB, and its values. It adds parts of deep sums up there, see [`products`].
const SPLITS: cudnnBackendKnobType_t = 1;
const SPLIT_SIZES: [usize; 3] = [32, 4, 0];
/// The bytes of a tile's row, which are read or written without gaps, and of a tile, which fits into shared memory.
const ROW_BYTES: usize = 512;
const TILE_BYTES: usize = 16 << 10;
/// The most lines of a tile.
const MOST_LINES: usize = 1 << 10;
/// The units in which rows are moved, in bytes, the fastest first.
const UNITS: [usize; 4] = [16, 8, 4, 2];
/// The alignment of the workspace's parts, in bytes.
const ALIGNMENT: usize = 256;
/// The side of the tiles of cublasLt's fastest kernels.
const PRODUCT_TILE: usize = 128;

/// A convolution, or one of its gradients, by a filter whose sizes are its strides: it reads each pixel
/// once at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patched(Convolution);

impl Computed for Patched {
    fn of(of: &Convolution) -> Result<Self, Refusal> {
        of.reads_patches().map(|()| Self(*of))
    }

    fn convolution(&self) -> Convolution {
        self.0
    }
}

impl Patched {
    /// The patches of an image.
    fn places(&self) -> usize {
        product(&self.0.y)
    }

    /// The elements of a patch.
    fn depth(&self) -> usize {
        product(&self.0.filter).saturating_mul(self.0.inputs)
    }

    /// Returns whether this number of elements is whole vectors.
    fn is_whole(&self, elements: usize) -> bool {
        has_whole_vectors(elements, self.0.element)
    }

    /// Elements from one row of patches to the next.
    fn pitch(&self) -> usize {
        padded_row(self.depth(), self.0.element).unwrap_or(usize::MAX)
    }

    /// Returns whether the product is one of y's pixels as rows, in place of one for each image.
    fn has_pixels(&self) -> bool {
        let places = self.places();
        // Tiles of which more than a ninth is empty.
        let are_tiles_empty = || places.div_ceil(PRODUCT_TILE).saturating_mul(PRODUCT_TILE) / 9 > places / 8;
        self.0.direction == Direction::BackwardFilter
            || self.is_whole(self.0.outputs) && (!self.is_whole(places) || are_tiles_empty())
    }

    /// Returns whether the filters are copied, with zeros behind each.
    fn has_filters(&self) -> bool {
        self.0.direction != Direction::BackwardFilter && self.pitch() != self.depth()
    }

    /// The number of products that are added up for an element of the result.
    fn summed(&self) -> usize {
        match self.0.direction {
            Direction::Forward => self.depth(),
            Direction::BackwardData => self.0.outputs,
            Direction::BackwardFilter => self.0.images.saturating_mul(self.places()),
        }
    }

    /// Returns whether the kernel and cublasLt can count all elements.
    fn is_counted(&self) -> bool {
        let Convolution { images, inputs, outputs, x, .. } = self.0;
        let image = product(&x);
        let sizes = [
            images,
            image.saturating_mul(inputs),
            self.places().saturating_mul(outputs),
            self.pitch().saturating_mul(outputs),
            self.places().saturating_mul(self.pitch()),
        ];
        sizes.iter().all(|size| (1..MOST_COUNTED).contains(size))
    }
}

fn product(sizes: &[usize]) -> usize {
    sizes.iter().fold(1, |product: usize, size| product.saturating_mul(*size))
}

/// The most images at once, where each may be a product of a batch.
fn most_at_once(of: &Patched) -> Option<usize> {
    (of.0.direction != Direction::BackwardFilter).then_some(MOST_IN_BATCH)
}

/// The tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    patches: usize,
    lines: usize,
    /// Units from a line in shared memory to the next: columns of lines begin in different banks.
    pitch: usize,
    unit: usize,
}

impl Tile {
    /// The tile for patches of `columns` units, `across` of them in a row, and with `lines` lines.
    fn of(columns: usize, across: usize, lines: usize, unit: usize) -> Self {
        let patches = (ROW_BYTES / (columns * unit)).clamp(1, across);
        let row = patches * columns;
        let lines = (TILE_BYTES / (row * unit)).min(MOST_LINES).clamp(1, lines);
        // An odd number of words, or of larger units.
        let pitch = if unit == 2 { row.next_multiple_of(2) | 2 } else { row | 1 };
        Self { patches, lines, pitch, unit }
    }

    fn shared_bytes(&self) -> usize {
        self.lines * self.pitch * self.unit
    }
}

/// How patches lie in images, for the kernel.
#[derive(Clone, Copy, Debug)]
struct Layout {
    channels: usize,
    /// The images in units, and the patches along each axis.
    x: [usize; 3],
    y: [usize; 3],
    /// The filter, its columns in units.
    filter: [usize; 3],
    /// Units from one row of the matrix to the next.
    matrix_pitch: usize,
    tile: Tile,
}

/// The parameters of `kernels/convolution/patch_products.cu`.
#[repr(C)]
struct Parameters {
    from: *const c_void,
    to: *mut c_void,
    images: i32,
    channels: i32,
    x: [i32; 3],
    y: [i32; 3],
    patches: i32,
    lines: i32,
    pitch: i32,
    matrix_pitch: i32,
    beta: f32,
}

/// Those of its kernel `write_filters`.
#[repr(C)]
struct Sums {
    sums: *const c_void,
    dw: *mut c_void,
    elements: i32,
    depth: i32,
    pitch: i32,
    alpha: f32,
    beta: f32,
}

impl Layout {
    /// The layout of x's patches.
    fn of(of: &Patched) -> Option<Self> {
        let Convolution { element, inputs: channels, mut x, y, mut filter, .. } = of.0;
        let divides = |unit: usize| [x[2], filter[2]].iter().all(|size| (size * element.bytes()).is_multiple_of(unit));
        let unit = UNITS.into_iter().find(|&unit| unit >= element.bytes() && divides(unit))?;
        let elements = unit / element.bytes();
        (x[2], filter[2]) = (x[2] / elements, filter[2] / elements);
        let tile = Tile::of(filter[2], y[2], channels * filter[0] * filter[1], unit);
        Some(Self { channels, x, y, filter, matrix_pitch: of.pitch() / elements, tile })
    }

    /// The layout of filters, as images of one patch.
    fn of_filters(self) -> Self {
        let Self { channels, filter, tile, .. } = self;
        let tile = Tile::of(filter[2], 1, channels * filter[0] * filter[1], tile.unit);
        Self { x: filter, y: [1; 3], tile, ..self }
    }

    /// The blocks for this number of images, with or without the pixels after the last patch of each axis.
    fn blocks(&self, images: usize, has_rests: bool) -> usize {
        let Self { channels, x, y, filter, tile, .. } = self;
        let count = |axis: usize| if has_rests { x[axis].div_ceil(filter[axis]) } else { y[axis] };
        let deep = (channels * filter[0] * filter[1]).div_ceil(tile.lines);
        product(&[images, count(0), count(1), count(2).div_ceil(tile.patches), deep])
    }

    /// Launches a kernel for this number of images. It multiplies the pixels of x that are in no patch
    /// by `rests`, if it writes them.
    /// Returns whether that worked.
    ///
    /// # Safety
    /// The caller promises memory for these images.
    unsafe fn launch(
        &self,
        kernel: &Function,
        stream: Stream,
        [from, to]: [*mut c_void; 2],
        images: usize,
        rests: Option<f32>,
    ) -> bool {
        let Self { channels, x, y, matrix_pitch, tile, .. } = *self;
        let count = |count: usize| count as i32;
        let mut parameters = Parameters {
            from: from.cast_const(),
            to,
            images: count(images),
            channels: count(channels),
            x: x.map(count),
            y: y.map(count),
            patches: count(tile.patches),
            lines: count(tile.lines),
            pitch: count(tile.pitch),
            matrix_pitch: count(matrix_pitch),
            beta: rests.unwrap_or(0.0),
        };
        let launch = launch_of(self.blocks(images, rests.is_some()), tile.shared_bytes());
        // SAFETY: `parameters` is the kernel's only parameter, and the caller promises the memory.
        unsafe { kernel.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }.is_ok()
    }
}

/// A convolution by a product of patches.
#[derive(Clone, Copy, Debug)]
pub struct PatchProducts {
    of: Patched,
    device: Device,
    layout: Layout,
    /// The images whose patches are in the workspace at once.
    at_once: usize,
    /// The bytes of cublasLt's workspace.
    for_splits: usize,
}

/// Images whose patches are in the workspace at once: their tensors begin there.
struct Part {
    memory: Memory,
    images: usize,
    is_first: bool,
}

/// The places in the workspace, each by its first byte, and its bytes.
struct Places {
    patches: usize,
    /// The filters with zeros behind each.
    filters: usize,
    /// The pixels of y as rows.
    pixels: usize,
    /// The sums in float of a filter gradient.
    sums: usize,
    splits: usize,
    all: usize,
}

impl PatchProducts {
    fn places(&self) -> Places {
        let Self { of, at_once, for_splits, .. } = self;
        let bytes = |count: usize, element: usize| {
            (count.saturating_mul(element)).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
        };
        let element = of.0.element.bytes();
        let (outputs, pixels) = (of.0.outputs, at_once.saturating_mul(of.places()));
        let bytes_if = |is_there: bool, count, element| if is_there { bytes(count, element) } else { 0 };
        let sizes = [
            bytes(pixels.saturating_mul(of.pitch()), element),
            bytes_if(of.has_filters(), of.pitch().saturating_mul(outputs), element),
            bytes_if(of.has_pixels(), pixels.saturating_mul(outputs), element),
            bytes_if(self.has_sums(), of.pitch().saturating_mul(outputs), size_of::<f32>()),
            *for_splits,
        ];
        let before = |count: usize| sizes[..count].iter().fold(0, |bytes: usize, size| bytes.saturating_add(*size));
        let [filters, pixels, sums, splits, all] = [1, 2, 3, 4, 5].map(before);
        Places { patches: 0, filters, pixels, sums, splits, all }
    }

    /// The parts of the images, one after the other.
    fn parts(&self, memory: Memory) -> impl Iterator<Item = Part> + Clone {
        let Self { of, at_once, .. } = *self;
        let Convolution { element, images, inputs, outputs, x, .. } = of.0;
        (0..images).step_by(at_once).map(move |first| {
            let later = |data: *mut c_void, count: usize| data.wrapping_byte_add(first * count * element.bytes());
            let (x, y) = (later(memory.x, product(&x) * inputs), later(memory.y, of.places() * outputs));
            Part { memory: Memory { x, y, ..memory }, images: (images - first).min(at_once), is_first: first == 0 }
        })
    }

    /// Returns whether sums in float become the gradient of filters afterwards: each part of the images adds to them,
    /// or the gradient's rows are no whole vectors.
    fn has_sums(&self) -> bool {
        let Self { of, at_once, .. } = self;
        of.0.direction == Direction::BackwardFilter && (*at_once < of.0.images || of.pitch() != of.depth())
    }

    /// Returns whether [`Self::product`] is one of pixels as rows. What adds to y has a product for each image.
    fn multiplies_pixels(&self, beta: f32) -> bool {
        self.of.has_pixels() && (beta == 0.0 || self.of.0.direction != Direction::Forward)
    }

    /// The products of a part.
    fn product(&self, &Part { memory, images, is_first }: &Part, beta: f32) -> (Product, Batch) {
        let of = &self.of;
        let (places, pitch) = (of.places(), of.pitch());
        let (outputs, element, at) = (of.0.outputs, of.0.element, self.places());
        let part = |at: usize| memory.workspace.wrapping_byte_add(at);
        let factor =
            |data: *mut c_void, stride, is_transposed| Factor { data: data.cast_const(), stride, is_transposed };
        let patches = |is_transposed| factor(part(at.patches), pitch, is_transposed);
        let filters =
            |is_transposed| factor(if of.has_filters() { part(at.filters) } else { memory.w }, pitch, is_transposed);
        let pixels = |is_transposed| factor(part(at.pixels), outputs, is_transposed);
        let workspace =
            if self.for_splits > 0 { (part(at.splits), self.for_splits) } else { (std::ptr::null_mut(), 0) };
        let of_image = Product {
            left: filters(false),
            right: patches(true),
            products: memory.y,
            output: element,
            beta,
            rows: outputs,
            columns: places,
            depth: pitch,
            workspace,
        };
        let rows = images * places;
        let is_of_pixels = self.multiplies_pixels(beta);
        match of.0.direction {
            Direction::Forward if is_of_pixels => {
                let (left, right, products) = (patches(false), filters(true), part(at.pixels));
                (Product { left, right, products, rows, columns: outputs, ..of_image }, Batch::ONE)
            }
            Direction::Forward => (of_image, Batch { count: images, apart: [0, places * pitch, outputs * places] }),
            Direction::BackwardData => {
                let (right, products) = (filters(false), part(at.patches));
                let of_image = Product { right, products, columns: pitch, depth: outputs, ..of_image };
                if is_of_pixels {
                    (Product { left: pixels(false), rows, ..of_image }, Batch::ONE)
                } else {
                    let left = factor(memory.y, places, true);
                    let batch = Batch { count: images, apart: [outputs * places, 0, places * pitch] };
                    (Product { left, rows: places, ..of_image }, batch)
                }
            }
            Direction::BackwardFilter => {
                let (left, right) = (pixels(true), patches(false));
                let (products, output, beta) = match self.has_sums() {
                    true => (part(at.sums), Element::Float, if is_first { 0.0 } else { 1.0 }),
                    false => (memory.w, element, beta),
                };
                (Product { left, right, products, output, beta, columns: pitch, depth: rows, ..of_image }, Batch::ONE)
            }
        }
    }

    /// Brings y's pixels into rows, or back. Returns whether that worked.
    ///
    /// # Safety
    /// As for [`Engine::launch`].
    unsafe fn transpose(
        &self,
        stream: Stream,
        [from, to]: [*mut c_void; 2],
        [images, rows, columns]: [usize; 3],
    ) -> bool {
        let matrices = Matrices::packed(images, rows, columns);
        let transposition = Transposition { matrices, from: from.cast_const(), to: Destination::Tensor(to) };
        let transposes = Transposes::of(self.device, self.of.0.element.cudnn_type());
        // SAFETY: the caller promises y and the workspace.
        transposes.is_ok_and(|transposes| unsafe { transposes.run(stream, &[transposition]) })
    }

    /// Computes a part of the images. Returns whether that worked.
    ///
    /// # Safety
    /// As for [`Engine::launch`].
    unsafe fn launch_part(&self, kernels: &[Function], stream: Stream, part: &Part, [alpha, beta]: [f32; 2]) -> bool {
        let Self { of, layout, device, .. } = self;
        let Part { memory: Memory { x, w, y, workspace: patches, .. }, images, .. } = *part;
        let (outputs, places) = (of.0.outputs, of.places());
        let Places { filters, pixels, .. } = self.places();
        let [filters, pixels] = [filters, pixels].map(|at| patches.wrapping_byte_add(at));
        let (product, batch) = self.product(part, beta);
        let is_of_pixels = self.multiplies_pixels(beta);
        // SAFETY: the caller promises the tensors and the workspace.
        unsafe {
            let gather = || layout.launch(&kernels[0], stream, [x, patches], images, None);
            let gather_filters = || {
                !(of.has_filters() && part.is_first)
                    || layout.of_filters().launch(&kernels[0], stream, [w, filters], outputs, None)
            };
            let gather_pixels = || !is_of_pixels || self.transpose(stream, [y, pixels], [images, outputs, places]);
            let scatter_pixels = || !is_of_pixels || self.transpose(stream, [pixels, y], [images, places, outputs]);
            let scatter = || layout.launch(&kernels[1], stream, [patches, x], images, Some(beta));
            let numbers = (of.0.element, of.0.is_exact);
            let multiply = || products::multiply(*device, stream, alpha, (&product, batch), numbers);
            match of.0.direction {
                Direction::Forward => gather_filters() && gather() && multiply() && scatter_pixels(),
                Direction::BackwardData => {
                    gather_filters() && gather_pixels() && (beta == 0.0 || gather()) && multiply() && scatter()
                }
                Direction::BackwardFilter => gather() && gather_pixels() && multiply(),
            }
        }
    }
}

impl Engine for PatchProducts {
    type Problem = Patched;
    const SOURCE: &'static KernelSource = &kernels::convolution::PATCH_PRODUCTS;
    const KERNELS: &'static [&'static CStr] = &[c"gather_patches", c"scatter_patches", c"write_filters"];
    const IS_PRODUCT: bool = true;
    const IS_KEPT: bool = false;

    fn priority(_: &Patched) -> Priority {
        Priority::Fast
    }

    fn has_short_sums(of: &Patched) -> bool {
        is_short(of.0.element, of.summed())
    }

    /// So many images at once that their patches stay in a cache, and within the limit.
    fn choices(device: Device, of: &Patched, limit: usize) -> Vec<Vec<Knob>> {
        let images = of.0.images;
        let of_image = of.places().saturating_mul(of.pitch()).saturating_mul(of.0.element.bytes()).max(1);
        let within = |at_once: usize, mebibytes: usize| {
            let images = (at_once < images).then_some((IMAGES, at_once as i64));
            let splits = (mebibytes > 0).then_some((SPLITS, mebibytes as i64));
            let knobs: Vec<_> = images.into_iter().chain(splits).collect();
            Self::new(device, of, &knobs).filter(|engine| engine.workspace() <= limit).map(|_| knobs)
        };
        let is_gradient = of.0.direction == Direction::BackwardFilter;
        let most_bytes = if is_gradient { MOST_BYTES_OF_GRADIENT } else { MOST_BYTES };
        // Parts of nearly equal sizes, as few as possible, and then half as many images again and again.
        let most = most_at_once(of).unwrap_or(images);
        let parts = images.div_ceil((most_bytes / of_image).clamp(1, images.min(most).max(1)));
        let sizes = std::iter::successors(Some(parts), |parts| (*parts < images).then(|| (2 * parts).min(images)));
        let sizes = sizes.map(|parts| images.div_ceil(parts.max(1)));
        let mut choices = sizes.flat_map(|at_once| SPLIT_SIZES.map(|splits| (at_once, splits)));
        choices.find_map(|(at_once, splits)| within(at_once, splits)).into_iter().collect()
    }

    fn new(device: Device, of: &Patched, knobs: &[Knob]) -> Option<Self> {
        let images = of.0.images;
        let (of_images, of_splits) = match *knobs {
            [] => (None, None),
            [(IMAGES, at_once)] => (Some(at_once), None),
            [(SPLITS, mebibytes)] => (None, Some(mebibytes)),
            [(IMAGES, at_once), (SPLITS, mebibytes)] => (Some(at_once), Some(mebibytes)),
            _ => return None,
        };
        let at_once = match of_images {
            Some(at_once) => usize::try_from(at_once).ok().filter(|count| (1..images).contains(count))?,
            None => images,
        };
        let for_splits = match of_splits {
            Some(mebibytes) => SPLIT_SIZES.into_iter().find(|&known| known > 0 && known as i64 == mebibytes)? << 20,
            None => 0,
        };
        let is_ours = of.is_counted()
            && most_at_once(of).is_none_or(|most| at_once <= most)
            && (!of.0.is_exact || of.0.element == Element::Float)
            && of.0.filter[2].saturating_mul(of.0.element.bytes()) <= TILE_BYTES
            && products::is_there(device);
        let layout = is_ours.then(|| Layout::of(of)).flatten()?;
        let blocks = [layout.blocks(at_once, true), layout.of_filters().blocks(of.0.outputs, false)];
        let is_counted = blocks.iter().all(|blocks| *blocks <= MOST_COUNTED);
        is_counted.then_some(Self { of: *of, device, layout, at_once, for_splits })
    }

    fn problem(&self) -> &Patched {
        &self.of
    }

    fn options(&self) -> Vec<String> {
        let Layout { filter: [slices, rows, columns], tile, .. } = self.layout;
        let values = [("SLICES", slices), ("ROWS", rows), ("COLUMNS", columns), ("UNIT_BYTES", tile.unit)];
        let values = values.into_iter().map(|(name, value)| format!("-D{name}={value}"));
        [self.of.0.element.option().to_owned()].into_iter().chain(values).collect()
    }

    /// Makes the transposing kernels ready, too.
    fn allow(&self, device: Device, _: &[Function]) -> Result<(), Box<dyn Error>> {
        match self.of.has_pixels() {
            true => Ok(Transposes::of(device, self.of.0.element.cudnn_type()).map(drop)?),
            false => Ok(()),
        }
    }

    fn workspace(&self) -> usize {
        self.places().all
    }

    fn writes_in_parts(&self) -> bool {
        self.at_once < self.of.0.images && !self.has_sums()
    }

    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        let Self { of, device, .. } = self;
        let can_multiply = |part: Part| {
            let (product, batch) = self.product(&part, beta);
            products::can_multiply(*device, (&product, batch), (of.0.element, of.0.is_exact))
        };
        let alpha_of_parts = if self.has_sums() { 1.0 } else { alpha };
        // SAFETY: the caller promises memory as large as the tensors, and the workspace.
        let launch = |part: Part| unsafe { self.launch_part(kernels, stream, &part, [alpha_of_parts, beta]) };
        // Nothing is launched unless all parts can be.
        if !self.parts(memory).all(can_multiply) || !self.parts(memory).all(launch) {
            return false;
        }
        if !self.has_sums() {
            return true;
        }
        let mut sums = Sums {
            sums: memory.workspace.wrapping_byte_add(self.places().sums).cast_const(),
            dw: memory.w,
            elements: (of.depth() * of.0.outputs) as i32,
            depth: of.depth() as i32,
            pitch: of.pitch() as i32,
            alpha,
            beta,
        };
        let launch = launch_of((of.depth() * of.0.outputs).div_ceil(THREADS), 0);
        // SAFETY: `sums` is the kernel's only parameter, and the caller promises dw and the workspace.
        unsafe { kernels[2].launch(stream, &launch, &mut [(&raw mut sums).cast()]) }.is_ok()
    }
}
