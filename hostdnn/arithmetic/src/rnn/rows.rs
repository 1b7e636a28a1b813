//! Rows and states between the program's memory and the order in which they are computed: rows by time step and then
//! by rank, which is the packed layout, and states by rank.

use super::Sequences;
use super::element::{Number, Stored};

pub fn row<T>(rows: &[T], index: usize, width: usize) -> &[T] {
    &rows[index * width..][..width]
}

pub fn row_mut<T>(rows: &mut [T], index: usize, width: usize) -> &mut [T] {
    &mut rows[index * width..][..width]
}

pub fn load<S: Stored>(to: &mut [S::Number], from: &[S]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load());
}

pub fn store<S: Stored>(to: &mut [S], from: &[S::Number]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = S::store(from));
}

pub fn add<N: Number>(to: &mut [N], values: &[N]) {
    to.iter_mut().zip(values).for_each(|(to, &value)| *to = *to + value);
}

/// `to *= factors`, element by element.
pub fn scale<N: Number>(to: &mut [N], factors: &[N]) {
    to.iter_mut().zip(factors).for_each(|(to, &factor)| *to = *to * factor);
}

/// Reads all rows of memory but padding.
pub fn load_rows<S: Stored>(sequences: &Sequences, to: &mut [S::Number], from: &[S], width: usize) {
    for_each_row(sequences, |index, memory| load(row_mut(to, index, width), row(from, memory, width)));
}

/// Writes all rows of memory; padding gets `fill`.
pub fn store_rows<S: Stored>(sequences: &Sequences, to: &mut [S], from: &[S::Number], width: usize, fill: S) {
    for_each_row(sequences, |index, memory| store(row_mut(to, memory, width), row(from, index, width)));
    if sequences.memory_rows() > sequences.rows() {
        for sequence in 0..sequences.batch() {
            for step in sequences.length(sequence)..sequences.steps() {
                row_mut(to, sequences.memory_row(step, sequence), width).fill(fill);
            }
        }
    }
}

/// Calls with each row's index in the order of computation, and in memory.
fn for_each_row(sequences: &Sequences, mut call: impl FnMut(usize, usize)) {
    for step in 0..sequences.steps() {
        let (active, start) = sequences.step(step);
        for (rank, &sequence) in sequences.ranked()[..active].iter().enumerate() {
            call(start + rank, sequences.memory_row(step, sequence));
        }
    }
}

/// Reads a pseudo layer's states `[B, width]`; missing ones are 0. Without room for them, reads nothing.
pub fn load_states<S: Stored>(
    sequences: &Sequences,
    pseudo_layer: usize,
    to: &mut [S::Number],
    from: Option<&[S]>,
    width: usize,
) {
    let Some(from) = from.filter(|_| !to.is_empty()) else {
        return to.fill(S::Number::default());
    };
    for (rank, &sequence) in sequences.ranked().iter().enumerate() {
        load(row_mut(to, rank, width), row(from, pseudo_layer * sequences.batch() + sequence, width));
    }
}

/// Writes a pseudo layer's states, if they are there and asked for.
pub fn store_states<S: Stored>(
    sequences: &Sequences,
    pseudo_layer: usize,
    to: Option<&mut [S]>,
    from: &[S::Number],
    width: usize,
) {
    let Some(to) = to.filter(|_| !from.is_empty()) else { return };
    for (rank, &sequence) in sequences.ranked().iter().enumerate() {
        store(row_mut(to, pseudo_layer * sequences.batch() + sequence, width), row(from, rank, width));
    }
}

/// Memory that is split off from its start.
pub struct Arena<'a, N>(pub &'a mut [N]);

impl<'a, N> Arena<'a, N> {
    pub fn take(&mut self, count: usize) -> &'a mut [N] {
        let (taken, rest) = std::mem::take(&mut self.0).split_at_mut(count);
        self.0 = rest;
        taken
    }
}

/// The sum of counts; `None` if it takes more bytes than memory has addresses for.
pub fn total(counts: impl IntoIterator<Item = Option<usize>>) -> Option<usize> {
    let sum = counts.into_iter().try_fold(0usize, |sum, count| sum.checked_add(count?))?;
    (sum <= isize::MAX as usize / 16).then_some(sum)
}
