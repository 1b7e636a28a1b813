//! Products of many rows of floats on the tensor cores of warpgroups (`kernels/dynamic/warpgroup_products.cu`), for devices
//! that have them.

use gpu::jit::{Error, Function, Launch, Source};
use gpu::{Device, Element, Stream};

use super::launches::launch_together;
use super::library::LevelProduct;
use super::tasks::OuterProducts;
use super::tiles::{WIDE_DEPTH, WIDE_SIDE, wide_bytes, wide_parts};
use crate::options::Warpgroups;

/// The threads of a block: those that multiply, and those that read.
const THREADS: u32 = 512;

/// The fewest rows of a product that has such tiles. On an H200, 77 rows of 5,120 and of 2,048 columns took 0.8 times as long
/// as by tiles of 64 rows, and 48 rows of 10,240 columns 1.2 times.
const LEAST_ROWS: usize = 65;

/// The fewest multiply-adds of outer products that have such tiles: they have a launch of their own. On an H200, 16 million
/// took 14 µs, and 13 with the other tasks of a run; 3,000 million 93 and 155.
const LEAST_OUTER: usize = 1 << 28;

/// The parts of floats in bfloat16: of those that are not rounded, and of those that may be rounded to TF32.
const PARTS: [usize; 2] = [3, 2];

/// The kernels, each first for floats that are not rounded.
pub struct Wide {
    level: [Function; 2],
    outer_products: [Function; 2],
    /// Whatever the number of rows is, and with as many blocks in a cluster as can be.
    is_always: bool,
    /// The clusters of one block, of two and so on, that the device holds at once.
    at_once: Vec<usize>,
}

impl Wide {
    /// Loads the kernels; `change` takes their source. Blocks of at most so many may be a cluster.
    pub fn load(
        device: Device,
        warpgroups: Warpgroups,
        cluster_blocks: usize,
        multiprocessors: usize,
        change: &dyn Fn(Source) -> Source,
    ) -> Result<Self, Error> {
        let source = Source::new(&kernels::dynamic::WARPGROUP_PRODUCTS, vec![Element::Float.option().into()]);
        let module = device.load(&change(source))?;
        let level = [module.function(c"exact_wide_level")?, module.function(c"wide_level")?];
        let outer_products = [module.function(c"exact_wide_outer_products")?, module.function(c"wide_outer_products")?];
        for functions in [&level, &outer_products] {
            for (function, parts) in functions.iter().zip(PARTS) {
                function.allow_shared(wide_bytes(parts))?;
            }
        }
        let is_always = warpgroups == Warpgroups::Always;
        let clusters = |blocks| Ok(level[0].resident_clusters(&level_launch(0, [blocks, 1, 1]))? as usize);
        let of_several = (2..=cluster_blocks).map(clusters).collect::<Result<Vec<_>, Error>>()?;
        let at_once =
            [multiprocessors].into_iter().chain(of_several.into_iter().take_while(|count| *count > 0)).collect();
        Ok(Self { level, outer_products, is_always, at_once })
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

    /// products = x weightsᵀ, for the rows that a script counts: the launch is made for the rows that are expected.
    ///
    /// # Safety
    /// The struct's arrays are on the stream's device, as long as it and the script say.
    pub unsafe fn multiply_level(
        &self,
        stream: Stream,
        mut product: LevelProduct,
        expected: usize,
        tf32: bool,
    ) -> Result<(), Error> {
        let across = (product.columns as usize).div_ceil(WIDE_SIDE);
        let down = expected.div_ceil(WIDE_SIDE).max(1);
        let depth = product.depth as usize;
        let parts = match self.is_always {
            true => self.at_once.len().min(depth.div_ceil(WIDE_DEPTH)).max(1),
            false => wide_parts(across * down, depth, &self.at_once),
        };
        // A block goes on to other rows: what it reads next is on its way meanwhile.
        let down = down.min((self.at_once[parts - 1] / across).max(1));
        let number = usize::from(tf32);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe {
            let launch = level_launch(number, [parts, down, across]);
            self.level[number].launch(stream, &launch, &mut [(&raw mut product).cast()])
        }
    }

    /// Sums of outer products that need nothing of each other.
    ///
    /// # Safety
    /// As for [`Library::run`](super::library::Library::run).
    pub unsafe fn sum_outer_products(&self, stream: Stream, all: &[OuterProducts], tf32: bool) -> Result<(), Error> {
        let number = usize::from(tf32);
        let blocks = |its: &OuterProducts| {
            let [rows, columns] = [its.rows, its.columns].map(|count| (count as usize).div_ceil(WIDE_SIDE));
            its.slices as usize * rows * columns
        };
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe {
            launch_together(&self.outer_products[number], stream, all, THREADS, wide_bytes(PARTS[number]), blocks)
        }
    }
}

/// A launch of a kernel of level products. The blocks that share out the depth are a cluster.
fn level_launch(number: usize, grid: [usize; 3]) -> Launch {
    Launch {
        grid: grid.map(|blocks| blocks as u32),
        block: [THREADS, 1, 1],
        cluster: [grid[0] as u32, 1, 1],
        shared_bytes: wide_bytes(PARTS[number]),
        is_uncaptured: true,
        ..Launch::default()
    }
}
