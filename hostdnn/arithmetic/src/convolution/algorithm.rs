//! The algorithms, under cuDNN's own ids for each direction.

use super::Direction;
use cudnn_abi::*;

/// A way to compute a convolution. One name may stand for different ids in different directions; [`Self::id`] gives cuDNN's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// GEMM over columns that are packed tile by tile into fixed per-thread buffers. No workspace.
    ImplicitGemm,
    /// Forward: the same with a table of the columns' source runs in the workspace.
    ImplicitPrecompGemm,
    /// Forward: GEMM over column matrices (im2col) in the workspace.
    Gemm,
    /// cuDNN's direct algorithm, which cuDNN does not implement either: never supported.
    Direct,
    /// `ALGO_0`: no workspace, no promised order of sums. Backward data gathers by phases of the stride, backward filter
    /// adds sums of a few images as they are ready.
    Algo0,
    /// `ALGO_1`: no workspace, deterministic. Backward data scatters products (col2im), backward filter sums in order.
    Algo1,
    /// Backward filter, `ALGO_3`: column matrices and partial sums in the workspace, no promised order of sums.
    Algo3,
    /// One transform for each whole padded image.
    Fft,
    /// Transforms of 32×32 tiles.
    FftTiling,
    /// The same with 16×16 tiles: less work for small images. The legacy API has no name for it.
    FftTiling16,
    /// The same with 64×64 tiles: fewer tiles for large filters. The legacy API has no name for it.
    FftTiling64,
    /// F(2×2, 3×3), tile blocks in per-thread buffers; the workspace holds the transformed filter.
    Winograd,
    /// F(4×4, 3×3) or F(2×2, 5×5); the workspace holds filter, tiles and products of the whole batch.
    WinogradNonfused,
}

const FORWARD: &[Algorithm] = &[
    Algorithm::ImplicitGemm,
    Algorithm::ImplicitPrecompGemm,
    Algorithm::Gemm,
    Algorithm::Direct,
    Algorithm::Fft,
    Algorithm::FftTiling,
    Algorithm::Winograd,
    Algorithm::WinogradNonfused,
];
const BACKWARD_DATA: &[Algorithm] = &[
    Algorithm::Algo0,
    Algorithm::Algo1,
    Algorithm::Fft,
    Algorithm::FftTiling,
    Algorithm::Winograd,
    Algorithm::WinogradNonfused,
];
const BACKWARD_FILTER: &[Algorithm] = &[
    Algorithm::Algo0,
    Algorithm::Algo1,
    Algorithm::Fft,
    Algorithm::Algo3,
    Algorithm::Winograd,
    Algorithm::WinogradNonfused,
    Algorithm::FftTiling,
];

const _: () = assert!(FORWARD.len() == CUDNN_CONVOLUTION_FWD_ALGO_COUNT as usize);
const _: () = assert!(BACKWARD_DATA.len() == CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT as usize);
const _: () = assert!(BACKWARD_FILTER.len() == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT as usize);

impl Algorithm {
    /// All algorithms that cuDNN names in a direction; the place in the slice is the id.
    pub fn all(direction: Direction) -> &'static [Self] {
        match direction {
            Direction::Forward => FORWARD,
            Direction::BackwardData => BACKWARD_DATA,
            Direction::BackwardFilter => BACKWARD_FILTER,
        }
    }

    /// The algorithm with cuDNN's `id` in `direction`; `None` if cuDNN has no such id.
    pub fn from_id(direction: Direction, id: i32) -> Option<Self> {
        Self::all(direction).get(usize::try_from(id).ok()?).copied()
    }

    /// cuDNN's id of this algorithm in `direction`; `None` if it has none there.
    pub fn id(self, direction: Direction) -> Option<i32> {
        Self::all(direction).iter().position(|&a| a == self).map(|id| id as i32)
    }

    /// Points along each side of a tile, for algorithms that transform tiles.
    pub fn fft_tile(self) -> Option<usize> {
        match self {
            Self::FftTiling16 => Some(16),
            Self::FftTiling => Some(32),
            Self::FftTiling64 => Some(64),
            _ => None,
        }
    }

    /// Returns whether equal calls promise equal bits, as cuDNN declares it.
    pub fn deterministic(self) -> bool {
        !matches!(self, Self::Algo0 | Self::Algo3)
    }
}
