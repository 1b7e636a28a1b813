//! Where values are: in frames, and in scratch memory.

/// The frames of a kind. Products and reductions read one frame and write another, so that one can be borrowed for
/// writing beside the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// What the run forward keeps for the run backward.
    Kept,
    /// What products and reductions take, of all rows.
    WholeIn,
    /// What products and reductions make, of all rows.
    WholeOut,
    /// Their inputs, of the rows of one block.
    BlockIn,
    /// Their results, of the rows of one block.
    BlockOut,
}

/// The number of frames of a kind, by vertices; as many are by edges.
pub const FRAMES: usize = 5;

/// The frame with this number among those of the kind has the rows of one block alone.
pub fn is_of_block(number: usize) -> bool {
    number % FRAMES >= Frame::BlockIn as usize
}

/// Where a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The frame.
    pub frame: Frame,
    /// The frame has a row for each edge.
    pub is_of_children: bool,
    /// The first number in a row.
    pub offset: usize,
    /// The number of numbers.
    pub width: usize,
}

impl Place {
    /// The number of the frame among those of the kind.
    pub fn number(self) -> usize {
        self.frame as usize + if self.is_of_children { FRAMES } else { 0 }
    }

    /// The frame has a row for each vertex of the kind, not of the block alone.
    pub fn is_whole(self) -> bool {
        !is_of_block(self.frame as usize)
    }
}

/// A part of a row's scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first number.
    pub first: usize,
    /// The number of numbers.
    pub width: usize,
}
