//! The problem that kernels are made for: a network and a device.

use cudnn_abi::*;

use super::{Configuration, Regime};
use cudnn::rnn::CANONICAL_GRU;
use gpu::Element;

/// The most rows of a tile.
const MOST_ROWS: usize = 16;

/// The cell of a network: how h, c and the gates combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    Lstm,
    Gru,
    /// GRU that resets h before the recurrent product.
    CanonicalGru,
    Tanh,
    Relu,
}

impl Cell {
    /// The cell of cuDNN's number; `None` if our kernels lack it.
    pub fn of(cell: cudnnRNNMode_t) -> Option<Self> {
        match cell {
            CUDNN_LSTM => Some(Self::Lstm),
            CUDNN_GRU => Some(Self::Gru),
            CANONICAL_GRU => Some(Self::CanonicalGru),
            CUDNN_RNN_TANH => Some(Self::Tanh),
            CUDNN_RNN_RELU => Some(Self::Relu),
            _ => None,
        }
    }

    /// Matrix products with h that a unit needs.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru | Self::CanonicalGru => 3,
            Self::Tanh | Self::Relu => 1,
        }
    }
}

/// The pass over a network in which a recurrence runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    Inference,
    /// Each step saves what gradients need.
    Forward,
    /// Back through time.
    Backward,
}

/// A network's recurrences on a device, for which kernels are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub cell: Cell,
    pub element: Element,
    pub hidden: usize,
    /// Elements of each layer's input vector, if all layers have the same and W x may be within the steps; else 0.
    pub input: usize,
    pub batch: usize,
    /// Layers that may run in a wavefront; 1 if there is only one, or none may.
    pub layers: usize,
    /// 1, or 2: one for each end of the input.
    pub directions: usize,
    /// Time steps, or about as many: the fixed time of a launch is spread over them.
    pub steps: usize,
    pub pass: Pass,
    /// True if tensor cores may multiply, which rounds floats to TF32.
    pub tensor_cores: bool,
    /// Multiprocessors of the device.
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: usize,
    /// The most blocks of a cluster; 0 where the device has no clusters.
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
            pass: Pass::Inference,
            tensor_cores: true,
            multiprocessors: 132,
            shared_bytes: 227 << 10,
            cluster_blocks: 16,
        }
    }
}

impl Problem {
    /// The problem of a training pass's forward recurrences: a layer a launch, behind its input's products.
    pub fn of_forward(self) -> Self {
        Self { pass: Pass::Forward, input: 0, layers: 1, ..self }
    }

    /// The problem of inference with a projection: likewise.
    pub fn of_projected(self) -> Self {
        Self { input: 0, layers: 1, ..self }
    }

    /// The problem of a training pass's recurrences back through time.
    pub fn of_backward(self) -> Self {
        Self { pass: Pass::Backward, input: 0, layers: 1, ..self }
    }

    /// The rows of the matrix that a unit has: of R those of all gates, and of its transpose one.
    pub fn unit_rows(&self) -> usize {
        if self.pass == Pass::Backward { 1 } else { self.cell.gates() }
    }

    /// The elements of such a row, and of what it is multiplied with: h, or the gradients of all gates.
    pub fn depth(&self) -> usize {
        if self.pass == Pass::Backward { self.cell.gates() * self.hidden } else { self.hidden }
    }

    /// Units of a block in R3, if 1, 2, 4, … tiles are computed at the same time; fewer blocks exchange then.
    pub(super) fn grid_choices(&self) -> Vec<(Regime, usize)> {
        let groups = (0..).map(|power| 1 << power).take_while(|groups| 2 * groups <= self.multiprocessors);
        let mut choices: Vec<_> = groups
            .map(|groups| self.hidden.div_ceil(self.multiprocessors / groups))
            .filter(|&units| units < self.hidden)
            .collect();
        choices.dedup();
        choices.into_iter().map(|units| (Regime::Grid, units)).collect()
    }

    /// Rows of a batch tile: powers of two, and equal parts of the batch.
    pub(super) fn tile_choices(&self) -> Vec<usize> {
        let parts = [1, 2, 3, 4].map(|parts| self.batch.div_ceil(parts));
        let powers = [1, 2, 4, 8].into_iter().filter(|&tile| tile <= self.batch);
        let mut choices: Vec<_> = powers.chain(parts).filter(|tile| (1..=MOST_ROWS).contains(tile)).collect();
        choices.sort_unstable();
        choices.dedup();
        choices
    }

    /// The most bytes of exchange memory that any configuration takes.
    pub fn most_exchange_bytes(&self) -> usize {
        let bytes = Configuration::space(self).into_iter().map(|configuration| configuration.exchange_bytes(self));
        bytes.max().unwrap_or(0)
    }
}
