//! The memory layout of rows, and the order in which they are computed.

/// The memory layout of a batch of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[T, B, vector]`
    SequenceMajor,
    /// The longest sequence first; each time step has only the remaining sequences.
    Packed,
    /// `[B, T, vector]`
    BatchMajor,
}

/// A batch of sequences of different lengths. They are computed by rank, the longest first, so that at each time step
/// the remaining sequences are the first ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    layout: Layout,
    steps: usize,
    lengths: Vec<usize>,
    ranked: Vec<usize>,
    active: Vec<usize>,
    starts: Vec<usize>,
}

impl Sequences {
    /// A batch of at most `steps` time steps; `lengths` are 0 to `steps`, and in the packed layout they never increase.
    pub fn new(layout: Layout, steps: usize, lengths: Vec<usize>) -> Self {
        let mut ranked: Vec<_> = (0..lengths.len()).collect();
        ranked.sort_by_key(|&batch| std::cmp::Reverse(lengths[batch])); // stable: packed sequences stay in order
        let active: Vec<_> = (0..steps).map(|step| ranked.partition_point(|&batch| lengths[batch] > step)).collect();
        let start = |rows: &mut usize, &active: &usize| Some(std::mem::replace(rows, *rows + active));
        let starts = active.iter().scan(0, start).collect();
        Self { layout, steps, lengths, ranked, active, starts }
    }

    /// T.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// B.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// Steps of one sequence.
    pub fn length(&self, batch: usize) -> usize {
        self.lengths[batch]
    }

    /// Rows of memory, including any padding.
    pub fn memory_rows(&self) -> usize {
        if self.layout == Layout::Packed { self.rows() } else { self.steps * self.batch() }
    }

    /// The row of memory that holds a step of a sequence.
    pub fn memory_row(&self, step: usize, batch: usize) -> usize {
        match self.layout {
            Layout::SequenceMajor => step * self.batch() + batch,
            Layout::Packed => self.starts[step] + batch,
            Layout::BatchMajor => batch * self.steps + step,
        }
    }

    /// Steps of all sequences.
    pub fn rows(&self) -> usize {
        self.active.iter().sum()
    }

    /// The sequences by rank.
    pub fn ranked(&self) -> &[usize] {
        &self.ranked
    }

    /// The number of sequences that have a step, which are the first by rank, and the number of rows before the step.
    pub fn step(&self, step: usize) -> (usize, usize) {
        (self.active[step], self.starts[step])
    }

    /// The row of the step that comes before one in a direction's order, or `None` if the sequence begins there.
    pub(super) fn row_before(&self, step: usize, rank: usize, backward: bool) -> Option<usize> {
        let before = if backward { step + 1 } else { step.checked_sub(1)? };
        (before < self.steps && rank < self.active[before]).then(|| self.starts[before] + rank)
    }
}
