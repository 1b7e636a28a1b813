//! Passes of several kinds beside each other: before and after the path, kinds need nothing of each other, so their passes
//! are parts of one kernel.

use std::fmt::Write;

use vertex::passes::{Passes, Work};
use vertex::stages::Stage;

use super::{MOST_POINTERS, Pointer, Shape, Text, members};

/// The passes of a stage, each a kind and a place, in the order in which they run: those of one turn need nothing of each
/// other, and run beside each other. On the path, levels have a kind each, and so have turns.
pub fn turns(kinds: &[Passes], stage: Stage) -> Vec<Vec<(usize, usize)>> {
    let passes = |kind: usize| &kinds[kind].stages[stage as usize];
    if stage == Stage::Path {
        return (0..kinds.len())
            .flat_map(|kind| (0..passes(kind).len()).map(move |place| vec![(kind, place)]))
            .collect();
    }
    let (mut next, mut turns) = (vec![0; kinds.len()], vec![]);
    loop {
        let left = || (0..kinds.len()).filter(|kind| next[*kind] < passes(*kind).len());
        let has_kernel = |kind: &usize| {
            matches!(
                passes(*kind)[next[*kind]].work,
                Work::Rows { .. } | Work::Reduce { .. } | Work::MaxGradient { .. }
            )
        };
        let with_kernel: Vec<_> = left().filter(has_kernel).collect();
        let members = if with_kernel.is_empty() { left().collect() } else { with_kernel };
        if members.is_empty() {
            return turns;
        }
        turns.push(members.iter().map(|kind| (*kind, next[*kind])).collect());
        members.iter().for_each(|kind| next[*kind] += 1);
    }
}

/// A kernel of a pass: a part of one that runs passes of several kinds beside each other.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name in the source.
    pub name: String,
    /// How many parts there are.
    pub parts: usize,
    /// Where the part's parameters begin, in words of 8 bytes: a range, a script, and the pointers.
    pub first_word: usize,
    /// These pointers.
    pub pointers: Vec<Pointer>,
    /// The most dynamic shared memory of a part.
    pub shared_bytes: usize,
    /// Those of which it reads or writes four neighbours at once.
    pub arrays_of_fours: Vec<Pointer>,
    /// It runs for edges.
    pub is_of_children: bool,
    /// The threads for a row: elements, fours of them, or a warp.
    pub threads_of_row: usize,
    /// It is fused: it does the work of the next passes too.
    pub fused: Option<Shape>,
}

/// The words of 8 bytes of a part's parameters before its pointers: a range and a script.
pub const WORDS_OF_RANGE: usize = 6;

/// Kernels of passes that become parts of one.
pub struct Group {
    name: String,
    parts: Vec<((usize, usize), Kernel)>,
    done: Vec<((usize, usize), Kernel)>,
    words: usize,
}

impl Group {
    pub fn new(name: String) -> Self {
        Self { name, parts: vec![], done: vec![], words: 0 }
    }

    /// Adds the pass of a kind. Parts that have no room in the parameters begin another kernel.
    pub fn add(
        &mut self,
        to: &mut String,
        pass: (usize, usize),
        text: &Text,
        (is_of_children, threads_of_row): (bool, usize),
        fused: Option<Shape>,
    ) {
        let words = WORDS_OF_RANGE + text.pointers.len();
        if self.words + words > MOST_POINTERS + WORDS_OF_RANGE {
            self.close(to);
        }
        let name = if self.done.is_empty() { self.name.clone() } else { format!("{}_{}", self.name, self.done.len()) };
        let part = self.parts.len();
        let _ = write!(
            to,
            "\nstruct {name}_{part} {{ Range range; const Range *script;{} }};\n\
             __device__ __forceinline__ void run_{name}_{part}(const {name}_{part} &it) {{\n    \
             const Range at = it.script ? *it.script : it.range;\n{}}}\n",
            members(&text.pointers),
            text.body
        );
        let kernel = Kernel {
            name,
            parts: 0,
            first_word: self.words,
            pointers: text.pointers.clone(),
            shared_bytes: fused.map_or(0, |shape| shape.shared_bytes),
            arrays_of_fours: text.arrays_of_fours.clone(),
            is_of_children,
            threads_of_row,
            fused,
        };
        self.parts.push((pass, kernel));
        self.words += words;
    }

    /// Writes the kernel of the parts so far.
    fn close(&mut self, to: &mut String) {
        let Some((_, first)) = self.parts.first() else { return };
        let (name, parts) = (first.name.clone(), self.parts.len());
        let structs: String = (0..parts).map(|part| format!(" {name}_{part} part_{part};")).collect();
        let runs = (0..parts)
            .map(|part| format!("    if (blockIdx.z == {part}) run_{name}_{part}(parameters.part_{part});\n"));
        let _ = write!(
            to,
            "\nstruct {name}_parameters {{{structs} }};\n\nKERNEL({name}, {name}_parameters) {{\n{}}}\n",
            runs.collect::<String>()
        );
        let most_shared = self.parts.iter().map(|(_, kernel)| kernel.shared_bytes).max().unwrap_or(0);
        for (_, kernel) in &mut self.parts {
            (kernel.parts, kernel.shared_bytes) = (parts, most_shared);
        }
        self.done.append(&mut self.parts);
        self.words = 0;
    }

    /// The kernels of all passes.
    pub fn finish(mut self, to: &mut String) -> Vec<((usize, usize), Kernel)> {
        self.close(to);
        self.done
    }
}
