//! The tiles of products of a level's rows, and in how many parts blocks share out the depth.

/// The tile of a block's products of a level's rows. Twin of the numbers in `kernels/dynamic/products.cu`.
pub struct Tile {
    /// Rows of the products.
    pub rows: usize,
    /// Columns of the products.
    pub columns: usize,
    /// The strips of factors that are in shared memory.
    stages: usize,
    /// The most rows for which a launch has such tiles.
    pub most_rows: usize,
}

/// For few rows, for some and for many.
pub const TILES: [Tile; 3] = [
    Tile { rows: 8, columns: 64, stages: 3, most_rows: 8 },
    Tile { rows: 32, columns: 64, stages: 3, most_rows: 64 },
    Tile { rows: 64, columns: 128, stages: 2, most_rows: usize::MAX },
];

/// The most blocks on a multiprocessor, of a product whose depth is cut: there is room for two or three.
const BLOCKS_AT_ONCE: usize = 3;

/// The bytes of a row of a strip. Twin of the number in `kernels/dynamic/level_products.cuh`.
const STRIP_BYTES: usize = 256;
/// The fewest strips of a block's part of the depth: while one is multiplied, the next is on its way.
const STRIPS_OF_PART: usize = 2;
/// The most parts of a depth: each block adds up a row of the smallest tile.
pub const MOST_PARTS: usize = 8;

impl Tile {
    /// The shared memory of a block: the strips, and an Mbarrier.
    pub fn shared_bytes(&self) -> u32 {
        (self.stages * (self.rows + self.columns) * STRIP_BYTES + size_of::<u64>()) as u32
    }
}

/// In how many parts the blocks of a cluster, of `most`, share out a depth of so many bytes.
pub fn parts_of_depth(tiles: usize, depth_bytes: usize, most: usize, multiprocessors: usize) -> usize {
    let strips = depth_bytes.div_ceil(STRIP_BYTES);
    let most = most.min(MOST_PARTS).min(BLOCKS_AT_ONCE * multiprocessors / tiles).min(strips / STRIPS_OF_PART);
    most.checked_ilog2().map_or(1, |log| 1 << log)
}

/// The sides of a tile of many rows, by warpgroups; the bytes of a row in a stage; and the stages in shared memory. Twins of
/// the numbers in `kernels/dynamic/warpgroup_products.cuh`.
pub const WIDE_SIDE: usize = 128;
const WIDE_BYTES: usize = 128;
const WIDE_STAGES: usize = 4;

/// The stages that a block could have multiplied while the first ones come, and while the blocks of a cluster add up their
/// sums.
const STAGES_AROUND: usize = 3;
const STAGES_OF_CLUSTER: usize = 4;

/// The stages of a row of `depth_bytes` bytes.
pub fn wide_stages(depth_bytes: usize) -> usize {
    depth_bytes.div_ceil(WIDE_BYTES)
}

/// The shared memory of a block. A stage has numbers of both factors, each number has `parts` parts of 2 bytes, and two
/// Mbarriers belong to the stage.
pub fn wide_shared_bytes(element_bytes: usize, parts: usize) -> u32 {
    let numbers = 2 * WIDE_SIDE * (WIDE_BYTES / element_bytes) * parts;
    (WIDE_STAGES * (2 * numbers + 2 * size_of::<u64>())) as u32
}

/// The number of parts by which `tiles` tiles take the least time, where blocks share out a depth of `stages` stages. The
/// device holds `at_once[parts - 1]` clusters of `parts` blocks at once.
pub fn wide_parts(tiles: usize, stages: usize, at_once: &[usize]) -> usize {
    let time = |parts: usize| {
        let around = if parts > 1 { STAGES_AROUND + STAGES_OF_CLUSTER } else { STAGES_AROUND };
        tiles.div_ceil(at_once[parts - 1]) * (stages.div_ceil(parts) + around)
    };
    (1..=at_once.len()).min_by_key(|parts| time(*parts)).unwrap_or(1)
}

/// The blocks, or clusters, that share out a column of `down` tiles, where there are `across` columns, and the device holds
/// `at_once` of them. A block has several tiles if that takes no more rounds: it reads the next one ahead.
pub fn rows_of_blocks(across: usize, down: usize, at_once: usize) -> usize {
    let some = down.min((at_once / across).max(1));
    let rounds = |down: usize| (across * down).div_ceil(at_once);
    if down.div_ceil(some) * rounds(some) <= rounds(down) { some } else { down }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_depth_fill_the_device() {
        // The products of a Tree-LSTM with 2,048 units, both ways, in a level of few rows; of an LSTM with 1,024, back.
        assert_eq!(parts_of_depth(160, 4 * 4096, 8, 132), 2);
        assert_eq!(parts_of_depth(64, 4 * 10240, 16, 132), 4);
        assert_eq!(parts_of_depth(16, 4 * 4096, 16, 132), 8);
        // Few clusters, or none; many tiles; a small device; a short depth.
        assert_eq!([4, 2, 1, 0].map(|most| parts_of_depth(16, 4 * 4096, most, 132)), [4, 2, 1, 1]);
        assert_eq!(parts_of_depth(1000, 1 << 20, 8, 132), 1);
        assert_eq!(parts_of_depth(64, 4 * 10240, 8, 46), 2);
        assert_eq!([0, 256, 768, 1024, 2047, 2048].map(|bytes| parts_of_depth(1, bytes, 8, 132)), [1, 1, 1, 2, 4, 4]);
    }

    #[test]
    fn parts_of_wide_products_take_the_least_time() {
        // Clusters do not fill a GPU: an H200 holds 15 of 8 blocks at once. The numbers between are examples.
        let h200 = [132, 66, 40, 31, 24, 20, 16, 15];
        // Levels of 500 and 128 rows of Tree-LSTMs with 512 and 1,024 units, both ways; many rows.
        assert_eq!(wide_parts(80, 32, &h200), 1);
        assert_eq!(wide_parts(32, 80, &h200), 3);
        assert_eq!(wide_parts(40, 64, &h200), 3);
        assert_eq!(wide_parts(512, 16, &h200), 1);
        // Clusters of few blocks, or none; a short depth; a small device.
        assert_eq!([4, 2, 1, 0].map(|most| wide_parts(15, 160, &h200[..most])), [4, 2, 1, 1]);
        assert_eq!([rows_of_blocks(2, 256, 132), rows_of_blocks(20, 12, 132), rows_of_blocks(40, 1, 40)], [66, 6, 1]);
        // Some would wait while others have a third tile.
        assert_eq!([rows_of_blocks(80, 3, 132), rows_of_blocks(200, 2, 132)], [3, 1]);
        assert_eq!([wide_parts(1, 1, &h200), wide_parts(4, 32, &[2, 1])], [1, 1]);
    }
}
