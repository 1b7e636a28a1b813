//! The order in which several strided tensors of one shape are visited.

/// The least number of elements for a task.
const TASK: usize = 16 * 1024;

/// One shape with the strides of `M` operands, cut into pieces that can run in any order.
#[derive(Clone, Debug)]
pub struct Walk<const M: usize> {
    /// Dimensions, outermost first; never empty.
    dims: Vec<usize>,
    /// Strides of each operand in elements, dimension by dimension; 0 broadcasts.
    strides: Vec<[isize; M]>,
    piece: usize,
}

impl<const M: usize> Walk<M> {
    /// A walk over `dims`, where `strides[i]` holds each operand's step in dimension `i`.
    pub fn new(dims: &[usize], strides: &[[isize; M]]) -> Self {
        let mut merged: Vec<(usize, [isize; M])> = Vec::new();
        for (&dim, &stride) in dims.iter().zip(strides) {
            if dim == 1 {
                continue;
            }
            match merged.last_mut() {
                // Two dimensions merge if every operand continues from the inner to the outer at the same pace.
                Some((outer, pace)) if (0..M).all(|i| pace[i] == stride[i] * dim as isize) => {
                    *outer *= dim;
                    *pace = stride;
                }
                _ => merged.push((dim, stride)),
            }
        }
        if merged.is_empty() {
            merged.push((1, [0; M]));
        }
        let (dims, strides): (Vec<_>, Vec<_>) = merged.into_iter().unzip();
        let piece = dims.last().map_or(1, |&row: &usize| row.min(TASK));
        Self { dims, strides, piece }
    }

    fn row(&self) -> usize {
        self.dims[self.dims.len() - 1]
    }

    fn pieces_a_row(&self) -> usize {
        self.row().div_ceil(self.piece)
    }

    /// Pieces in all.
    pub fn pieces(&self) -> usize {
        self.dims[..self.dims.len() - 1].iter().product::<usize>() * self.pieces_a_row()
    }

    /// Pieces that make up one task.
    pub fn pieces_a_task(&self) -> usize {
        TASK.div_ceil(self.piece)
    }

    /// The offsets of a piece's first element in every operand, and the number of consecutive elements in the piece.
    pub fn piece(&self, index: usize) -> ([isize; M], usize) {
        let inner = self.dims.len() - 1;
        let start = index % self.pieces_a_row() * self.piece;
        let mut rest = index / self.pieces_a_row();
        let mut at = self.strides[inner].map(|stride| stride * start as isize);
        for i in (0..inner).rev() {
            let place = (rest % self.dims[i]) as isize;
            rest /= self.dims[i];
            for (at, stride) in at.iter_mut().zip(self.strides[i]) {
                *at += place * stride;
            }
        }
        (at, self.piece.min(self.row() - start))
    }

    /// Each operand's step from one element of a piece to the next.
    pub fn pace(&self) -> [isize; M] {
        self.strides[self.dims.len() - 1]
    }

    /// Moves to the next element of a piece.
    pub fn advance(&self, at: &mut [isize; M]) {
        for (at, stride) in at.iter_mut().zip(self.pace()) {
            *at += stride;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(walk: &Walk<2>) -> Vec<[isize; 2]> {
        let mut all = Vec::new();
        for index in 0..walk.pieces() {
            let (mut at, length) = walk.piece(index);
            for _ in 0..length {
                all.push(at);
                walk.advance(&mut at);
            }
        }
        all
    }

    #[test]
    fn visits_every_index_once() {
        // 3×4×5: packed, and transposed with the middle dimension broadcast.
        let strides = [[20, 1], [5, 0], [1, 3]];
        let mut expected = Vec::new();
        for i in 0..3 {
            for j in 0..4 {
                for k in 0..5 {
                    expected.push([20 * i + 5 * j + k, i + 3 * k]);
                }
            }
        }
        assert_eq!(visited(&Walk::new(&[3, 4, 5], &strides)), expected);
    }

    #[test]
    fn merges_what_is_contiguous_and_cuts_long_rows() {
        let walk = Walk::new(&[1, 40, 1, 1000], &[[9, 9], [1000, 2000], [7, 7], [1, 2]]);
        assert_eq!(walk.dims, [40_000]);
        assert_eq!(walk.pieces(), 3);
        let expected: Vec<_> = (0..40_000).map(|i| [i, 2 * i]).collect();
        assert_eq!(visited(&walk), expected);
    }

    #[test]
    fn a_single_element_is_one_piece() {
        assert_eq!(visited(&Walk::new(&[1, 1], &[[3, 3], [0, 0]])), [[0, 0]]);
    }
}
