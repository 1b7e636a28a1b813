//! What kernels are made for.

use super::{Configuration, Regime};

/// The most rows of a tile.
const MOST_ROWS: usize = 16;

/// How h, c and the gates go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    Lstm,
    Gru,
    /// GRU that resets h before it is multiplied.
    CanonicalGru,
    Tanh,
    Relu,
}

impl Cell {
    /// Matrix products with h that a unit needs.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru | Self::CanonicalGru => 3,
            Self::Tanh | Self::Relu => 1,
        }
    }
}

/// What weights, states and outputs are stored as. Arithmetic is in float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    Float,
    Half,
    Bfloat16,
}

impl Element {
    pub fn bytes(self) -> usize {
        if self == Self::Float { 4 } else { 2 }
    }
}

/// What kernels are made for: a network's recurrences, on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub cell: Cell,
    pub element: Element,
    pub hidden: usize,
    /// Numbers of a row of each layer's input, where W x may be computed within the steps: of all layers alike. Else 0.
    pub input: usize,
    pub batch: usize,
    /// Layers that may run in a wavefront; 1 where there is one, or none may.
    pub layers: usize,
    /// 1, or 2 that run over the same input from its two ends.
    pub directions: usize,
    /// Time steps, or about as many: launches take their time however few they do.
    pub steps: usize,
    /// Whether tensor cores may multiply: floats as TF32.
    pub tensor_cores: bool,
    /// Of the device.
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: usize,
    /// The most blocks of a cluster; 0 where there are no clusters.
    pub cluster_blocks: usize,
}

impl Problem {
    /// One layer in one direction over 100 steps, its input as wide as its state, on an H200: for tests.
    pub fn on_an_h200(cell: Cell, element: Element, hidden: usize, batch: usize) -> Self {
        Self {
            cell,
            element,
            hidden,
            input: hidden,
            batch,
            layers: 1,
            directions: 1,
            steps: 100,
            tensor_cores: true,
            multiprocessors: 132,
            shared_bytes: 227 << 10,
            cluster_blocks: 16,
        }
    }
}

impl Problem {
    /// Units of a block with which 1, 2, 4, … tiles are computed at the same time, and with which fewer blocks exchange.
    pub(super) fn grid_choices(&self) -> Vec<(Regime, usize)> {
        let groups = (0..).map(|power| 1 << power).take_while(|groups| 2 * groups <= self.multiprocessors);
        let mut choices: Vec<_> = groups
            .map(|groups| self.hidden.div_ceil(self.multiprocessors / groups))
            .filter(|&units| units < self.hidden)
            .collect();
        choices.dedup();
        choices.into_iter().map(|units| (Regime::Grid, units)).collect()
    }

    /// Rows of a tile: powers of two, and equal parts of the batch.
    pub(super) fn tile_choices(&self) -> Vec<usize> {
        let parts = [1, 2, 3, 4].map(|parts| self.batch.div_ceil(parts));
        let powers = [1, 2, 4, 8].into_iter().filter(|&tile| tile <= self.batch);
        let mut choices: Vec<_> = powers.chain(parts).filter(|tile| (1..=MOST_ROWS).contains(tile)).collect();
        choices.sort_unstable();
        choices.dedup();
        choices
    }

    /// Bytes that an exchange takes at most, with whichever configuration.
    pub fn most_exchange_bytes(&self) -> usize {
        let bytes = Configuration::space(self).into_iter().map(|configuration| configuration.exchange_bytes(self));
        bytes.max().unwrap_or(0)
    }
}
