//! A batch's arrays on the device.

use std::ffi::c_void;

use gpu::{Buffer, Device, Fence, Pinned, Stream};
use vertex::batch::{Batch, Maxima};
use vertex::function::MOST_FUNCTIONS;

use crate::emit::GraphArray;

/// The arrays that only launches name, behind those of [`GraphArray`].
#[derive(Clone, Copy)]
pub enum MoreArrays {
    /// The end of each input row's part of `Readers`.
    ReadersEnd = GraphArray::PlaceOfEdge as isize + 1,
    /// Rows that pull.
    Readers,
    /// The rows of each kind.
    RowsByKind,
    /// The edges of each kind.
    EdgesByKind,
}

const ARRAYS: usize = MoreArrays::EdgesByKind as usize + 1;

/// The arrays of a batch on the device, with room for a net's maxima.
pub struct DeviceBatch {
    device: Device,
    pinned: Pinned,
    memory: Buffer,
    /// The end of the last copy.
    copied: Fence,
    /// The first number of each array.
    first: [usize; ARRAYS],
    /// The first row and edge of each kind in `RowsByKind` and `EdgesByKind`.
    of_kinds: [(usize, usize); MOST_FUNCTIONS],
    /// The stream of the last copy.
    stream: usize,
}

impl DeviceBatch {
    /// Allocates the memory on the calling thread's device. `None` if there is not so much.
    pub fn new(device: Device, maxima: &Maxima) -> Option<Self> {
        let of_rows = maxima.vertices.checked_mul(8)?.checked_add(2)?;
        let count = maxima.children.checked_mul(5)?.checked_add(of_rows + maxima.vertices)?;
        Some(Self {
            device,
            pinned: Pinned::new(device, count)?,
            memory: device.allocate(count.checked_mul(4)?)?,
            copied: Fence::default(),
            first: [0; ARRAYS],
            of_kinds: [(0, 0); MOST_FUNCTIONS],
            stream: 0,
        })
    }

    /// Copies a batch of a net with `kinds` functions, in the stream's order. Waits for the last copy alone. Returns
    /// whether the copy was queued.
    pub fn set(&mut self, batch: &Batch, kinds: usize, stream: Stream) -> bool {
        if !self.copied.wait() {
            return false;
        }
        let (vertices, edges) = (batch.vertices(), batch.edges());
        let arrays = batch.arrays();
        let mut writer = Writer { numbers: self.pinned.numbers(), end: 0 };
        use GraphArray::*;
        let mut first = [0; ARRAYS];
        let mut place = |array: usize, of: &mut Writer| first[array] = of.end;
        place(FirstEdge as usize, &mut writer);
        writer.add(arrays.first_edge.iter().map(|edge| *edge as i32));
        place(Child as usize, &mut writer);
        writer.add(arrays.child.iter().copied());
        place(Children as usize, &mut writer);
        let children_of = |edges: &[u32]| {
            let children = &arrays.child[edges[0] as usize..edges[1] as usize];
            children.iter().map(|child| i32::from(*child >= 0)).sum()
        };
        writer.add(arrays.first_edge.windows(2).map(children_of));
        place(ParentsOf as usize, &mut writer);
        writer.add(arrays.parents_of.iter().flat_map(|(first, end)| [*first as i32, *end as i32]));
        place(Parents as usize, &mut writer);
        writer.add(arrays.parents.iter().map(|edge| *edge as i32));
        place(Vertex as usize, &mut writer);
        writer.add(arrays.vertex.iter().map(|vertex| *vertex as i32));
        place(Pulled as usize, &mut writer);
        writer.add(arrays.pulled.iter().copied());
        place(RowOfEdge as usize, &mut writer);
        let slots = arrays.first_edge.windows(2).map(|edges| (edges[1] - edges[0]) as usize);
        writer.add(slots.enumerate().flat_map(|(row, slots)| std::iter::repeat_n(row as i32, slots)));
        // Blocks follow each other by rows and by edges.
        place(PlaceOfRow as usize, &mut writer);
        for block in batch.blocks() {
            writer.add((block.row_of_kind..block.row_of_kind + block.rows).map(|place| place as i32));
        }
        place(PlaceOfEdge as usize, &mut writer);
        for block in batch.blocks() {
            writer.add((block.edge_of_kind..block.edge_of_kind + block.edges).map(|place| place as i32));
        }
        place(MoreArrays::ReadersEnd as usize, &mut writer);
        writer.add(arrays.readers_end.iter().map(|end| *end as i32));
        place(MoreArrays::Readers as usize, &mut writer);
        writer.add(arrays.readers.iter().map(|row| *row as i32));
        place(MoreArrays::RowsByKind as usize, &mut writer);
        let (mut rows, mut edges_before) = (0, 0);
        for (kind, of_kind) in self.of_kinds[..kinds].iter_mut().enumerate() {
            *of_kind = (rows, edges_before);
            let (its_rows, its_edges) = batch.of_kind(kind);
            (rows, edges_before) = (rows + its_rows, edges_before + its_edges);
            for block in batch.blocks_of(kind) {
                writer.add((block.row..block.row + block.rows).map(|row| row as i32));
            }
        }
        place(MoreArrays::EdgesByKind as usize, &mut writer);
        for kind in 0..kinds {
            for block in batch.blocks_of(kind) {
                writer.add((block.edge..block.edge + block.edges).map(|edge| edge as i32));
            }
        }
        debug_assert_eq!((rows, edges_before), (vertices, edges));
        let count = writer.end;
        self.first = first;
        self.stream = stream.addr();
        // SAFETY: the memory has room for as many numbers as the pinned one, which is not written before the fence.
        let is_sent = unsafe { self.pinned.send(self.memory.data(), count, stream) };
        self.copied.launched(self.device, stream);
        is_sent
    }

    /// Waits for the copy if it was queued on another stream. Returns false if the wait failed.
    pub fn is_there_on(&self, stream: Stream) -> bool {
        self.stream == stream.addr() || self.copied.wait()
    }

    /// An array of the batch.
    pub fn array(&self, array: usize) -> *const c_void {
        self.memory.data().cast::<i32>().wrapping_add(self.first[array]).cast_const().cast()
    }

    /// The lists of a kind's rows and edges.
    pub fn lists(&self, kind: usize) -> [*const c_void; 2] {
        let (row, edge) = self.of_kinds[kind];
        let list =
            |array: MoreArrays, first: usize| self.array(array as usize).cast::<i32>().wrapping_add(first).cast();
        [list(MoreArrays::RowsByKind, row), list(MoreArrays::EdgesByKind, edge)]
    }
}

struct Writer<'a> {
    numbers: &'a mut [i32],
    end: usize,
}

impl Writer<'_> {
    fn add(&mut self, numbers: impl Iterator<Item = i32>) {
        let mut count = 0;
        for (to, number) in self.numbers[self.end..].iter_mut().zip(numbers) {
            *to = number;
            count += 1;
        }
        self.end += count;
    }
}
