//! The packed order of a batch's rows: step by step, and within a step the longest sequence first. Training computes in
//! this order, whatever the program's layout is. So padding takes part in nothing, and dropout draws for the same
//! elements as cuDNN, which packs rows too.

use std::cmp::Reverse;

use cudnn_abi::*;

use cudnn::rnn::Data;

/// The packed order of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The sequences' lengths by rank, the longest first.
    pub lengths: Vec<i32>,
    /// The sequence of each rank.
    pub order: Vec<i32>,
    /// The packed rows; 0 if all sequences are empty.
    pub rows: usize,
    /// The steps of the longest sequence.
    pub steps: usize,
    /// True if all sequences have all of the program's steps.
    pub is_full: bool,
    /// True if the ranks are the program's own order.
    pub is_ordered: bool,
    /// True if the program's rows are in the packed order already.
    pub is_packed: bool,
    /// Step t of sequence b is the program's row t · `strides[0]` + b · `strides[1]`, if rows are not packed already.
    pub strides: [usize; 2],
}

impl Packing {
    /// The packed order of a batch.
    pub fn of(data: &Data) -> Self {
        let mut order: Vec<i32> = (0..data.batch() as i32).collect();
        order.sort_by_key(|&sequence| Reverse(data.lengths[sequence as usize]));
        let lengths: Vec<i32> = order.iter().map(|&sequence| data.lengths[sequence as usize]).collect();
        let steps = lengths.first().map_or(0, |&length| length as usize);
        let is_full = data.is_full();
        let is_batch_major = data.layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
        Self {
            rows: lengths.iter().map(|&length| length as usize).sum(),
            steps,
            is_full,
            is_ordered: order.is_sorted(),
            is_packed: data.is_packed() || (!is_batch_major && is_full),
            strides: if is_batch_major { [1, data.steps] } else { [data.batch(), 1] },
            lengths,
            order,
        }
    }

    /// B, the number of sequences.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(layout: cudnnRNNDataLayout_t, steps: usize, lengths: &[i32]) -> Data {
        let (vector, padding_fill) = (1, [0; 8]);
        Data { data_type: CUDNN_DATA_FLOAT, layout, steps, vector, lengths: lengths.to_vec(), padding_fill }
    }

    #[test]
    fn ranks_go_from_the_longest_sequence_to_the_shortest() {
        let packing = Packing::of(&data(CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 7, &[2, 5, 0, 5]));
        assert_eq!((packing.order, packing.lengths), (vec![1, 3, 0, 2], vec![5, 5, 2, 0]));
        assert_eq!((packing.rows, packing.steps, packing.strides), (12, 5, [4, 1]));
        assert!(!packing.is_full && !packing.is_ordered && !packing.is_packed);
    }

    #[test]
    fn what_is_packed_already_is_seen() {
        let is_packed = |layout, steps, lengths: &[i32]| Packing::of(&data(layout, steps, lengths)).is_packed;
        assert!(is_packed(CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 3, &[3, 3]));
        assert!(is_packed(CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 3, &[3, 1]));
        assert!(!is_packed(CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 4, &[3, 3]));
        assert!(!is_packed(CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, 3, &[3, 3]));
    }
}
