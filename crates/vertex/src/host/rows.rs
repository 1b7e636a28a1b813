//! Passes over rows: element-wise operations, all of a row at a time.

use super::real::Real;
use crate::batch::{Batch, Block};
use crate::function::{MOST_STATES, Op, operations};
use crate::passes::{FRAMES, Frame, Span, Step};

/// An input of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Pull<'a, C> {
    /// `[rows][width]`
    Rows(&'a [C]),
    /// `[rows]`
    Indices(&'a [i64]),
}

/// What all rows of a run read.
pub(super) struct Context<'a, C> {
    pub batch: &'a Batch,
    pub kind: usize,
    pub parameters: &'a [&'a [C]],
    pub pulls: &'a [Pull<'a, C>],
    /// The gradient of each output; an empty one is of zeros.
    pub push_gradients: &'a [&'a [C]],
    /// `[rows][width]` of each state; while they are made, those of lower levels alone.
    pub states: [&'a [C]; MOST_STATES],
    /// `[edges][width]` of each state: what parents gave along their edges, from the edge `first_given` on.
    pub given: [&'a [C]; MOST_STATES],
    pub first_given: usize,
    /// Rounds a state to the tensors' type.
    pub round: fn(C) -> C,
}

/// The rows of a frame that a thread writes.
pub(super) struct FramePart<'a, C> {
    pub numbers: &'a mut [C],
    pub stride: usize,
}

/// Rows of a kind, and the memory for them.
pub(super) struct Part<'a, C> {
    /// The first row of the kind, and the number of rows.
    pub first: usize,
    pub rows: usize,
    /// Frames by vertices, and behind them those by edges, from the first row or edge on.
    pub frames: [FramePart<'a, C>; 2 * FRAMES],
    /// Each state as these rows hand it on: by rows their states, or by edges the gradients that they give.
    pub own: [FramePart<'a, C>; MOST_STATES],
    pub own_is_by_edges: bool,
    /// Scratch memory, a row for each thread.
    pub scratch: &'a mut [C],
}

impl<'a, C: Real> Part<'a, C> {
    /// Splits the part before a row. `rows` and `edges` of the part lie before it.
    fn split(mut self, rows: usize, edges: usize, scratch: usize) -> [Self; 2] {
        fn halve<'a, C>(frame: &mut FramePart<'a, C>, rows: usize) -> FramePart<'a, C> {
            let all = std::mem::take(&mut frame.numbers);
            let (before, behind) = all.split_at_mut((rows * frame.stride).min(all.len()));
            frame.numbers = before;
            FramePart { numbers: behind, stride: frame.stride }
        }
        let mut number = 0;
        let frames = self.frames.each_mut().map(|frame| {
            number += 1;
            halve(frame, if number > FRAMES { edges } else { rows })
        });
        let of_own = if self.own_is_by_edges { edges } else { rows };
        let own = self.own.each_mut().map(|own| halve(own, of_own));
        let (before, behind) = std::mem::take(&mut self.scratch).split_at_mut(scratch);
        let (first, rest) = (self.first + rows, self.rows - rows);
        let second = Part { first, rows: rest, frames, own, own_is_by_edges: self.own_is_by_edges, scratch: behind };
        (self.rows, self.scratch) = (rows, before);
        [self, second]
    }

    /// Runs work on the part, shared among threads by rows.
    pub fn share(self, threads: usize, context: &Context<C>, work: &(impl Fn(Self) + Sync)) {
        // Numbers in the frames that are worth another thread, as in `product`.
        const WORTH_A_THREAD: usize = 1 << 18;
        let numbers: usize = self.frames.iter().map(|frame| frame.numbers.len()).sum();
        if threads <= 1 || self.rows < 2 || numbers < 2 * WORTH_A_THREAD {
            return work(self);
        }
        let (half, middle) = (threads / 2, self.rows * (threads / 2) / threads);
        let edges = context.edge_of_kind(self.first + middle) - context.edge_of_kind(self.first);
        let scratch = self.scratch.len() / threads * half;
        let [first, second] = self.split(middle, edges, scratch);
        rayon::join(|| first.share(half, context, work), || second.share(threads - half, context, work));
    }
}

impl<C: Real> Context<'_, C> {
    /// The blocks of the kind with some of these rows of it: each with the part of its rows, counted from its first.
    fn blocks(&self, first: usize, rows: usize) -> impl Iterator<Item = (&Block, std::ops::Range<usize>)> {
        let of_kind = self.batch.blocks_of(self.kind);
        let skipped = of_kind.partition_point(|block| block.row_of_kind + block.rows <= first);
        let end = first + rows;
        of_kind[skipped..].iter().take_while(move |block| block.row_of_kind < end).map(move |block| {
            let begin = first.saturating_sub(block.row_of_kind);
            (block, begin..(end - block.row_of_kind).min(block.rows))
        })
    }

    /// The edges of the kind before one of its rows.
    fn edge_of_kind(&self, row_of_kind: usize) -> usize {
        match self.blocks(row_of_kind, 1).next() {
            Some((block, rows)) => self.batch.edges_of(block.row + rows.start).start - block.edge + block.edge_of_kind,
            None => self.batch.of_kind(self.kind).1,
        }
    }
}

/// The vertex, and the edge if the row is one, for which steps run.
struct At {
    /// The vertex's row in the batch.
    row: usize,
    /// In the part's frames.
    row_of_part: usize,
    edge_of_part: usize,
    /// The edge's number in the batch.
    edge: usize,
    /// 1 / the number of children; 0 for an empty slot.
    share: f64,
}

/// Runs the steps for each row of a part, or for each edge of each row.
pub(super) struct RowPass<'a, 'b, C> {
    pub context: &'a Context<'b, C>,
    pub is_of_children: bool,
    pub steps: &'a [Step],
    pub part: Part<'a, C>,
}

impl<C: Real> pulp::NullaryFnOnce for RowPass<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        let context = self.context;
        let (first, first_edge) = (self.part.first, context.edge_of_kind(self.part.first));
        for (block, rows) in context.blocks(first, self.part.rows) {
            for row in rows.map(|row| row + block.row) {
                let edges = context.batch.edges_of(row);
                let mut at = At {
                    row,
                    row_of_part: row - block.row + block.row_of_kind - first,
                    edge_of_part: edges.start - block.edge + block.edge_of_kind - first_edge,
                    edge: edges.start,
                    share: 0.0,
                };
                if !self.is_of_children {
                    self.run(&at);
                    continue;
                }
                let children = edges.clone().filter(|edge| context.batch.child(*edge).is_some()).count();
                for edge in edges {
                    let is_there = context.batch.child(edge).is_some();
                    at.share = if is_there { 1.0 / children as f64 } else { 0.0 };
                    self.run(&at);
                    (at.edge, at.edge_of_part) = (at.edge + 1, at.edge_of_part + 1);
                }
            }
        }
    }
}

impl<C: Real> RowPass<'_, '_, C> {
    #[inline(always)]
    fn run(&mut self, at: &At) {
        for step in self.steps {
            match *step {
                Step::Load { from, to } => {
                    let frame = &self.part.frames[from.number()];
                    let row = if from.is_of_children { at.edge_of_part } else { at.row_of_part };
                    let numbers = &frame.numbers[row * frame.stride + from.offset..];
                    of(self.part.scratch, to).copy_from_slice(&numbers[..to.width]);
                }
                Step::Store { from, to } => {
                    let frame = &mut self.part.frames[to.number()];
                    let row = if to.is_of_children { at.edge_of_part } else { at.row_of_part };
                    let numbers = &mut frame.numbers[row * frame.stride + to.offset..];
                    numbers[..from.width].copy_from_slice(of(self.part.scratch, from));
                }
                Step::Read { op, arguments, to } => self.read(op, arguments, to, at),
                Step::Hand { op, arguments, from } => self.hand(op, arguments, from, at),
                Step::Copy { from, to } => {
                    let (from, to) = behind(self.part.scratch, from, to);
                    to.copy_from_slice(from);
                }
                Step::OfVector { op, parameter, x, to } => {
                    let (x, to) = behind(self.part.scratch, x, to);
                    let vector = &self.context.parameters[parameter][..to.len()];
                    two(if op == Op::Gain { Op::Mul } else { Op::Add }, x, vector, to);
                }
                Step::Unary { op, to, .. } | Step::Binary { op, to, .. }
                    if op.may_not_be_finite() && self.is_of_children && at.share == 0.0 =>
                {
                    of(self.part.scratch, to).fill(C::ZERO);
                }
                Step::Unary { op, x, to, constant } => {
                    let (x, to) = behind(self.part.scratch, x, to);
                    unary(op, x, to, C::of(constant), at.share);
                }
                Step::Binary { op, x, y, to } => {
                    let (before, to) = split(self.part.scratch, to);
                    let (x, y) = (&before[x.first..][..x.width], &before[y.first..][..y.width]);
                    two(op, x, y, to);
                }
            }
        }
    }

    #[inline(always)]
    fn read(&mut self, op: Op, [first, second]: [usize; 2], to: Span, at: &At) {
        let context = self.context;
        let kept = |of_children: bool, row: usize| {
            let frame = &self.part.frames[Frame::Kept as usize + if of_children { FRAMES } else { 0 }];
            Some(&frame.numbers[row * frame.stride + first..][..to.width])
        };
        let found = match op {
            Op::Pull => match (context.pulls[first], context.batch.pulled(at.row)) {
                (Pull::Rows(rows), Some(row)) => Some(&rows[row * to.width..][..to.width]),
                _ => None,
            },
            Op::Lookup => match (context.pulls[second], context.batch.pulled(at.row)) {
                (Pull::Indices(indices), Some(row)) => {
                    Some(&context.parameters[first][indices[row] as usize * to.width..][..to.width])
                }
                _ => None,
            },
            Op::Gather => {
                let child = context.batch.child(context.batch.edges_of(at.row).start + first);
                child.map(|child| &context.states[second][child * to.width..][..to.width])
            }
            Op::Children => {
                let child = context.batch.child(at.edge);
                child.map(|child| &context.states[first][child * to.width..][..to.width])
            }
            Op::Own => Some(&context.states[first][at.row * to.width..][..to.width]),
            Op::Kept => kept(false, at.row_of_part),
            Op::KeptOfChildren => kept(true, at.edge_of_part),
            Op::PushGradient => {
                let row = context.batch.vertex(at.row) * to.width;
                context.push_gradients[first].get(row..row + to.width)
            }
            Op::Take => {
                let to = of(self.part.scratch, to);
                to.fill(C::ZERO);
                for edge in context.batch.parents(at.row) {
                    let given = &context.given[first][(*edge as usize - context.first_given) * to.len()..];
                    to.iter_mut().zip(given).for_each(|(to, given)| *to += *given);
                }
                return;
            }
            _ => None,
        };
        let to = of(self.part.scratch, to);
        match found {
            Some(found) => to.copy_from_slice(found),
            None => to.fill(C::ZERO),
        }
    }

    #[inline(always)]
    fn hand(&mut self, op: Op, [first, second]: [usize; 2], from: Span, at: &At) {
        let from = of(self.part.scratch, from);
        if op == Op::Scatter {
            let own = &mut self.part.own[first].numbers[at.row_of_part * from.len()..];
            own.iter_mut().zip(from).for_each(|(own, from)| *own = (self.context.round)(*from));
            return;
        }
        // Two gifts along an edge add up.
        let (state, edge) = if op == Op::Give { (second, at.edge_of_part + first) } else { (first, at.edge_of_part) };
        let own = &mut self.part.own[state].numbers[edge * from.len()..];
        own.iter_mut().zip(from).for_each(|(own, from)| *own += *from);
    }
}

#[inline(always)]
fn of<C>(scratch: &mut [C], span: Span) -> &mut [C] {
    &mut scratch[span.first..][..span.width]
}

#[inline(always)]
fn split<C>(scratch: &mut [C], to: Span) -> (&[C], &mut [C]) {
    let (before, behind) = scratch.split_at_mut(to.first);
    (before, &mut behind[..to.width])
}

/// A span that is read, and a later one that is written.
#[inline(always)]
fn behind<C>(scratch: &mut [C], from: Span, to: Span) -> (&[C], &mut [C]) {
    let (before, to) = split(scratch, to);
    (&before[from.first..][..from.width], to)
}

#[inline(always)]
fn map<C: Real>(x: &[C], to: &mut [C], of: impl Fn(C) -> C) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to = of(*x));
}

#[inline(always)]
fn zip<C: Real>(x: &[C], y: &[C], to: &mut [C], of: impl Fn(C, C) -> C) {
    if x.len() == y.len() {
        to.iter_mut().zip(x).zip(y).for_each(|((to, x), y)| *to = of(*x, *y));
    } else if let [x] = x {
        to.iter_mut().zip(y).for_each(|(to, y)| *to = of(*x, *y));
    } else {
        to.iter_mut().zip(x).for_each(|(to, x)| *to = of(*x, y[0]));
    }
}

/// The functions of one value and of two, by the operations' rows.
macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        $op:ident $name:literal [$($operand:expr),*] $sort:ident
        $(, one: $one:expr)? $(, dx: $dx:ident)? $(, two: $two:expr)?;
    )*) => {
        #[inline(always)]
        fn one<C: Real>(op: Op, x: &[C], to: &mut [C]) {
            match op {
                $($(Op::$op => map(x, to, $one),)?)*
                _ => unreachable!("{} has one input", op.name()),
            }
        }

        #[inline(always)]
        fn two<C: Real>(op: Op, x: &[C], y: &[C], to: &mut [C]) {
            match op {
                $($(Op::$op => zip(x, y, to, $two),)?)*
                _ => unreachable!("{} has two inputs", op.name()),
            }
        }
    };
}

operations!(functions);

#[inline(always)]
fn unary<C: Real>(op: Op, x: &[C], to: &mut [C], constant: C, share: f64) {
    match op {
        Op::Scale => map(x, to, |x| x * constant),
        Op::Shift => map(x, to, |x| x + constant),
        Op::Power => map(x, to, |x| x.power(constant)),
        Op::Spread if share == 0.0 => to.fill(C::ZERO),
        Op::Spread => to.copy_from_slice(x),
        Op::MeanGradient => map(x, to, |x| x * C::of(share)),
        Op::Widen => to.fill(x[0]),
        Op::Sum => to[0] = x.iter().fold(C::ZERO, |sum, x| sum + *x),
        Op::Softmax => {
            let greatest = x.iter().fold(x[0], |greatest, x| greatest.greater(*x));
            map(x, to, |x| (x - greatest).exp());
            let sum = to.iter().fold(C::ZERO, |sum, to| sum + *to);
            to.iter_mut().for_each(|to| *to = *to / sum);
        }
        op => one(op, x, to),
    }
}

/// A reduction over the children of each row of a part; a softmax over them is one that leaves a value for each.
pub(super) fn reduce<C: Real>(
    context: &Context<C>,
    op: Op,
    mut part: Part<C>,
    [x, y]: [(usize, usize); 2],
    width: usize,
) {
    let first_edge = context.edge_of_kind(part.first);
    let Ok([from, to]) = part.frames.get_disjoint_mut([x.0, y.0]) else {
        unreachable!("what a reduction reads and what it writes is in different frames")
    };
    for (block, rows) in context.blocks(part.first, part.rows) {
        for row in rows.map(|row| row + block.row) {
            let edges = context.batch.edges_of(row);
            let first = edges.start - block.edge + block.edge_of_kind - first_edge;
            let of_children = |edge: usize| (first + edge - edges.start) * from.stride + x.1;
            let children = || edges.clone().filter(|edge| context.batch.child(*edge).is_some());
            let row_of_part = row - block.row + block.row_of_kind - part.first;
            if op == Op::SoftmaxChildren {
                let to_child = |edge: usize| (first + edge - edges.start) * to.stride + y.1;
                edges.clone().for_each(|edge| to.numbers[to_child(edge)..][..width].fill(C::ZERO));
                for column in 0..width {
                    let numbers = children().map(|edge| from.numbers[of_children(edge) + column]);
                    let Some(greatest) = numbers.clone().reduce(C::greater) else { break };
                    let sum = numbers.fold(C::ZERO, |sum, x| sum + (x - greatest).exp());
                    for edge in children() {
                        let x = from.numbers[of_children(edge) + column];
                        to.numbers[to_child(edge) + column] = (x - greatest).exp() / sum;
                    }
                }
                continue;
            }
            let to = &mut to.numbers[row_of_part * to.stride + y.1..][..width];
            to.fill(C::ZERO);
            for (number, edge) in children().enumerate() {
                let x = &from.numbers[of_children(edge)..][..width];
                match op {
                    Op::MaxChildren if number == 0 => to.copy_from_slice(x),
                    Op::MaxChildren => to.iter_mut().zip(x).for_each(|(to, x)| *to = to.greater(*x)),
                    _ => to.iter_mut().zip(x).for_each(|(to, x)| *to += *x),
                }
            }
            if op == Op::MeanChildren {
                let share = C::of(1.0 / children().count().max(1) as f64);
                to.iter_mut().for_each(|to| *to = *to * share);
            }
        }
    }
}

/// The gradient of the greatest over the children: the first child that has it gets all.
pub(super) fn max_gradient<C: Real>(
    context: &Context<C>,
    mut part: Part<C>,
    places: [(usize, usize); 3],
    width: usize,
) {
    let first_edge = context.edge_of_kind(part.first);
    let [x, dy, dx] = places;
    let Ok([of_x, of_dy, of_dx]) = part.frames.get_disjoint_mut(places.map(|(frame, _)| frame)) else {
        unreachable!("the three are in different frames")
    };
    for (block, rows) in context.blocks(part.first, part.rows) {
        for row in rows.map(|row| row + block.row) {
            let edges = context.batch.edges_of(row);
            let first = edges.start - block.edge + block.edge_of_kind - first_edge;
            let row_of_part = row - block.row + block.row_of_kind - part.first;
            let in_x = |edge: usize| (first + edge - edges.start) * of_x.stride + x.1;
            let in_dx = |edge: usize| (first + edge - edges.start) * of_dx.stride + dx.1;
            edges.clone().for_each(|edge| of_dx.numbers[in_dx(edge)..][..width].fill(C::ZERO));
            for column in 0..width {
                let children = edges.clone().filter(|edge| context.batch.child(*edge).is_some());
                let better = |best: usize, edge: usize| {
                    if of_x.numbers[in_x(edge) + column] > of_x.numbers[in_x(best) + column] { edge } else { best }
                };
                if let Some(best) = children.reduce(better) {
                    let its = of_dy.numbers[row_of_part * of_dy.stride + dy.1 + column];
                    of_dx.numbers[in_dx(best) + column] = its;
                }
            }
        }
    }
}
