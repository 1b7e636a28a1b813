//! The division of the pixels among blocks.

use cudnn_abi::cudnnBackendKnobType_t;

use crate::engines::backward_filter::gradient::{EXACT_K_TILE_OF_ONE_PLACE, GroupedGradient, K_TILE, M_MMA};
use crate::problem::graph::Knob;

/// The knobs: the number of parts whose sums meet in the workspace; or the blocks of a cluster, and the k of a block.
const SPLITS: cudnnBackendKnobType_t = 0;
const CLUSTER: cudnnBackendKnobType_t = 1;
const K_TILE_KNOB: cudnnBackendKnobType_t = 2;

/// Cluster sizes and k tiles to try, where a device has clusters. Small k tiles give more blocks.
const CLUSTERS: [usize; 4] = [2, 4, 8, 16];
const K_TILES_IN_CLUSTERS: [usize; 4] = [EXACT_K_TILE_OF_ONE_PLACE, K_TILE, 32, M_MMA];

/// The number of parts that the pixels are divided into, each with its own sum, and the memory that combines the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// This many parts, whose sums meet in the workspace; a single part needs no workspace.
    InWorkspace(usize),
    /// One part for each block of a cluster, whose sums meet in shared memory.
    InCluster {
        /// The blocks of a cluster: 2, 4, 8 or 16.
        blocks: usize,
        /// The number of k that a block computes.
        k_tile: usize,
    },
}

impl Parts {
    pub(super) fn knobs(self) -> Vec<Knob> {
        match self {
            Self::InWorkspace(count) => vec![(SPLITS, count as i64)],
            Self::InCluster { blocks, k_tile } => vec![(CLUSTER, blocks as i64), (K_TILE_KNOB, k_tile as i64)],
        }
    }

    pub(super) fn of_knobs(knobs: &[Knob]) -> Option<Self> {
        let size = |value: i64| usize::try_from(value).ok();
        match *knobs {
            [(SPLITS, count)] => Some(Self::InWorkspace(size(count)?)),
            [(CLUSTER, blocks), (K_TILE_KNOB, k_tile)] => {
                Some(Self::InCluster { blocks: size(blocks)?, k_tile: size(k_tile)? })
            }
            _ => None,
        }
    }

    /// All divisions into clusters of at most `most_blocks` blocks.
    pub(super) fn in_clusters(of: &GroupedGradient, most_blocks: usize) -> impl Iterator<Item = Self> + use<> {
        // Groups are many blocks, and need no clusters.
        let most_blocks = if of.groups == 1 { most_blocks } else { 0 };
        let (most, matrices) = (of.k_tile(), M_MMA * of.k_warps());
        let k_tiles = K_TILES_IN_CLUSTERS.into_iter().filter(move |it| *it <= most && it.is_multiple_of(matrices));
        let clusters = CLUSTERS.into_iter().filter(move |blocks| *blocks <= most_blocks);
        clusters.flat_map(move |blocks| k_tiles.clone().map(move |k_tile| Self::InCluster { blocks, k_tile }))
    }

    /// The number of parts.
    pub(super) fn count(self) -> usize {
        match self {
            Self::InWorkspace(count) | Self::InCluster { blocks: count, .. } => count,
        }
    }

    /// The number of blocks in a cluster.
    pub(super) fn cluster(self) -> usize {
        match self {
            Self::InWorkspace(_) => 1,
            Self::InCluster { blocks, .. } => blocks,
        }
    }

    pub(super) fn k_tile(self, of: &GroupedGradient) -> usize {
        match self {
            Self::InWorkspace(_) => of.k_tile(),
            Self::InCluster { k_tile, .. } => k_tile,
        }
    }
}
