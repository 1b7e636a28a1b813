//! What a pass writes is cut into pieces, in which all elements come about alike: they stem from the same operations, at
//! places that differ by the same number.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use vertex::passes::{Place, Span, Step};

/// A part of a step's result, from its first element on.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    pub step: &'a Step,
    pub first: usize,
}

/// What a pass writes, cut into pieces, by their width.
pub type Pieces<'a> = BTreeMap<usize, Vec<Piece<'a>>>;

/// Cuts what a pass writes.
pub fn pieces<'a>(steps: &'a [Step], spans: &Spans) -> Pieces<'a> {
    let mut cuts = HashMap::new();
    let mut pieces = Pieces::new();
    for step in steps {
        let Some(from) = written(step) else { continue };
        let its = spans.cuts(from, &mut cuts);
        for (first, end) in its.iter().zip(its.iter().skip(1)) {
            pieces.entry(end - first).or_default().push(Piece { step, first: *first });
        }
    }
    pieces
}

/// The same in pieces of one width. `None` if that does not divide some width.
pub fn cut_to<'a>(pieces: &Pieces<'a>, width: usize) -> Option<Vec<Piece<'a>>> {
    let mut cut = vec![];
    for (its, pieces) in pieces {
        if its % width != 0 {
            return None;
        }
        let parts = |piece: &Piece<'a>| {
            let Piece { step, first } = *piece;
            (0..its / width).map(move |part| Piece { step, first: first + part * width })
        };
        cut.extend(pieces.iter().flat_map(parts));
    }
    Some(cut)
}

/// A pass stores this place.
pub fn stores(steps: &[Step], place: Place) -> bool {
    steps.iter().any(|step| matches!(step, Step::Store { to, .. } if *to == place))
}

/// What a step hands out of the pass.
pub fn written(step: &Step) -> Option<Span> {
    match step {
        Step::Store { from, .. } | Step::Hand { from, .. } => Some(*from),
        _ => None,
    }
}

/// The steps that make each part of the scratch memory.
pub struct Spans<'a> {
    /// By their first number: the end, and the step.
    made: BTreeMap<usize, (usize, &'a Step)>,
}

impl<'a> Spans<'a> {
    /// Finds them.
    pub fn new(steps: &'a [Step]) -> Self {
        let made = steps.iter().filter_map(|step| {
            let to = match step {
                Step::Load { to, .. } | Step::Read { to, .. } | Step::Unary { to, .. } => to,
                Step::Binary { to, .. } | Step::OfVector { to, .. } | Step::Copy { to, .. } => to,
                Step::Store { .. } | Step::Hand { .. } => return None,
            };
            Some((to.first, (to.first + to.width, step)))
        });
        Self { made: made.collect() }
    }

    /// The first number of the step that makes a number, its end, and the step.
    pub fn of(&self, number: usize) -> (usize, usize, &'a Step) {
        let (first, (end, step)) = self.made.range(..=number).next_back().expect("a step makes it");
        (*first, *end, step)
    }

    /// Where the elements of a span come about otherwise than those before: from 0 to the width.
    fn cuts(&self, span: Span, known: &mut HashMap<Span, Vec<usize>>) -> Vec<usize> {
        if let Some(known) = known.get(&span) {
            return known.clone();
        }
        let mut cuts = BTreeSet::from([0, span.width]);
        let mut number = span.first;
        while number < span.first + span.width {
            let (first, end, step) = self.of(number);
            let (begin, width) = (number - span.first, end.min(span.first + span.width) - number);
            cuts.insert(begin);
            for input in inputs(step) {
                if let Some(input) = part_of(input, step, number - first, width) {
                    cuts.extend(self.cuts(input, known).iter().map(|cut| cut + begin));
                }
            }
            number += width;
        }
        let cuts: Vec<_> = cuts.into_iter().collect();
        known.insert(span, cuts.clone());
        cuts
    }
}

fn inputs(step: &Step) -> impl Iterator<Item = Span> {
    let inputs = match step {
        Step::Unary { x, .. } | Step::OfVector { x, .. } | Step::Copy { from: x, .. } => [Some(*x), None],
        Step::Binary { x, y, .. } => [Some(*x), Some(*y)],
        _ => [None, None],
    };
    inputs.into_iter().flatten()
}

/// The part of an input that a part of the result takes; `None` if all of it takes the only element.
pub fn part_of(input: Span, step: &Step, first: usize, width: usize) -> Option<Span> {
    let (Step::Unary { to, .. } | Step::OfVector { to, .. } | Step::Copy { to, .. } | Step::Binary { to, .. }) = step
    else {
        return None;
    };
    (input.width == to.width).then_some(Span { first: input.first + first, width })
}
