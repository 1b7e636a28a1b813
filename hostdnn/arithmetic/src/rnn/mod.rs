//! Recurrent networks: cuDNN's four cells, in any number of layers, in one direction or both. Plain slices, no FFI.
//!
//! `weights` and `sequences` define the memory layout of matrices and rows; `oracle` computes by definition, in
//! readable loops and double precision. The API's implementation is on `gemm`'s products: `forward`, with `dropout`
//! between layers in training; then `backward_data` and `backward_weights`, from what `forward` kept in the `reserve`.
//! `cell` has their element-wise work, and `rows` moves their rows. The module may use `convolution`'s numbers and
//! products, and of the rest only errors.
//!
//! In shapes T is the time steps, B the sequences, D the directions, G the cell's gates, H the hidden size and P the size
//! of a projected hidden state (H without projection).

mod backward_data;
mod backward_weights;
mod cell;
mod dropout;
mod element;
mod forward;
pub mod oracle;
mod reserve;
mod rows;
mod sequences;
mod weights;

pub use backward_data::{DataOperands, backward_data, backward_data_workspace_len};
pub use backward_weights::{WeightOperands, backward_weights, backward_weights_workspace_len};
pub use dropout::{Dropout, STATES_BYTES, seed};
pub use element::{Number, Stored};
pub use forward::{Operands, forward, forward_workspace_len};
pub use reserve::{Keeps, reserve_len};
pub use sequences::{Layout, Sequences};
pub use weights::Region;

/// The computation of a time step. x is the input, h and c are the states of the step before; W and R are the weights
/// of x and h, with the biases b and d; σ is the logistic function and ∘ the element-wise product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// h = max(0, Wx + b + Rh + d)
    Relu,
    /// h = tanh(Wx + b + Rh + d)
    Tanh,
    /// Gates i, f, g, o, all σ but g = tanh: c = f∘c + i∘g, clipped if asked, and h = o∘tanh(c), projected if asked.
    Lstm,
    /// Gates r, z, both σ, and n = tanh(Wx + b + r∘(Rh + d)): h = (1 - z)∘n + z∘h.
    Gru,
}

impl Cell {
    /// The number of matrices of W, and of R.
    pub fn gates(self) -> usize {
        match self {
            Self::Relu | Self::Tanh => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }
}

/// The range that LSTM's cell state is clipped to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub most: f64,
    /// Whether NaN stays NaN; otherwise it becomes the least value.
    pub keep_nan: bool,
}

/// A recurrent network's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// The cell.
    pub cell: Cell,
    /// Whether there is a bias beside W.
    pub input_bias: bool,
    /// Whether there is a bias beside R.
    pub recurrent_bias: bool,
    /// D: 1, or 2 with the second from each sequence's end to its start.
    pub directions: usize,
    /// Layers. With the directions they make pseudo layers: the first layer's forward, its backward, the second's forward…
    pub layers: usize,
    /// Elements of an input vector.
    pub input: usize,
    /// H.
    pub hidden: usize,
    /// P.
    pub projection: usize,
    /// Whether the first layer's Wx is x itself, for each gate; the input size is H then.
    pub skip_input: bool,
    /// The clipping of LSTM's cell state.
    pub clip: Option<Clip>,
}

impl Network {
    /// Layers times directions.
    pub fn pseudo_layers(&self) -> usize {
        self.layers * self.directions
    }

    /// Elements of an output vector: D·P.
    pub fn output(&self) -> usize {
        self.directions * self.projection
    }

    /// Returns whether there is a c beside h.
    pub fn has_cell_state(&self) -> bool {
        self.cell == Cell::Lstm
    }

    /// G·H: the rows of all of a cell's W, or R.
    fn gate_rows(&self) -> usize {
        self.cell.gates() * self.hidden
    }

    /// Elements of a layer's input vector.
    fn layer_input(&self, layer: usize) -> usize {
        if layer == 0 { self.input } else { self.output() }
    }

    fn projects(&self) -> bool {
        self.projection != self.hidden
    }

    /// Returns whether gradients need H more numbers of a step than its gates and h: c, or GRU's Rh + d.
    fn keeps_inner(&self) -> bool {
        matches!(self.cell, Cell::Lstm | Cell::Gru)
    }
}

/// The numbers of workspace that any call needs for sequences of up to `steps` steps, in training those of all three;
/// `None` if their byte count could overflow.
pub fn workspace_len(network: &Network, steps: usize, batch: usize, training: bool) -> Option<usize> {
    let forward = forward_workspace_len(network, steps, batch, training)?;
    if !training {
        return Some(forward);
    }
    let data = backward_data_workspace_len(network, steps, batch)?;
    Some(forward.max(data).max(backward_weights_workspace_len(network, steps, batch)?))
}
