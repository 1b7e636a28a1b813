//! The layout of a call's workspace.

use crate::network::parts::{ALIGNMENT, Each, Parts};
use cudnn::rnn::{Data, Network};

/// Offsets in the workspace, in bytes from its first aligned byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temporary {
    /// A layer's input products of each direction: float, `[D][rows][G·H]`. Without products, every other layer's output.
    pub products: usize,
    /// With two directions, which both read a layer's whole input: every other layer's output, `[rows][D·P]`.
    pub between: usize,
    /// Sequences' lengths: int, `[B]`.
    pub lengths: usize,
    /// Rows before each step of packed sequences: int, `[T]`.
    pub starts: usize,
    /// With a projection, of each direction: R W_p, `[G·H][H]`, and o ∘ tanh(c), `[rows][H]`; and R h0, float,
    /// `[B][G·H]`.
    pub folded: Each,
    pub unprojected: Each,
    pub first: usize,
    /// The exchange between blocks, of each direction; zeroed before the launches.
    pub exchange: usize,
    /// Bytes of one direction's exchange.
    pub exchange_bytes: usize,
    /// Bytes of the whole workspace, for any alignment.
    pub bytes: usize,
}

impl Temporary {
    /// The least bytes of a workspace whose first aligned bytes can be used.
    pub const LEAST: usize = 2 * ALIGNMENT;

    /// The layout for a network on such data, with `exchange_bytes` bytes of exchange in each direction. `None`: the
    /// size exceeds the address space, or rows or columns exceed an `int`.
    pub fn of(network: &Network, data: &Data, exchange_bytes: usize) -> Option<Self> {
        let (rows, columns) = (data.rows(), network.gates().checked_mul(network.hidden)?);
        let counts = [rows, columns, network.pseudo_layers().checked_mul(columns)?, network.layer_input(1)];
        counts.into_iter().try_for_each(|count| i32::try_from(count).map(drop)).ok()?;
        let between = if network.layers > 1 && network.directions() > 1 { network.layer_input(1) } else { 0 };
        let mut parts = Parts::default();
        let products = parts.add(&[rows, network.directions() * columns, size_of::<f32>()])?;
        let between = parts.add(&[rows, between, network.element()])?;
        let lengths = parts.add(&[data.batch(), size_of::<i32>()])?;
        let starts = parts.add(&[data.steps, size_of::<i32>()])?;
        let projected = if network.projects() { network.directions() } else { 0 };
        let folded = Each::add(&mut parts, projected, &[columns, network.hidden, network.element()])?;
        let unprojected = Each::add(&mut parts, projected, &[rows, network.hidden, network.element()])?;
        let first = parts.add(&[projected.min(1), data.batch(), columns, size_of::<f32>()])?;
        let exchange = parts.add(&[exchange_bytes, network.directions()])?;
        let bytes = parts.bytes.checked_add(ALIGNMENT)?;
        Some(Self { products, between, lengths, starts, folded, unprojected, first, exchange, exchange_bytes, bytes })
    }

    /// The first aligned byte of a workspace.
    pub fn first(workspace: *mut u8) -> *mut u8 {
        workspace.wrapping_add(workspace.addr().wrapping_neg() % ALIGNMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_abi::*;

    #[test]
    fn parts_lie_apart_and_within() {
        let network = Network {
            algorithm: CUDNN_RNN_ALGO_STANDARD,
            cell: CUDNN_GRU,
            bias: CUDNN_RNN_DOUBLE_BIAS,
            direction: CUDNN_BIDIRECTIONAL,
            input_mode: CUDNN_LINEAR_INPUT,
            data_type: CUDNN_DATA_HALF,
            math_type: CUDNN_DEFAULT_MATH,
            input: 3,
            hidden: 5,
            projection: 5,
            layers: 2,
            flags: 0,
            is_clipped: false,
        };
        let data = Data {
            data_type: CUDNN_DATA_HALF,
            layout: CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
            steps: 9,
            vector: 3,
            lengths: vec![9, 4],
            padding_fill: [0; 8],
        };
        let t = Temporary::of(&network, &data, 1000).unwrap();
        let rows = 13;
        let parts = [
            (t.products, 2 * rows * 3 * 5 * 4),
            (t.between, rows * 2 * 5 * 2),
            (t.lengths, 2 * 4),
            (t.starts, 9 * 4),
            (t.exchange, 2 * 1000),
        ];
        for pair in parts.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0 && pair[1].0.is_multiple_of(ALIGNMENT), "{parts:?}");
        }
        assert!(t.exchange + 2000 + ALIGNMENT <= t.bytes);
        let projected = Network { cell: CUDNN_LSTM, projection: 3, ..network };
        let p = Temporary::of(&projected, &data, 1000).unwrap();
        let parts = [
            (p.starts, 9 * 4),
            (p.folded.of(0), 4 * 5 * 5 * 2),
            (p.folded.of(1), 4 * 5 * 5 * 2),
            (p.unprojected.of(0), rows * 5 * 2),
            (p.unprojected.of(1), rows * 5 * 2),
            (p.first, 2 * 4 * 5 * 4),
            (p.exchange, 2 * 1000),
        ];
        for pair in parts.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0 && pair[1].0.is_multiple_of(ALIGNMENT), "{parts:?}");
        }
        assert_eq!(Temporary::first(std::ptr::without_provenance_mut(513)).addr(), 768);
        assert_eq!(Temporary::first(std::ptr::without_provenance_mut(512)).addr(), 512);
        // More rows than an int counts.
        let huge = Data { steps: 65535, lengths: vec![65535; 40_000], ..data };
        assert_eq!(Temporary::of(&network, &huge, 0), None);
    }
}
