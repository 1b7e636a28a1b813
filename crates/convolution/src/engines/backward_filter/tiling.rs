//! How a block walks through its pixels, and an estimate of the time.

use crate::engines::backward_filter::gradient::{C_TILE, GroupedGradient, Joined, M_MMA};
use crate::engines::backward_filter::parts::Parts;
use crate::engines::tiles::{options_of_axes, pitch_of};
use gpu::jit::Launch;

/// The depth of a tensor core product in bytes, as in `kernels/convolution/backward_filter.cu`.
const DEPTH_BYTES: usize = 32;
/// The widths of asynchronous copies, in bytes.
const ACCESSES: [usize; 4] = [16, 8, 4, 2];
/// Tile widths that suit the image widths of common networks, and those of images of one row; the most rows of a tile, beyond which more do not help;
/// and the most depth steps of a warp's pixels, because the kernel's code is unrolled over them.
const TILE_COLUMNS: [usize; 5] = [32, 28, 16, 14, 8];
const TILE_COLUMNS_OF_A_ROW: [usize; 2] = [128, 64];
const MOST_TILE_ROWS: usize = 16;
const MOST_PIECES: usize = 16;
/// The tiles in shared memory: one in use and one or two in flight.
const STAGES: [usize; 2] = [3, 2];
/// The most pixels of one sum. Tensor cores round each addition towards zero, and floats lose some bits too.
pub const MOST_SUMMED: usize = 1 << 17;
/// The bytes of sums that a thread sends at once; and the bytes of the Mbarrier behind them, both as in the kernel.
const RECEIVED_BYTES: usize = 16 * 16;
const MBARRIER_BYTES: usize = 8;
/// The fixed cost of a tile, in bytes of dy.
const BYTES_OF_A_TILE: usize = 80;
/// The cost of reading x for all k of a block, as a number of k whose products take as long. Measured on an H200, like
/// all figures below; they serve only to rank candidates.
const K_OF_READING_X: usize = 16;
/// Microseconds of a multiprocessor for each byte of dy and each element of a block's product; bytes summed in a
/// microsecond; microseconds of the sum's launch; and microseconds for combining the sums of a cluster.
const MICROSECONDS_OF_A_PRODUCT: f64 = 0.0008 / (64.0 * 64.0);
const SUMMED_IN_A_MICROSECOND: f64 = 3e6;
const MICROSECONDS_OF_A_LAUNCH: f64 = 3.0;
const MICROSECONDS_OF_MEETING: f64 = 5.0;

/// The multiprocessors that large clusters can use: each cluster runs within a group of 16 or 18 neighbours.
pub(super) fn multiprocessors_of_clusters(multiprocessors: usize) -> usize {
    multiprocessors * 8 / 9
}

/// The tiles of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// The k of a tile.
    pub(super) k_tile: usize,
    /// The blocks whose sums meet in shared memory.
    pub(super) cluster: usize,
    /// The tile's rows and columns of dy's pixels.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The elements of one asynchronous copy.
    pub(super) access: usize,
    pub(super) stages: usize,
    /// The tiles after which a block starts a new sum, if one sum over all its tiles would be too inexact.
    pub(super) summed_tiles: Option<usize>,
}

impl Tiling {
    /// The best tiling for these parts within `shared` bytes of shared memory for each block.
    pub(super) fn of(gradient: &GroupedGradient, parts: Parts, shared: usize) -> Option<Self> {
        let (k_tile, cluster) = (parts.k_tile(gradient), parts.cluster());
        let mut best: Option<(usize, Self)> = None;
        let element = gradient.element.bytes();
        let (depth, of_lane) = (DEPTH_BYTES / element, DEPTH_BYTES / element / 4);
        let of_a_row = if gradient.dy[1] == 1 { &TILE_COLUMNS_OF_A_ROW[..] } else { &[] };
        for &columns in TILE_COLUMNS.iter().chain(of_a_row) {
            // Few channels need so many warps that registers are short: no depth step may span two rows.
            let piece = if gradient.has_few_channels() { depth } else { of_lane };
            if !columns.is_multiple_of(piece) || 2 * columns < depth {
                continue;
            }
            let divides = |access: &usize| {
                [columns, gradient.x[2], gradient.dy[2]].iter().all(|length| length.is_multiple_of(*access))
            };
            let access =
                ACCESSES.into_iter().map(|bytes| bytes / element).filter(|access| *access > 0).find(divides)?;
            for rows in 1..=MOST_TILE_ROWS {
                // The pixels of a warp.
                let pixels = rows / gradient.pixel_warps() * columns;
                let is_cut = rows.is_multiple_of(gradient.pixel_warps()) && pixels.is_multiple_of(depth);
                if !is_cut || pixels > MOST_PIECES * depth {
                    continue;
                }
                let at_stages = |stages| Self { k_tile, cluster, rows, columns, access, stages, summed_tiles: None };
                let tiling = STAGES.into_iter().map(at_stages).find(|it| it.shared_bytes(gradient) <= shared);
                let Some(tiling) = tiling else { continue };
                let costs = tiling.tiles(gradient) * tiling.bytes(gradient);
                if best.is_none_or(|(least, _)| costs < least) {
                    best = Some((costs, tiling));
                }
            }
        }
        let (_, tiling) = best?;
        let most = MOST_SUMMED * gradient.pixel_warps() / (tiling.rows * tiling.columns);
        let has_more = tiling.has_totals() && tiling.tiles(gradient).div_ceil(cluster) > most;
        Some(Self { summed_tiles: has_more.then_some(most), ..tiling })
    }

    /// The cost of a tile, in bytes of dy.
    pub(super) fn bytes(&self, gradient: &GroupedGradient) -> usize {
        self.rows * self.columns * gradient.element.bytes() + BYTES_OF_A_TILE
    }

    /// The tiles of all images.
    pub(super) fn tiles(&self, gradient: &GroupedGradient) -> usize {
        gradient.images * gradient.dy[0] * gradient.dy[1].div_ceil(self.rows) * gradient.dy[2].div_ceil(self.columns)
    }

    /// Estimates the gradient's time in microseconds, in these parts, on a GPU with `multiprocessors`.
    pub(super) fn microseconds(&self, gradient: &GroupedGradient, parts: Parts, multiprocessors: usize) -> f64 {
        let blocks = gradient.blocks(self.k_tile);
        let (rounds, adding) = match parts {
            Parts::InWorkspace(1) => (blocks.div_ceil(multiprocessors), 0.0),
            Parts::InWorkspace(count) => {
                let bytes = (2 * count * gradient.elements() * size_of::<f32>()) as f64;
                let adding = bytes / SUMMED_IN_A_MICROSECOND + MICROSECONDS_OF_A_LAUNCH;
                ((blocks * count).div_ceil(multiprocessors), adding)
            }
            Parts::InCluster { blocks: of_cluster, .. } => {
                let at_once = multiprocessors_of_clusters(multiprocessors) / of_cluster;
                (blocks.div_ceil(at_once.max(1)), MICROSECONDS_OF_MEETING)
            }
        };
        let reading = K_OF_READING_X / gradient.products();
        let most = gradient.k_tile();
        let k = ((self.k_tile + reading) * most) as f64 / (most + reading) as f64;
        let products = k * (gradient.columns() * gradient.block_columns() * gradient.products()) as f64;
        let tiles = self.tiles(gradient).div_ceil(parts.count());
        (rounds * tiles * self.bytes(gradient)) as f64 * products * MICROSECONDS_OF_A_PRODUCT + adding
    }

    /// The shared memory of a block in bytes, laid out like the kernel's.
    pub(super) fn shared_bytes(&self, gradient: &GroupedGradient) -> usize {
        let GroupedGradient { filter, stride, padding, dilation, .. } = *gradient;
        let per_word = size_of::<u32>() / gradient.element.bytes();
        let vector = 4 * per_word;
        let spanned =
            |axis: usize, tile: usize, places: usize| (tile - 1) * stride[axis] + (places - 1) * dilation[axis] + 1;
        let x_rows = spanned(1, self.rows, gradient.block_rows());
        let x_columns = if gradient.is_separate() {
            // The columns in front of each place's part, so that copies are aligned.
            let in_front = |place: usize| (place * dilation[2] + padding[2] * (vector - 1)) % vector;
            let most = (0..gradient.block_columns()).map(in_front).max().unwrap_or(0);
            gradient.block_columns() * (most + spanned(2, self.columns, 1)).next_multiple_of(vector)
        } else {
            let in_front = padding[2].next_multiple_of(vector) - padding[2];
            (in_front + spanned(2, self.columns, filter[2])).next_multiple_of(vector)
        };
        let (x_row, beyond) = (x_columns / per_word, 8 * stride[2]);
        let x = if gradient.has_few_channels() {
            let x_row = pitch_of(x_row, beyond);
            gradient.c * pitch_of(x_rows * x_row, filter[1] * x_row)
        } else {
            C_TILE * pitch_of(x_rows * x_row, beyond)
        };
        let dy = self.k_tile * pitch_of(self.rows * self.columns / per_word, 8);
        let stages = self.stages * (x + dy) * size_of::<u32>();
        match self.cluster {
            1 => stages,
            _ => stages.max(RECEIVED_BYTES * gradient.summing_threads()) + MBARRIER_BYTES,
        }
    }

    /// Returns whether registers hold a second set of sums, the totals of the sums so far.
    pub(super) fn has_totals(&self) -> bool {
        self.cluster > 1 && self.k_tile == M_MMA
    }

    /// The launch for this number of parts.
    pub(super) fn launch(&self, gradient: &GroupedGradient, parts: usize) -> Launch {
        Launch {
            grid: [(gradient.blocks(self.k_tile) * parts) as u32, 1, 1],
            block: [gradient.threads() as u32, 1, 1],
            cluster: [self.cluster as u32, 1, 1],
            shared_bytes: self.shared_bytes(gradient) as u32,
            ..Launch::default()
        }
    }

    pub(super) fn options(&self, gradient: &GroupedGradient) -> Vec<String> {
        let GroupedGradient { filter, stride, padding, dilation, .. } = *gradient;
        let values = [
            ("BLOCK_ROWS", gradient.block_rows()),
            ("TILE_ROWS", self.rows),
            ("TILE_COLUMNS", self.columns),
            ("ACCESS", self.access),
            ("STAGES", self.stages),
            ("K_TILE", self.k_tile),
        ];
        let joined = gradient.joined().map(|joined| {
            let Joined { groups, k, c } = joined;
            [("JOINED", groups), ("GROUP_K", k), ("GROUP_C", c), ("K_MATRICES", joined.k_matrices())]
        });
        let element = gradient.element.option();
        let of_channels = match gradient.has_few_channels() {
            true => ("CHANNELS", gradient.c),
            false => ("K_WARPS", gradient.k_warps()),
        };
        let axes = options_of_axes([filter, stride, padding, dilation], gradient.is_flat());
        let grouped = (gradient.groups > 1).then_some(("GROUPED", 1));
        let exact = gradient.is_exact.then_some(("EXACT", 1));
        let cluster = (self.cluster > 1).then_some(("CLUSTER", self.cluster));
        let summed = self.summed_tiles.map(|tiles| ("SUMMED_TILES", tiles));
        let separate = gradient.is_separate().then(|| ("BLOCK_COLUMNS", gradient.block_columns()));
        values
            .into_iter()
            .chain([of_channels])
            .chain(grouped)
            .chain(joined.into_iter().flatten())
            .chain(exact)
            .chain(cluster)
            .chain(summed)
            .chain(separate)
            .map(|(name, value)| format!("-D{name}={value}"))
            .chain(axes)
            .chain([element.to_owned()])
            .collect()
    }
}
