//! The reserve of a training pass: what backward needs of forward. It is either cuDNN's or ours, and its size says whose.
//!
//! Forward and backward are calls of their own, and between them a program may clone the reserve or move it. All that is
//! sure to come back is its size. So the choice is made when the program asks for the size, and the size carries it: the
//! size of our reserve has a tag. The tag depends on the network and its data. The size of cuDNN's reserve never has it.

use std::hash::{DefaultHasher, Hash, Hasher};

use cudnn_abi::*;

use crate::parts::Parts;
use cudnn::rnn::{Data, Network};

/// Counts the layouts. Reserves of another layout have other tags.
const LAYOUT: u32 = 1;
/// Sizes with the same rest have the same tag.
const MODULUS: usize = 4096;
/// A tag is an odd multiple of this many bytes. Allocators round sizes to even multiples, so they never make a tag.
const UNIT: usize = 16;
/// The tags: odd multiples in a modulus, but one.
const TAGS: u64 = 127;
/// The bytes of a [`Header`].
pub const HEADER: usize = size_of::<Header>();

/// The first bytes of a reserve of ours: written by forward, and read by backward. They are the first so that they are
/// found whatever the size is that comes back. Twin of the struct in `kernels/recurrent/training.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub magic: u32,
    pub layout: u32,
    /// Of the network and its data.
    pub hash: u32,
    /// What the reserve holds.
    pub state: State,
}

/// What a reserve of ours holds. A spoilt one has 0 here.
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
    /// LSTM's cell states, `[R][H]`.
    pub cells: Option<usize>,
    /// The dropout of the layer's input: the reserve of cuDNN's dropout for a tensor of R by D·H.
    pub mask: Option<usize>,
}

/// The layout of our reserve, behind the header. R is the number of rows of x in the packed layout: padding does not
/// count, and the longest sequence comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In the order of pseudo layers.
    pub saved: Vec<Saved>,
    /// The outputs of all layers but the last, `[R][D·H]` each.
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
        let mut states = |count: usize| parts.add(&[rows, network.hidden, network.element(), count]);
        let mut saved = Vec::new();
        for _ in 0..network.pseudo_layers() {
            let cells = if network.cell == CUDNN_LSTM { Some(states(1)?) } else { None };
            saved.push(Saved { gates: states(saved_gates(network))?, cells, mask: None });
        }
        let outputs = (1..network.layers).map(|_| states(network.directions())).collect::<Option<_>>()?;
        for saved in saved.iter_mut().skip(network.directions()) {
            saved.mask = parts.add_if(mask > 0, &[mask])?;
        }
        Some(Self { saved, outputs, bytes: parts.bytes, hash: hash(network, data, mask) })
    }

    /// The rest of a size of ours.
    fn tag(&self) -> usize {
        UNIT * (1 + 2 * (self.hash % TAGS) as usize)
    }

    fn has_tag(&self, size: usize) -> bool {
        size % MODULUS == self.tag()
    }

    /// The bytes of a reserve that is to be ours. They are no fewer than `theirs`, which cuDNN needs: the program may hand
    /// the reserve to cuDNN for other data. `None` if they exceed the address space.
    pub fn our_size(&self, theirs: usize) -> Option<usize> {
        let least = theirs.max(self.bytes);
        least.checked_add((self.tag() + MODULUS - least % MODULUS) % MODULUS)
    }

    /// The bytes of a reserve that is to be cuDNN's, which needs `theirs` bytes: the least without our tag.
    pub fn their_size(&self, theirs: usize) -> usize {
        if self.has_tag(theirs) { theirs.saturating_add(UNIT) } else { theirs }
    }

    /// The hash of the network and the data.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns whether a reserve of `size` bytes may be ours: it has our tag, and room for all parts.
    pub fn is_ours(&self, size: usize) -> bool {
        self.has_tag(size) && size >= self.bytes
    }

    /// The header of a reserve of ours.
    pub fn header(&self, state: State) -> Header {
        Header { magic: u32::from_be_bytes(*b"ucRR"), layout: LAYOUT, hash: self.hash as u32, state }
    }
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
        (cells, types, directions, 1_usize..600, 1_usize..600, 1_usize..5).prop_map(
            |(cell, data_type, direction, input, hidden, layers)| Network {
                algorithm: CUDNN_RNN_ALGO_STANDARD,
                cell,
                bias: CUDNN_RNN_DOUBLE_BIAS,
                direction,
                input_mode: CUDNN_LINEAR_INPUT,
                data_type,
                math_type: CUDNN_DEFAULT_MATH,
                input,
                hidden,
                projection: hidden,
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
        if has_dropout { (data.rows() * network.directions() * network.hidden).div_ceil(8) } else { 0 }
    }

    proptest! {
        #[test]
        fn a_size_says_whose_the_reserve_is(
            (network, data, has_dropout) in (networks(), batches(), any::<bool>()), theirs in 0_usize..1 << 24,
        ) {
            let layout = Layout::of(&network, &data, mask_bytes(&network, &data, has_dropout)).unwrap();
            let ours = layout.our_size(theirs).unwrap();
            prop_assert!(layout.is_ours(ours) && ours >= theirs);
            prop_assert!(ours < theirs.max(layout.bytes) + MODULUS);
            prop_assert_eq!(ours / UNIT % 2, 1);
            let their_size = layout.their_size(theirs);
            prop_assert!(!layout.is_ours(their_size) && (theirs..=theirs + UNIT).contains(&their_size));
            // An allocator that rounds up makes none of ours.
            for rounded in [32, 256, 512, MODULUS].map(|to| ours.next_multiple_of(to)) {
                prop_assert!(!layout.is_ours(rounded));
            }
        }

        #[test]
        fn parts_lie_apart_and_behind_the_header(
            (network, data, has_dropout) in (networks(), batches(), any::<bool>()),
        ) {
            let mask = mask_bytes(&network, &data, has_dropout);
            let layout = Layout::of(&network, &data, mask).unwrap();
            let rows: usize = data.lengths.iter().map(|&length| length as usize).sum();
            let row = rows * network.hidden * network.element();
            let gates = if matches!(network.cell, CUDNN_LSTM | CUDNN_GRU) { 4 * row } else { row };
            prop_assert_eq!(layout.saved.len(), network.pseudo_layers());
            prop_assert_eq!(layout.outputs.len(), network.layers - 1);
            let mut parts: Vec<_> = layout.outputs.iter().map(|&begin| (begin, network.directions() * row)).collect();
            for (index, saved) in layout.saved.iter().enumerate() {
                parts.push((saved.gates, gates));
                parts.extend(saved.cells.map(|begin| (begin, row)));
                parts.extend(saved.mask.map(|begin| (begin, mask)));
                prop_assert_eq!(saved.cells.is_some(), network.cell == CUDNN_LSTM);
                prop_assert_eq!(saved.mask.is_some(), has_dropout && index >= network.directions());
            }
            parts.extend([(0, HEADER), (layout.our_size(0).unwrap(), 0)]);
            parts.sort_unstable();
            prop_assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{parts:?}");
        }

        #[test]
        fn another_algorithm_for_backward_keeps_the_owner((network, data) in (networks(), batches())) {
            let of = |network: &Network, data: &Data| Layout::of(network, data, 0).unwrap();
            let size = of(&network, &data).our_size(0).unwrap();
            let (algorithm, math_type) = (CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, CUDNN_TENSOR_OP_MATH);
            let other = Network { algorithm, math_type, ..network };
            prop_assert!(of(&other, &data).is_ours(size));
        }
    }

    #[test]
    fn other_data_mostly_have_other_tags() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let network = networks().new_tree(&mut runner).unwrap().current();
        let batch = |lengths| Data {
            data_type: CUDNN_DATA_FLOAT,
            layout: CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
            steps: 1000,
            vector: 1,
            lengths,
            padding_fill: [0; 8],
        };
        let tags: std::collections::HashSet<_> =
            (1..=1000).map(|length| Layout::of(&network, &batch(vec![1000, length]), 0).unwrap().tag()).collect();
        assert!(tags.len() > 120, "{}", tags.len());
    }

    #[test]
    fn what_exceeds_the_address_space_has_no_layout() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let network = networks().new_tree(&mut runner).unwrap().current();
        let data = batches().new_tree(&mut runner).unwrap().current();
        assert_eq!(Layout::of(&Network { hidden: usize::MAX / 2, ..network }, &data, 0), None);
        assert_eq!(Layout::of(&network, &data, 0).unwrap().our_size(usize::MAX), None);
    }
}
