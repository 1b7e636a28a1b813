//! How blocks share the pixels.

use crate::engines::backward_filter::gradient::{EXACT_K_TILE_OF_ONE_PLACE, FilterGradient, K_TILE};

/// Blocks whose sums may meet in their shared memory, where a device has such clusters; and of k, what one of them may work
/// on: less than others, for more of them.
const CLUSTERS: [usize; 4] = [2, 4, 8, 16];
const K_TILES_IN_CLUSTERS: [usize; 4] = [EXACT_K_TILE_OF_ONE_PLACE, K_TILE, 32, M_MMA];
/// Rows of the matrices that tensor cores take of dy.
pub(super) const M_MMA: usize = 16;

/// Into what the pixels of a gradient are cut, each part with a sum of its own, and where these meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// So many, whose sums meet in workspace; a single one takes none.
    InWorkspace(usize),
    /// Those of a cluster's blocks, whose sums meet in shared memory.
    InCluster {
        /// So many: 2, 4, 8 or 16.
        blocks: usize,
        /// Of k, what a block works on.
        k_tile: usize,
    },
}

impl Parts {
    /// All in clusters of at most so many blocks.
    pub(super) fn in_clusters(of: &FilterGradient, most_blocks: usize) -> impl Iterator<Item = Self> + use<> {
        let (most, matrices) = (of.k_tile(), M_MMA * of.k_warps());
        let k_tiles = K_TILES_IN_CLUSTERS.into_iter().filter(move |it| *it <= most && it.is_multiple_of(matrices));
        let clusters = CLUSTERS.into_iter().filter(move |blocks| *blocks <= most_blocks);
        clusters.flat_map(move |blocks| k_tiles.clone().map(move |k_tile| Self::InCluster { blocks, k_tile }))
    }

    /// How many.
    pub(super) fn count(self) -> usize {
        match self {
            Self::InWorkspace(count) | Self::InCluster { blocks: count, .. } => count,
        }
    }

    /// Blocks of a cluster.
    pub(super) fn cluster(self) -> usize {
        match self {
            Self::InWorkspace(_) => 1,
            Self::InCluster { blocks, .. } => blocks,
        }
    }

    pub(super) fn k_tile(self, of: &FilterGradient) -> usize {
        match self {
            Self::InWorkspace(_) => of.k_tile(),
            Self::InCluster { k_tile, .. } => k_tile,
        }
    }
}
