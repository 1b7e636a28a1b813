//! A batch's arrays on the device.

use std::ffi::c_void;

use gpu::{Buffer, Device, Fence, Pinned, Stream};
use vertex::batch::{Arrays, Batch, Block, Maxima, Refused};
use vertex::function::MOST_FUNCTIONS;
use vertex::graphs::Graphs;

use super::net::Net;
use super::tasks::{Task, Zeros};
use crate::emit::{GraphArray, WORDS_OF_RANGE};

const ARRAYS: usize = GraphArray::EdgesByKind as usize + 1;

/// The length of each array, in the order of [`GraphArray`], for these numbers of vertices, edges, edges of children, rows
/// of the inputs, and rows that pull.
fn lengths([v, e, parents, pulled, pulling]: [usize; 5]) -> [usize; ARRAYS] {
    [v + 1, e, v, 2 * v, parents, v, v, e, v, e, pulled, pulling, v, e]
}

/// The rows of a launch. Twin of the struct in `kernels/dynamic/level.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    pub rows: *const c_void,
    pub edges: *const c_void,
    pub row_of_kind: i32,
    pub row_count: i32,
    pub row: i32,
    pub edge_of_kind: i32,
    pub edge_count: i32,
    pub edge: i32,
}

/// The numbers of 4 bytes of a range.
const OF_RANGE: usize = size_of::<Range>() / 4;

/// The numbers of a step of the path: those of a range behind its pointers, and the kind. Twin of the struct in
/// `kernels/dynamic/persistent.cuh`.
const OF_STEP: usize = OF_RANGE - OF_POINTERS + 1;
const OF_POINTERS: usize = 4;

impl Range {
    /// So many rows and edges, from the first one on.
    pub fn first(rows: usize, edges: usize) -> Self {
        let (row_count, edge_count) = (rows as i32, edges as i32);
        let (rows, edges) = (std::ptr::null(), std::ptr::null());
        Self { rows, edges, row_of_kind: 0, row_count, row: 0, edge_of_kind: 0, edge_count, edge: 0 }
    }

    /// The rows of a block.
    pub fn of_block(block: &Block) -> Self {
        Self {
            row_of_kind: block.row_of_kind as i32,
            row: block.row as i32,
            edge_of_kind: block.edge_of_kind as i32,
            edge: block.edge as i32,
            ..Self::first(block.rows, block.edges)
        }
    }

    /// The words of 8 bytes of a kernel's parameters: the range, and its place in a script.
    pub fn words(&self, script: *const c_void) -> [*const c_void; WORDS_OF_RANGE] {
        let Self { row_of_kind, row_count, row, edge_of_kind, edge_count, edge, .. } = *self;
        let word =
            |[low, high]: [i32; 2]| std::ptr::without_provenance(low as u32 as usize | (high as u32 as usize) << 32);
        let [first, second, third] = [[row_of_kind, row_count], [row, edge_of_kind], [edge_count, edge]].map(word);
        [self.rows, self.edges, first, second, third, script]
    }

    fn numbers(&self) -> [i32; OF_RANGE] {
        let halves = |pointer: *const c_void| [pointer.addr() as i32, (pointer.addr() >> 32) as i32];
        let [[a, b], [c, d]] = [halves(self.rows), halves(self.edges)];
        let Self { row_of_kind, row_count, row, edge_of_kind, edge_count, edge, .. } = *self;
        [a, b, c, d, row_of_kind, row_count, row, edge_of_kind, edge_count, edge]
    }
}

/// The ranges of a static batch's script: first the rows of the inputs, then all rows of each kind, then those of each
/// level and kind.
#[derive(Clone, Copy)]
struct Script {
    kinds: usize,
    levels: usize,
}

impl Script {
    fn of_kind(&self, kind: usize) -> usize {
        1 + kind
    }

    fn of_level(&self, level: usize, kind: usize) -> usize {
        1 + self.kinds * (1 + level) + kind
    }

    fn numbers(&self) -> Option<usize> {
        self.kinds.checked_mul(self.levels.checked_add(1)?)?.checked_add(1)?.checked_mul(OF_RANGE)
    }
}

/// A path that runs in one launch.
pub struct InOneLaunch {
    /// The net's configuration of it.
    pub configuration: usize,
    /// The steps of all groups.
    pub steps: *const c_void,
    /// The numbers of each group's.
    pub of_group: usize,
    /// The memory of the blocks' packets.
    pub exchange: *mut c_void,
}

/// The arrays of a batch on the device, with room for a net's maxima.
pub struct DeviceBatch {
    device: Device,
    pinned: Pinned,
    memory: Buffer,
    /// The end of the last copy.
    copied: Fence,
    /// The first number of each array.
    places: [usize; ARRAYS],
    /// Those that the net's kernels read, a bit each.
    arrays: u32,
    /// The arrays in the order of their places: first those that kernels read.
    order: [usize; ARRAYS],
    /// A static batch has each array where it always is, behind a script.
    script: Option<Script>,
    /// The first number of the steps of the path, if blocks run them in one launch, and the numbers of each group's.
    steps: Option<(usize, usize)>,
    /// The memory of these blocks' packets.
    exchange: Option<Buffer>,
    /// The configuration of the path, if it runs in one launch. All batches that a static one is set to run as the first one
    /// does.
    chosen: Option<usize>,
    /// The configuration whose packets lie in the exchange.
    exchanged: Option<usize>,
    /// The first number of the first array.
    first: usize,
    /// Of a static batch: the rows and edges of each level and kind when it was set first.
    expected: Vec<[usize; 2]>,
    /// The first row and edge of each kind in `RowsByKind` and `EdgesByKind`.
    of_kinds: [(usize, usize); MOST_FUNCTIONS],
    /// The stream of the last copy.
    stream: usize,
}

impl DeviceBatch {
    /// Allocates the memory on the net's device, for batches within these maxima. `None` if there is not so much. A
    /// captured run of a static batch runs whatever the batch holds when it is replayed.
    pub fn new(net: &Net, maxima: &Maxima) -> Option<Self> {
        let (device, kinds) = (net.device(), net.kinds());
        let script = net.is_static().then_some(Script { kinds, levels: maxima.levels });
        let mut count = script.map_or(Some(0), |script| script.numbers())?;
        let exchange = match net.exchange_bytes(maxima) {
            0 => None,
            // Without it, levels have launches.
            bytes => zeros(device, bytes),
        };
        let mut steps = None;
        if exchange.is_some() {
            let most = maxima.levels.saturating_mul(kinds).min(maxima.vertices);
            let of_group = most.checked_mul(OF_STEP)?.checked_add(2)?;
            steps = Some((count, of_group));
            count = of_group.checked_mul(net.most_groups())?.checked_add(count)?;
        }
        let first = count;
        let arrays = net.arrays();
        let mut order = std::array::from_fn(|array| array);
        order.sort_by_key(|array| arrays & 1 << array == 0);
        let Maxima { vertices, children, .. } = *maxima;
        let most = lengths([vertices, children, children, vertices, vertices]);
        count = most.iter().try_fold(count, |count, most| count.checked_add(*most))?;
        Some(Self {
            device,
            pinned: Pinned::new(device, count)?,
            memory: device.allocate(count.checked_mul(4)?)?,
            copied: Fence::default(),
            places: places(&order, first, &most),
            arrays,
            order,
            script,
            steps,
            exchange,
            chosen: None,
            exchanged: None,
            first,
            expected: vec![],
            of_kinds: [(0, 0); MOST_FUNCTIONS],
            stream: 0,
        })
    }

    /// Chooses how the path of this batch runs, and loads its kernels. Returns a number of groups: the caller deals the
    /// graphs to so many.
    fn choose(&mut self, net: &Net, batch: &Batch) -> usize {
        if self.expected.is_empty() {
            self.chosen = self.exchange.as_ref().and_then(|_| net.choose(batch));
            if net.is_static() {
                net.report(batch, self.chosen);
            }
        }
        self.chosen.map_or(1, |number| net.configurations[number])
    }

    /// Makes a batch of the net of these graphs, without the host's arrays, and copies its arrays in the stream's order. Waits
    /// for the last copy alone. Returns whether the copy was queued. After a refusal the batch is as it was.
    pub fn set(
        &mut self,
        net: &Net,
        batch: &mut Batch,
        graphs: &Graphs,
        ids: &[i64],
        stream: Stream,
    ) -> Result<bool, Refused> {
        batch.plan(net.net(), graphs, ids)?;
        let groups = self.choose(net, batch);
        if batch.groups() != groups {
            batch.deal_to(groups)?;
        }
        if !self.copied.wait() || !self.clear_exchange(net, &batch.maxima(), stream) {
            return Ok(false);
        }
        let count = self.write_arrays(net.kinds(), batch, graphs, ids);
        Ok(self.send(net.kinds(), batch, count, stream))
    }

    /// Writes the batch's arrays. Returns where those end that kernels read.
    fn write_arrays(&mut self, kinds: usize, batch: &mut Batch, graphs: &Graphs, ids: &[i64]) -> usize {
        use GraphArray::*;
        let (edges_of_children, pulling_rows) = (batch.edges_of_children(), batch.pulling_rows());
        let mut counts =
            lengths([batch.vertices(), batch.edges(), edges_of_children, batch.pulled_rows(), pulling_rows]);
        // What is made of other arrays, or of blocks, is left out if no kernel reads it.
        for array in [Children, RowOfEdge, PlaceOfRow, PlaceOfEdge, RowsByKind, EdgesByKind] {
            if self.arrays & 1 << array as u32 == 0 {
                counts[array as usize] = 0;
            }
        }
        if self.script.is_none() {
            self.places = places(&self.order, self.first, &counts);
        }
        let parts = parts_of(self.pinned.numbers(), &self.places, &self.order, &counts);
        let [
            first_edge,
            child,
            children,
            parents_of,
            parents,
            vertex,
            pulled,
            row_of_edge,
            place_of_row,
            place_of_edge,
            readers_end,
            readers,
            rows_by_kind,
            edges_by_kind,
        ] = parts;
        let parents_of = parents_of.as_chunks_mut().0;
        let row = None;
        let written = Arrays { first_edge, child, parents_of, parents, vertex, row, pulled, readers_end, readers };
        batch.write(graphs, ids, written);
        for (to, edges) in children.iter_mut().zip(first_edge.windows(2)) {
            let children = &child[edges[0] as usize..edges[1] as usize];
            *to = children.iter().map(|child| i32::from(*child >= 0)).sum();
        }
        if !row_of_edge.is_empty() {
            for (row, edges) in first_edge.windows(2).enumerate() {
                row_of_edge[edges[0] as usize..edges[1] as usize].fill(row as i32);
            }
        }
        // Blocks follow each other by rows and by edges.
        let all = || batch.blocks().iter();
        count_in_turn(place_of_row, all().map(|block| (block.row_of_kind, block.rows)));
        count_in_turn(place_of_edge, all().map(|block| (block.edge_of_kind, block.edges)));
        let by_kind = || (0..kinds).flat_map(|kind| batch.blocks_of(kind));
        count_in_turn(rows_by_kind, by_kind().map(|block| (block.row, block.rows)));
        count_in_turn(edges_by_kind, by_kind().map(|block| (block.edge, block.edges)));
        let last = self.order[self.arrays.count_ones() as usize - 1];
        self.places[last] + counts[last]
    }

    /// Writes the script and the steps, and copies the first `count` numbers.
    fn send(&mut self, kinds: usize, batch: &Batch, count: usize, stream: Stream) -> bool {
        let mut first = (0, 0);
        for (kind, of_kind) in self.of_kinds[..kinds].iter_mut().enumerate() {
            let (rows, edges) = batch.of_kind(kind);
            (*of_kind, first) = (first, (first.0 + rows, first.1 + edges));
        }
        if let Some(script) = self.script {
            if self.expected.is_empty() {
                self.expected.resize(script.levels * script.kinds, [0; 2]);
                for block in batch.blocks() {
                    self.expected[block.level * script.kinds + block.kind] = [block.rows, block.edges];
                }
            }
            self.write(script, batch);
        }
        if let Some((first, of_group)) = self.steps {
            let groups = self.pinned.numbers()[first..].chunks_exact_mut(of_group).take(batch.groups());
            for (group, numbers) in groups.enumerate() {
                let (head, steps) = numbers.split_at_mut(2);
                head[0] = 0;
                for (to, block) in steps.chunks_exact_mut(OF_STEP).zip(batch.blocks_of_group(group)) {
                    to[..OF_STEP - 1].copy_from_slice(&Range::of_block(&block).numbers()[OF_POINTERS..]);
                    to[OF_STEP - 1] = block.kind as i32;
                    head[0] += 1;
                }
            }
        }
        self.stream = stream.addr();
        // SAFETY: the memory has room for as many numbers as the pinned one, which is not written before the fence.
        let is_sent = unsafe { self.pinned.send(self.memory.data(), count, stream) };
        self.copied.launched(self.device, stream);
        is_sent
    }

    /// Clears the exchange if another configuration's packets lie there: their epochs mean nothing to this one. Returns
    /// false if that failed.
    fn clear_exchange(&mut self, net: &Net, maxima: &Maxima, stream: Stream) -> bool {
        let (Some(chosen), Some(exchange)) = (self.chosen, &self.exchange) else { return true };
        let before = self.exchanged;
        // SAFETY: the memory is as long, and the stream has its users before this launch or behind it.
        let clear = || unsafe {
            let zeros = Zeros { to: exchange.data(), bytes: net.exchange_bytes(maxima) };
            net.library.run(stream, &[Task::Zeros(zeros)], net.tf32)
        };
        let is_clear = before.is_none_or(|before| before == chosen) || clear().is_ok();
        if is_clear {
            self.exchanged = Some(chosen);
        }
        is_clear
    }

    fn write(&mut self, script: Script, batch: &Batch) {
        let of_kinds: [Range; MOST_FUNCTIONS] = std::array::from_fn(|kind| match kind < script.kinds {
            true => self.all_of(batch, kind),
            false => Range::first(0, 0),
        });
        let mut ranges = self.pinned.numbers().chunks_exact_mut(OF_RANGE);
        let inputs = Range::first(batch.pulled_rows(), 0);
        for (to, range) in ranges.by_ref().zip([inputs].iter().chain(&of_kinds[..script.kinds])) {
            to.copy_from_slice(&range.numbers());
        }
        let ranges = self.pinned.numbers()[script.of_level(0, 0) * OF_RANGE..].chunks_exact_mut(OF_RANGE);
        let mut blocks = batch.blocks().iter().peekable();
        for (place, to) in ranges.take(script.kinds * script.levels).enumerate() {
            let block = blocks.next_if(|block| block.level * script.kinds + block.kind == place);
            to.copy_from_slice(&block.map_or(Range::first(0, 0), Range::of_block).numbers());
        }
        debug_assert!(blocks.next().is_none(), "blocks are levels' of kinds, in their order");
    }

    /// Waits for the copy if it was queued on another stream. Returns false if the wait failed.
    pub fn is_there_on(&self, stream: Stream) -> bool {
        self.stream == stream.addr() || self.copied.wait()
    }

    /// An array of the batch.
    pub fn array(&self, array: GraphArray) -> *const c_void {
        self.number(self.places[array as usize])
    }

    fn number(&self, place: usize) -> *const c_void {
        self.memory.data().cast::<i32>().wrapping_add(place).cast_const().cast()
    }

    /// All rows of a kind, by their list.
    pub fn all_of(&self, batch: &Batch, kind: usize) -> Range {
        let (rows, edges) = batch.of_kind(kind);
        let (row, edge) = self.of_kinds[kind];
        let list = |array: GraphArray, first: usize| self.number(self.places[array as usize] + first);
        let (row_list, edge_list) = (list(GraphArray::RowsByKind, row), list(GraphArray::EdgesByKind, edge));
        Range { rows: row_list, edges: edge_list, ..Range::first(rows, edges) }
    }

    /// The path in one launch, if it runs so.
    pub fn path(&self) -> Option<InOneLaunch> {
        let (configuration, exchange) = (self.chosen?, self.exchange.as_ref()?.data());
        let (first, of_group) = self.steps?;
        Some(InOneLaunch { configuration, steps: self.number(first), of_group, exchange })
    }

    /// The range in a static batch's script of the rows of the inputs; null for another batch.
    pub fn inputs_in_script(&self) -> *const c_void {
        self.script.map_or(std::ptr::null(), |_| self.number(0))
    }

    /// Likewise of all rows of a kind.
    pub fn kind_in_script(&self, kind: usize) -> *const c_void {
        self.script.map_or(std::ptr::null(), |script| self.number(script.of_kind(kind) * OF_RANGE))
    }

    /// The rows and edges of a kind in a level that launches of a static batch are made for: those of the batch that was
    /// set first. All runs then launch the same, so that a replay has the bits of any other run.
    pub fn expected(&self, level: usize, kind: usize) -> [usize; 2] {
        let place = |script: Script| self.expected.get(level * script.kinds + kind);
        self.script.and_then(place).copied().unwrap_or_default()
    }

    /// Likewise all rows and edges of a kind.
    pub fn expected_of_kind(&self, kind: usize) -> [usize; 2] {
        let kinds = self.script.map_or(1, |script| script.kinds);
        let of_levels = self.expected.iter().skip(kind).step_by(kinds);
        of_levels.fold([0; 2], |[rows, edges], its| [rows + its[0], edges + its[1]])
    }

    /// Likewise of the rows of a kind in a level.
    pub fn level_in_script(&self, level: usize, kind: usize) -> *const c_void {
        self.script.map_or(std::ptr::null(), |script| self.number(script.of_level(level, kind) * OF_RANGE))
    }
}

/// Memory of zeros.
fn zeros(device: Device, bytes: usize) -> Option<Buffer> {
    let (memory, stream) = (device.allocate(bytes)?, device.stream()?);
    let zeros = vec![0; bytes.min(1 << 20)];
    for first in (0..bytes).step_by(zeros.len()) {
        let part = &zeros[..zeros.len().min(bytes - first)];
        // SAFETY: the memory is as long, and nobody else knows it.
        if !unsafe { device.write(memory.data().wrapping_byte_add(first), part, stream.raw()) } {
            return None;
        }
    }
    Some(memory)
}

/// The places of arrays of these lengths, behind each other in this order.
fn places(order: &[usize; ARRAYS], first: usize, counts: &[usize; ARRAYS]) -> [usize; ARRAYS] {
    let (mut places, mut end) = ([0; ARRAYS], first);
    for array in order {
        places[*array] = end;
        end += counts[*array];
    }
    places
}

/// The arrays among the numbers.
fn parts_of<'a>(
    numbers: &'a mut [i32],
    places: &[usize; ARRAYS],
    order: &[usize; ARRAYS],
    counts: &[usize; ARRAYS],
) -> [&'a mut [i32]; ARRAYS] {
    let mut parts = [(); ARRAYS].map(|()| Default::default());
    let (mut rest, mut begin) = (numbers, 0);
    for array in *order {
        let (its, behind) = rest.split_at_mut(places[array] - begin).1.split_at_mut(counts[array]);
        (parts[array], rest, begin) = (its, behind, places[array] + counts[array]);
    }
    parts
}

/// Writes ranges behind each other, each of which has a first number and a length. Ends where there is no room for one.
fn count_in_turn(mut to: &mut [i32], ranges: impl Iterator<Item = (usize, usize)>) {
    for (first, count) in ranges {
        let Some((its, behind)) = to.split_at_mut_checked(count) else { return };
        its.iter_mut().zip(first as i32..).for_each(|(to, number)| *to = number);
        to = behind;
    }
}
