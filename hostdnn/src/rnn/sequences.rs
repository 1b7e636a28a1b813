//! Where rows of data lie, and in which order they are computed.

/// How a batch of sequences lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[T, B, vector]`
    SequenceMajor,
    /// The longest sequence first; at each time step only the sequences that still go on.
    Packed,
    /// `[B, T, vector]`
    BatchMajor,
}

/// A batch of sequences of different lengths. They are computed by rank, the longest first, so that at each time step
/// those that go on are the first ones.
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
    /// Of `steps` time steps at most; `lengths` are 0 to `steps`, and if packed none is longer than the one before.
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

    /// Rows of memory: padding counts where there is any.
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

    /// How many sequences have a step, which are the first by rank, and how many rows are computed for the steps before.
    pub fn step(&self, step: usize) -> (usize, usize) {
        (self.active[step], self.starts[step])
    }
}
