//! The kernels that all nets share (`kernels/dynamic/products.cu`), and the choice between them and cublasLt.

use std::ffi::CString;
use std::sync::Arc;

use gpu::cublaslt::CublasLt;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Error, Function, Launch, Module, Source};
use gpu::products::{self, Multiplier, Products};
use gpu::{Device, Element, Stream};

use super::launches::launch_together;
use super::level_product::LevelProduct;
use super::slices::{outer_tiles, row_tiles};
use super::tasks::{AddedRows, Descent, DescentOfRows, Losses, PartsSum, RuleOfStep, Task, Update};
use super::tiles::{MOST_PARTS, TILES, Tile, parts_of_depth};
use super::wide::Wide;
use crate::emit::THREADS;
use crate::options::Warpgroups;

/// The warps of a block, and the rows and columns that a warp of `few_rows` multiplies.
const WARPS: usize = THREADS as usize / 32;
const ROWS: usize = 8;
const COLUMNS: usize = 2;
/// The most rows for which `few_rows` multiplies: it reads the weights once for eight rows.
const FEW: usize = 64;

/// The shared memory of a block of sums of outer products. Twin of the numbers in `kernels/dynamic/outer_products.cuh`.
const OUTER_BYTES: u32 = 3 * 64 * (128 + 8 + 64 + 8);

/// The fewest numbers of a matrix that is better read once for all of up to [`FEW`] rows, by a launch of its own.
const LARGE: usize = 1 << 20;
/// The most blocks of rows of a table; they take turns where there are more rows.
const MOST_TABLE_ROWS: usize = 1 << 16;

/// The kernels on one device, for one type of elements.
pub struct Library {
    element: Element,
    few_rows: Function,
    square_tiles: Function,
    /// For levels of few, some and many rows: see [`TILES`].
    level: [Function; TILES.len()],
    /// `None` for elements of 2 bytes, whose products tensor cores compute exactly as they are.
    exact: Option<Exact>,
    /// For many rows, where the device has tensor cores for warpgroups.
    wide: Option<Wide>,
    /// The most blocks of a cluster; 0 without clusters.
    cluster_blocks: usize,
    outer_products: Function,
    tasks: Function,
    multiplier: Multiplier,
    multiprocessors: usize,
    /// The blocks that fill the device.
    pub most_blocks: usize,
}

/// Kernels for floats alone, which are not rounded.
struct Exact {
    level: [Function; TILES.len()],
    outer_products: Function,
}

/// The kernels for levels, whose names end so.
fn of_levels(module: &Module, beginning: &str) -> Result<[Function; TILES.len()], Error> {
    let of = |rows: &str, tile: &Tile| {
        let name = format!("{beginning}level_{rows}_rows");
        let function = module.function(&CString::new(name).expect("names have no zeros"))?;
        function.allow_shared(tile.shared_bytes()).map(|()| function)
    };
    let [few, some, many] = &TILES;
    Ok([of("few", few)?, of("some", some)?, of("many", many)?])
}

/// A launch whose blocks compute a tile each. `cluster` is the number of blocks in a cluster.
fn launch_of(tile: &Tile, grid: [usize; 3], cluster: usize) -> Launch {
    Launch {
        grid: grid.map(|blocks| blocks as u32),
        block: [THREADS, 1, 1],
        cluster: [cluster as u32, 1, 1],
        shared_bytes: tile.shared_bytes(),
        is_uncaptured: true,
        ..Launch::default()
    }
}

/// The most blocks of a cluster, of `most`, that the device holds of each kernel: a part of a GPU may hold fewer than the
/// GPU's kind. 0 without clusters.
fn blocks_of_clusters(kernels: &[Function; TILES.len()], most: usize) -> Result<usize, Error> {
    let mut blocks = most.min(MOST_PARTS);
    for (kernel, tile) in kernels.iter().zip(&TILES) {
        while blocks > 1 && kernel.resident_clusters(&launch_of(tile, [blocks, 1, 1], blocks))? == 0 {
            blocks /= 2;
        }
    }
    Ok(blocks)
}

impl Library {
    /// Finds the kernels of the calling thread's device, or loads them. `warpgroups` has the products for
    /// tensor cores of warpgroups.
    pub fn of_device(device: Device, element: Element, warpgroups: Warpgroups) -> Result<Arc<Self>, Error> {
        static LOADED: Loaded<(Element, Warpgroups), Library> = Loaded::kept();
        LOADED.get(device, (element, warpgroups), || Self::load(device, element, warpgroups, &|source| source))
    }

    /// The source of the kernels for all devices.
    pub fn source(element: Element) -> Source {
        Source::new(&kernels::dynamic::PRODUCTS, vec![element.option().into()])
    }

    /// Loads the kernels; `change` takes their sources.
    pub fn load(
        device: Device,
        element: Element,
        warpgroups: Warpgroups,
        change: &dyn Fn(Source) -> Source,
    ) -> Result<Self, Error> {
        let module = device.load(&change(Self::source(element)))?;
        let multiplying = device.load(&products::source(element))?;
        let cublaslt = match device {
            Device::Host => None,
            Device::Cuda => CublasLt::new().inspect_err(|why| log::warn!("{why}; kernels of ours multiply")).ok(),
        };
        let exact = match element {
            Element::Float => Some(Exact {
                level: of_levels(&module, "exact_")?,
                outer_products: module.function(c"exact_outer_products")?,
            }),
            Element::Half | Element::Bfloat16 => None,
        };
        let multiprocessors = device.multiprocessors(device.ordinal()).unwrap_or(64);
        let square_tiles = module.function(c"square_tiles")?;
        square_tiles.allow_shared(products::shared_bytes(element))?;
        let level = of_levels(&module, "")?;
        let mut cluster_blocks = blocks_of_clusters(&level, device.cluster_blocks(device.ordinal()))?;
        if let Some(exact) = &exact {
            cluster_blocks = blocks_of_clusters(&exact.level, cluster_blocks)?;
        }
        let has_wide = warpgroups != Warpgroups::Never && device.has_warpgroup_products(device.ordinal());
        let load = || Wide::load(device, element, warpgroups, [cluster_blocks, multiprocessors], change);
        let warn = |why: &Error| log::warn!("products of many rows run without warpgroups: {why}");
        let wide = has_wide.then(load).and_then(|wide| wide.inspect_err(warn).ok());
        Ok(Self {
            element,
            square_tiles,
            few_rows: module.function(c"few_rows")?,
            level,
            exact,
            wide,
            cluster_blocks,
            outer_products: module.function(c"outer_products")?,
            tasks: module.function(c"tasks")?,
            multiplier: Multiplier::new(&multiplying, element, cublaslt)?,
            multiprocessors,
            most_blocks: 8 * multiprocessors,
        })
    }

    /// Products of many rows run on tensor cores of warpgroups.
    pub fn has_warpgroups(&self) -> bool {
        self.wide.is_some()
    }

    /// Keeps the kernels loaded for good.
    pub fn keep_loaded(&self) {
        self.few_rows.keep_loaded();
        if let Some(wide) = &self.wide {
            wide.keep_loaded();
        }
    }

    fn blocks(&self, threads: usize) -> usize {
        threads.div_ceil(THREADS as usize).clamp(1, self.most_blocks)
    }

    /// products = x weightsᵀ, for products that need nothing of each other.
    ///
    /// # Safety
    /// As for [`Multiplier::multiply`].
    pub unsafe fn multiply(&self, stream: Stream, all: &[Products], tf32: bool) -> Result<(), Error> {
        let is_few = |its: &Products| its.rows as usize <= FEW;
        let is_large = |its: &Products| is_few(its) && its.columns as usize * its.depth as usize >= LARGE;
        let (large, others): (Vec<_>, Vec<_>) = all.iter().copied().partition(is_large);
        let is_ours = |its: &Products| is_few(its) || self.multiplier.is_for_square_tiles(its, tf32);
        let (ours, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_ours);
        // SAFETY: the caller's promise, for each kernel.
        unsafe {
            // One launch takes less time than the better kernel for each.
            if ours.iter().all(is_few) {
                let blocks = |its: &Products| {
                    (its.columns as usize).div_ceil(WARPS * COLUMNS) * (its.rows as usize).div_ceil(ROWS)
                };
                launch_together(&self.few_rows, stream, &ours, THREADS, 0, blocks)?;
            } else {
                let shared_bytes = products::shared_bytes(self.element);
                launch_together(&self.square_tiles, stream, &ours, THREADS, shared_bytes, Products::square_tiles)?;
            }
            let by_level =
                |its: &Products| self.multiply_level(stream, LevelProduct::of(its), [its.rows as usize; 2], tf32);
            large.iter().try_for_each(by_level)?;
            let wide = self.wide.as_ref();
            let is_wide = |its: &Products| wide.is_some_and(|wide| wide.is_for_batch(its.rows as usize, tf32));
            others.iter().try_for_each(|its| match is_wide(its) {
                true => by_level(its),
                false => self.multiplier.multiply(stream, its, tf32).map(drop),
            })
        }
    }

    /// The product of a level, of the rows that a script counts or of all. The launch's tiles are made for the rows that are
    /// expected, and there are blocks for those that are launched.
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
        if let Some(wide) = self.wide.as_ref().filter(|wide| wide.is_for(expected)) {
            // SAFETY: the caller's promise.
            return unsafe { wide.multiply_level(stream, product, [expected, launched], tf32) };
        }
        let number = TILES.iter().position(|tile| expected <= tile.most_rows).unwrap_or(TILES.len() - 1);
        let tile = &TILES[number];
        let function = &self.exact.as_ref().filter(|_| !tf32).map_or(&self.level, |exact| &exact.level)[number];
        let across = (product.columns as usize).div_ceil(tile.columns);
        let tiles = across * expected.div_ceil(tile.rows).max(1);
        let depth_bytes = product.depth as usize * self.element.bytes();
        let parts = parts_of_depth(tiles, depth_bytes, self.cluster_blocks, self.multiprocessors);
        let down = launched.div_ceil(tile.rows).clamp(1, (self.most_blocks / (across * parts)).max(1));
        // Tiles of the same columns follow each other: the matrix is in the cache then.
        let launch = launch_of(tile, [parts, down, across], parts);
        // SAFETY: the caller's promise, and the kernel's own struct.
        unsafe { function.launch(stream, &launch, &mut [(&raw mut product).cast()]) }
    }

    /// Runs tasks that need nothing of each other. `tf32` allows floats of outer products to be rounded to TF32.
    ///
    /// # Safety
    /// The tasks' arrays are on the stream's device, as long as they say, and no task writes what another one reads or writes.
    pub unsafe fn run(&self, stream: Stream, tasks: &[Task], tf32: bool) -> Result<(), Error> {
        let (mut others, mut of_wide) = (Vec::with_capacity(tasks.len()), vec![]);
        for task in tasks {
            match task {
                Task::OuterProducts(its) if self.wide.as_ref().is_some_and(|wide| wide.is_for_outer(its)) => {
                    of_wide.push(*its);
                }
                _ => others.push(*task),
            }
        }
        if let Some(wide) = &self.wide {
            // SAFETY: the caller's promise.
            unsafe { wide.sum_outer_products(stream, &of_wide, tf32) }?;
        }
        let is_outer = |task: &Task| matches!(task, Task::OuterProducts(_));
        let exact = self.exact.as_ref().filter(|_| !tf32);
        let (function, shared_bytes) = match others.iter().any(is_outer) {
            true => (exact.map_or(&self.outer_products, |exact| &exact.outer_products), OUTER_BYTES),
            false => (&self.tasks, 0),
        };
        // SAFETY: the caller's promise, and the kernels' own struct.
        unsafe { launch_together(function, stream, &others, THREADS, shared_bytes, |task| self.blocks_of(task)) }
    }

    /// The blocks of a task.
    fn blocks_of(&self, task: &Task) -> usize {
        match task {
            Task::Zeros(its) => self.blocks(its.bytes / 4),
            Task::Transposed(its) => its.squares(),
            Task::TableIndices(its) => self.blocks(its.count as usize),
            Task::Scores(its) => self.blocks(32 * its.rows as usize),
            Task::OuterProducts(its) => its.slices as usize * outer_tiles(its.rows as usize, its.columns as usize),
            Task::RowSums(its) => its.slices as usize * row_tiles(its.columns as usize),
            Task::Losses(Losses { .. }) | Task::RuleOfStep(RuleOfStep { .. }) => 1,
            Task::AddedRows(AddedRows { its, .. }) | Task::DescentOfRows(DescentOfRows { its, .. }) => {
                (its.count as usize).clamp(1, MOST_TABLE_ROWS) * (its.columns as usize).div_ceil(THREADS as usize)
            }
            Task::PartsSum(PartsSum { parts, .. })
            | Task::Descent(Descent { gradient: parts, .. })
            | Task::Update(Update { gradient: parts, .. }) => self.blocks(parts.count),
            Task::ReadersSums(its) => self.blocks(its.count as usize * (its.columns as usize).div_ceil(4)),
        }
    }
}
