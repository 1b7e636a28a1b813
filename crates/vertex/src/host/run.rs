//! Runs forward and backward.

use super::memory::{Frames, take_frames, take_states};
use super::product::{self, Rows, RowsMut};
use super::real::Real;
use super::rows::{Context, FramePart, Part, Pull, RowPass, max_gradient, reduce};
use super::{Executor, Gradients, Inputs, Memory, Refused};
use crate::batch::{Batch, Block};
use crate::function::{MOST_FUNCTIONS, MOST_PARAMETERS, MOST_STATES};
use crate::passes::{Extent, FRAMES, Passes, Place, Purpose, Work, is_of_block};
use crate::stages::{Stage, Way};

/// One run of a batch.
struct Run<'a, C> {
    executor: &'a Executor,
    batch: &'a Batch,
    inputs: Inputs<'a, C>,
    push_gradients: &'a [&'a [C]],
    way: Way,
    threads: usize,
    wanted: Purpose,
    round: fn(C) -> C,
    frames: Frames<'a, C>,
    states: [FramePart<'a, C>; MOST_STATES],
    /// The gradient of each state that is given along each edge.
    given: [FramePart<'a, C>; MOST_STATES],
    scratch: &'a mut [C],
}

/// Rows of a kind that run together.
#[derive(Clone, Copy)]
struct Range {
    kind: usize,
    /// The first row and edge of the kind, and how many.
    row: usize,
    rows: usize,
    edge: usize,
    edges: usize,
}

/// The gradients of parameters: those that this run has written already are added to.
struct Sums<'a, 'b, C> {
    gradients: &'a mut [Option<&'b mut [C]>],
    is_there: [bool; MOST_PARAMETERS],
}

impl Executor {
    /// Runs a batch forward, with tensors in the type that they are computed in. `round` rounds a state.
    pub(super) fn run_forward<C: Real>(
        &self,
        batch: &Batch,
        inputs: Inputs<C>,
        pushes: &mut [Option<&mut [C]>],
        memory: (&mut [C], &mut [C]),
        round: fn(C) -> C,
    ) -> Result<(), Refused> {
        self.check(batch, &inputs, Memory { workspace: memory.0.len(), reserve: memory.1.len() })?;
        let widths = &self.net().declaration().pushes;
        check_wanted("output", widths.iter().map(|width| width * batch.vertices()), pushes)?;
        self.threads.run(|threads| {
            let mut run = Run::new(self, batch, inputs, Way::Forward, memory, threads, round);
            run.stages(None);
            for (output, push) in pushes.iter_mut().enumerate() {
                if let Some(push) = push {
                    run.push(output, push);
                }
            }
        });
        Ok(())
    }

    /// Runs a batch backward likewise.
    pub(super) fn run_backward<C: Real>(
        &self,
        batch: &Batch,
        inputs: Inputs<C>,
        gradients: Gradients<C>,
        memory: (&mut [C], &mut [C]),
    ) -> Result<(), Refused> {
        if !self.is_training() {
            return Err(Refused("the net was made without training".into()));
        }
        self.check(batch, &inputs, Memory { workspace: memory.0.len(), reserve: memory.1.len() })?;
        let declaration = self.net().declaration();
        let Gradients { pushes, pulls, parameters, accumulates } = gradients;
        let of_pushes = declaration.pushes.iter().zip(pushes);
        let wanted = of_pushes.map(|(width, push)| if push.is_empty() { 0 } else { width * batch.vertices() });
        check_lengths("the gradient of output", wanted, pushes.iter().map(|push| push.len()))?;
        if pushes.len() != declaration.pushes.len() {
            return Err(Refused(format!("{} gradients of outputs for {}", pushes.len(), declaration.pushes.len())));
        }
        let all_pulls = declaration.pulls.iter().map(|width| width * batch.pulled_rows());
        check_wanted("the gradient of input", all_pulls, pulls)?;
        check_wanted(
            "the gradient of parameter",
            declaration.parameters.iter().map(|size| size.elements()),
            parameters,
        )?;
        let mut wanted = Purpose::default();
        bits(parameters, &mut wanted.parameters);
        bits(pulls, &mut wanted.pulls);
        self.threads.run(|threads| {
            let mut run = Run::new(self, batch, inputs, Way::Backward, memory, threads, |number| number);
            (run.push_gradients, run.wanted) = (pushes, wanted);
            let mut sums = Sums { gradients: parameters, is_there: [accumulates; MOST_PARAMETERS] };
            run.stages(Some(&mut sums));
            sums.finish();
            for (input, pull) in pulls.iter_mut().enumerate() {
                if let Some(pull) = pull {
                    run.pull_gradient(input, pull);
                }
            }
        });
        Ok(())
    }

    fn check<C: Real>(&self, batch: &Batch, inputs: &Inputs<C>, given: Memory) -> Result<(), Refused> {
        if batch.graphs() == 0 {
            return Err(Refused("the batch was not set yet".into()));
        }
        let needed = self.memory_of_batch(batch);
        for (what, given, needed) in
            [("workspace", given.workspace, needed.workspace), ("reserve", given.reserve, needed.reserve)]
        {
            if given < needed {
                return Err(Refused(format!("the {what} has {given} numbers; the batch needs {needed}")));
            }
        }
        let declaration = self.net().declaration();
        let sizes = declaration.parameters.iter().map(|size| size.elements());
        check_lengths("parameter", sizes, inputs.parameters.iter().map(|its| its.len()))?;
        let rows = batch.pulled_rows();
        let lengths = inputs.pulls.iter().map(|pull| match pull {
            Pull::Rows(rows) => rows.len(),
            Pull::Indices(indices) => indices.len(),
        });
        check_lengths("input", declaration.pulls.iter().map(|width| rows * (*width).max(1)), lengths)?;
        for (input, (width, pull)) in declaration.pulls.iter().zip(inputs.pulls).enumerate() {
            match pull {
                Pull::Indices(_) if *width > 0 => {
                    return Err(Refused(format!("input {input} is of indices; rows of {width} numbers are accepted")));
                }
                Pull::Rows(_) if *width == 0 => {
                    return Err(Refused(format!("input {input} is of rows; indices are accepted")));
                }
                _ => {}
            }
        }
        self.check_indices(inputs)
    }

    /// Indices are in the tables that they look up.
    fn check_indices<C>(&self, inputs: &Inputs<C>) -> Result<(), Refused> {
        let declaration = self.net().declaration();
        for (input, parameter) in self.net().lookups() {
            let rows = declaration.parameters[parameter].rows;
            let Pull::Indices(indices) = inputs.pulls[input] else { continue };
            if let Some(place) = indices.iter().position(|index| !(0..rows as i64).contains(index)) {
                let (index, last) = (indices[place], rows - 1);
                let why = format!("input {input}, row {place}: index {index} of parameter {parameter}");
                return Err(Refused(format!("{why}; 0 to {last} are accepted")));
            }
        }
        Ok(())
    }
}

fn bits<T>(wanted: &[Option<T>], to: &mut u64) {
    *to = wanted.iter().enumerate().filter(|(_, its)| its.is_some()).fold(0, |bits, (place, _)| bits | 1 << place);
}

fn check_lengths(
    what: &str,
    wanted: impl ExactSizeIterator<Item = usize>,
    given: impl ExactSizeIterator<Item = usize>,
) -> Result<(), Refused> {
    if wanted.len() != given.len() {
        return Err(Refused(format!("{} of {what}s for {}", given.len(), wanted.len())));
    }
    for (number, (wanted, given)) in wanted.zip(given).enumerate() {
        if wanted != given {
            return Err(Refused(format!("{what} {number} has {given} numbers, not {wanted}")));
        }
    }
    Ok(())
}

fn check_wanted<C>(
    what: &str,
    sizes: impl ExactSizeIterator<Item = usize>,
    given: &[Option<&mut [C]>],
) -> Result<(), Refused> {
    if sizes.len() != given.len() {
        return Err(Refused(format!("{} of {what}s for {}", given.len(), sizes.len())));
    }
    for (number, (size, given)) in sizes.zip(given).enumerate() {
        if let Some(given) = given.as_ref().filter(|given| given.len() != size) {
            return Err(Refused(format!("{what} {number} has {} numbers, not {size}", given.len())));
        }
    }
    Ok(())
}

impl<'a, C: Real> Run<'a, C> {
    fn new(
        executor: &'a Executor,
        batch: &'a Batch,
        inputs: Inputs<'a, C>,
        way: Way,
        (mut workspace, mut reserve): (&'a mut [C], &'a mut [C]),
        threads: usize,
        round: fn(C) -> C,
    ) -> Self {
        let widths = &executor.net().declaration().states;
        let kinds = if way == Way::Forward { &executor.forward } else { &executor.backward };
        let extents = Extent::of(batch, kinds.len());
        let states_in = if executor.is_training() { &mut reserve } else { &mut workspace };
        let states = take_states(widths, batch.vertices(), states_in);
        let frames = take_frames(kinds, &extents, &mut workspace, &mut reserve);
        let edges = if way == Way::Backward { batch.edges() } else { 0 };
        let mut given = take_states(widths, edges, &mut workspace);
        given.iter_mut().for_each(|given| given.numbers.fill(C::ZERO));
        let (scratch, _) = workspace.split_at_mut(executor.scratch(kinds));
        let wanted = Purpose::default();
        let push_gradients = &[];
        Self { executor, batch, inputs, push_gradients, way, threads, wanted, round, frames, states, given, scratch }
    }

    fn passes(&self, kind: usize) -> &'a Passes {
        let executor = self.executor;
        &(if self.way == Way::Forward { &executor.forward } else { &executor.backward })[kind]
    }

    /// All stages, one behind the other.
    fn stages(&mut self, mut sums: Option<&mut Sums<C>>) {
        let (batch, way) = (self.batch, self.way);
        for stage in Stage::ALL {
            for kind in 0..self.executor.forward.len() {
                if stage != Stage::Path && !self.passes(kind).hands_on[stage as usize] {
                    let (rows, edges) = batch.of_kind(kind);
                    self.range(stage, Range { kind, row: 0, rows, edge: 0, edges }, None, sums.as_deref_mut());
                }
            }
            let mut block = |block: &Block| {
                if stage == Stage::Path || self.passes(block.kind).hands_on[stage as usize] {
                    let Block { kind, row_of_kind: row, rows, edge_of_kind: edge, edges, .. } = *block;
                    self.range(stage, Range { kind, row, rows, edge, edges }, Some(block), sums.as_deref_mut());
                }
            };
            match way {
                Way::Forward => batch.blocks().iter().for_each(&mut block),
                Way::Backward => batch.blocks().iter().rev().for_each(&mut block),
            }
        }
    }

    /// The passes of a stage over rows of a kind: a block, or all.
    fn range(&mut self, stage: Stage, range: Range, block: Option<&Block>, mut sums: Option<&mut Sums<C>>) {
        if range.rows == 0 {
            return;
        }
        for pass in &self.passes(range.kind).stages[stage as usize] {
            if !pass.purpose.is_met_by(self.wanted) {
                continue;
            }
            match &pass.work {
                Work::Rows { is_of_children, steps, .. } => {
                    let is_of_children = *is_of_children;
                    self.over_rows(range, block, |context, part| {
                        let pass = RowPass { context, is_of_children, steps, part };
                        pulp::Arch::new().dispatch(pass);
                    });
                }
                Work::Reduce { op, x, y } => {
                    let places = [*x, *y].map(|place| (place.number(), place.offset));
                    self.over_rows(range, block, |context, part| reduce(context, *op, part, places, y.width));
                }
                Work::MaxGradient { x, dy, dx } => {
                    let places = [*x, *dy, *dx].map(|place| (place.number(), place.offset));
                    self.over_rows(range, block, |context, part| max_gradient(context, part, places, dx.width));
                }
                Work::Product { parameter, is_transposed, x, y } => {
                    self.product(range, *parameter, *is_transposed, *x, *y)
                }
                Work::Accumulate { parameter, dy, x } => {
                    let size = self.executor.net().declaration().parameters[*parameter];
                    let (dy, x) = (self.rows(range, *dy, size.rows), self.rows(range, *x, size.columns));
                    if let Some((sum, adds)) = sums.as_deref_mut().and_then(|sums| sums.of(*parameter)) {
                        product::accumulate(self.threads, dy, x, sum, adds);
                    }
                }
                Work::AccumulateBias { parameter, dy } => {
                    let size = self.executor.net().declaration().parameters[*parameter];
                    let dy = self.rows(range, *dy, size.rows);
                    if let Some((sum, adds)) = sums.as_deref_mut().and_then(|sums| sums.of(*parameter)) {
                        product::sum_rows(self.threads, dy, 0, sum, adds);
                    }
                }
                Work::AccumulateRow { parameter, input, dy } => {
                    let columns = self.executor.net().declaration().parameters[*parameter].columns;
                    let dy = self.rows(range, *dy, columns);
                    if let Some((sum, adds)) = sums.as_deref_mut().and_then(|sums| sums.of(*parameter)) {
                        if !adds {
                            sum.fill(C::ZERO);
                        }
                        self.add_rows(range.kind, *input, dy, columns, sum);
                    }
                }
            }
        }
    }

    /// The rows of a range in a frame.
    fn rows(&self, range: Range, place: Place, width: usize) -> Rows<'_, C> {
        let frame = &self.frames[range.kind][place.number()];
        let (first, count) = if place.is_of_children { (range.edge, range.edges) } else { (range.row, range.rows) };
        let first = if place.is_whole() { first } else { 0 };
        // No rows may lie where the frame ends.
        let numbers = frame.numbers.get(first * frame.stride + place.offset..).unwrap_or_default();
        Rows::new(numbers, frame.stride, width, count)
    }

    fn product(&mut self, range: Range, parameter: usize, is_transposed: bool, x: Place, y: Place) {
        let size = self.executor.net().declaration().parameters[parameter];
        let matrix = self.inputs.parameters[parameter];
        let (x_width, y_width) = if is_transposed { (size.rows, size.columns) } else { (size.columns, size.rows) };
        let (first, count) = if y.is_of_children { (range.edge, range.edges) } else { (range.row, range.rows) };
        if count == 0 {
            return;
        }
        let Ok([from, to]) = self.frames[range.kind].get_disjoint_mut([x.number(), y.number()]) else {
            unreachable!("what a product reads and what it writes is in different frames")
        };
        let [x_first, y_first] = [x, y].map(|place| if place.is_whole() { first } else { 0 });
        let x = Rows::new(&from.numbers[x_first * from.stride + x.offset..], from.stride, x_width, count);
        let y = RowsMut::new(&mut to.numbers[y_first * to.stride + y.offset..], to.stride, y_width, count);
        if is_transposed {
            product::multiply_transposed(self.threads, matrix, x, y);
        } else {
            product::multiply(self.threads, matrix, x, y);
        }
    }

    /// Runs work over the rows of a range, shared among threads. Only a block hands on.
    fn over_rows(&mut self, range: Range, block: Option<&Block>, work: impl Fn(&Context<C>, Part<C>) + Sync) {
        let is_forward = self.way == Way::Forward;
        let passes = self.passes(range.kind);
        let mut number = 0;
        let frames = self.frames[range.kind].each_mut().map(|frame| {
            let (first, count) = if number >= FRAMES { (range.edge, range.edges) } else { (range.row, range.rows) };
            let numbers = match is_of_block(number) {
                false => &mut frame.numbers[first * frame.stride..][..count * frame.stride],
                true if block.is_some() => &mut frame.numbers[..count * frame.stride],
                true => &mut [],
            };
            number += 1;
            FramePart { numbers, stride: frame.stride }
        });
        // A block writes its own states beside those of others, which it reads.
        let states = self.states.each_mut().map(|state| match block {
            Some(block) if is_forward => {
                let (below, rest) = state.numbers.split_at_mut(block.row * state.stride);
                (&*below, &mut rest[..block.rows * state.stride], state.stride)
            }
            _ => (&*state.numbers, &mut [][..], 0),
        });
        let mut first_given = 0;
        let given = self.given.each_mut().map(|given| match block {
            Some(block) if !is_forward => {
                first_given = block.edge + block.edges;
                let (rest, above) = given.numbers.split_at_mut(first_given * given.stride);
                (&*above, &mut rest[block.edge * given.stride..], given.stride)
            }
            _ => (&*given.numbers, &mut [][..], 0),
        });
        let states_read = states.each_ref().map(|(read, ..)| *read);
        let given_read = given.each_ref().map(|(read, ..)| *read);
        let own = if is_forward { states } else { given };
        let own = own.map(|(_, numbers, stride)| FramePart { numbers, stride });
        let context = Context {
            batch: self.batch,
            kind: range.kind,
            parameters: self.inputs.parameters,
            pulls: self.inputs.pulls,
            push_gradients: self.push_gradients,
            states: states_read,
            given: given_read,
            first_given,
            round: self.round,
        };
        let scratch = &mut self.scratch[..self.threads * passes.scratch()];
        let part = Part { first: range.row, rows: range.rows, frames, own, own_is_by_edges: !is_forward, scratch };
        part.share(self.threads, &context, &|part| work(&context, part));
    }

    /// Adds each row of dy to the row of a table that its index names.
    fn add_rows(&self, kind: usize, input: usize, dy: Rows<C>, columns: usize, sum: &mut [C]) {
        let Pull::Indices(indices) = self.inputs.pulls[input] else { return };
        for block in self.batch.blocks_of(kind) {
            for place in 0..block.rows {
                if let Some(pulled) = self.batch.pulled(block.row + place) {
                    let to = &mut sum[indices[pulled] as usize * columns..][..columns];
                    to.iter_mut().zip(dy.row(block.row_of_kind + place)).for_each(|(to, dy)| *to += *dy);
                }
            }
        }
    }

    /// The row of a result, by the vertex's row in the batch. `None` if its function has none.
    fn result(&self, places: &[Option<Place>; MOST_FUNCTIONS], row: usize, width: usize) -> Option<&[C]> {
        let blocks = self.batch.blocks();
        let block = &blocks[blocks.partition_point(|block| block.row <= row) - 1];
        let place = places[block.kind]?;
        let frame = &self.frames[block.kind][place.number()];
        let row_of_kind = row - block.row + block.row_of_kind;
        Some(&frame.numbers[row_of_kind * frame.stride + place.offset..][..width])
    }

    /// Where each kind has a result.
    fn places(&self, result: usize) -> [Option<Place>; MOST_FUNCTIONS] {
        let of = |kind: usize| {
            let results = (kind < self.executor.forward.len()).then(|| &self.passes(kind).results)?;
            results.iter().find(|(number, _)| *number == result).map(|(_, place)| *place)
        };
        std::array::from_fn(of)
    }

    /// Writes an output in the user's order.
    fn push(&self, output: usize, to: &mut [C]) {
        let (places, width) = (self.places(output), self.executor.net().declaration().pushes[output]);
        share_rows(self.threads, 0, to, width, &|vertex, to: &mut [C]| match self.result(
            &places,
            self.batch.row(vertex),
            width,
        ) {
            Some(found) => to.copy_from_slice(found),
            None => to.fill(C::ZERO),
        });
    }

    /// Writes the gradient of an input: what the vertices that pulled a row add up to.
    fn pull_gradient(&self, input: usize, to: &mut [C]) {
        let (places, width) = (self.places(input), self.executor.net().declaration().pulls[input]);
        share_rows(self.threads, 0, to, width, &|pulled, to: &mut [C]| {
            to.fill(C::ZERO);
            for row in self.batch.readers(pulled) {
                if let Some(found) = self.result(&places, *row as usize, width) {
                    to.iter_mut().zip(found).for_each(|(to, found)| *to += *found);
                }
            }
        });
    }
}

/// Runs work for each row of a matrix, shared among threads.
fn share_rows<C: Real>(
    threads: usize,
    first: usize,
    rows: &mut [C],
    width: usize,
    work: &(impl Fn(usize, &mut [C]) + Sync),
) {
    if width == 0 {
        return;
    }
    let count = rows.len() / width;
    const WORTH_A_THREAD: usize = 1 << 18; // numbers to copy
    if threads <= 1 || count < 2 || rows.len() < 2 * WORTH_A_THREAD {
        return rows.chunks_exact_mut(width).enumerate().for_each(|(place, row)| work(first + place, row));
    }
    let (half, middle) = (threads / 2, count * (threads / 2) / threads);
    let (left, right) = rows.split_at_mut(middle * width);
    rayon::join(
        || share_rows(half, first, left, width, work),
        || share_rows(threads - half, first + middle, right, width, work),
    );
}

impl<C: Real> Sums<'_, '_, C> {
    /// The gradient of a parameter, and whether to add to it. `None` if it is not wanted.
    fn of(&mut self, parameter: usize) -> Option<(&mut [C], bool)> {
        let gradient = self.gradients[parameter].as_deref_mut()?;
        Some((gradient, std::mem::replace(&mut self.is_there[parameter], true)))
    }

    /// The gradients that no vertex added to are zeros.
    fn finish(&mut self) {
        for (gradient, is_there) in self.gradients.iter_mut().zip(self.is_there) {
            if let Some(gradient) = gradient.as_deref_mut().filter(|_| !is_there) {
                gradient.fill(C::ZERO);
            }
        }
    }
}
