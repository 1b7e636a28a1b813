//! Products of many rows on the tensor cores of warpgroups (`kernels/dynamic/warpgroup_products.cu`), for devices
//! that have them.

use std::ffi::CStr;

use gpu::jit::{Error, Function, Launch, Module, Source};
use gpu::{Device, Element, Stream};

use super::launches::launch_together;
use super::level_product::LevelProduct;
use super::tasks::OuterProducts;
use super::tiles::{WIDE_SIDE, rows_of_blocks, wide_parts, wide_shared_bytes, wide_stages};
use crate::options::Warpgroups;

/// The threads of a block: those that multiply, and those that read.
const THREADS: u32 = 512;

/// The fewest rows of a product that has such tiles. On an H200, 77 rows of 5,120 and of 2,048 columns took 0.8 times as long
/// as by tiles of 64 rows, and 48 rows of 10,240 columns 1.2 times.
const LEAST_ROWS: usize = 65;

/// The fewest multiply-adds of outer products that have such tiles: they have a launch of their own. On an H200, 377 million
/// took 35 µs, and as long with the other tasks of a run; 3,000 million 93 and 155.
const LEAST_OUTER: usize = 1 << 30;

/// The kernels for a type of elements.
pub struct Wide {
    element: Element,
    /// Those of elements of 2 bytes, or of floats that may be rounded to TF32.
    rounded: Kernels,
    /// Those of floats that are not rounded; `None` for elements of 2 bytes.
    exact: Option<Kernels>,
    /// Whatever the number of rows is, and with as many blocks in a cluster as can be.
    is_always: bool,
    /// The clusters of one block, of two and so on, that the device holds at once.
    at_once: Vec<usize>,
}

/// The kernels for numbers in so many parts.
struct Kernels {
    level: Function,
    outer_products: Function,
    shared_bytes: u32,
}

impl Kernels {
    fn new(
        module: &Module,
        [level, outer_products]: [&CStr; 2],
        element: Element,
        parts: usize,
    ) -> Result<Self, Error> {
        let shared_bytes = wide_shared_bytes(element.bytes(), parts);
        let [level, outer_products] = [module.function(level)?, module.function(outer_products)?];
        level.allow_shared(shared_bytes)?;
        outer_products.allow_shared(shared_bytes)?;
        Ok(Self { level, outer_products, shared_bytes })
    }

    /// A launch for a level. The blocks that share out the depth are a cluster.
    fn level_launch(&self, grid: [usize; 3]) -> Launch {
        Launch {
            grid: grid.map(|blocks| blocks as u32),
            block: [THREADS, 1, 1],
            cluster: [grid[0] as u32, 1, 1],
            shared_bytes: self.shared_bytes,
            is_uncaptured: true,
            ..Launch::default()
        }
    }
}

impl Wide {
    /// Loads the kernels; `change` takes their source. Blocks of at most `cluster_blocks` may be a cluster.
    pub fn load(
        device: Device,
        element: Element,
        warpgroups: Warpgroups,
        [cluster_blocks, multiprocessors]: [usize; 2],
        change: &dyn Fn(Source) -> Source,
    ) -> Result<Self, Error> {
        let source = Source::new(&kernels::dynamic::WARPGROUP_PRODUCTS, vec![element.option().into()]);
        let module = device.load(&change(source))?;
        let is_float = element == Element::Float;
        let rounded =
            Kernels::new(&module, [c"wide_level", c"wide_outer_products"], element, if is_float { 2 } else { 1 })?;
        let exact = || Kernels::new(&module, [c"exact_wide_level", c"exact_wide_outer_products"], element, 3);
        let exact = is_float.then(exact).transpose()?;
        // Each block has a multiprocessor, by any of the kernels.
        let clusters = |blocks| rounded.level.resident_clusters(&rounded.level_launch([blocks, 1, 1]));
        let of_several = (2..=cluster_blocks).map_while(|blocks| Some(clusters(blocks).ok()? as usize));
        let at_once = [multiprocessors].into_iter().chain(of_several.take_while(|count| *count > 0)).collect();
        log::debug!("products by warpgroups of {element:?}: {at_once:?} clusters of 1, 2 and more blocks at once");
        Ok(Self { element, rounded, exact, is_always: warpgroups == Warpgroups::Always, at_once })
    }

    /// The kernels for floats that are not rounded, if a product has such.
    fn exact(&self, tf32: bool) -> Option<&Kernels> {
        self.exact.as_ref().filter(|_| !tf32)
    }

    /// Returns whether a whole batch's product of so many rows has such tiles. Only exact floats do: cublasLt is faster for
    /// other types, and in TF32.
    pub fn is_for_batch(&self, rows: usize, tf32: bool) -> bool {
        self.exact(tf32).is_some() && self.is_for(rows)
    }

    /// Returns whether a product of so many rows has such tiles.
    pub fn is_for(&self, rows: usize) -> bool {
        self.is_always || rows >= LEAST_ROWS
    }

    /// Returns whether these outer products have such tiles.
    pub fn is_for_outer(&self, its: &OuterProducts) -> bool {
        let [count, rows, columns] = [its.count, its.rows, its.columns].map(|number| number as usize);
        self.is_always || count.saturating_mul(rows * columns) >= LEAST_OUTER
    }

    /// As [`Library::multiply_level`](super::library::Library::multiply_level), for rows that are expected and launched.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it and the script say.
    pub unsafe fn multiply_level(
        &self,
        stream: Stream,
        mut product: LevelProduct,
        [expected, launched]: [usize; 2],
        tf32: bool,
    ) -> Result<(), Error> {
        let across = (product.columns as usize).div_ceil(WIDE_SIDE);
        let [expected, down] = [expected, launched].map(|rows| rows.div_ceil(WIDE_SIDE).max(1));
        let stages = wide_stages(product.depth as usize * self.element.bytes());
        let parts = match self.is_always {
            true => self.at_once.len().min(stages).max(1),
            false => wide_parts(across * expected, stages, &self.at_once),
        };
        let down = rows_of_blocks(across, down, self.at_once[parts - 1]);
        let kernels = self.exact(tf32).unwrap_or(&self.rounded);
        let launch = kernels.level_launch([parts, down, across]);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { kernels.level.launch(stream, &launch, &mut [(&raw mut product).cast()]) }
    }

    /// Keeps the kernels loaded for good.
    pub fn keep_loaded(&self) {
        self.rounded.level.keep_loaded();
    }

    /// Sums of outer products that need nothing of each other.
    ///
    /// # Safety
    /// As for [`Library::run`](super::library::Library::run).
    pub unsafe fn sum_outer_products(&self, stream: Stream, all: &[OuterProducts], tf32: bool) -> Result<(), Error> {
        let kernels = self.exact(tf32).unwrap_or(&self.rounded);
        let blocks = |its: &OuterProducts| {
            let [rows, columns] = [its.rows, its.columns].map(|count| (count as usize).div_ceil(WIDE_SIDE));
            its.slices as usize * rows * columns
        };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { launch_together(&kernels.outer_products, stream, all, THREADS, kernels.shared_bytes, blocks) }
    }
}
