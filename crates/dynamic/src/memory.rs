//! The memory of a run: the places of frames, states and gradients in the caller's workspace and reserve.

use vertex::function::{Declaration, MOST_FUNCTIONS, MOST_PARAMETERS, MOST_PULLS_AND_PUSHES, MOST_STATES};
use vertex::passes::{Extent, FRAMES, Frame, Pass, Passes, Place, Work};
use vertex::stages::Way;

use crate::batched::slices::Slices;
use crate::emit::is_in_float;

/// The bytes of memory that a run takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// For the time of a run.
    pub workspace: usize,
    /// From the run forward to the run backward.
    pub reserve: usize,
}

/// Parts of a memory begin at multiples of this.
pub const APART: usize = 256;

/// The rows of a frame are a multiple of this, so that each value in it is aligned for quads.
const ROWS: usize = 8;

/// Products of many rows have a multiple of these, so that they have few shapes: cublasLt prepares each.
pub const ROWS_OF_PRODUCTS: usize = 64;

/// The places of all parts, in bytes from the beginning of the workspace or of the reserve.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The frames of each kind: the place, and the rows.
    frames: [[(usize, usize); 2 * FRAMES]; MOST_FUNCTIONS],
    /// The states.
    pub states: [usize; MOST_STATES],
    /// Backward: the gradients of states by edges.
    pub given: [usize; MOST_STATES],
    /// Backward: the gradients of inputs by rows.
    pub pull_gradients: [usize; MOST_PULLS_AND_PUSHES],
    /// Backward: the gradients of parameters in float, unless that is the tensors' type.
    pub sums: [usize; MOST_PARAMETERS],
    /// Backward: the gradients of parameters by slices of rows, unless there is one slice in all.
    pub parts: [usize; MOST_PARAMETERS],
    /// Backward: the rows of tables that rows of kinds name, one pass behind the other: see [`index_passes`].
    pub indices: usize,
    /// Backward: how sums into gradients are cut.
    pub slices: Slices,
    /// Backward: transposed parameters.
    pub transposed: [usize; MOST_PARAMETERS],
    pub bytes: Bytes,
}

/// The inputs of the layout.
pub struct Sizes<'a> {
    pub declaration: &'a Declaration,
    /// The bytes of a tensor's element.
    pub element: usize,
    pub is_training: bool,
    /// The parameters that some pass transposes, a bit each.
    pub transposed: u64,
    pub extents: &'a [Extent],
    pub vertices: usize,
    pub edges: usize,
}

fn take(end: &mut usize, bytes: usize) -> usize {
    let place = *end;
    *end = end.saturating_add(bytes.checked_next_multiple_of(APART).unwrap_or(usize::MAX));
    place
}

/// The passes of all kinds, each with its kind's extent.
fn passes<'a>(kinds: &'a [Passes], extents: &'a [Extent]) -> impl Iterator<Item = (&'a Work, &'a Extent)> {
    let kinds = kinds.iter().zip(extents);
    kinds.flat_map(|(kind, extent)| kind.all().map(move |pass| (&pass.work, extent)))
}

/// The slices of all sums into the gradient of a parameter.
fn parts_of(parameter: usize, kinds: &[Passes], extents: &[Extent], slices: Slices) -> usize {
    let of_pass = |(work, extent): (&Work, &Extent)| match work {
        Work::Accumulate { parameter: its, dy, .. } | Work::AccumulateBias { parameter: its, dy }
            if *its == parameter =>
        {
            slices.of(if dy.is_of_children { extent.edges } else { extent.rows })
        }
        _ => 0,
    };
    passes(kinds, extents).map(of_pass).sum()
}

/// The passes that add rows to those of a table: the kind of each, the pass, and the number of its first index among those
/// of all.
pub fn index_passes<'a>(kinds: &'a [Passes], extents: &'a [Extent]) -> impl Iterator<Item = (usize, &'a Pass, usize)> {
    let all = kinds.iter().enumerate().flat_map(|(kind, passes)| passes.all().map(move |pass| (kind, pass)));
    let of_tables = all.filter(|(_, pass)| matches!(pass.work, Work::AccumulateRow { .. }));
    of_tables.scan(0, |end, (kind, pass)| {
        let first = *end;
        *end += extents[kind].rows;
        Some((kind, pass, first))
    })
}

impl Layout {
    /// The layout of a run that way.
    pub fn new(sizes: &Sizes, kinds: &[Passes], way: Way) -> Self {
        let Sizes { declaration, element, is_training, transposed, extents, vertices, edges } = *sizes;
        let mut layout = Self {
            frames: [[(0, 0); 2 * FRAMES]; MOST_FUNCTIONS],
            states: [0; MOST_STATES],
            given: [0; MOST_STATES],
            pull_gradients: [0; MOST_PULLS_AND_PUSHES],
            sums: [0; MOST_PARAMETERS],
            parts: [0; MOST_PARAMETERS],
            indices: 0,
            slices: Slices::new(kinds),
            transposed: [0; MOST_PARAMETERS],
            bytes: Bytes::default(),
        };
        let Bytes { workspace, reserve } = &mut layout.bytes;
        let of_states = if is_training { &mut *reserve } else { &mut *workspace };
        for (state, width) in layout.states.iter_mut().zip(&declaration.states) {
            *state = take(of_states, vertices.saturating_mul(width * element));
        }
        for ((frames, passes), extent) in layout.frames.iter_mut().zip(kinds).zip(extents) {
            for (number, frame) in frames.iter_mut().enumerate() {
                // Products read and write after the last row.
                let rows = extent.rows_of_frame(number).next_multiple_of(ROWS).saturating_add(ROWS_OF_PRODUCTS);
                let of_element = if is_in_float(FRAME[number % FRAMES]) { size_of::<f32>() } else { element };
                let memory = match FRAME[number % FRAMES] {
                    Frame::Kept => &mut *reserve,
                    _ => &mut *workspace,
                };
                *frame = (take(memory, rows.saturating_mul(passes.strides[number] * of_element)), rows);
            }
        }
        if way == Way::Backward {
            for (given, width) in layout.given.iter_mut().zip(&declaration.states) {
                *given = take(workspace, edges.saturating_mul(width * size_of::<f32>()));
            }
            for (gradients, width) in layout.pull_gradients.iter_mut().zip(&declaration.pulls) {
                *gradients = take(workspace, vertices.saturating_mul(width * size_of::<f32>()));
            }
            let indices: usize = index_passes(kinds, extents).map(|(kind, ..)| extents[kind].rows).sum();
            layout.indices = take(workspace, indices.saturating_mul(size_of::<i32>()));
            for (parameter, size) in declaration.parameters.iter().enumerate() {
                if element != size_of::<f32>() {
                    layout.sums[parameter] = take(workspace, size.elements() * size_of::<f32>());
                }
                let parts = parts_of(parameter, kinds, extents, layout.slices);
                if parts > 1 {
                    layout.parts[parameter] = take(workspace, parts.saturating_mul(size.elements() * size_of::<f32>()));
                }
                if transposed & 1 << parameter != 0 {
                    layout.transposed[parameter] = take(workspace, size.elements() * element);
                }
            }
        }
        layout
    }

    /// Where a row of a place lies: the bytes from the beginning of its memory.
    pub fn of_row(&self, kind: usize, place: Place, row: usize, element: usize) -> usize {
        let (first, rows) = self.frames[kind][place.number()];
        let of_element = if is_in_float(place.frame) { size_of::<f32>() } else { element };
        first + (rows * place.offset + row * place.width) * of_element
    }
}

/// The frames by number.
const FRAME: [Frame; FRAMES] = [Frame::Kept, Frame::WholeIn, Frame::WholeOut, Frame::BlockIn, Frame::BlockOut];
