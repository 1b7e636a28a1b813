//! The reserve of a training pass: the values of forward that backward needs. It is either cuDNN's or ours. Our reserve begins with
//! a header; the size is the same for both.

use std::hash::{DefaultHasher, Hash, Hasher};

use cudnn_abi::*;

use crate::network::parts::Parts;
use cudnn::rnn::{Data, Network};

/// Counts the layouts. A header of another layout is not ours.
const LAYOUT: u32 = 1;
/// The first word of a header.
const MAGIC: u32 = u32::from_be_bytes(*b"ucRR");
/// The bytes of a [`Header`].
pub const HEADER: usize = size_of::<Header>();

/// The first bytes of our reserve: written by forward, and read by backward. They are the first so that they are
/// found whatever size the program hands in. Twin of the struct in `kernels/recurrent/training.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub magic: u32,
    pub layout: u32,
    /// The hash of the network and its data.
    pub hash: u32,
    /// What the reserve holds.
    pub state: State,
}

/// The values that our reserve holds. A spoilt reserve has 0 here.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// What forward has saved.
    Forward = 1,
    /// Gradients of gates in place of the gates: for gradients of weights only.
    Gradients = 2,
}

/// Where a pseudo layer's parts begin, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// LSTM: the gates i, f, g and o, `[R][4][H]`. GRU: r, z, n and R_n h + b_Rn, `[R][4][H]`. Others: `[R][H]`, which
    /// only backward uses. Backward puts their gradients in their places; GRU's are dr, dz, dn and r ∘ dn.
    pub gates: usize,
    /// LSTM's cell states, `[R][H]`. With a projection, backward puts the gradients of h in their place, `[R][P]`.
    pub cells: Option<usize>,
    /// With a projection alone, o ∘ tanh(c), `[R][H]`.
    pub unprojected: Option<usize>,
    /// The dropout of the layer's input: the reserve of cuDNN's dropout for a tensor of R by D·P.
    pub mask: Option<usize>,
}

/// The layout of our reserve, behind the header. R is the number of rows of x in the packed layout: padding does not
/// count, and the longest sequence comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In the order of pseudo layers.
    pub saved: Vec<Saved>,
    /// The outputs of all layers but the last, `[R][D·P]` each.
    pub outputs: Vec<usize>,
    /// The bytes of all parts and the header.
    bytes: usize,
    hash: u64,
}

impl Layout {
    /// The layout for a network on such data. `mask` is the bytes that cuDNN's dropout keeps of a layer's output, or 0
    /// without dropout. `None` if the size exceeds the address space.
    pub fn of(network: &Network, data: &Data, mask: usize) -> Option<Self> {
        let rows = data.lengths.iter().map(|&length| length as usize).sum();
        let mut parts = Parts::default();
        parts.add(&[HEADER])?;
        let (hidden, projection) = (network.hidden, network.projection);
        let mut states = |width: usize, count: usize| parts.add(&[rows, width, network.element(), count]);
        let mut saved = Vec::new();
        for _ in 0..network.pseudo_layers() {
            let cells = if network.cell == CUDNN_LSTM { Some(states(hidden, 1)?) } else { None };
            let gates = states(hidden, saved_gates(network))?;
            let unprojected = if network.projects() { Some(states(hidden, 1)?) } else { None };
            saved.push(Saved { gates, cells, unprojected, mask: None });
        }
        let outputs = (1..network.layers).map(|_| states(projection, network.directions()));
        let outputs = outputs.collect::<Option<_>>()?;
        for saved in saved.iter_mut().skip(network.directions()) {
            saved.mask = parts.add_if(mask > 0, &[mask])?;
        }
        Some(Self { saved, outputs, bytes: parts.bytes, hash: hash(network, data, mask) })
    }

    /// The bytes of a reserve that may be ours.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The hash of the network and the data.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The header of our reserve.
    pub fn header(&self, state: State) -> Header {
        Header { magic: MAGIC, layout: LAYOUT, hash: self.hash as u32, state }
    }
}

/// Returns whether a reserve's first bytes are our header, of any network and state.
pub fn is_header(bytes: &[u8; HEADER]) -> bool {
    let expected = [MAGIC, LAYOUT].map(u32::to_ne_bytes);
    bytes.starts_with(expected.as_flattened())
}

/// The numbers that are saved of each unit's step, and the gradients in their places.
pub fn saved_gates(network: &Network) -> usize {
    if network.gates() > 1 { 4 } else { 1 }
}

/// The hash of what all three calls of a pass have in common. The algorithm and the type of mathematics may differ:
/// PyTorch chooses them anew for backward.
fn hash(network: &Network, data: &Data, mask: usize) -> u64 {
    let network = Network { algorithm: CUDNN_RNN_ALGO_STANDARD, math_type: CUDNN_DEFAULT_MATH, ..*network };
    // It starts alike in each process.
    let mut hasher = DefaultHasher::new();
    (network, data.layout, data.steps, &data.lengths, mask, LAYOUT).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;

    use super::*;

    fn networks() -> impl Strategy<Value = Network> {
        let cells = prop::sample::select(vec![CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU]);
        let types = prop::sample::select(vec![CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16]);
        let directions = prop::sample::select(vec![CUDNN_UNIDIRECTIONAL, CUDNN_BIDIRECTIONAL]);
        (cells, types, directions, 1_usize..600, 1_usize..600, 1_usize..5, 1_usize..4).prop_map(
            |(cell, data_type, direction, input, hidden, layers, parts)| Network {
                algorithm: CUDNN_RNN_ALGO_STANDARD,
                cell,
                bias: CUDNN_RNN_DOUBLE_BIAS,
                direction,
                input_mode: CUDNN_LINEAR_INPUT,
                data_type,
                math_type: CUDNN_DEFAULT_MATH,
                input,
                hidden,
                projection: if cell == CUDNN_LSTM { hidden.div_ceil(parts) } else { hidden },
                layers,
                flags: 0,
                is_clipped: false,
            },
        )
    }

    fn batches() -> impl Strategy<Value = Data> {
        let layouts = vec![
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
            CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
        ];
        let lengths =
            (1_usize..50).prop_flat_map(|steps| (Just(steps), prop::collection::vec(1..=steps as i32, 1..20)));
        (prop::sample::select(layouts), lengths).prop_map(|(layout, (steps, lengths))| Data {
            data_type: CUDNN_DATA_FLOAT,
            layout,
            steps,
            vector: 1,
            lengths,
            padding_fill: [0; 8],
        })
    }

    /// The bytes of a mask of a layer's output.
    fn mask_bytes(network: &Network, data: &Data, has_dropout: bool) -> usize {
        if has_dropout { (data.rows() * network.output()).div_ceil(8) } else { 0 }
    }

    proptest! {
        #[test]
        fn parts_lie_apart_and_behind_the_header(
            (network, data, has_dropout) in (networks(), batches(), any::<bool>()),
        ) {
            let mask = mask_bytes(&network, &data, has_dropout);
            let layout = Layout::of(&network, &data, mask).unwrap();
            let rows: usize = data.lengths.iter().map(|&length| length as usize).sum();
            let row = rows * network.hidden * network.element();
            let output = rows * network.output() * network.element();
            let gates = if matches!(network.cell, CUDNN_LSTM | CUDNN_GRU) { 4 * row } else { row };
            prop_assert_eq!(layout.saved.len(), network.pseudo_layers());
            prop_assert_eq!(layout.outputs.len(), network.layers - 1);
            let mut parts: Vec<_> = layout.outputs.iter().map(|&begin| (begin, output)).collect();
            for (index, saved) in layout.saved.iter().enumerate() {
                parts.push((saved.gates, gates));
                parts.extend(saved.cells.map(|begin| (begin, row)));
                parts.extend(saved.unprojected.map(|begin| (begin, row)));
                prop_assert_eq!(saved.unprojected.is_some(), network.projects());
                parts.extend(saved.mask.map(|begin| (begin, mask)));
                prop_assert_eq!(saved.cells.is_some(), network.cell == CUDNN_LSTM);
                prop_assert_eq!(saved.mask.is_some(), has_dropout && index >= network.directions());
            }
            parts.extend([(0, HEADER), (layout.bytes(), 0)]);
            parts.sort_unstable();
            prop_assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{parts:?}");
        }

        #[test]
        fn another_algorithm_for_backward_keeps_the_layout((network, data) in (networks(), batches())) {
            let of = |network: &Network| Layout::of(network, &data, 0).unwrap();
            let (algorithm, math_type) = (CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, CUDNN_TENSOR_OP_MATH);
            prop_assert_eq!(of(&network), of(&Network { algorithm, math_type, ..network }));
        }

        /// Some programs ask once, with full lengths, and hand in the reserve for all lengths.
        #[test]
        fn shorter_sequences_need_no_more((network, data) in (networks(), batches())) {
            let full = Data { lengths: vec![data.steps as i32; data.batch()], ..data.clone() };
            let bytes = |data| Layout::of(&network, data, 0).unwrap().bytes();
            prop_assert!(bytes(&data) <= bytes(&full));
        }
    }

    #[test]
    fn a_header_is_seen_whatever_its_network_and_state() {
        let header = |magic| [magic, LAYOUT, 3, 0].map(u32::to_ne_bytes).as_flattened().try_into().unwrap();
        assert!(is_header(&header(MAGIC)) && !is_header(&header(MAGIC + 1)) && !is_header(&[0; HEADER]));
    }

    #[test]
    fn what_exceeds_the_address_space_has_no_layout() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let network = networks().new_tree(&mut runner).unwrap().current();
        let data = batches().new_tree(&mut runner).unwrap().current();
        assert_eq!(Layout::of(&Network { hidden: usize::MAX / 2, ..network }, &data, 0), None);
    }
}
